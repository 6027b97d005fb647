//! Cases people look at: incidents (what was stopped) and escalations (who is needed).

mod answered;

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use estop_core::ids::Name;
use estop_store::{CaseFilter, CaseStatus, Escalation, Incident};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::Caller;
use crate::background::{JobOut, of_incident};
use crate::input::{Checks, IfMatch, IfMatchGiven, InPath, JsonIn, PathIn, QueryIn, nullable, page_size};
use crate::output::{Answer, Tagged, kept_json, moment, read_time_cursor, time_cursor};
use crate::problem::Problem;
use crate::state::App;
pub(crate) use answered::{ClosedOut, close_escalations, close_incidents, is_held};

/// A page or two of what people write.
const TEXT_MAX: usize = 16_384;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(incidents))
        .routes(routes!(incident, change_incident))
        .routes(routes!(escalations))
        .routes(routes!(change_escalation))
}

/// Whether a case is done.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = CaseStatus)]
enum StatusIn {
    Open,
    Closed,
}

impl From<StatusIn> for CaseStatus {
    fn from(status: StatusIn) -> CaseStatus {
        match status {
            StatusIn::Open => CaseStatus::Open,
            StatusIn::Closed => CaseStatus::Closed,
        }
    }
}

fn status_name(status: CaseStatus) -> &'static str {
    match status {
        CaseStatus::Open => "open",
        CaseStatus::Closed => "closed",
    }
}

/// Which cases.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Filter {
    /// Of this agent.
    #[param(value_type = Option<String>)]
    agent: Option<Name>,
    /// In this status.
    #[param(inline)]
    status: Option<StatusIn>,
    /// The `next` of the page before.
    #[param(pattern = "^-?[0-9]{1,15}:.*$")]
    before: Option<String>,
    /// At most so many.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u64>,
}

impl Filter {
    fn query(self, app: &App) -> Result<(CaseFilter, usize), Problem> {
        let before = read_time_cursor(self.before.as_deref())?;
        let limit = page_size(self.limit)?;
        Ok((
            CaseFilter { agent: app.agent_named(self.agent), status: self.status.map(Into::into), before },
            limit,
        ))
    }
}

/// Which case.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
struct CasePath {
    /// The case's id.
    #[param(value_type = String)]
    id: Name,
}

impl InPath for CasePath {}

/// A page of incidents, newest first.
#[derive(Serialize, ToSchema)]
struct IncidentsOut {
    incidents: Vec<IncidentOut>,
    /// Send it as `before` to get the next page; null = this was the last.
    next: Option<String>,
}

/// Something was stopped.
#[derive(Serialize, ToSchema)]
#[schema(as = Incident)]
struct IncidentOut {
    id: String,
    agent: String,
    run: Option<String>,
    /// The record that stopped it.
    seq: u64,
    /// `loop`, `watchdog`, …
    kind: String,
    opened_at: String,
    /// `open` or `closed`.
    status: &'static str,
    /// In a sentence.
    summary: String,
    /// What people found out.
    resolution: Option<String>,
    /// What closing it does not release, and the command that does; null = the agent is not stopped.
    next: Option<String>,
    /// What proves it.
    evidence: Value,
    /// Work at providers that was stopped with it: what is cancelled and what could not be.
    background: Vec<JobOut>,
    /// Also the ETag.
    version: u64,
}

impl IncidentOut {
    fn of(app: &App, incident: Incident) -> IncidentOut {
        let background = of_incident(app.operator.background(), &incident.agent, incident.opened_at);
        IncidentOut {
            next: answered::stays_stopped(app, &incident.agent),
            id: incident.id.into(),
            agent: incident.agent.into(),
            run: incident.run.map(Into::into),
            seq: incident.seq,
            kind: incident.kind.into(),
            opened_at: moment(incident.opened_at),
            status: status_name(incident.status),
            summary: incident.summary,
            resolution: incident.resolution,
            evidence: kept_json(&incident.evidence),
            background,
            version: incident.version,
        }
    }
}

/// Lists incidents.
#[utoipa::path(get, path = "/api/incidents", tag = "cases", params(Filter),
    responses((status = 200, body = IncidentsOut)))]
