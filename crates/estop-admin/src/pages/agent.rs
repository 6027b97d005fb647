//! One agent: its kill switch and what it would have done, score, limits, spend, runs, requests, rules, keys, and what
//! happened to it.

use askama::Template;
use axum::Extension;
use axum::extract::{Path, Query, State};
use estop_core::agent::standing::Standing;
use estop_core::agent::status::{AgentStatus, StatusKind};
use estop_core::guard::Guard;
use estop_core::operator::AgentView;
use estop_core::policy::{Mode, Preset};
use estop_core::policy_file::{PolicyIn, PolicyOrigin};
use estop_core::run::RunView;
use estop_store::EventFilter;

use super::charts::Timelines;
use super::effect;
use super::event_row::EventRow;
use super::frame::Frame;
use super::preset;
use super::requests::{self, RequestRow};
use super::rules::Rules;
use super::shown::{AgentRow, Badge, BudgetAhead, Meter, budgets, is_over, limits, run_badge, spent, when};
use super::{Page, made};
use crate::access::Caller;
use crate::agents::overrides;
use crate::agents::row::{self, Found};
use crate::agents::shown::preset_name;
use crate::keys::good_keys;
use crate::output::moment;
use crate::problem::Problem;
use crate::state::App;

/// Events on the page; the journal has all.
const EVENTS: usize = 20;
/// Requests on the page; the others are one click away.
const REQUESTS: usize = 10;

#[derive(Template)]
#[template(path = "agent.html")]
struct AgentPage {
    frame: Frame,
    row: AgentRow,
    api: String,
    preset: preset::Shown,
    /// How it is switched, and the bodies for that and for taking it back.
    preset_calls: (String, (String, String)),
    why: Option<String>,
    /// Why its next request is refused, and what a person can do.
    status: Option<String>,
    /// Since when it is so, where something brought it about.
    since: Option<EventRow>,
    may_activate: bool,
    may_resume: bool,
    may_pause: bool,
    may_stop: bool,
    score: Score,
    switch: Switch,
    effect: Option<effect::Shown>,
    rules: Rules,
    keys: Vec<KeyRow>,
    spent_month: String,
    budget_ahead: Option<BudgetAhead>,
    last_seen: String,
    budgets: Vec<Meter>,
    runs: Vec<RunRow>,
    requests: Vec<RequestRow>,
    events: Vec<EventRow>,
    timelines: Timelines,
}

struct Score {
    prompts: u16,
    responses: u16,
    calls: u16,
}

struct Switch {
    enabled: bool,
    /// The command that has loops stop it.
    turn_on: String,
    /// As it is, or as somebody tries it out.
    window: String,
    threshold: String,
}

struct KeyRow {
    id: String,
    prefix: String,
    made: String,
    used: String,
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
    Query(asked): Query<effect::PageQuery>,
) -> Page {
    let effect = effect::shown(&app, &name, &asked).await;
    made(app, move |app| agent(app, &caller, &name, asked, effect)).await
}

