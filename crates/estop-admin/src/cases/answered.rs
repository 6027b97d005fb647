//! Cases that are answered by what a person did elsewhere (EV-3): activating or resuming an agent closes its incidents,
//! extending a run closes its escalation.
//!
//! A case is stored up to 200 ms after what opened it. The record of what the person did is stored after it: once the store
//! has that record, no case that it answers is missed.

use estop_core::agent::status::AgentStatus;
use estop_core::escalation_text::what_next;
use estop_core::ids::Name;
use estop_core::operator::AgentCommand;
use estop_store::{CaseFilter, CaseStatus, Escalation, Incident, StoreError};
use serde::Serialize;
use utoipa::ToSchema;

use crate::problem::Problem;
use crate::state::App;

/// Cases read at a time.
const PAGE: usize = 100;
/// Pages read at most: somebody else may open or change cases meanwhile.
const PAGES_MAX: usize = 100;

/// Which cases were closed with it.
#[derive(Default, Serialize, ToSchema)]
#[schema(as = ClosedCases)]
pub(crate) struct ClosedOut {
    /// Ids of incidents.
    incidents: Vec<String>,
    /// Ids of escalations.
    escalations: Vec<String>,
}

/// Closes the open incidents of an agent that works again.
pub(crate) fn close_incidents(
    app: &App,
    agent: &str,
    by: &str,
    did: AgentCommand,
) -> Result<ClosedOut, Problem> {
    let did = if did == AgentCommand::Resume { "resumed" } else { "activated" };
    app.operator.is_stored();
    let store = app.store_here();
    let read = |filter: &CaseFilter| store.incidents(filter, PAGE);
    let place = |incident: &Incident| (incident.opened_at, incident.id.clone());
    let mut closed = ClosedOut::default();
    each_open(agent, read, place, |mut incident| {
        incident.status = CaseStatus::Closed;
        incident.resolution.get_or_insert_with(|| format!("{by} {did} the agent."));
        if is_done(store.update_incident(&incident))? {
            closed.incidents.push(incident.id.into());
        }
        Ok(())
    })?;
    Ok(closed)
}

/// Closes the open escalations of a run that goes on; `None` = the run without a name.
pub(crate) fn close_escalations(
    app: &App,
    agent: &str,
    run: Option<&str>,
    by: &str,
) -> Result<ClosedOut, Problem> {
    app.operator.is_stored();
    let store = app.store_here();
    let read = |filter: &CaseFilter| store.escalations(filter, PAGE);
    let place = |escalation: &Escalation| (escalation.opened_at, escalation.id.clone());
    let mut closed = ClosedOut::default();
    each_open(agent, read, place, |mut escalation| {
        if escalation.run.as_deref() != run {
            return Ok(());
        }
        escalation.status = CaseStatus::Closed;
        escalation.resolved_at = Some(app.now());
        escalation.resolved_by = Some(by.into());
        if is_done(store.update_escalation(&escalation))? {
            closed.escalations.push(escalation.id.into());
        }
        Ok(())
    })?;
    Ok(closed)
}

impl ClosedOut {
    pub(crate) fn and(mut self, other: ClosedOut) -> ClosedOut {
        self.incidents.extend(other.incidents);
        self.escalations.extend(other.escalations);
        self
    }

    pub(crate) fn escalations(&self) -> &[String] {
        &self.escalations
    }

    /// ` Closed with it: incident coder-12.`; nothing if nothing was.
    pub(crate) fn sentence(&self) -> String {
        let named = |what: &str, ids: &[String]| {
            let many = if ids.len() == 1 { "" } else { "s" };
            (!ids.is_empty()).then(|| format!("{what}{many} {}", ids.join(", ")))
        };
        let parts = [named("incident", &self.incidents), named("escalation", &self.escalations)];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { String::new() } else { format!(" Closed with it: {}.", parts.join("; ")) }
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
        (true, CaseStatus::Open) => next,
        (true, CaseStatus::Closed) => format!("This is closed, but the run stays at its limit. {next}"),
        (false, CaseStatus::Open) => "The run is not at its limit any more: this can be closed.".to_owned(),
        (false, CaseStatus::Closed) => "Nothing is left to do: the run is not at its limit.".to_owned(),
    }
}

/// What closing an incident does not release.
pub(super) fn stays_stopped(app: &App, agent: &str) -> Option<String> {
    let view = app.operator.agent(agent)?;
    AgentStatus::of_standing(agent, view.standing, None, &app.place.commands).map(|status| status.sentence)
}

/// Whether it was changed. One that somebody else changed at the same moment is theirs.
fn is_done(updated: Result<u64, StoreError>) -> Result<bool, Problem> {
    match updated {
        Ok(_) => Ok(true),
        Err(StoreError::Conflict { .. } | StoreError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Every open case of an agent, newest first.
fn each_open<T>(
    agent: &str,
    read: impl Fn(&CaseFilter) -> Result<Vec<T>, StoreError>,
    place: impl Fn(&T) -> (i64, Name),
    mut close: impl FnMut(T) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let mut filter = CaseFilter { agent: Some(agent.into()), status: Some(CaseStatus::Open), before: None };
    for _ in 0..PAGES_MAX {
        let found = read(&filter)?;
        let Some(last) = found.last().map(&place) else { break };
        let is_last = found.len() < PAGE;
        found.into_iter().try_for_each(&mut close)?;
        if is_last {
            break;
        }
        filter.before = Some(last);
    }
    Ok(())
}
