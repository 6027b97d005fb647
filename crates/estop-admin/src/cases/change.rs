//! What people do with incidents and escalations (EV-3): each step is a record, and the answer shows what followed from it.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use estop_core::ids::Name;
use estop_core::system::{CaseChange, CaseKind, CaseStep, SYSTEM};
use estop_store::{CaseEntry, CaseStatus};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::escalations::EscalationOut;
use super::{CasePath, IncidentOut, StatusIn, find_incident, latest};
use crate::access::Caller;
use crate::evidence::how_to_clear;
use crate::input::{Checks, IfMatch, IfMatchGiven, JsonIn, PathIn, nullable};
use crate::output::Tagged;
use crate::problem::{Kind, Problem};
use crate::state::App;

/// Half a page of what people write.
const NOTE_MAX: usize = 4_096;

/// What is to change. What is left out stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct IncidentChange {
    #[serde(default)]
    status: Option<StatusIn>,
    /// What was found out or done. It is added to the incident's history.
    #[schema(max_length = 4096)]
    note: Option<String>,
}

/// Acknowledges or resolves an incident, opens it again, or adds a note. The agent stays as it is: `activate` lets it work
/// again, and resolves its incidents. That of an emergency stop that is in force is resolved by clearing it alone (409).
#[utoipa::path(patch, path = "/api/incidents/{id}", tag = "cases",
    params(CasePath, IfMatchGiven),
    request_body = IncidentChange, responses((status = 200, body = ChangedIncidentOut, headers(("etag" = String)))))]
pub(super) async fn change_incident(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<CasePath>,
    if_match: IfMatch,
    JsonIn(change): JsonIn<IncidentChange>,
) -> Result<Tagged<ChangedIncidentOut>, Problem> {
    let note = checked_note(change.note)?;
    let asked = Arc::clone(&app);
    app.work(move || {
        let _edit = asked.edit();
        let incident = find_incident(&asked, &path.id)?;
        if_match.check(incident.version)?;
        let step = step(incident.status, change.status, note.is_some())
            .ok_or_else(|| is_resolved("incident", &incident.id, &incident.history))?;
        if step == Some(CaseStep::Resolved) && &*incident.agent == SYSTEM {
            is_cleared(&asked, &incident.id)?;
        }
        if let Some(step) = step {
            let change =
                CaseChange { kind: CaseKind::Incident, id: incident.id.clone(), step, owner: None, note };
            record(&asked, &caller, change)?;
        }
        let incident = find_incident(&asked, &incident.id)?;
        let version = incident.version;
        let changed = step.is_some();
        Ok(Tagged(version, ChangedIncidentOut { incident: IncidentOut::of(&asked, incident), changed }))
    })
    .await
}

/// The incident of a button that is still pressed stays open: it is what people find first while everything is stopped.
fn is_cleared(app: &App, id: &str) -> Result<(), Problem> {
    let Some(next) = how_to_clear(app) else { return Ok(()) };
    let look = app.place.commands.acknowledge(id);
    let detail = format!(
        "The incident {id} cannot be resolved while the emergency stop is in force; clearing it resolves the incident. Nothing was \
         changed. {next} To say that you are looking at it: {look}."
    );
    Err(Problem::new(Kind::Conflict, detail))
}

/// A note of people; one without any text is none.
fn checked_note(note: Option<String>) -> Result<Option<Name>, Problem> {
    let note = note.filter(|note| !note.trim().is_empty());
    let mut checks = Checks::default();
    note.iter().for_each(|note| checks.text("note", note, NOTE_MAX));
    checks.done()?;
    Ok(note.map(Name::from))
}

/// What leads from one status to another; `Some(None)` = nothing is to be done, `None` = nothing leads there: to look at what is
/// resolved would open it again, which must be said.
fn step(before: CaseStatus, after: Option<StatusIn>, has_note: bool) -> Option<Option<CaseStep>> {
    match (before, after) {
        (CaseStatus::Resolved, Some(StatusIn::Acknowledged)) => None,
        (_, Some(after)) if CaseStatus::from(after) != before => Some(Some(match after {
            StatusIn::Open => CaseStep::Reopened,
            StatusIn::Acknowledged => CaseStep::Acknowledged,
            StatusIn::Resolved => CaseStep::Resolved,
        })),
        (_, Some(_) | None) => Some(has_note.then_some(CaseStep::Noted)),
    }
}

