//! Circuit breakers (CB-1, CB-2): count, then compare; every limit before any warning.

use serde::Serialize;

use crate::judgement::{Judgement, Level};
use crate::policy::{EffectiveLimits, LimitName, Mode};
use crate::run::granted;
pub use crate::run::{Counts, LimitUse};

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

    /// The warning where the breaker is in shadow: what is reached would have stopped the run, and the run goes on. It comes
    /// with each call, as seed 3's warning does.
    pub fn shadow_warning(&self) -> String {
        let line = |used: &LimitUse| {
            let LimitUse { limit, current, max } = used;
            if used.is_reached() {
                format!(
                    "⚠️ Limit reached: {} at {current}/{max} ({}%). An enforced circuit breaker would have stopped this run. \
                     Wrap up now.",
                    limit.text(),
                    used.percent()
                )
            } else {
                used.to_string()
            }
        };
        self.near.iter().map(line).collect::<Vec<_>>().join("\n")
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
        for (at, used) in self.near.iter().enumerate() {
            let gap = if at == 0 { "" } else { "\n" };
            write!(f, "{gap}{used}")?;
        }
        if self.near.is_empty() {
            f.write_str("Within all limits.")?;
        }
        Ok(())
    }
}

/// Compares what a run has used with its limits, each granted `allowances` times, and says in which mode that counts. A
/// limit that is enforced and reached stops, whatever those say that are only watched.
pub(crate) fn judge(
    counts: Counts,
    limits: &EffectiveLimits,
    allowances: u32,
    mode_of: impl Fn(LimitName) -> Mode,
) -> (Judgement<BreakerFinding>, Mode) {
    let all = compare(counts, limits, allowances);
    let enforced: Vec<LimitUse> =
        all.seen.near.iter().copied().filter(|used| mode_of(used.limit) == Mode::Enforce).collect();
    if enforced.iter().any(LimitUse::is_reached) {
        let seen = BreakerFinding { counts, near: enforced };
        return (Judgement::stop(seen), Mode::Enforce);
    }
    // Those that are off are not judged at all.
    let near = all.seen.near.into_iter().filter(|used| mode_of(used.limit) != Mode::Off).collect();
    let finding = BreakerFinding { counts, near };
    let mode = match (finding.reached(), finding.near.is_empty()) {
        (Some(_), _) => Mode::Shadow,
        (None, false) if enforced.is_empty() => Mode::Shadow,
        (None, false) => Mode::Enforce,
        (None, true) => mode_of(LimitName::ToolCalls),
    };
    (Judgement { level: level(&finding), seen: finding }, mode)
}

fn level(finding: &BreakerFinding) -> Level {
    match (finding.reached(), finding.near.is_empty()) {
        (Some(_), _) => Level::Stop,
        (None, false) => Level::Warn,
        (None, true) => Level::Pass,
    }
}

fn compare(counts: Counts, limits: &EffectiveLimits, allowances: u32) -> Judgement<BreakerFinding> {
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
    Judgement { level: level(&finding), seen: finding }
}
