//! What is shown of an agent.

use estop_core::agent::standing::{Cause, DeactivatedBy, Standing};
use estop_core::agent::status::AgentStatus;
use estop_core::guard::Guard;
use estop_core::policy::{Mode, Policy, Preset};
use estop_core::time::date;
use estop_core::tripwire::activity::{ActivityMode, Intensity};
use estop_store::Origin;
use serde::Serialize;
use utoipa::ToSchema;

use super::overrides;
use super::row::Found;
use super::snooze::SnoozeOut;
use crate::cases::ResolvedOut;
use crate::output::{AmountOut, moment, tenths};
use crate::state::App;

/// An agent.
#[derive(Serialize, ToSchema)]
#[schema(as = Agent)]
pub(crate) struct AgentOut {
    /// Its name.
    id: String,
    /// What its next request would get.
    state: StateOut,
    /// Nobody and no guard switched it off. Whether its next request passes says `state`.
    active: bool,
    /// `manual` or `kill_switch`; null while active.
    deactivated_by: Option<&'static str>,
    /// Which guard switched it off.
    deactivation_cause: Option<&'static str>,
    /// What is new is refused for now.
    paused: bool,
    /// Which guard paused it; null = a person.
    pause_cause: Option<&'static str>,
    role: Option<String>,
    /// `watch` or `strict`.
    preset: &'static str,
    kill_switch_enabled: bool,
    kill_switch_window_size: u8,
    kill_switch_threshold: f64,
    /// What its latest request scored.
    score: Option<f64>,
    /// In thousandths.
    health: Option<u16>,
    /// `IDLE`, `WORKING`, `LOOPING` or `RUNAWAY`; null = it has not called since the start.
    mode: Option<&'static str>,
    /// `LOW`, `NORMAL` or `HIGH`.
    intensity: Option<&'static str>,
    /// Requests under way.
    in_flight: u64,
    spent_today: Option<AmountOut>,
    spent_this_month: Option<AmountOut>,
    /// Held for requests under way.
    reserved: Option<AmountOut>,
    /// The day the clock once showed, later than today: until then a day or month of its budget begins only where the clock
    /// comes to it by ticking. `POST /api/budgets/renew` ends that. Null = its budget is in the present.
    budget_latest_day: Option<String>,
    /// Runs in memory.
    runs: u64,
    /// Guards that work as in shadow for a while.
    snoozes: Vec<SnoozeOut>,
    /// `config` if the configuration names it, else where it was first named: `api` or `traffic`.
    origin: &'static str,
    /// Grows with each change; also the ETag.
    version: u64,
    created_at: Option<String>,
    updated_at: Option<String>,
    last_seen_at: Option<String>,
}

/// What an agent's next request would get, why, and until when.
#[derive(Serialize, ToSchema)]
#[schema(as = AgentState)]
pub(crate) struct StateOut {
    /// `active`, `watched`, `rate_limited`, `cooling_down`, `outside_hours`, `model_refused`, `paused`, `at_run_limit`,
    /// `budget_spent`, `stopped` or `shut`.
    kind: &'static str,
    /// Whether its next request passes. At a run's limit it may, to sum up.
    passes: bool,
    /// In a few words: `outside hours until 08:00`.
    label: String,
    /// Why, and what a person can do.
    sentence: String,
    /// When it ends by itself; null = it does not, or nobody knows.
    until: Option<String>,
    /// The guard that refuses, would refuse if it were enforced, or lets through no more than a summary.
    guard: Option<&'static str>,
    /// Which person stopped or paused it, or who or what pressed the emergency stop.
    by: Option<String>,
}

impl From<AgentStatus> for StateOut {
    fn from(status: AgentStatus) -> StateOut {
        StateOut {
            kind: status.kind.name(),
            passes: status.passes,
            label: status.label,
            sentence: status.sentence,
            until: status.until.map(moment),
            guard: status.guard.map(Guard::name),
            by: status.by.map(Into::into),
        }
    }
}

/// What a step did to an agent.
#[derive(Serialize, ToSchema)]
#[schema(as = SteeredAgent)]
pub(crate) struct AgentCommandOut {
    #[serde(flatten)]
    pub(super) agent: AgentOut,
    /// What was done, and what still stands in the agent's way.
    pub(super) message: String,
    /// Cases that are answered by it.
    pub(super) resolved: ResolvedOut,
}

