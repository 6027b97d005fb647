//! Cases people look at: incidents (what was stopped) and escalations (who is needed).

mod answered;
mod change;
mod escalations;

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use estop_core::ids::Name;
use estop_core::system::{CaseStep, SYSTEM};
use estop_store::{
    CaseEntry, CaseFilter, CaseStatus, Evidence, Incident, StatusFilter, Store, StoreError, TokenRole,
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::Caller;
use crate::background::{JobOut, of_incident};
use crate::evidence::{Story, headline, stays_stopped};
use crate::input::{InPath, PathIn, QueryIn, page_size};
use crate::output::{Answer, Tagged, kept_json, moment, read_time_cursor, time_cursor};
use crate::problem::Problem;
use crate::state::App;
pub(crate) use answered::{ResolvedOut, UnresolvedCases, is_held, unresolved};
pub(crate) use change::record;

/// Presses of the button that are looked through.
const PRESSES_MAX: usize = 20;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(incidents))
        .routes(routes!(incident, change::change_incident))
        .routes(routes!(delete_evidence))
        .routes(routes!(escalations::escalations))
        .routes(routes!(escalations::escalation, change::change_escalation))
}

/// How a case stands.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = CaseStatus)]
enum StatusIn {
    Open,
    Acknowledged,
    Resolved,
}

impl From<StatusIn> for CaseStatus {
    fn from(status: StatusIn) -> CaseStatus {
        match status {
            StatusIn::Open => CaseStatus::Open,
            StatusIn::Acknowledged => CaseStatus::Acknowledged,
            StatusIn::Resolved => CaseStatus::Resolved,
        }
    }
}

/// Which status: one, or `unresolved` for open and acknowledged.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum StatusAsked {
    Open,
    Acknowledged,
    Resolved,
    Unresolved,
}

impl From<StatusAsked> for StatusFilter {
    fn from(status: StatusAsked) -> StatusFilter {
        match status {
            StatusAsked::Open => StatusFilter::Is(CaseStatus::Open),
            StatusAsked::Acknowledged => StatusFilter::Is(CaseStatus::Acknowledged),
            StatusAsked::Resolved => StatusFilter::Is(CaseStatus::Resolved),
            StatusAsked::Unresolved => StatusFilter::Unresolved,
        }
    }
}

pub(crate) fn status_name(status: CaseStatus) -> &'static str {
    match status {
        CaseStatus::Open => "open",
        CaseStatus::Acknowledged => "acknowledged",
        CaseStatus::Resolved => "resolved",
    }
}

/// Who did what with a case.
#[derive(Serialize, ToSchema)]
#[schema(as = CaseStep)]
struct StepOut {
    at: String,
    by: String,
    /// `acknowledged`, `resolved`, `reopened`, `assigned` or `noted`.
    step: &'static str,
    /// Who looks after it from here on, if it was assigned; null = nobody.
    owner: Option<String>,
    /// In someone's words, or what answered it.
    note: Option<String>,
    /// The journal record it stands in.
    seq: u64,
}

impl StepOut {
    fn of(entry: &CaseEntry) -> StepOut {
        let CaseEntry { seq, at, by, step, owner, note } = entry;
        StepOut {
            at: moment(*at),
            by: by.to_string(),
            step: step.name(),
            owner: owner.as_deref().map(str::to_owned),
            note: note.clone(),
            seq: *seq,
        }
    }
}

/// Who did something with a case last, and when, unless it was opened again since.
pub(crate) fn latest(history: &[CaseEntry], step: CaseStep) -> Option<&CaseEntry> {
    let since = history.iter().rev().take_while(|entry| entry.step != CaseStep::Reopened);
    since.into_iter().find(|entry| entry.step == step)
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
    status: Option<StatusAsked>,
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
            CaseFilter { agent: app.agent_filter(self.agent)?, status: self.status.map(Into::into), before },
            limit,
        ))
    }
}

/// Which case.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct CasePath {
    /// The case's id.
    #[param(value_type = String)]
    pub(crate) id: Name,
}

impl InPath for CasePath {}

