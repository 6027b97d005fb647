//! Those who work: nothing they do is done twice with the same result.

use estop_core::event::EventKind;
use estop_core::fingerprint::StepFingerprint;
use estop_core::ids::Hash64;

use super::mind::{Mind, new_step, plain};
use super::{Act, Deed};
use crate::prng::Rng;

/// Polls of one thing in a row. Twenty calls of one kind without a break are a loop, even with new results (LD-6 c).
const POLLS: u64 = 15;

/// Asks, then works through tool calls; half of its tasks are named runs.
pub(super) fn steady(mind: &mut Mind, rng: &mut Rng) -> Act {
    if mind.turn >= mind.task {
        return next_task(mind, rng);
    }
    mind.turn += 1;
    let steps = if mind.turn == 1 { Vec::new() } else { some_steps(rng) };
    let deed = mind.ask_deed(steps, rng);
    mind.only(deed, rng)
}

fn next_task(mind: &mut Mind, rng: &mut Rng) -> Act {
    let mut deeds = Vec::new();
    if mind.run.is_some() {
        deeds.push((mind.run.clone(), plain(EventKind::RunCompleted)));
    }
    mind.begin_task(rng.between(3, 30), rng);
    mind.name_run(rng.per_mille(500));
    if mind.run.is_some() && rng.per_mille(500) {
        deeds.push((
            mind.run.clone(),
            plain(EventKind::RunStarted { attended: rng.per_mille(300), tags: None, limits: None }),
        ));
    }
    Act { deeds, rest_ms: mind.rest(rng) }
}

fn some_steps(rng: &mut Rng) -> Vec<StepFingerprint> {
    (0..rng.between(1, 3)).map(|_| new_step("bash", rng)).collect()
}

/// Each turn is a person's new sentence; now and then a message goes through a relay.
pub(super) fn chatter(mind: &mut Mind, rng: &mut Rng) -> Act {
    let relay = || "telegram".into();
    let deed = match rng.below(10) {
        0 => plain(EventKind::MessageIn { relay: relay() }),
        1 => plain(EventKind::MessageOut { relay: relay() }),
        _ => {
            mind.begin_ask(rng);
            mind.ask_deed(Vec::new(), rng)
        }
    };
    mind.only(deed, rng)
}

/// The same call each time, another answer each time, something else in between.
pub(super) fn poller(mind: &mut Mind, refused: bool, rng: &mut Rng) -> Act {
    // What was refused is asked again: the call in between must not get lost.
    mind.turn += u64::from(!refused);
    if mind.turn > 200 {
        mind.begin_task(0, rng);
    }
    let step = if mind.turn.is_multiple_of(POLLS) {
        new_step("bash", rng)
    } else {
        StepFingerprint { action: mind.habit[0], ..new_step("poll", rng) }
    };
    let deed = mind.ask_deed(vec![step], rng);
    mind.only(deed, rng)
}

/// The same sentence for each item, with an answer of its own.
pub(super) fn batch(mind: &mut Mind, rng: &mut Rng) -> Act {
    let deed = mind.ask_deed(Vec::new(), rng);
    mind.only(deed, rng)
}

/// One piece of work, then hours of nothing.
pub(super) fn night(mind: &mut Mind, rng: &mut Rng) -> Act {
    let act = steady(mind, rng);
    let rest_ms = if rng.per_mille(50) { rng.between(1, 6) * 3_600_000 } else { act.rest_ms };
    Act { rest_ms, ..act }
}

/// A named run that sleeps for long and goes on.
pub(super) fn sleeper(mind: &mut Mind, rng: &mut Rng) -> Act {
    mind.turn += 1;
    if mind.turn > mind.task {
        mind.begin_task(rng.between(20, 60), rng);
        mind.name_run(true);
        return mind.only(plain(EventKind::RunStarted { attended: false, tags: None, limits: None }), rng);
    }
    match mind.turn % 6 {
        1 => Act { rest_ms: rng.spread(1_000, 7_200_000), ..mind.only(plain(EventKind::RunSlept), rng) },
        2 => mind.only(plain(EventKind::RunWoke), rng),
        _ => {
            let step = StepFingerprint { action: Hash64(rng.bits()), ..new_step("bash", rng) };
            let deed: Deed = mind.ask_deed(vec![step], rng);
            mind.only(deed, rng)
        }
    }
}
