//! Those who go in circles.

use estop_core::event::Ended;
use estop_core::fingerprint::StepFingerprint;
use estop_core::ids::Hash64;

use super::Act;
use super::mind::Mind;
use crate::prng::Rng;

/// The same call with the same result, up to forty times; then something else, for where nobody stops it.
pub(super) fn looper(mind: &mut Mind, rng: &mut Rng) -> Act {
    advance(mind, 40, rng);
    let step = step(mind.habit[0], mind.habit[1], Ended::Ok);
    let steps = if mind.turn == 1 { Vec::new() } else { vec![step] };
    let deed = mind.ask_deed(steps, rng);
    mind.only(deed, rng)
}

/// Two to four calls in a circle.
pub(super) fn ping_pong(mind: &mut Mind, rng: &mut Rng) -> Act {
    advance(mind, 60, rng);
    let period = 2 + mind.habit[0].0 % 3;
    let at = (mind.turn % period) as usize;
    let deed = mind.ask_deed(vec![step(mind.habit[at], mind.habit[0], Ended::Ok)], rng);
    mind.only(deed, rng)
}

/// The same failure each time, other arguments each time.
pub(super) fn churner(mind: &mut Mind, rng: &mut Rng) -> Act {
    advance(mind, 30, rng);
    let deed = mind.ask_deed(vec![step(Hash64(rng.bits()), mind.habit[0], Ended::Failed)], rng);
    mind.only(deed, rng)
}

fn advance(mind: &mut Mind, acts: u64, rng: &mut Rng) {
    if mind.turn >= mind.task {
        mind.begin_task(acts, rng);
    }
    mind.turn += 1;
}

fn step(action: Hash64, result: Hash64, ended: Ended) -> StepFingerprint {
    StepFingerprint { tool: "bash".into(), action, result, ended, test_run: false, words: Default::default() }
}
