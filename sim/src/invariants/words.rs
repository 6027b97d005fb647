//! Decisions say why, name the guard that decided, and keep to the modes of the policy.

use estop_core::decision::{Guard, Outcome, Retry, Ruling};
use estop_core::guards::rate::IN_FLIGHT_MAX;
use estop_core::policy::{Mode, Policy};

use super::Step;
use crate::broken::{Holds, ensure};
use crate::model::Model;

/// A reason is a sentence.
pub(super) fn every_decision_has_a_reason(step: &Step<'_>, _: &Model) -> Holds {
    let reason = step.decision.reason();
    ensure(!reason.trim().is_empty(), "every_decision_has_a_reason", || "the reason is empty".to_owned())
}

/// A refusal is by the first guard that stops; without one, nothing is refused.
pub(super) fn refusals_name_their_guard(step: &Step<'_>, _: &Model) -> Holds {
    let stops = step.decision.verdicts.first_stop();
    let named = match step.decision.outcome {
        Outcome::Refuse { by, .. } => stops == Some(by),
        Outcome::Allow => stops.is_none(),
        // What was only told cannot be refused; a stop among its verdicts works on what comes next.
        Outcome::Noted => true,
    };
    ensure(named, "refusals_name_their_guard", || format!("the first guard that stops is {stops:?}"))
}

/// Verdicts come in the order of the guards, each guard once (PO-1).
pub(super) fn guards_keep_their_order(step: &Step<'_>, _: &Model) -> Holds {
    let guards: Vec<Guard> = step.decision.verdicts.iter().map(|(guard, _)| guard).collect();
    ensure(guards.is_sorted_by(|a, b| a < b), "guards_keep_their_order", || format!("{guards:?}"))
}

/// A guard in shadow or off never stops, and one that is enforced never says it only would have (PO-4).
pub(super) fn modes_are_kept(step: &Step<'_>, model: &Model) -> Holds {
    for (guard, verdict) in step.decision.verdicts.iter() {
        let Some(mode) = mode_of(guard, step, model) else { continue };
        let kept = match verdict.ruling {
            Ruling::Stop => mode == Mode::Enforce,
            Ruling::WouldStop => mode == Mode::Shadow,
            Ruling::Off => mode == Mode::Off,
            Ruling::Pass | Ruling::Warn => mode != Mode::Off,
            Ruling::Skip => true,
        };
        ensure(kept, "modes_are_kept", || format!("{guard:?} is {mode:?} and says {verdict:?}"))?;
    }
    Ok(())
}

/// The mode a guard has for this event; `None` where the model cannot tell.
fn mode_of(guard: Guard, step: &Step<'_>, model: &Model) -> Option<Mode> {
    let Policy { modes, .. } = step.policy;
    Some(match (guard, guard.info().switch) {
        (_, None) => Mode::Enforce,
        // Memory has an end, whatever the policy says.
        (Guard::Rate, _) if model.open.len() >= IN_FLIGHT_MAX as usize => Mode::Enforce,
        (Guard::Breaker, _) if model.runs.lost_track() => return None,
        (Guard::Breaker, _) => match (model.runs.get(&step.event.run), &step.event.run) {
            (Some(run), _) => run.mode(modes),
            (None, Some(_)) => modes.breaker_unattended,
            (None, None) => modes[Guard::Breaker],
        },
        (guard, Some(_)) => modes[guard],
    })
}

/// "Try again" comes with a time to wait, and only from guards whose stop ends by itself (AN-2).
pub(super) fn retry_is_honest(step: &Step<'_>, _: &Model) -> Holds {
    let Outcome::Refuse { by, retry: Retry::AfterMs(ms) } = step.decision.outcome else { return Ok(()) };
    // A budget's only while others hold what it asks for: they end.
    let ends_by_itself = matches!(by, Guard::Rate | Guard::Gate | Guard::Budget);
    ensure(ms > 0 && ends_by_itself, "retry_is_honest", || format!("{by:?} says: again after {ms} ms"))
}