fn agent(
    app: &App,
    caller: &Caller,
    name: &str,
    asked: effect::PageQuery,
    effect: Option<effect::Shown>,
) -> Result<AgentPage, Problem> {
    let mut found = row::find(app, name)?;
    // One at rest is taken up: a person looks at it.
    let view = match found.live.take() {
        Some(view) => view,
        None => app.operator.add_agent(name)?,
    };
    found.live = Some(view.clone());
    let filter = EventFilter { agent: Some(view.name.clone()), ..EventFilter::default() };
    let events = app.store_here().events(&filter, EVENTS)?;
    let now = app.now();
    let why = events
        .iter()
        .find(|found| &*found.event.event_type == "kill_switch")
        .filter(|_| !matches!(view.standing, Standing::Active));
    let why = why.map(|found| super::shown::sentence(&crate::output::kept_json(&found.event.detail)));
    let status = Some(&view.status).filter(|status| status.kind != StatusKind::Active);
    let until = |status: &AgentStatus| {
        status.until.map(|at| format!(" Until {}.", moment(at).replace('T', " "))).unwrap_or_default()
    };
    let status = status.map(|status| {
        let is_outside = status.kind == StatusKind::OutsideHours;
        let what = if is_outside {
            " It may work again then; its hours are `allowed_hours` in its policy."
        } else {
            ""
        };
        format!("{}{}{what}", status.sentence, until(status))
    });
    // What stopped it; a refusal where nothing did.
    let brought = ["kill_switch", "deactivated", "paused", "budget_refused", "run_tripped", "run_escalated"];
    let newest = |is_one: &dyn Fn(&str) -> bool| events.iter().find(|found| is_one(&found.event.event_type));
    let since = newest(&|kind| brought.contains(&kind)).or_else(|| newest(&|kind| kind == "refused"));
    let since = since.filter(|_| status.is_some());
    let since = since.map(|found| EventRow::of(found.clone(), now));
    let last_seen = found.stored.as_ref().and_then(|agent| agent.last_seen_at);
    let threshold = view.policy.loops.threshold_tenths;
    let score = view.score;
    let frame = Frame {
        alerts_missing: !app.alerts_api.is_told_of_stops(Some(name)),
        ..Frame::of(app, caller, "", name)?
    };
    Ok(AgentPage {
        keys: if frame.may_admin { keys(app, name)? } else { Vec::new() },
        frame,
        rules: Rules::of(app, &found, &view.policy),
        effect,
        row: AgentRow::from(&view),
        api: format!("/api/agents/{}", view.name),
        preset_calls: preset_calls(&view),
        preset: preset_of(app, &found, view.policy.preset)?,
        why,
        status,
        since,
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
            enabled: view.policy.modes[Guard::Loop] == Mode::Enforce,
            turn_on: app.place.commands.stop_loops(&view.name),
            window: typed(asked.window_size, view.policy.loops.window_size.to_string()),
            threshold: typed(asked.threshold, format!("{}.{}", threshold / 10, threshold % 10)),
        },
        budget_ahead: view
            .budget_latest_day
            .map(|day| BudgetAhead::of(day, app.place.commands.renew_budget(&view.name))),
        spent_month: spent(view.spent_this_month),
        last_seen: last_seen.map_or_else(|| "just now".to_owned(), |at| when(at, now)),
        budgets: budgets(&view),
        runs: view.runs.iter().map(|run| run_row(&view.name, run, &view.policy.limits)).collect(),
        requests: requests::newest(app, name, REQUESTS)?.rows,
        events: events.into_iter().map(|found| EventRow::of(found, now)).collect(),
        timelines: Timelines::of(app, &view)?,
    })
}

fn typed(asked: String, today: String) -> String {
    if asked.is_empty() { today } else { asked }
}

/// Its own preset if it has one, of the API or of the file, else everybody's.
fn preset_of(app: &App, found: &Found, preset: Preset) -> Result<preset::Shown, Problem> {
    let own = found.stored.as_ref().is_some_and(|agent| overrides::read(agent).contains_key("preset"));
    let role = found.live.as_ref().and_then(|view| view.role.as_deref());
    let below = (app.policy_file)().origins(found.name(), role, &PolicyIn::default());
    let below = below.into_iter().find(|(key, _)| *key == "preset").map(|(_, origin)| origin);
    let origin = match below.unwrap_or(PolicyOrigin::Preset) {
        _ if own => "api",
        // What is set for everybody is taken back for everybody, in the settings.
        PolicyOrigin::Api => "everybody",
        PolicyOrigin::File | PolicyOrigin::AgentInFile => "file",
        PolicyOrigin::Preset => "default",
    };
    preset::Shown::of(app, Some(found.name()), preset, origin)
}

fn preset_calls(view: &AgentView) -> (String, (String, String)) {
    let other = if view.policy.preset == Preset::Strict { Preset::Watch } else { Preset::Strict };
    let set = serde_json::json!({"preset": preset_name(other)}).to_string();
    (format!("PATCH /api/agents/{}/policy", view.name), (set, r#"{"preset": null}"#.to_owned()))
}

fn keys(app: &App, name: &str) -> Result<Vec<KeyRow>, Problem> {
    let now = app.now();
    let keys = good_keys(app, name)?.into_iter().map(|key| KeyRow {
        id: key.id.into(),
        prefix: key.prefix.into(),
        made: when(key.created_at, now),
        used: key.last_used_at.map_or_else(|| "never".to_owned(), |at| when(at, now)),
    });
    Ok(keys.collect())
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
