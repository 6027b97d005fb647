//! What is stopped stays stopped: by the red button, a person, a guard or the end of a run.

use estop_core::agent::standing::{DeactivatedBy, Standing};
use estop_core::decision::Effect;
use estop_core::event::EventKind;

use super::Step;
use crate::broken::{Holds, ensure};
use crate::model::runs::RunIs;
use crate::model::{May, Model};

/// An event that carries a shut gate is refused, whatever else.
pub(super) fn nothing_passes_a_shut_gate(step: &Step<'_>, _: &Model) -> Holds {
    let Some(channel) = step.event.what.channel() else { return Ok(()) };
    ensure(step.event.gate.lets_pass(channel) || !step.passes(), "nothing_passes_a_shut_gate", || {
        format!("the gate was {:?}", step.event.gate)
    })
}

/// After a deactivation or a pause nothing is allowed until a person says so. A pause lets what runs run.
pub(super) fn nothing_passes_while_stopped(step: &Step<'_>, model: &Model) -> Holds {
    let runs_already = matches!(step.event.what, EventKind::StreamProgressed(_));
    let may = match model.may {
        May::Work => true,
        May::NotWhilePaused => runs_already,
        May::NotWhileOff => false,
    };
    ensure(may || !step.passes(), "nothing_passes_while_stopped", || {
        format!("the agent may not work: {:?}", model.may)
    })
}

/// A stream goes on only while its request is under way: what nobody pays for is cut, and so is what its run's
/// escalation has ended.
pub(super) fn only_what_is_under_way_streams(step: &Step<'_>, model: &Model) -> Holds {
    let EventKind::StreamProgressed(p) = &step.event.what else { return Ok(()) };
    let run = model.open.get(&p.request).map(|open| model.runs.is(open.run));
    let goes_on = run.is_some_and(|is| is != Some(RunIs::Escalated) || model.runs.lost_track());
    ensure(goes_on || !step.passes(), "only_what_is_under_way_streams", || match run {
        None => "nothing is known of its request".to_owned(),
        Some(is) => format!("its run is {is:?}"),
    })
}

/// A completed or escalated run asks in vain.
pub(super) fn nothing_passes_in_an_ended_run(step: &Step<'_>, model: &Model) -> Holds {
    if !(step.is_allowed() && belongs_to_run(&step.event.what)) || model.runs.lost_track() {
        return Ok(());
    }
    let is = model.runs.get(&step.event.run).map_or(RunIs::Open, |run| run.is);
    ensure(is == RunIs::Open, "nothing_passes_in_an_ended_run", || format!("the run is {is:?}"))
}

/// After a trip: three requests within 60 s, and of tools only those to wrap up with (CB-6).
pub(super) fn a_tripped_run_only_sums_up(step: &Step<'_>, model: &Model) -> Holds {
    if !(step.is_allowed() && belongs_to_run(&step.event.what)) || model.runs.lost_track() {
        return Ok(());
    }
    let Some(run) = model.runs.get(&step.event.run).filter(|run| run.is_tripped()) else { return Ok(()) };
    let fits = if let EventKind::ToolRequested(t) = &step.event.what {
        step.policy.limits.wrap_up_tools.contains(&t.tool)
    } else {
        run.may_sum_up(model.now)
    };
    ensure(fits, "a_tripped_run_only_sums_up", || format!("the run: {run:?}"))
}

/// Nobody can be asked to sum up a run that is over.
pub(super) fn an_ended_run_does_not_trip(step: &Step<'_>, model: &Model) -> Holds {
    if model.runs.lost_track() {
        return Ok(());
    }
    for effect in &step.decision.effects {
        let Effect::RunTripped { run, .. } = effect else { continue };
        let is = model.runs.get(run).map_or(RunIs::Open, |run| run.is);
        ensure(is == RunIs::Open, "an_ended_run_does_not_trip", || {
            format!("run {run:?} is {is:?}, yet it trips")
        })?;
    }
    Ok(())
}

/// Each stop by a guard is told when it happens, once, with the cause the agent's standing shows.
pub(super) fn a_stop_is_told_once(step: &Step<'_>, _: &Model) -> Holds {
    let stops: Vec<&Effect> = step
        .decision
        .effects
        .iter()
        .filter(|e| matches!(e, Effect::Deactivated { .. } | Effect::Paused { .. }))
        .collect();
    let twice = stops.iter().enumerate().any(|(at, stop)| stops[..at].contains(stop));
    let changed = step.before.standing != step.after.standing && !twice;
    let told = match (step.after.standing, stops.last()) {
        (
            Standing::Inactive { by: DeactivatedBy::KillSwitch(cause), .. },
            Some(Effect::Deactivated { cause: told }),
        ) => changed && cause == *told,
        (Standing::Paused { cause, .. }, Some(Effect::Paused { cause: told })) => {
            changed && cause == Some(*told)
        }
        (
            Standing::Inactive { by: DeactivatedBy::KillSwitch(_), .. }
            | Standing::Paused { cause: Some(_), .. },
            None,
        ) => !changed,
        (_, Some(_)) => false,
        (Standing::Active | Standing::Paused { .. } | Standing::Inactive { .. }, None) => true,
    };
    ensure(told, "a_stop_is_told_once", || {
        format!(
            "standing went from {:?} to {:?}, told was {stops:?}",
            step.before.standing, step.after.standing
        )
    })
}

/// No decision both lets something through and switches the agent off: the shell would start what it must end.
pub(super) fn what_is_allowed_is_not_stopped_at_once(step: &Step<'_>, _: &Model) -> Holds {
    let stops = step.decision.effects.iter().any(|e| matches!(e, Effect::Deactivated { .. }));
    ensure(!(stops && step.is_allowed()), "what_is_allowed_is_not_stopped_at_once", || {
        format!("effects {:?}", step.decision.effects)
    })
}

/// The judge's standing is what its effects and the people made it.
pub(super) fn standing_is_known(step: &Step<'_>, model: &Model) -> Holds {
    let shown = match step.after.standing {
        Standing::Active => May::Work,
        Standing::Paused { .. } => May::NotWhilePaused,
        Standing::Inactive { .. } => May::NotWhileOff,
    };
    ensure(shown == model.may, "standing_is_known", || {
        format!("the judge says {shown:?}, the model {:?}", model.may)
    })
}

fn belongs_to_run(what: &EventKind) -> bool {
    matches!(what, EventKind::RequestReceived(_) | EventKind::ToolRequested(_) | EventKind::PromptSubmitted)
}
