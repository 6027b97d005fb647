//! How a run's test runs ended (CB-4): by hook, or by the request that brings the result.

use super::Run;
use crate::ended::Ended;
use crate::ids::Hash64;

/// Test runs whose result is awaited.
const AWAITED_TESTS_MAX: usize = 8;

impl Run {
    /// A test run was started; its result is awaited under `key`.
    pub(crate) fn await_test(&mut self, key: Hash64) {
        self.last_test = Some(Ended::Unknown);
        if self.awaited_tests.len() == AWAITED_TESTS_MAX {
            self.awaited_tests.remove(0);
        }
        self.awaited_tests.push(key);
    }

    /// A call ended; if it was a test run, a pass starts the count anew.
    pub(crate) fn tool_ended(&mut self, key: Hash64, ended: Ended) {
        let Some(at) = self.awaited_tests.iter().position(|t| *t == key) else { return };
        self.awaited_tests.remove(at);
        self.test_ended(ended);
    }

    /// The same, told by a hook. What it does not say, the next request may.
    pub(crate) fn hooked_tool_ended(&mut self, key: Hash64, ended: Ended) {
        self.ends_hooked = true;
        if ended == Ended::Unknown && self.awaited_tests.contains(&key) {
            self.untold_tests = self.untold_tests.saturating_add(1).min(AWAITED_TESTS_MAX as u8);
        }
        self.tool_ended(key, ended);
    }

    /// A request of a hooked run says how a test run ended. Heard only if no hook said it: Codex never tells an exit
    /// code by hook, and some clients have no hook after a tool.
    pub(crate) fn test_reported(&mut self, ended: Ended) {
        if self.untold_tests > 0 {
            self.untold_tests -= 1;
        } else if self.ends_hooked || self.awaited_tests.is_empty() {
            return;
        } else {
            self.awaited_tests.remove(0);
        }
        self.test_ended(ended);
    }

    /// Whether hooks left the end of a test run open.
    pub(crate) fn waits_for_test(&self) -> bool {
        self.untold_tests > 0
    }

    fn test_ended(&mut self, ended: Ended) {
        self.last_test = Some(ended);
        if ended == Ended::Ok {
            self.counts.iterations = 0;
        }
    }
}
