//! What a run has used, and how much of a limit that is (CB-1).

use serde::{Deserialize, Serialize};

use crate::policy::{Limit, LimitName};

/// One limit and how much of it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitUse {
    /// Which.
    pub limit: LimitName,
    /// Counted so far.
    pub current: u32,
    /// Reaching this trips.
    pub max: u32,
}

impl LimitUse {
    /// Why a run was tripped, in seed 3's words: `max tool calls (200/200)`, `max active duration (7200s)`,
    /// `max sleep duration exceeded (86400s)`.
    pub fn reason(&self) -> String {
        let LimitUse { limit, current, max } = self;
        match limit {
            LimitName::ToolCalls | LimitName::Iterations | LimitName::Turns => {
                format!("{} ({current}/{max})", limit.text())
            }
            LimitName::ActiveDuration => format!("{} ({max}s)", limit.text()),
            LimitName::SleepDuration => format!("{} exceeded ({max}s)", limit.text()),
        }
    }

    pub(crate) fn percent(&self) -> u64 {
        u64::from(self.current) * 100 / u64::from(self.max.max(1))
    }

    pub(crate) fn is_reached(&self) -> bool {
        self.current >= self.max
    }

    pub(crate) fn is_near(&self, warning_bp: u16) -> bool {
        u64::from(self.current) * 10_000 >= u64::from(self.max) * u64::from(warning_bp)
    }
}

/// Seed 3's warning.
impl std::fmt::Display for LimitUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let LimitUse { limit, current, max } = self;
        write!(
            f,
            "⚠️ Approaching limit: {} at {current}/{max} ({}%). Plan to wrap up soon.",
            limit.text(),
            self.percent()
        )
    }
}

/// What a run has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Tool calls.
    pub tool_calls: u32,
    /// Test-then-fix cycles.
    pub iterations: u32,
    /// Turns.
    pub turns: u32,
    /// Seconds in ACTIVE.
    pub active_s: u32,
}

/// A limit times the allowances a person granted.
pub(crate) fn granted(limit: Limit, allowances: u32) -> Option<u32> {
    Some(limit.get()?.saturating_mul(allowances.max(1)))
}
