//! Agents whose MCP servers stand behind a gate: a hook may have seen a call before the gate does, and scripts make calls
//! that no hook sees.

use estop_core::event::{ToolGate, ToolRequested};
use estop_core::ids::Hash64;

use super::mind::Mind;
use super::{Act, Deed};
use crate::prng::Rng;

/// A call by hook, mostly; the same at the gate, mostly; and up to three more that only the gate sees.
pub(super) fn gated(mind: &mut Mind, rng: &mut Rng) -> Act {
    if mind.turn >= mind.task {
        mind.begin_task(rng.between(5, 120), rng);
        mind.name_run(rng.per_mille(700));
    }
    mind.turn += 1;
    let tool = rng.pick(&["mcp__db__query", "mcp__db__query", "report_blocked"]);
    let action = Hash64(rng.bits());
    let mut deeds = Vec::new();
    if rng.per_mille(800) {
        let (requested, plan) = mind.tool(tool, action, rng);
        deeds.push((mind.run.clone(), Deed::Tool(requested, plan)));
    }
    let first = if rng.per_mille(800) { action } else { Hash64(rng.bits()) };
    for nth in 0..rng.between(1, 4) {
        let action = if nth == 0 { first } else { Hash64(rng.bits()) };
        let (requested, plan) = mind.tool(tool, action, rng);
        let requested = ToolRequested { gate: ToolGate::Mcp, test_run: false, ..requested };
        deeds.push((mind.run.clone(), Deed::Tool(requested, plan)));
    }
    if rng.per_mille(200) {
        let asked = mind.ask_aside(rng);
        deeds.push((mind.run.clone(), asked));
    }
    Act { deeds, rest_ms: mind.rest(rng) / 4 }
}
