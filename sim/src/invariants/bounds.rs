//! Nothing grows without end, wakes in the past or heals beyond its cap.

use estop_core::agent::standing::Standing;
use estop_core::event::EventKind;

use super::Step;
use crate::broken::{Holds, ensure};
use crate::model::Model;

const CONVERSATIONS_MAX: usize = 64;
/// The largest window a policy may ask for.
const WINDOW_MAX: usize = 100;
const IN_FLIGHT_MAX: usize = 1024;
const HEALTH_MAX: u16 = 1000;
const HEALTH_AFTER_ACTIVATION: u16 = 800;

/// Windows, conversations and requests under way have a maximum.
pub(super) fn windows_are_bounded(step: &Step<'_>, _: &Model) -> Holds {
    let seen = &step.after;
    let bounded = seen.conversations <= CONVERSATIONS_MAX
        && seen.longest_window <= WINDOW_MAX
        && seen.in_flight <= IN_FLIGHT_MAX;
    ensure(bounded, "windows_are_bounded", || format!("{seen:?}"))
}

/// Health is at most full, and never heals beyond the policy's cap (TW-5).
pub(super) fn health_stays_in_bounds(step: &Step<'_>, _: &Model) -> Holds {
    let by_person =
        matches!(step.event.what, EventKind::AgentActivated { .. } | EventKind::AgentResumed { .. });
    let cap = step.policy.gate.recovery_cap.max(if by_person { HEALTH_AFTER_ACTIVATION } else { 0 });
    let (before, after) = (step.before.health, step.after.health);
    ensure(after <= HEALTH_MAX && after <= before.max(cap), "health_stays_in_bounds", || {
        format!("health went from {before} to {after}, the cap is {cap}")
    })
}

/// Whoever is switched on again starts with empty windows and health 800 (LD-4).
pub(super) fn activation_starts_afresh(step: &Step<'_>, _: &Model) -> Holds {
    let EventKind::AgentActivated { .. } = step.event.what else { return Ok(()) };
    if step.before.standing == Standing::Active {
        return Ok(());
    }
    let fresh = step.after.conversations == 0 && step.after.health == HEALTH_AFTER_ACTIVATION;
    ensure(fresh, "activation_starts_afresh", || format!("{:?}", step.after))
}

/// A tick does what was due: the next one is later, so that nobody wakes in a circle.
pub(super) fn wakes_move_on(step: &Step<'_>, model: &Model) -> Holds {
    let EventKind::Tick = step.event.what else { return Ok(()) };
    ensure(step.wake.is_none_or(|wake| wake.at.0 > model.now), "wakes_move_on", || {
        format!("it is {} and the next wake is {:?}", model.now, step.wake)
    })
}
