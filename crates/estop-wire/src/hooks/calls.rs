//! Numbers for tool calls, also for clients that have no ids: Gemini CLI and Copilot say twice "this tool with these
//! arguments", before and after, and nothing that ties the two together.

use std::collections::VecDeque;

use estop_core::fingerprint::signature;
use estop_core::ids::{CallId, Hash64};

use super::{HookFingerprint, HookIn};

/// Calls without an id that may be open at once, like the core's own limit. Past it the oldest is forgotten: its end
/// is then nobody's.
const OPEN_MAX: usize = 64;

/// JSON readers lose bits beyond 2^53, and numbers of calls are in the journal.
const BITS: u64 = (1 << 53) - 1;

/// Gives each call its number. One for each agent; the numbers of a call with an id follow from the id alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallNumbers {
    /// At most [`OPEN_MAX`], oldest first: what was asked, and its number.
    open: VecDeque<(Hash64, CallId)>,
    /// How many calls without an id there were.
    unnamed: u64,
}

impl CallNumbers {
    /// Starts again after a restart, past all numbers it can have given before. `seed` is different each time.
    pub fn new(seed: u64) -> CallNumbers {
        CallNumbers { open: VecDeque::new(), unnamed: seed }
    }

    /// The number of a call that is about to be made. Without an id, each is a new one.
    pub fn requested(&mut self, hook: &HookFingerprint) -> CallId {
        if let Some(id) = hook.named {
            return id;
        }
        let asked = hook.asked;
        self.unnamed = self.unnamed.wrapping_add(1);
        let id = number(&[asked, Hash64(self.unnamed)]);
        if self.open.len() == OPEN_MAX {
            self.open.pop_front();
        }
        self.open.push_back((asked, id));
        id
    }

    /// The number of a call that ended; without an id, the oldest open one with the same tool and arguments.
    pub fn finished(&mut self, hook: &HookFingerprint) -> Option<CallId> {
        if let Some(id) = hook.named {
            return Some(id);
        }
        let at = self.open.iter().position(|(open, _)| *open == hook.asked)?;
        self.open.remove(at).map(|(_, id)| id)
    }

    /// A call that was refused never ends.
    pub fn refused(&mut self, call: CallId) {
        self.open.retain(|(_, open)| *open != call);
    }
}

/// The number of a call that has an id.
pub(super) fn named(hook: &HookIn) -> Option<CallId> {
    let id = hook.tool.as_ref()?.id.as_deref()?;
    Some(number(&[signature::text(&hook.session), signature::text(id)]))
}

/// What a call without an id is known by: its session, and the tool with its arguments.
pub(super) fn asked(hook: &HookIn, action: Hash64) -> Hash64 {
    signature::mix(&[signature::text(&hook.session), action])
}

fn number(parts: &[Hash64]) -> CallId {
    CallId(signature::mix(parts).0 & BITS)
}
