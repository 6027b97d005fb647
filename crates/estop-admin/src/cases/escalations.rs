//! Escalations: who is needed where.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use estop_core::system::CaseStep;
use estop_store::Escalation;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::answered::next_step;
use super::{CasePath, Filter, StepOut, latest, status_name};
use crate::input::{PathIn, QueryIn};
use crate::output::{Answer, Tagged, kept_json, moment, time_cursor};
use crate::problem::Problem;
use crate::state::App;

/// A page of escalations, newest first.
#[derive(Serialize, ToSchema)]
pub(super) struct EscalationsOut {
    escalations: Vec<EscalationOut>,
    /// Send it as `before` to get the next page; null = this was the last.
    next: Option<String>,
}

/// A person is needed.
#[derive(Serialize, ToSchema)]
#[schema(as = Escalation)]
pub(super) struct EscalationOut {
    id: String,
    agent: String,
    run: Option<String>,
    reason: String,
    /// The record that stopped it.
    seq: u64,
    opened_at: String,
    /// `open`, `acknowledged` or `resolved`.
    status: &'static str,
    /// Who looks after it.
    owner: Option<String>,
    acknowledged_by: Option<String>,
    acknowledged_at: Option<String>,
    resolved_at: Option<String>,
    resolved_by: Option<String>,
    /// Who did what with it, oldest first.
    history: Vec<StepOut>,
    /// Its page on the dashboard, which alerts link to.
    page: String,
    /// The same with the dashboard's address.
    url: String,
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
    pub(super) fn of(app: &App, escalation: Escalation) -> EscalationOut {
        let mut used = kept_json(&escalation.facts);
        let mut taken = |key: &str| used.as_object_mut()?.remove(key)?.as_str().map(str::to_owned);
        let acknowledged = latest(&escalation.history, CaseStep::Acknowledged);
        EscalationOut {
            acknowledged_by: acknowledged.map(|entry| entry.by.to_string()),
            acknowledged_at: acknowledged.map(|entry| moment(entry.at)),
            history: escalation.history.iter().map(StepOut::of).collect(),
            url: app.place.page(&format!("/needs-human?case={}", escalation.id)),
            page: format!("/needs-human?case={}", escalation.id),
            seq: escalation.seq,
            role: taken("role"),
            issue: taken("issue"),
            branch: taken("branch"),
            session: taken("session"),
            used,
            next: next_step(app, &escalation),
            summary: escalation.summary,
            id: escalation.id.into(),
            agent: escalation.agent.into(),
            run: escalation.run.map(Into::into),
            reason: escalation.reason,
            opened_at: moment(escalation.opened_at),
            status: status_name(escalation.status),
            owner: escalation.owner.map(Into::into),
            resolved_at: escalation.resolved_at.map(moment),
            resolved_by: escalation.resolved_by.map(Into::into),
            version: escalation.version,
        }
    }
}

/// Shows an escalation.
#[utoipa::path(get, path = "/api/escalations/{id}", tag = "cases", params(CasePath),
    responses((status = 200, body = EscalationOut, headers(("etag" = String)))))]
pub(super) async fn escalation(
    State(app): State<App>,
    PathIn(path): PathIn<CasePath>,
) -> Result<Tagged<EscalationOut>, Problem> {
    let asked = Arc::clone(&app);
    app.work(move || {
        let found = asked.store_here().escalation(&path.id)?;
        let found = found.ok_or_else(|| Problem::not_found("escalation", &path.id))?;
        Ok(Tagged(found.version, EscalationOut::of(&asked, found)))
    })
    .await
}

/// Lists who is needed where.
#[utoipa::path(get, path = "/api/escalations", tag = "cases", params(Filter),
    responses((status = 200, body = EscalationsOut)))]
pub(super) async fn escalations(
    State(app): State<App>,
    QueryIn(filter): QueryIn<Filter>,
) -> Answer<EscalationsOut> {
    let asked = Arc::clone(&app);
    let read = move || {
        let (query, limit) = filter.query(&asked)?;
        Ok((asked.store_here().escalations(&query, limit)?, limit))
    };
    let (found, limit) = app.work(read).await?;
    let next =
        found.last().filter(|_| found.len() == limit).map(|last| time_cursor(last.opened_at, &last.id));
    let escalations = found.into_iter().map(|escalation| EscalationOut::of(&app, escalation)).collect();
    Ok(Json(EscalationsOut { escalations, next }))
}
