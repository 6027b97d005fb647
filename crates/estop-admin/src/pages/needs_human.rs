//! Who is needed where (AL-2): escalations with owner, notes and the agent's last words.

use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use estop_store::{CaseStatus, Escalation};

use super::frame::Frame;
use super::incidents::{PageQuery, case_badge};
use super::shown::{Badge, when};
use super::{Page, made};
use crate::access::Caller;
use crate::cases::is_held;
use crate::output::moment;
use crate::problem::Problem;
use crate::state::App;

const ROWS: usize = 25;

#[derive(Template)]
#[template(path = "needs_human.html")]
struct NeedsHuman {
    frame: Frame,
    list: Vec<Case>,
    next: Option<String>,
}

struct Case {
    id: String,
    agent: String,
    run: Option<String>,
    run_api: Option<String>,
    reason: String,
    at: String,
    when: String,
    badge: Badge,
    open: bool,
    owner: String,
    notes: String,
    summary: Option<String>,
}

pub(super) async fn page(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Query(asked): Query<PageQuery>,
) -> Page {
    made(app, move |app| {
        let found = app.store_here().escalations(&asked.filter()?, ROWS)?;
        let last = found.last().filter(|_| found.len() == ROWS);
        Ok(NeedsHuman {
            frame: Frame::of(app, &caller, "/needs-human", "Needs a human")?,
            next: last.map(|last| asked.next("/needs-human", last.opened_at, &last.id)),
            list: found.iter().map(|case| shown(app, case)).collect::<Result<_, _>>()?,
        })
    })
    .await
}

fn shown(app: &App, case: &Escalation) -> Result<Case, Problem> {
    // The run without a name has the id `agent:`.
    let run_id = format!("{}:{}", case.agent, case.run.as_deref().unwrap_or_default());
    let summary = app.store_here().run(&run_id)?.and_then(|run| run.summary).or_else(|| case.summary.clone());
    let is_held = is_held(app, &case.agent, case.run.as_deref());
    Ok(Case {
        id: case.id.to_string(),
        agent: case.agent.to_string(),
        run: case.run.as_deref().map(str::to_owned),
        run_api: is_held.then(|| format!("/api/runs/{run_id}")),
        reason: case.reason.clone(),
        at: moment(case.opened_at),
        when: when(case.opened_at, app.now()),
        badge: case_badge(case.status),
        open: case.status == CaseStatus::Open,
        owner: case.owner.as_deref().unwrap_or_default().to_owned(),
        notes: case.notes.clone(),
        summary,
    })
}
