//! One agent: its kill switch, score, limits, spend, runs, and what happened to it.

use askama::Template;
use axum::Extension;
use axum::extract::{Path, State};
use estop_core::operator::RunView;
use estop_core::policy::Mode;
use estop_core::standing::Standing;
use estop_store::EventFilter;

use super::frame::Frame;
use super::shown::{AgentRow, Badge, EventRow, Meter, budgets, is_over, limits, run_badge, spent, when};
use super::{Page, made};
use crate::access::Caller;
use crate::agents::row;
use crate::agents::shown::preset_name;
use crate::problem::Problem;
use crate::state::App;

/// Events on the page; the journal has all.
const EVENTS: usize = 20;

#[derive(Template)]
#[template(path = "agent.html")]
struct AgentPage {
    frame: Frame,
    row: AgentRow,
    api: String,
    preset: &'static str,
    why: Option<String>,
    may_activate: bool,
    may_resume: bool,
    may_pause: bool,
    may_stop: bool,
    score: Score,
    switch: Switch,
    spent_month: String,
    last_seen: String,
    budgets: Vec<Meter>,
    runs: Vec<RunRow>,
    events: Vec<EventRow>,
}

struct Score {
    prompts: u16,
    responses: u16,
    calls: u16,
}

struct Switch {
    enabled: bool,
    window: u8,
    threshold: String,
}

struct RunRow {
    name: String,
    badge: Badge,
    limits: Vec<Meter>,
    spent: String,
    may_extend: bool,
    api: String,
}

pub(super) async fn page(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Page {
    made(app, move |app| agent(app, &caller, &name)).await
}

fn agent(app: &App, caller: &Caller, name: &str) -> Result<AgentPage, Problem> {
    let found = row::find(app, name)?;
    // One at rest is taken up: a person looks at it.
    let view = match found.live {
        Some(view) => view,
        None => app.operator.add_agent(name)?,
    };
    let filter = EventFilter { agent: Some(view.name.clone()), ..EventFilter::default() };
    let events = app.store_here().events(&filter, EVENTS)?;
    let now = app.now();
    let why = events
        .iter()
        .find(|found| &*found.event.event_type == "kill_switch")
        .filter(|_| !matches!(view.standing, Standing::Active));
    let why = why.map(|found| super::shown::sentence(&crate::output::kept_json(&found.event.detail)));
    let last_seen = found.stored.as_ref().and_then(|agent| agent.last_seen_at);
    let threshold = view.policy.loops.threshold_tenths;
    let score = view.score;
    Ok(AgentPage {
        frame: Frame::of(app, caller, "", name)?,
        row: AgentRow::from(&view),
        api: format!("/api/agents/{}", view.name),
        preset: preset_name(view.policy.preset),
        why,
        may_activate: matches!(view.standing, Standing::Inactive { .. }),
        may_resume: matches!(view.standing, Standing::Paused { .. }),
        may_pause: matches!(view.standing, Standing::Active),
        may_stop: !matches!(view.standing, Standing::Inactive { .. }),
        score: Score {
            prompts: score.map_or(0, |score| score.prompts),
            responses: score.map_or(0, |score| score.responses),
            calls: score.map_or(0, |score| score.calls),
        },
        switch: Switch {
            enabled: view.policy.modes.loops == Mode::Enforce,
            window: view.policy.loops.window_size,
            threshold: format!("{}.{}", threshold / 10, threshold % 10),
        },
        spent_month: spent(view.spent_this_month),
        last_seen: last_seen.map_or_else(|| "just now".to_owned(), |at| when(at, now)),
        budgets: budgets(&view),
        runs: view.runs.iter().map(|run| run_row(&view.name, run, &view.policy.limits)).collect(),
        events: events.into_iter().map(|found| EventRow::of(found, now)).collect(),
    })
}

fn run_row(agent: &str, run: &RunView, all: &estop_core::policy::Limits) -> RunRow {
    let name = run.name.as_deref();
    RunRow {
        name: name.unwrap_or("without a name").to_owned(),
        badge: run_badge(run),
        limits: if is_over(run.state) { Vec::new() } else { limits(run, all) },
        spent: spent(run.spent),
        may_extend: run.tripped,
        api: format!("/api/runs/{agent}:{}", name.unwrap_or_default()),
    }
}
