//! What hooks of an agent need from one to the next: numbers of calls, and warnings that nobody heard yet. Lost in a
//! restart, which costs a warning or the result of a call under way, and nothing else.

use std::collections::VecDeque;

use estop_core::ids::Name;
use estop_wire::hooks::CallNumbers;

/// Runs whose warning waits; past it the oldest is forgotten. Each next call of such a run warns again.
const WAITING_MAX: usize = 16;

/// What is kept between hooks of one agent.
#[derive(Default)]
pub(crate) struct HookMemory {
    /// Most agents have no hooks: made at the first.
    calls: Option<Box<CallNumbers>>,
    /// At most [`WAITING_MAX`], oldest first, one for each run.
    waiting: VecDeque<(Option<Name>, Box<str>)>,
}

impl HookMemory {
    /// Numbers of calls. `told` is how many records the agent has: each call has one, so numbers of the time before are
    /// not given again.
    pub(crate) fn calls(&mut self, told: u64) -> &mut CallNumbers {
        self.calls.get_or_insert_with(|| Box::new(CallNumbers::new(told)))
    }

    /// Has a warning wait. It says how things stand, so a later one replaces it.
    pub(crate) fn wait(&mut self, run: Option<&Name>, text: &str) {
        self.forget(run);
        if self.waiting.len() == WAITING_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back((run.cloned(), text.into()));
    }

    pub(crate) fn is_waiting(&self, run: Option<&Name>) -> bool {
        self.waiting.iter().any(|(of, _)| of.as_ref() == run)
    }

    pub(crate) fn take(&mut self, run: Option<&Name>) -> Option<String> {
        let at = self.waiting.iter().position(|(of, _)| of.as_ref() == run)?;
        self.waiting.remove(at).map(|(_, text)| text.into())
    }

    pub(crate) fn forget(&mut self, run: Option<&Name>) {
        self.waiting.retain(|(of, _)| of.as_ref() != run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cb_2_waiting_warnings_are_bounded_and_the_latest_counts() {
        let mut memory = HookMemory::default();
        let run = |n: usize| Name::from(format!("r{n}"));
        for n in 0..40 {
            memory.wait(Some(&run(n)), "160");
            memory.wait(Some(&run(n)), "161");
        }
        assert_eq!(memory.waiting.len(), WAITING_MAX);
        assert_eq!(memory.take(Some(&run(0))), None, "the oldest is forgotten");
        assert_eq!(memory.take(Some(&run(39))).as_deref(), Some("161"));
        assert!(!memory.is_waiting(Some(&run(39))), "said once");
        assert!(!memory.is_waiting(None), "the implicit run is another");
    }
}