/// A page of incidents, newest first.
#[derive(Serialize, ToSchema)]
struct IncidentsOut {
    incidents: Vec<ListedIncidentOut>,
    /// How many incidents there are on all pages.
    total: u64,
    /// The newest incident of the emergency stop that is not resolved, on whatever page; null = there is none.
    emergency: Option<ListedIncidentOut>,
    /// Send it as `before` to get the next page; null = this was the last.
    next: Option<String>,
}

/// An incident in a list.
#[derive(Serialize, ToSchema)]
#[schema(as = ListedIncident)]
struct ListedIncidentOut {
    #[serde(flatten)]
    incident: IncidentOut,
    /// What happened, in a sentence: the same as that of the incident alone.
    sentence: String,
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
    /// `open`, `acknowledged` or `resolved`.
    status: &'static str,
    /// In a sentence.
    summary: String,
    /// Who acknowledged it.
    acknowledged_by: Option<String>,
    acknowledged_at: Option<String>,
    /// Who resolved it, or did what answered it.
    resolved_by: Option<String>,
    resolved_at: Option<String>,
    /// What whoever resolved it wrote, or what answered it.
    resolution: Option<String>,
    /// Who did what with it, oldest first.
    history: Vec<StepOut>,
    /// The incident of the same kind within an hour before, which this one reopens.
    earlier: Option<String>,
    /// The incident that reopened this one.
    later: Option<String>,
    /// Its page on the dashboard, which alerts link to.
    page: String,
    /// The same with the dashboard's address.
    url: String,
    /// What resolving it does not release, and the command that does; null = the agent, or the system, is not stopped.
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
        let acknowledged = latest(&incident.history, CaseStep::Acknowledged);
        let resolved = latest(&incident.history, CaseStep::Resolved);
        IncidentOut {
            acknowledged_by: acknowledged.map(|entry| entry.by.to_string()),
            acknowledged_at: acknowledged.map(|entry| moment(entry.at)),
            resolved_by: resolved.map(|entry| entry.by.to_string()),
            resolved_at: incident.resolved_at.map(moment),
            history: incident.history.iter().map(StepOut::of).collect(),
            earlier: incident.earlier.map(Into::into),
            later: incident.later.map(Into::into),
            url: app.place.page(&format!("/incidents/{}", incident.id)),
            page: format!("/incidents/{}", incident.id),
            next: stays_stopped(app, &incident.agent),
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
async fn incidents(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    QueryIn(filter): QueryIn<Filter>,
) -> Answer<IncidentsOut> {
    let asked = Arc::clone(&app);
    app.work(move || {
        let (query, limit) = filter.query(&asked)?;
        let Incidents { found, total, next, emergency } = Incidents::read(&asked, &query, limit)?;
        let shown = |incident: Incident| {
            let sentence = listed_headline(&asked, &incident, caller.role)?;
            Ok::<_, Problem>(ListedIncidentOut { incident: IncidentOut::of(&asked, incident), sentence })
        };
        let incidents = found.into_iter().map(shown).collect::<Result<_, _>>()?;
        let emergency = emergency.map(shown).transpose()?;
        Ok(Json(IncidentsOut { incidents, total, next, emergency }))
    })
    .await
}

/// The sentence of an incident in a list.
pub(crate) fn listed_headline(app: &App, incident: &Incident, role: TokenRole) -> Result<String, StoreError> {
    let kept = app.store_here().evidence(&incident.id)?;
    Ok(headline(app, incident, kept.as_ref(), role))
}

/// A page of incidents.
pub(crate) struct Incidents {
    pub(crate) found: Vec<Incident>,
    /// On all pages.
    pub(crate) total: u64,
    /// Where the next page begins.
    pub(crate) next: Option<String>,
    /// The newest of the emergency stop that is not resolved, if it is among those that are asked for.
    pub(crate) emergency: Option<Incident>,
}

impl Incidents {
    pub(crate) fn read(app: &App, query: &CaseFilter, limit: usize) -> Result<Incidents, StoreError> {
        let store = app.store_here();
        let mut found = store.incidents(query, limit.saturating_add(1))?;
        let has_more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| has_more).map(|last| time_cursor(last.opened_at, &last.id));
        let is_asked = query.agent.as_deref().is_none_or(|agent| agent == SYSTEM)
            && query.status != Some(StatusFilter::Is(CaseStatus::Resolved));
        let status = query.status.or(Some(StatusFilter::Unresolved));
        let of_system = CaseFilter { agent: Some(SYSTEM.into()), status, before: None };
        let emergency = if is_asked { store.incidents(&of_system, 1)?.pop() } else { None };
        Ok(Incidents { found, total: store.count_incidents(query)?, next, emergency })
    }
}

/// Shows an incident with its evidence.
#[utoipa::path(get, path = "/api/incidents/{id}", tag = "cases", params(CasePath),
    responses((status = 200, body = IncidentWithStepsOut, headers(("etag" = String)))))]
