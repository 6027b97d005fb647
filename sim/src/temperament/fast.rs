//! Those who are too fast: accelerating, many at once, or deaf to a refusal.

use super::Act;
use super::mind::{Mind, new_step};
use crate::prng::Rng;

/// Each step comes after seven tenths of the time of the one before, down to next to nothing.
pub(super) fn sprinter(mind: &mut Mind, rng: &mut Rng) -> Act {
    if mind.turn >= mind.task {
        mind.begin_task(rng.between(10, 60), rng);
    }
    mind.turn += 1;
    let (request, mut plan) = mind.ask(vec![new_step("bash", rng)], rng);
    let shrunk = (0..mind.turn.min(30)).fold(8_000_u64, |ms, _| ms * 7 / 10);
    plan.took_ms = shrunk / 2;
    let rest_ms = if mind.turn == mind.task { mind.pace_ms * 8 } else { shrunk.max(50) };
    Act { deeds: vec![(mind.run.clone(), super::Deed::Ask(request, plan))], rest_ms }
}

/// Up to forty requests at once, each in a conversation of its own or all in one.
pub(super) fn fan_out(mind: &mut Mind, rng: &mut Rng) -> Act {
    let together = rng.per_mille(300);
    let mut deeds = Vec::new();
    for _ in 0..rng.between(1, 40) {
        let deed =
            if together { mind.ask_deed(vec![new_step("bash", rng)], rng) } else { mind.ask_aside(rng) };
        deeds.push((mind.run.clone(), deed));
    }
    Act { deeds, rest_ms: mind.rest(rng) * 10 }
}

/// Works, and asks again at once when it is refused.
pub(super) fn retry_storm(mind: &mut Mind, refused: bool, rng: &mut Rng) -> Act {
    let act = super::workers::steady(mind, rng);
    let storms = refused && !rng.per_mille(100);
    Act { rest_ms: if storms { rng.between(0, 300) } else { act.rest_ms }, ..act }
}