impl AgentOut {
    pub(crate) fn of(app: &App, found: &Found) -> AgentOut {
        let (stored, live) = (found.stored.as_ref(), found.view());
        let policy = policy(app, found);
        let shown = ShownStanding::of(found.standing());
        let role =
            live.and_then(|view| view.role.as_deref()).or(stored.and_then(|agent| agent.role.as_deref()));
        let at = |at: Option<i64>| at.map(moment);
        AgentOut {
            id: found.name().to_owned(),
            state: found.status(app).into(),
            active: shown.active,
            deactivated_by: shown.deactivated_by,
            deactivation_cause: shown.deactivation_cause,
            paused: shown.paused,
            pause_cause: shown.pause_cause,
            role: role.map(str::to_owned),
            preset: preset_name(policy.preset),
            kill_switch_enabled: policy.modes[Guard::Loop] == Mode::Enforce,
            kill_switch_window_size: policy.loops.window_size,
            kill_switch_threshold: tenths(policy.loops.threshold_tenths.into()),
            score: live.and_then(|view| view.score).map(|finding| tenths(finding.score)),
            health: live.map(|view| view.health),
            mode: live.map(|view| mode_name(view.activity.mode)),
            intensity: live.map(|view| intensity_name(view.activity.intensity)),
            in_flight: live.map_or(0, |view| view.in_flight as u64),
            spent_today: live.map(|view| view.spent_today.into()),
            spent_this_month: live.map(|view| view.spent_this_month.into()),
            reserved: live.map(|view| view.reserved.into()),
            budget_latest_day: live.and_then(|view| view.budget_latest_day).map(date),
            runs: live.map_or(0, |view| view.runs.len() as u64),
            snoozes: live.into_iter().flat_map(|view| &view.snoozes).map(SnoozeOut::from).collect(),
            origin: origin_name(origin(app, found)),
            version: found.version(),
            created_at: at(stored.map(|agent| agent.created_at)),
            updated_at: at(stored.map(|agent| agent.updated_at)),
            last_seen_at: at(stored.and_then(|agent| agent.last_seen_at)),
        }
    }
}

/// An agent's first call may come before anybody looks: the configuration names it all the same.
fn origin(app: &App, found: &Found) -> Origin {
    match found.stored.as_ref().map_or(Origin::Traffic, |agent| agent.origin) {
        _ if found.is_in_file(app) => Origin::Config,
        // It was taken out of the file since.
        Origin::Config => Origin::Traffic,
        origin @ (Origin::Api | Origin::Traffic) => origin,
    }
}

/// The rules in force, or those that would be if it called.
pub(crate) fn policy(app: &App, found: &Found) -> Policy {
    if let Some(view) = found.view() {
        return Policy::clone(&view.policy);
    }
    let role = found.stored.as_ref().and_then(|agent| agent.role.as_deref());
    let file = (app.policy_file)();
    let mut policy = file.resolve(Some(found.name()), role);
    if let Some(agent) = &found.stored {
        overrides::lay_kill_switch(&mut policy, agent);
    }
    policy
}

struct ShownStanding {
    active: bool,
    paused: bool,
    deactivated_by: Option<&'static str>,
    deactivation_cause: Option<&'static str>,
    pause_cause: Option<&'static str>,
}

impl ShownStanding {
    fn of(standing: Standing) -> ShownStanding {
        let active = ShownStanding {
            active: true,
            paused: false,
            deactivated_by: None,
            deactivation_cause: None,
            pause_cause: None,
        };
        match standing {
            Standing::Active => active,
            Standing::Paused { cause, .. } => {
                ShownStanding { paused: true, pause_cause: cause.map(Cause::name), ..active }
            }
            Standing::Inactive { by: DeactivatedBy::Manual, .. } => {
                ShownStanding { active: false, deactivated_by: Some("manual"), ..active }
            }
            Standing::Inactive { by: DeactivatedBy::KillSwitch(cause), .. } => ShownStanding {
                active: false,
                deactivated_by: Some("kill_switch"),
                deactivation_cause: Some(cause.name()),
                ..active
            },
        }
    }
}

/// A preset's name.
pub(crate) fn preset_name(preset: Preset) -> &'static str {
    match preset {
        Preset::Watch => "watch",
        Preset::Strict => "strict",
    }
}

fn mode_name(mode: ActivityMode) -> &'static str {
    match mode {
        ActivityMode::Idle => "IDLE",
        ActivityMode::Working => "WORKING",
        ActivityMode::Looping => "LOOPING",
        ActivityMode::Runaway => "RUNAWAY",
    }
}

fn intensity_name(intensity: Intensity) -> &'static str {
    match intensity {
        Intensity::Low => "LOW",
        Intensity::Normal => "NORMAL",
        Intensity::High => "HIGH",
    }
}

fn origin_name(origin: Origin) -> &'static str {
    match origin {
        Origin::Config => "config",
        Origin::Api => "api",
        Origin::Traffic => "traffic",
    }
}