async fn incident(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<CasePath>,
) -> Result<Tagged<IncidentWithStepsOut>, Problem> {
    let id = path.id.clone();
    let asked = Arc::clone(&app);
    let found = app.work(move || {
        let found = find_incident(&asked, &id)?;
        let kept = asked.store_here().evidence(&found.id)?;
        Ok::<_, Problem>((found, kept))
    });
    let (found, kept) = found.await?;
    let story = Story::of(&app, &found, kept.as_ref(), caller.role);
    let version = found.version;
    Ok(Tagged(version, IncidentWithStepsOut { incident: IncidentOut::of(&app, found), story }))
}

/// An incident, and what led to it.
#[derive(Serialize, ToSchema)]
#[schema(as = IncidentWithSteps)]
struct IncidentWithStepsOut {
    #[serde(flatten)]
    incident: IncidentOut,
    #[serde(flatten)]
    story: Story,
}

/// Deletes the steps that are kept with an incident, at once and for good. The incident stays, and says who deleted them.
#[utoipa::path(delete, path = "/api/incidents/{id}/evidence", tag = "cases", params(CasePath),
    responses((status = 204)))]
async fn delete_evidence(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<CasePath>,
) -> Result<StatusCode, Problem> {
    let asked = Arc::clone(&app);
    app.work(move || {
        delete_kept_steps(&asked, &path.id, &caller.by)?;
        asked.operator.access_changed(&format!("steps of incident {} deleted", path.id), &caller.by);
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

/// Deletes the steps that are kept under this id, and those that wait to be saved: none are written from here on.
pub(crate) fn delete_kept_steps(app: &App, id: &str, by: &str) -> Result<(), Problem> {
    let (store, now) = (app.store_here(), app.now());
    let waited = app.operator.forget_unsaved(id, by);
    if let Some(agent) = &waited {
        let deleted = Some((by.into(), now));
        let note =
            Evidence { incident: id.into(), agent: agent.clone(), stored_at: now, steps: None, deleted };
        // It says who did it after a restart, too. A full disk may not take it: gone they are all the same.
        drop(store.put_evidence(&note));
    }
    match store.delete_evidence(id, by, now)? {
        None if waited.is_none() => Err(Problem::not_found("evidence", id)),
        Some(_) | None => Ok(()),
    }
}

/// An incident. Pressing the button twice is one incident, and people were told of each press: all of them find it.
/// A refusal names one before its row is stored: then it is waited for.
pub(crate) fn find_incident(app: &App, id: &str) -> Result<Incident, Problem> {
    let store = app.store_here();
    if let Some(found) = stored_incident(store, id)? {
        return Ok(found);
    }
    app.operator.is_stored();
    stored_incident(store, id)?.ok_or_else(|| Problem::not_found("incident", id))
}

fn stored_incident(store: &dyn Store, id: &str) -> Result<Option<Incident>, StoreError> {
    let epoch = |id: &str| id.strip_prefix(SYSTEM)?.strip_prefix('-')?.parse::<u64>().ok();
    let found = store.incident(id)?;
    let Some(pressed) = epoch(id).filter(|_| found.is_none()) else { return Ok(found) };
    let newest = CaseFilter { agent: Some(SYSTEM.into()), ..CaseFilter::default() };
    let of_before = |incident: &Incident| epoch(&incident.id).is_some_and(|epoch| epoch < pressed);
    Ok(store.incidents(&newest, PRESSES_MAX)?.into_iter().find(of_before))
}
