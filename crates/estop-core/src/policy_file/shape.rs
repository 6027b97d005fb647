//! The sections of a policy file: which keys there are and what each may hold. Everything is optional;
//! what is left out keeps the value of the layer below. An unknown key is refused, and so is a key without a
//! value (`given`); a section may be empty.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::values::{
    ClockFrom, ClockTo, Count, Days, LoopWindow, MicroUsd, OpenShare, PositiveShare, Share, Tokens, WaitMs,
    WarningBp, given,
};
use crate::ids::Name;
use crate::policy::{Limit, Unpriced, WatchdogScope};

/// Which repetitions are loops, each its own switch (LD-6 a–c, LD-8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoopRulesIn {
    /// The same step, or a block of steps, back to back.
    #[serde(deserialize_with = "given")]
    pub back_to_back: Option<bool>,
    /// The same step again and again within twenty.
    #[serde(deserialize_with = "given")]
    pub within_window: Option<bool>,
    /// The same call without a break.
    #[serde(deserialize_with = "given")]
    pub unbroken: Option<bool>,
    /// A stretch of steps without anything new, whatever its shape (LD-8).
    #[serde(deserialize_with = "given")]
    pub nothing_new: Option<bool>,
    /// The agent is told before it is stopped (LD-9).
    #[serde(deserialize_with = "given")]
    pub nudge: Option<bool>,
}

/// Spending caps (PO-2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the same keys as in `BudgetPolicy`")]
pub struct BudgetIn {
    #[serde(deserialize_with = "given")]
    pub usd_per_day: Option<MicroUsd>,
    #[serde(deserialize_with = "given")]
    pub usd_per_month: Option<MicroUsd>,
    #[serde(deserialize_with = "given")]
    pub usd_per_run: Option<MicroUsd>,
    #[serde(deserialize_with = "given")]
    pub tokens_per_day: Option<Tokens>,
    #[serde(deserialize_with = "given")]
    pub tokens_per_month: Option<Tokens>,
    #[serde(deserialize_with = "given")]
    pub tokens_per_run: Option<Tokens>,
    #[serde(deserialize_with = "given")]
    pub timezone: Option<Name>,
    #[serde(deserialize_with = "given")]
    pub unpriced: Option<Unpriced>,
    pub paths: PathsIn,
}

/// Paths that may be asked under a cap though nobody knows what they cost (PO-2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathsIn {
    /// As they follow the provider's name; an empty list allows none again.
    #[serde(deserialize_with = "given")]
    pub allow: Option<Vec<Name>>,
}

/// Spending caps of all agents together (PO-2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the same keys as in `BudgetPolicy`")]
pub struct FleetBudgetIn {
    #[serde(deserialize_with = "given")]
    pub usd_per_day: Option<MicroUsd>,
    #[serde(deserialize_with = "given")]
    pub usd_per_month: Option<MicroUsd>,
    #[serde(deserialize_with = "given")]
    pub tokens_per_day: Option<Tokens>,
    #[serde(deserialize_with = "given")]
    pub tokens_per_month: Option<Tokens>,
    #[serde(deserialize_with = "given")]
    pub timezone: Option<Name>,
}

/// Which models may be asked (PO-7).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelsIn {
    /// Only these; an empty list allows every model again.
    #[serde(deserialize_with = "given")]
    pub allow: Option<Vec<Name>>,
    /// Never these.
    #[serde(deserialize_with = "given")]
    pub deny: Option<Vec<Name>>,
}

/// When work is allowed (PO-3).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AllowedHoursIn {
    /// Days on which a span begins; all seven if left out.
    #[serde(deserialize_with = "given")]
    pub days: Option<Days>,
    /// First allowed minute.
    #[serde(deserialize_with = "given")]
    pub from: Option<ClockFrom>,
    /// First minute that is not allowed any more; before `from` means the next day.
    #[serde(deserialize_with = "given")]
    pub to: Option<ClockTo>,
    /// IANA name; `UTC` if left out.
    #[serde(deserialize_with = "given")]
    pub timezone: Option<Name>,
}

/// Sliding-minute limits (PO-3).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the same keys as in `RateLimit`")]
pub struct RateLimitIn {
    #[serde(deserialize_with = "given")]
    pub requests_per_minute: Option<Count>,
    #[serde(deserialize_with = "given")]
    pub tokens_per_minute: Option<Tokens>,
}

/// `circuit_breakers:`, as in seed 3.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CircuitBreakersIn {
    /// For every role.
    pub defaults: LimitsIn,
    /// By role. An empty body means the defaults.
    pub roles: BTreeMap<Name, Option<LimitsIn>>,
}

/// Limits of a run (CB-1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the same keys as in `Limits`")]
pub struct LimitsIn {
    #[serde(deserialize_with = "given")]
    pub max_iterations: Option<Limit>,
    #[serde(deserialize_with = "given")]
    pub max_tool_calls: Option<Limit>,
    #[serde(deserialize_with = "given")]
    pub max_turns: Option<Limit>,
    #[serde(deserialize_with = "given")]
    pub max_active_duration: Option<Limit>,
    #[serde(deserialize_with = "given")]
    pub max_sleep_duration: Option<Limit>,
    #[serde(deserialize_with = "given")]
    pub warning_threshold: Option<WarningBp>,
}

/// The tripwire's numbers (seed 4).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the same keys as in `GatePolicy`")]
pub struct SafetyGateIn {
    #[serde(deserialize_with = "given")]
    pub max_tokens_per_minute: Option<Count>,
    #[serde(deserialize_with = "given")]
    pub token_warning_threshold: Option<Count>,
    #[serde(deserialize_with = "given")]
    pub max_tool_calls_per_minute: Option<Count>,
    #[serde(deserialize_with = "given")]
    pub tool_call_warning_threshold: Option<Count>,
    #[serde(deserialize_with = "given")]
    pub loop_similarity_threshold: Option<OpenShare>,
    #[serde(deserialize_with = "given")]
    pub loop_window_size: Option<LoopWindow>,
    #[serde(deserialize_with = "given")]
    pub tempo_compression_ratio: Option<OpenShare>,
    #[serde(deserialize_with = "given")]
    pub cooldown_duration_ms: Option<WaitMs>,
    #[serde(deserialize_with = "given")]
    pub soft_suspend_threshold: Option<PositiveShare>,
    #[serde(deserialize_with = "given")]
    pub hard_stop_threshold: Option<Share>,
    #[serde(deserialize_with = "given")]
    pub recovery_rate: Option<Share>,
    #[serde(deserialize_with = "given")]
    pub recovery_cap: Option<PositiveShare>,
}

/// The runaway watchdog (KS-8).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WatchdogIn {
    /// More forwarded generation calls than this in any 60 s is a runaway.
    #[serde(deserialize_with = "given")]
    pub max_calls_per_minute: Option<Count>,
    /// What it stops; the preset decides if left out.
    #[serde(deserialize_with = "given")]
    pub scope: Option<WatchdogScope>,
}
