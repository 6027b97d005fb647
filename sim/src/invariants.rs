//! What must hold at each step, whoever the agent is and whatever the clocks do. One function for each invariant;
//! its name is what a broken run is reported under.

mod bounds;
mod limits;
mod money;
mod stops;
mod words;

use estop_core::decision::{Decision, Outcome};
use estop_core::engine::Wake;
use estop_core::event::Event;
use estop_core::policy::Policy;
use estop_core::time::Now;

use crate::broken::Holds;
use crate::judge::Seen;
use crate::model::Model;
use crate::temperament::Kind;

/// One event, its decision, and everything around them.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The clocks.
    pub now: Now,
    /// What happened.
    pub event: &'a Event,
    /// What was decided.
    pub decision: &'a Decision,
    /// The rules in force.
    pub policy: &'a Policy,
    /// The agent's temperament.
    pub kind: Kind,
    /// The judge before.
    pub before: Seen,
    /// The judge after.
    pub after: Seen,
    /// When the judge wants to be woken.
    pub wake: Option<Wake>,
}

impl Step<'_> {
    /// Whether something was asked and may go on.
    pub fn passes(&self) -> bool {
        self.event.what.channel().is_some() && self.decision.is_allowed()
    }

    /// Whether it was asked for and allowed.
    pub fn is_allowed(&self) -> bool {
        self.decision.outcome == Outcome::Allow
    }
}

/// A check of one step.
type Check = fn(&Step<'_>, &Model) -> Holds;

/// The model knows that time passed, but not yet what clocks did to runs.
const ON_TIME: &[Check] = &[stops::an_ended_run_does_not_trip];

/// The model knows what clocks did, but not yet what happened.
const ON_DECISION: &[Check] = &[
    stops::nothing_passes_a_shut_gate,
    stops::nothing_passes_while_stopped,
    stops::only_what_is_under_way_streams,
    stops::nothing_passes_in_an_ended_run,
    stops::a_tripped_run_only_sums_up,
    stops::a_stop_is_told_once,
    stops::what_is_allowed_is_not_stopped_at_once,
    money::budget_caps_hold,
    money::reservations_expire_in_time,
    limits::run_limits_hold,
    limits::rate_limit_holds,
    limits::watchdog_holds,
    limits::gate_rate_holds,
    limits::hours_hold,
    limits::only_allowed_models_are_asked,
    limits::loops_are_stopped,
    limits::churn_is_stopped,
    limits::retries_add_nothing,
    limits::healthy_agents_are_not_taken_for_loops,
    words::every_decision_has_a_reason,
    words::refusals_name_their_guard,
    words::guards_keep_their_order,
    words::modes_are_kept,
    words::retry_is_honest,
    bounds::windows_are_bounded,
    bounds::health_stays_in_bounds,
    bounds::activation_starts_afresh,
    bounds::wakes_move_on,
];

/// The model knows what happened, too.
const ON_STATE: &[Check] =
    &[money::reservations_are_conserved, stops::standing_is_known, limits::hook_loops_are_stopped];

/// Checks what time brought about, before the model takes that in.
pub fn check_time(step: &Step<'_>, model: &Model) -> Holds {
    ON_TIME.iter().try_for_each(|check| check(step, model))
}

/// Checks a decision, before the model takes it in.
pub fn check_decision(step: &Step<'_>, model: &Model) -> Holds {
    ON_DECISION.iter().try_for_each(|check| check(step, model))
}

/// Compares judge and model, after the model took it in.
pub fn check_state(step: &Step<'_>, model: &Model) -> Holds {
    ON_STATE.iter().try_for_each(|check| check(step, model))
}

/// How many invariants are checked at each step.
pub const fn count() -> usize {
    ON_TIME.len() + ON_DECISION.len() + ON_STATE.len()
}
