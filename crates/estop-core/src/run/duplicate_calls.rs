//! Calls that are seen twice: by a hook or in an answer, and again at the gate of their MCP server (CB-3).
//!
//! Each call that was counted stands for one at the gate, so that no number of calls hides behind one.

use serde::{Deserialize, Serialize};

use crate::event::ToolRequested;
use crate::fingerprint::CallFingerprint;
use crate::ids::{CallId, Hash64, Name};
use crate::run::report_tool::is_same_tool;

/// A call at the gate of an MCP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AtGate {
    call: CallId,
    action: Hash64,
}

impl AtGate {
    pub(crate) fn of(t: &ToolRequested) -> AtGate {
        AtGate { call: t.call, action: t.action }
    }
}

/// Whether a call seen elsewhere is the one at the gate. Where its client has another name for the tool the arguments
/// cannot be compared: the hash is of both.
pub(crate) fn is_same_call(tool: &str, action: Hash64, at_gate: &ToolRequested) -> bool {
    action == at_gate.action || (tool != &*at_gate.tool && is_same_tool(tool, &at_gate.tool))
}

/// Calls of the latest answer, for the gate that sees them again.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct AnnouncedCalls {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    calls: Vec<AnnouncedCall>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct AnnouncedCall {
    tool: Name,
    action: Hash64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_gate: Option<AtGate>,
}

impl AnnouncedCalls {
    pub(super) fn of(calls: &[CallFingerprint]) -> AnnouncedCalls {
        let call =
            |c: &CallFingerprint| AnnouncedCall { tool: c.tool.clone(), action: c.action, at_gate: None };
        AnnouncedCalls { calls: calls.iter().map(call).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The gate asks once more about a call that has its pair.
    pub(super) fn is_paired(&self, t: &ToolRequested) -> bool {
        self.calls.iter().any(|c| c.at_gate == Some(AtGate::of(t)))
    }

    /// Where a call at the gate has its pair.
    pub(super) fn pair_of(&self, t: &ToolRequested) -> Option<usize> {
        self.calls.iter().position(|c| c.at_gate.is_none() && is_same_call(&c.tool, c.action, t))
    }

    pub(super) fn pair(&mut self, t: &ToolRequested) {
        if let Some(call) = self.pair_of(t).and_then(|at| self.calls.get_mut(at)) {
            call.at_gate = Some(AtGate::of(t));
        }
    }
}