async fn incidents(State(app): State<App>, QueryIn(filter): QueryIn<Filter>) -> Answer<IncidentsOut> {
    let (query, limit) = filter.query(&app)?;
    let found = app.store(move |store| store.incidents(&query, limit)).await?;
    let next =
        found.last().filter(|_| found.len() == limit).map(|last| time_cursor(last.opened_at, &last.id));
    let incidents = found.into_iter().map(|incident| IncidentOut::of(&app, incident)).collect();
    Ok(Json(IncidentsOut { incidents, next }))
}

/// Shows an incident with its evidence.
#[utoipa::path(get, path = "/api/incidents/{id}", tag = "cases", params(CasePath),
    responses((status = 200, body = IncidentOut, headers(("etag" = String)))))]
async fn incident(
    State(app): State<App>,
    PathIn(path): PathIn<CasePath>,
) -> Result<Tagged<IncidentOut>, Problem> {
    let id = path.id.clone();
    let found = app.store(move |store| store.incident(&id)).await?;
    let found = found.ok_or_else(|| Problem::not_found("incident", &path.id))?;
    Ok(Tagged(found.version, IncidentOut::of(&app, found)))
}

/// What is to change. What is left out stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct IncidentChange {
    #[serde(default)]
    status: Option<StatusIn>,
    /// What people found out; null takes it away.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>, max_length = 16384)]
    resolution: Option<Option<String>>,
}

/// Closes an incident, opens it again, or writes down what was found out. The agent stays as it is: `activate` lets it work
/// again, and closes its incidents.
#[utoipa::path(patch, path = "/api/incidents/{id}", tag = "cases",
    params(CasePath, IfMatchGiven),
    request_body = IncidentChange, responses((status = 200, body = IncidentOut, headers(("etag" = String)))))]
async fn change_incident(
    State(app): State<App>,
    PathIn(path): PathIn<CasePath>,
    if_match: IfMatch,
    JsonIn(change): JsonIn<IncidentChange>,
) -> Result<Tagged<IncidentOut>, Problem> {
    let mut checks = Checks::default();
    change.resolution.iter().flatten().for_each(|text| checks.text("resolution", text, TEXT_MAX));
    checks.done()?;
    let asked = Arc::clone(&app);
    app.store(move |store| {
        let found = store.incident(&path.id)?;
        let mut incident = found.ok_or_else(|| Problem::not_found("incident", &path.id))?;
        if_match.check(incident.version)?;
        incident.status = change.status.map_or(incident.status, Into::into);
        incident.resolution = change.resolution.unwrap_or(incident.resolution);
        incident.version = store.update_incident(&incident)?;
        Ok::<_, Problem>(Tagged(incident.version, IncidentOut::of(&asked, incident)))
    })
    .await
}

/// A page of escalations, newest first.
#[derive(Serialize, ToSchema)]
struct EscalationsOut {
    escalations: Vec<EscalationOut>,
    /// Send it as `before` to get the next page; null = this was the last.
    next: Option<String>,
}

/// A person is needed.
#[derive(Serialize, ToSchema)]
#[schema(as = Escalation)]
struct EscalationOut {
    id: String,
    agent: String,
    run: Option<String>,
    reason: String,
    opened_at: String,
    /// `open` or `closed`.
    status: &'static str,
    /// Who looks after it.
    owner: Option<String>,
    notes: String,
    resolved_at: Option<String>,
    resolved_by: Option<String>,
    /// The agent's last words.
    summary: Option<String>,
    /// The role it ran under.
    role: Option<String>,
    /// The issue it worked on.
    issue: Option<String>,
    /// Where its commits are; nothing there was touched.
    branch: Option<String>,
    /// The client's session, which is kept too.
    session: Option<String>,
    /// The limit that was reached, and what the run used: `limit`, `attended`, `iterations`, `tool_calls`, `turns`,
    /// `active_ms`, as far as they are known.
    #[schema(value_type = Object)]
    used: Value,
    /// What a person can do about it, and what resolving it does not release.
    next: String,
    /// Also the ETag.
    version: u64,
}

