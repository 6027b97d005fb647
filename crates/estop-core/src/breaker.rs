//! Circuit breakers (CB-1, CB-2): count, then compare; every limit before any warning.

use serde::{Deserialize, Serialize};

use crate::judgement::{Judgement, Level};
use crate::policy::Limit;
use crate::run::Caps;

/// A limit's name, as seed 3 says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitName {
    /// `max_tool_calls`
    ToolCalls,
    /// `max_iterations`
    Iterations,
    /// `max_turns`
    Turns,
    /// `max_active_duration`
    ActiveDuration,
    /// `max_sleep_duration`
    SleepDuration,
}

impl LimitName {
    /// The name agents and people read.
    pub fn text(self) -> &'static str {
        match self {
            LimitName::ToolCalls => "max tool calls",
            LimitName::Iterations => "max retry iterations",
            LimitName::Turns => "max conversation turns",
            LimitName::ActiveDuration => "max active duration",
            LimitName::SleepDuration => "max sleep duration",
        }
    }
}

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
    fn is_reached(&self) -> bool {
        self.current >= self.max
    }

    fn is_near(&self, warning_bp: u16) -> bool {
        u64::from(self.current) * 10_000 >= u64::from(self.max) * u64::from(warning_bp)
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

/// What the guard `breaker` saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BreakerFinding {
    /// What the run has used, this event included.
    #[serde(flatten)]
    pub counts: Counts,
    /// Limits at or over the warning threshold, in fixed order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub near: Vec<LimitUse>,
}

impl BreakerFinding {
    /// The first limit that is reached.
    pub fn reached(&self) -> Option<LimitUse> {
        self.near.iter().copied().find(LimitUse::is_reached)
    }
}

impl std::fmt::Display for BreakerFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(LimitUse { limit, current, max }) = self.reached() {
            return write!(
                f,
                "CIRCUIT BREAKER: {} ({current}/{max}). Summarize your progress and call report_complete or report_blocked.",
                limit.text()
            );
        }
        for (at, LimitUse { limit, current, max }) in self.near.iter().enumerate() {
            let percent = u64::from(*current) * 100 / u64::from(*max);
            let gap = if at == 0 { "" } else { "\n" };
            write!(
                f,
                "{gap}Approaching limit: {} at {current}/{max} ({percent}%). Plan to wrap up soon.",
                limit.text()
            )?;
        }
        if self.near.is_empty() {
            f.write_str("Within all limits.")?;
        }
        Ok(())
    }
}

/// Compares what a run has used with its limits, each granted `allowances` times.
pub(crate) fn judge(counts: Counts, limits: &Caps, allowances: u32) -> Judgement<BreakerFinding> {
    let checks = [
        (LimitName::ToolCalls, counts.tool_calls, limits.max_tool_calls),
        (LimitName::Iterations, counts.iterations, limits.max_iterations),
        (LimitName::Turns, counts.turns, limits.max_turns),
        (LimitName::ActiveDuration, counts.active_s, limits.max_active_duration),
    ];
    let mut near = Vec::new();
    for (limit, current, max) in checks {
        let Some(max) = granted(max, allowances) else { continue };
        let used = LimitUse { limit, current, max };
        if used.is_reached() || used.is_near(limits.warning_threshold_bp) {
            near.push(used);
        }
    }
    let finding = BreakerFinding { counts, near };
    let level = match (finding.reached(), finding.near.is_empty()) {
        (Some(_), _) => Level::Stop,
        (None, false) => Level::Warn,
        (None, true) => Level::Pass,
    };
    Judgement { level, seen: finding }
}

/// A limit times the allowances a person granted.
pub(crate) fn granted(limit: Limit, allowances: u32) -> Option<u32> {
    Some(limit.get()?.saturating_mul(allowances.max(1)))
}
