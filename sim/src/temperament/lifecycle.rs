//! Runs that are started, put to sleep, woken, completed and extended in any order, legal or not.

use estop_core::event::EventKind;
use estop_core::ids::{Hash64, Name};

use super::mind::{Mind, new_step, plain};
use super::{Act, Deed};
use crate::prng::Rng;

/// One thing to one of a few runs. Now and then an agent floods with runs nobody needs.
pub(super) fn lifecycle(mind: &mut Mind, rng: &mut Rng) -> Act {
    if rng.per_mille(1) {
        return flood(mind, rng);
    }
    let run: Option<Name> = match rng.below(8) {
        0 | 1 => None,
        n => Some(format!("r{n}").into()),
    };
    let deed = match rng.below(16) {
        0 | 1 => plain(EventKind::RunStarted { attended: rng.per_mille(500), tags: None, limits: None }),
        2 => plain(EventKind::RunSlept),
        3 => plain(EventKind::RunWoke),
        4 => plain(EventKind::RunCompleted),
        5 => plain(EventKind::RunExtended { by: "ann".into() }),
        6 | 7 => plain(EventKind::PromptSubmitted),
        8..=11 => {
            let tool = rng.pick(&["bash", "bash", "report_blocked"]);
            let action = Hash64(rng.bits());
            let (requested, planned) = mind.tool(tool, action, rng);
            Deed::Tool(requested, planned)
        }
        _ => mind.ask_deed(vec![new_step("bash", rng)], rng),
    };
    Act { deeds: vec![(run, deed)], rest_ms: mind.rest(rng) / 4 }
}

/// More runs than are remembered.
fn flood(mind: &mut Mind, rng: &mut Rng) -> Act {
    let first = rng.below(1_000);
    let started = |n: u64| {
        (
            Some(format!("flood-{n}").into()),
            plain(EventKind::RunStarted { attended: false, tags: None, limits: None }),
        )
    };
    Act { deeds: (first..first + 300).map(started).collect(), rest_ms: mind.rest(rng) }
}
