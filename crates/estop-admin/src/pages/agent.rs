//! One agent: its kill switch and what it would have done, score, limits, spend, runs, requests, rules, keys, and what
//! happened to it.

use askama::Template;
use axum::Extension;
use axum::extract::State;
use estop_core::agent::standing::{DeactivatedBy, Standing};
use estop_core::agent::status::{AgentStatus, StatusKind};
use estop_core::guard::Guard;
use estop_core::operator::AgentView;
use estop_core::policy::{Mode, Preset};
use estop_core::policy_file::{PolicyIn, PolicyOrigin};
use estop_core::run::RunView;
use estop_store::{EventFilter, StoreError, StoredEvent};

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
use crate::agents::AgentPath;
use crate::agents::overrides;
use crate::agents::row::{self, Found};
use crate::agents::shown::preset_name;
use crate::input::{PathIn, QueryIn};
use crate::keys::good_keys;
use crate::output::{kept_json, moment};
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
    PathIn(path): PathIn<AgentPath>,
    QueryIn(asked): QueryIn<effect::PageQuery>,
) -> Page {
    let effect = effect::shown(&app, &path.id, &asked).await;
    made(app, move |app| agent(app, &caller, &path.id, asked, effect)).await
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
    let requests = requests::newest(app, name, REQUESTS)?.rows;
    let cause = cause(app, &view, requests.first().and_then(|newest| newest.guard))?;
    // A guard's own words; what a person did is in the status.
    let why = match view.standing {
        Standing::Inactive { by: DeactivatedBy::KillSwitch(_), .. } => newest(app, &view, &["kill_switch"])?,
        Standing::Paused { cause: Some(_), .. } => newest(app, &view, &["paused"])?,
        Standing::Inactive { by: DeactivatedBy::Manual, .. }
        | Standing::Paused { cause: None, .. }
        | Standing::Active => None,
    };
    let why = why.map(|found| super::shown::sentence(&kept_json(&found.event.detail)));
    let since = cause.map(|found| EventRow::of(found, now));
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
        requests,
        events: events.into_iter().map(|found| EventRow::of(found, now)).collect(),
        timelines: Timelines::of(app, &view)?,
    })
}

/// The agent's newest event of these types.
fn newest(app: &App, view: &AgentView, types: &[&str]) -> Result<Option<StoredEvent>, StoreError> {
    let mut found: Vec<StoredEvent> = Vec::new();
    for event_type in types {
        let filter = EventFilter {
            agent: Some(view.name.clone()),
            event_type: Some((*event_type).into()),
            ..EventFilter::default()
        };
        found.extend(app.store_here().events(&filter, 1)?);
    }
    Ok(found.into_iter().max_by_key(|found| found.key))
}

/// The event that brought about what the agent's next request gets, if one did and it still holds. `refused_by`: the guard that
/// refused its newest request.
fn cause(app: &App, view: &AgentView, refused_by: Option<Guard>) -> Result<Option<StoredEvent>, StoreError> {
    match view.status.kind {
        StatusKind::Active | StatusKind::Watched | StatusKind::Shut => Ok(None),
        StatusKind::Stopped => newest(app, view, &["kill_switch", "deactivated"]),
        StatusKind::Paused => newest(app, view, &["paused"]),
        StatusKind::AtRunLimit => {
            const BEGINS: [&str; 2] = ["run_tripped", "run_escalated"];
            let found = newest(
                app,
                view,
                &[BEGINS[0], BEGINS[1], "run_extended", "run_completed", "activated", "policy_changed"],
            )?;
            Ok(found.filter(|found| BEGINS.contains(&&*found.event.event_type)))
        }
        StatusKind::RateLimited
        | StatusKind::CoolingDown
        | StatusKind::OutsideHours
        | StatusKind::ModelRefused
        | StatusKind::BudgetSpent => {
            // A guard's refusal is an event where it begins. Whoever was let through since has not been refused again.
            let Some(guard) = view.status.guard.filter(|guard| refused_by == Some(*guard)) else {
                return Ok(None);
            };
            let found = newest(app, view, &["refused"])?;
            Ok(found.filter(|found| kept_json(&found.event.detail)["guard"] == guard.name()))
        }
    }
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
