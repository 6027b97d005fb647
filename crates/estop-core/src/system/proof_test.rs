//! Proof tests: the stop, tried out on a canary while everybody else works. A stop that nobody tries is a hope.

use crate::ids::Name;

/// The reserved agent on which the stop is tried out. It is nobody's agent: lists and counts leave it out.
pub const CANARY: &str = "estop-canary";

/// What a proof test found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProofTest {
    /// When, by the clock on the wall.
    pub at: i64,
    /// Who asked for it.
    pub by: Name,
    /// From the trigger to the last step, in microseconds.
    pub took_us: u64,
    /// Everything that was tried, in order.
    pub steps: Vec<ProofStep>,
}

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProofStep {
    /// Which: `trigger`, `gate`, …
    pub name: Name,
    /// It did what it must.
    pub passed: bool,
    /// From the trigger until it was seen, in microseconds; 0 = it came before the trigger.
    pub took_us: u64,
    /// What was seen.
    pub what: String,
}

impl ProofTest {
    /// Everything did what it must.
    pub fn passed(&self) -> bool {
        !self.steps.is_empty() && self.steps.iter().all(|step| step.passed)
    }
}

/// When the stop was last tried out, and how often it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProofTests {
    /// The last one; `None` = never.
    pub last: Option<ProofTest>,
    /// At least once in so many days; `None` = nobody wants to be told.
    pub every_days: Option<u32>,
}

impl ProofTests {
    /// Whether it is time for one: never tried, the last one failed, or too long ago.
    pub fn is_overdue(&self, wall: i64) -> bool {
        const DAY_MS: i64 = 86_400_000;
        let Some(days) = self.every_days else { return false };
        self.last.as_ref().is_none_or(|last| {
            !last.passed() || wall.saturating_sub(last.at) > i64::from(days).saturating_mul(DAY_MS)
        })
    }
}

/// Why the stop cannot be tried out just now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofTestError {
    /// Something is shut, so that there is nothing to try.
    #[error("the system is not running with everything open: there is nothing to try the stop on")]
    NotRunning,
    /// Another one is under way.
    #[error("another proof test is under way: wait for it to end")]
    UnderWay,
    /// A real kill came in between.
    #[error("the button was pressed in earnest meanwhile: the proof test was broken off")]
    Interrupted,
    /// What it takes could not be had.
    #[error("the proof test could not begin: {0}")]
    CannotBegin(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ks_5_a_proof_test_is_due_when_there_was_none_or_it_failed_or_is_long_ago() {
        let step = |passed| ProofStep { name: "gate".into(), passed, took_us: 1, what: String::new() };
        let at = |at, passed| ProofTest { at, by: "ann".into(), took_us: 1, steps: vec![step(passed)] };
        let every = |last| ProofTests { last, every_days: Some(30) };
        let day = 86_400_000;
        assert!(every(None).is_overdue(0));
        assert!(every(Some(at(0, false))).is_overdue(1));
        assert!(!every(Some(at(0, true))).is_overdue(30 * day));
        assert!(every(Some(at(0, true))).is_overdue(30 * day + 1));
        assert!(!ProofTests::default().is_overdue(0), "nobody asked for any");
        assert!(!ProofTest { at: 0, by: "ann".into(), took_us: 0, steps: Vec::new() }.passed());
    }
}
