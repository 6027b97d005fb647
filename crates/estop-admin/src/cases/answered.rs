//! Cases that are answered by what a person did elsewhere (EV-3): activating or resuming an agent resolves its incidents,
//! extending a run resolves its escalation. The rows follow from the record of what was done; here it is only seen which.
//!
//! A case is stored up to 200 ms after what opened it, and so is its answer: the store is waited for, before and after.

use estop_core::escalation_text::what_next;
use estop_core::ids::Name;
use estop_store::{CaseFilter, CaseStatus, Escalation, StatusFilter};
use serde::Serialize;
use utoipa::ToSchema;

use crate::problem::Problem;
use crate::state::App;

/// Cases that are looked at, of each kind: nobody reads more in one sentence.
const CASES_MAX: usize = 100;

/// Which cases were resolved with it.
#[derive(Default, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ResolvedCases)]
pub(crate) struct ResolvedOut {
    /// Ids of incidents.
    incidents: Vec<String>,
    /// Ids of escalations.
    escalations: Vec<String>,
}

/// The cases of an agent that a person may answer.
#[derive(Default)]
pub(crate) struct UnresolvedCases {
    incidents: Vec<Name>,
    escalations: Vec<Name>,
}

/// The cases of an agent that are not resolved. Something is done whether they can be read or not.
pub(crate) fn unresolved(app: &App, agent: &str) -> UnresolvedCases {
    app.operator.is_stored();
    let status = Some(StatusFilter::Unresolved);
    let filter = CaseFilter { agent: Some(agent.into()), status, before: None };
    let store = app.store_here();
    let incidents = store.incidents(&filter, CASES_MAX).unwrap_or_default();
    let escalations = store.escalations(&filter, CASES_MAX).unwrap_or_default();
    UnresolvedCases {
        incidents: incidents.into_iter().map(|incident| incident.id).collect(),
        escalations: escalations.into_iter().map(|escalation| escalation.id).collect(),
    }
}

impl UnresolvedCases {
    /// Those that are resolved since.
    pub(crate) fn resolved(self, app: &App) -> Result<ResolvedOut, Problem> {
        app.operator.is_stored();
        let store = app.store_here();
        let mut out = ResolvedOut::default();
        for id in self.incidents {
            let found = store.incident(&id)?;
            if found.is_some_and(|incident| incident.status == CaseStatus::Resolved) {
                out.incidents.push(id.into());
            }
        }
        for id in self.escalations {
            let found = store.escalation(&id)?;
            if found.is_some_and(|escalation| escalation.status == CaseStatus::Resolved) {
                out.escalations.push(id.into());
            }
        }
        Ok(out)
    }
}

impl ResolvedOut {
    pub(crate) fn escalations(&self) -> &[String] {
        &self.escalations
    }

    /// ` Resolved with it: incident coder-12.`; nothing if nothing was.
    pub(crate) fn sentence(&self) -> String {
        let named = |what: &str, ids: &[String]| {
            let many = if ids.len() == 1 { "" } else { "s" };
            (!ids.is_empty()).then(|| format!("{what}{many} {}", ids.join(", ")))
        };
        let parts = [named("incident", &self.incidents), named("escalation", &self.escalations)];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { String::new() } else { format!(" Resolved with it: {}.", parts.join("; ")) }
    }
}

/// Whether a run is at its limit still. Of an agent at rest nobody knows, and nothing was released.
pub(crate) fn is_held(app: &App, agent: &str, run: Option<&str>) -> bool {
    let view = app.operator.agent(agent);
    view.is_none_or(|view| view.runs.iter().any(|own| own.name.as_deref() == run && own.tripped))
}

/// What a person can do about an escalation. Resolving one does not release its run.
pub(super) fn next_step(app: &App, escalation: &Escalation) -> String {
    let (agent, run) = (&escalation.agent, escalation.run.as_deref());
    let next = what_next(agent, run, &app.place.commands);
    match (is_held(app, agent, run), escalation.status) {
        (true, CaseStatus::Open | CaseStatus::Acknowledged) => next,
        (true, CaseStatus::Resolved) => format!("This is resolved, but the run stays at its limit. {next}"),
        (false, CaseStatus::Open | CaseStatus::Acknowledged) => {
            "The run is not at its limit any more: this can be resolved.".to_owned()
        }
        (false, CaseStatus::Resolved) => "Nothing is left to do: the run is not at its limit.".to_owned(),
    }
}
