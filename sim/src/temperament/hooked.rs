//! Agents whose client has hooks: tool calls and prompts are seen, beside the requests that go through the proxy.

use estop_core::event::{Ended, EventKind};
use estop_core::fingerprint::StepFingerprint;
use estop_core::ids::Hash64;

use super::mind::{Mind, plain};
use super::{Act, Deed};
use crate::prng::Rng;

/// A prompt, then requests and the tool calls they lead to.
pub(super) fn hooked(mind: &mut Mind, rng: &mut Rng) -> Act {
    if mind.turn >= mind.task {
        mind.begin_task(rng.between(5, 80), rng);
        mind.name_run(rng.per_mille(700));
        mind.turn = 1;
        return mind.only(plain(EventKind::PromptSubmitted), rng);
    }
    mind.turn += 1;
    if rng.per_mille(60) {
        return mind.only(plain(EventKind::PromptSubmitted), rng);
    }
    let tool = rng.pick(&["bash", "edit", "read", "report_complete"]);
    let action = Hash64(rng.bits());
    let (requested, planned) = mind.tool(tool, action, rng);
    let (result, ended) = (planned.result, planned.ended);
    let step = StepFingerprint {
        tool: tool.into(),
        action,
        result,
        ended,
        test_run: false,
        words: Default::default(),
    };
    let asked = mind.ask_deed(vec![step], rng);
    let deeds = vec![(mind.run.clone(), Deed::Tool(requested, planned)), (mind.run.clone(), asked)];
    Act { deeds, rest_ms: mind.rest(rng) / 4 }
}

/// The same tool call with the same result, again and again, in spite of every deny (TL-1).
pub(super) fn looper(mind: &mut Mind, rng: &mut Rng) -> Act {
    if mind.turn >= mind.task {
        mind.begin_task(rng.between(10, 300), rng);
        mind.name_run(rng.per_mille(500));
    }
    mind.turn += 1;
    let (requested, mut planned) = mind.tool("bash", mind.habit[0], rng);
    planned.result = mind.habit[1];
    planned.ended = Ended::Ok;
    let fast = rng.spread(10, mind.pace_ms);
    Act { rest_ms: fast, ..mind.only(Deed::Tool(requested, planned), rng) }
}