/// Why what is resolved is not acknowledged, and what can be done.
fn is_resolved(what: &str, id: &str, history: &[CaseEntry]) -> Problem {
    let by = latest(history, CaseStep::Resolved).map(|entry| format!(" by {}", entry.by)).unwrap_or_default();
    let detail = format!(
        "The {what} {id} was resolved{by}, so that there is nothing to acknowledge. Nothing was changed. To open it again set \
         its status to `open` (`estop {what}s reopen {id}`); to add something to it send a note alone."
    );
    Problem::new(Kind::Conflict, detail)
}

/// An incident after a change.
#[derive(Serialize, ToSchema)]
#[schema(as = ChangedIncident)]
pub(super) struct ChangedIncidentOut {
    #[serde(flatten)]
    incident: IncidentOut,
    /// Something was changed; false = it was so already.
    changed: bool,
}

/// An escalation after a change.
#[derive(Serialize, ToSchema)]
#[schema(as = ChangedEscalation)]
pub(super) struct ChangedEscalationOut {
    #[serde(flatten)]
    escalation: EscalationOut,
    /// Something was changed; false = it was so already.
    changed: bool,
}

/// Records what somebody did, and waits until it is to be seen.
pub(crate) fn record(app: &App, caller: &Caller, change: CaseChange) -> Result<(), Problem> {
    app.operator.change_case(change, &caller.by)?;
    if app.operator.is_stored() {
        return Ok(());
    }
    let detail = "It is recorded in the journal, but the database does not take it yet. Look at the disk, then at the case again.";
    Err(Problem::new(Kind::Unavailable, detail))
}

/// What is to change. What is left out stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EscalationChange {
    /// Who looks after it; null = nobody.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 256, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$")]
    owner: Option<Option<String>>,
    #[serde(default)]
    status: Option<StatusIn>,
    /// What was found out or done. It is added to the escalation's history.
    #[schema(max_length = 4096)]
    note: Option<String>,
}

/// Assigns, acknowledges or resolves an escalation, opens it again, or adds a note. The run stays at its limit: `extend`
/// releases it, and resolves its escalation.
#[utoipa::path(patch, path = "/api/escalations/{id}", tag = "cases",
    params(CasePath, IfMatchGiven),
    request_body = EscalationChange, responses((status = 200, body = ChangedEscalationOut, headers(("etag" = String)))))]
pub(super) async fn change_escalation(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<CasePath>,
    if_match: IfMatch,
    JsonIn(change): JsonIn<EscalationChange>,
) -> Result<Tagged<ChangedEscalationOut>, Problem> {
    let mut checks = Checks::default();
    change.owner.iter().flatten().for_each(|owner| checks.line("owner", owner, 256));
    checks.done()?;
    let mut note = checked_note(change.note)?;
    let asked = Arc::clone(&app);
    app.work(move || {
        let _edit = asked.edit();
        let find = || {
            let found = asked.store_here().escalation(&path.id)?;
            found.ok_or_else(|| Problem::not_found("escalation", &path.id))
        };
        let escalation = find()?;
        if_match.check(escalation.version)?;
        let case = |step, owner, note| CaseChange {
            kind: CaseKind::Escalation,
            id: escalation.id.clone(),
            step,
            owner,
            note,
        };
        let status = step(escalation.status, change.status, note.is_some())
            .ok_or_else(|| is_resolved("escalation", &escalation.id, &escalation.history))?;
        let version = escalation.version;
        let owner = change.owner.map(|owner| owner.map(Name::from));
        if let Some(owner) = owner.filter(|owner| *owner != escalation.owner) {
            // A note that comes with nothing else says why it was assigned.
            let why = if status == Some(CaseStep::Noted) { note.take() } else { None };
            record(&asked, &caller, case(CaseStep::Assigned, owner, why))?;
        }
        if let Some(status) = status.filter(|status| *status != CaseStep::Noted || note.is_some()) {
            record(&asked, &caller, case(status, None, note))?;
        }
        if status == Some(CaseStep::Resolved) {
            let run = escalation.run.as_deref().unwrap_or_default();
            asked.alerts_api.escalation_resolved(&escalation.id, &escalation.agent, run, &caller.by);
        }
        let escalation = find()?;
        let changed = escalation.version != version;
        Ok(Tagged(
            escalation.version,
            ChangedEscalationOut { escalation: EscalationOut::of(&asked, escalation), changed },
        ))
    })
    .await
}