impl EscalationOut {
    fn of(app: &App, escalation: Escalation) -> EscalationOut {
        let mut used = kept_json(&escalation.facts);
        let mut taken = |key: &str| used.as_object_mut()?.remove(key)?.as_str().map(str::to_owned);
        EscalationOut {
            role: taken("role"),
            issue: taken("issue"),
            branch: taken("branch"),
            session: taken("session"),
            used,
            next: answered::next_step(app, &escalation),
            summary: escalation.summary,
            id: escalation.id.into(),
            agent: escalation.agent.into(),
            run: escalation.run.map(Into::into),
            reason: escalation.reason,
            opened_at: moment(escalation.opened_at),
            status: status_name(escalation.status),
            owner: escalation.owner.map(Into::into),
            notes: escalation.notes,
            resolved_at: escalation.resolved_at.map(moment),
            resolved_by: escalation.resolved_by.map(Into::into),
            version: escalation.version,
        }
    }
}

/// Lists who is needed where.
#[utoipa::path(get, path = "/api/escalations", tag = "cases", params(Filter),
    responses((status = 200, body = EscalationsOut)))]
async fn escalations(State(app): State<App>, QueryIn(filter): QueryIn<Filter>) -> Answer<EscalationsOut> {
    let (query, limit) = filter.query(&app)?;
    let found = app.store(move |store| store.escalations(&query, limit)).await?;
    let next =
        found.last().filter(|_| found.len() == limit).map(|last| time_cursor(last.opened_at, &last.id));
    let escalations = found.into_iter().map(|escalation| EscalationOut::of(&app, escalation)).collect();
    Ok(Json(EscalationsOut { escalations, next }))
}

/// What is to change. What is left out stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct EscalationChange {
    /// Who looks after it; null = nobody.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 256, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$")]
    owner: Option<Option<String>>,
    #[schema(max_length = 16384)]
    notes: Option<String>,
    /// true = somebody has looked; false = it is open again.
    resolved: Option<bool>,
}

/// Takes an escalation, writes notes, or resolves it. The run stays at its limit: `extend` releases it, and closes its
/// escalation.
#[utoipa::path(patch, path = "/api/escalations/{id}", tag = "cases",
    params(CasePath, IfMatchGiven),
    request_body = EscalationChange, responses((status = 200, body = EscalationOut, headers(("etag" = String)))))]
async fn change_escalation(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<CasePath>,
    if_match: IfMatch,
    JsonIn(change): JsonIn<EscalationChange>,
) -> Result<Tagged<EscalationOut>, Problem> {
    let mut checks = Checks::default();
    change.owner.iter().flatten().for_each(|owner| checks.line("owner", owner, 256));
    change.notes.iter().for_each(|notes| checks.text("notes", notes, TEXT_MAX));
    checks.done()?;
    let (now, alerts_api, asked) = (app.now(), Arc::clone(&app.alerts_api), Arc::clone(&app));
    app.store(move |store| {
        let found = store.escalation(&path.id)?;
        let mut escalation = found.ok_or_else(|| Problem::not_found("escalation", &path.id))?;
        if_match.check(escalation.version)?;
        let was_open = escalation.status == CaseStatus::Open;
        change.apply(&mut escalation, &caller, now);
        escalation.version = store.update_escalation(&escalation)?;
        if was_open && escalation.status == CaseStatus::Closed {
            let run = escalation.run.as_deref().unwrap_or_default();
            alerts_api.escalation_resolved(&escalation.id, &escalation.agent, run, &caller.by);
        }
        Ok::<_, Problem>(Tagged(escalation.version, EscalationOut::of(&asked, escalation)))
    })
    .await
}

impl EscalationChange {
    fn apply(self, escalation: &mut Escalation, caller: &Caller, now: i64) {
        if let Some(owner) = self.owner {
            escalation.owner = owner.map(Into::into);
        }
        if let Some(notes) = self.notes {
            escalation.notes = notes;
        }
        match self.resolved {
            Some(true) if escalation.status == CaseStatus::Open => {
                escalation.status = CaseStatus::Closed;
                escalation.resolved_at = Some(now);
                escalation.resolved_by = Some(caller.by.clone());
            }
            Some(false) => {
                escalation.status = CaseStatus::Open;
                escalation.resolved_at = None;
                escalation.resolved_by = None;
            }
            Some(true) | None => {}
        }
    }
}
