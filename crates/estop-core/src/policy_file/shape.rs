//! The shape of a policy file: which keys there are and what each may hold. Everything is optional;
//! what is left out keeps the value of the layer below. An unknown key is refused.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::values::{
    ClockFrom, ClockTo, Count, Days, LoopWindow, MicroUsd, OpenShare, PositiveShare, Share, ThresholdTenths,
    Tokens, WaitMs, WarningBp, WindowSize,
};
use crate::ids::Name;
use crate::policy::{BlockResponse, Limit, Mode, Preset, Profile, Unpriced, WatchdogScope};

/// A whole policy file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyFileIn {
    /// Where every agent starts (PO-5).
    pub preset: Option<Preset>,
    /// Defaults for all agents.
    pub policy: PolicyIn,
    /// Limits of a run, by role (seed 3).
    pub circuit_breakers: CircuitBreakersIn,
    /// The tripwire's numbers (seed 4).
    pub gate: GateIn,
    /// Runaway watchdog (KS-8).
    pub watchdog: WatchdogIn,
    /// Agents that differ from the defaults. An empty body names the agent and changes nothing.
    pub agents: BTreeMap<Name, Option<AgentIn>>,
}

/// One agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentIn {
    /// Its role, which picks its circuit breakers. Any name; an unknown one has the defaults.
    pub role: Option<Name>,
    /// What differs from `policy:`.
    pub policy: PolicyIn,
}

/// What can be set for all agents, or for one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyIn {
    /// The same switch as `guards.loop`: `true` is `enforce`, `false` is `shadow` (LD-2).
    pub kill_switch_enabled: Option<bool>,
    /// Requests remembered for each conversation.
    pub kill_switch_window_size: Option<WindowSize>,
    /// The score that may not be exceeded.
    pub kill_switch_threshold: Option<ThresholdTenths>,
    /// Tools that repeat on purpose.
    pub exempt_tools: Option<Vec<Name>>,
    /// What kind of work this is.
    pub profile: Option<Profile>,
    /// Spending caps.
    pub budget: BudgetIn,
    /// When work is allowed.
    pub allowed_hours: AllowedHoursIn,
    /// Requests and tokens a minute.
    pub rate_limit: RateLimitIn,
    /// How a refusal looks to the client.
    pub block_response: Option<BlockResponse>,
    /// What each guard may do.
    pub guards: GuardsIn,
    /// Tools that pass on a tripped run.
    pub wrap_up_tools: Option<Vec<Name>>,
    /// Circuit-breaker limits.
    pub limits: LimitsIn,
}

/// Spending caps (PO-2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the same keys as in `BudgetPolicy`")]
pub struct BudgetIn {
    pub usd_per_day: Option<MicroUsd>,
    pub usd_per_month: Option<MicroUsd>,
    pub usd_per_run: Option<MicroUsd>,
    pub tokens_per_day: Option<Tokens>,
    pub tokens_per_month: Option<Tokens>,
    pub tokens_per_run: Option<Tokens>,
    pub timezone: Option<Name>,
    pub unpriced: Option<Unpriced>,
}

/// When work is allowed (PO-3).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AllowedHoursIn {
    /// Days on which a span begins; all seven if left out.
    pub days: Option<Days>,
    /// First allowed minute.
    pub from: Option<ClockFrom>,
    /// First minute that is not allowed any more; before `from` means the next day.
    pub to: Option<ClockTo>,
    /// IANA name; `UTC` if left out.
    pub timezone: Option<Name>,
}

/// Sliding-minute limits (PO-3).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the same keys as in `RateLimit`")]
pub struct RateLimitIn {
    pub requests_per_minute: Option<Count>,
    pub tokens_per_minute: Option<Tokens>,
}

/// What each guard may do (PO-4).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the same keys as in `Modes`")]
pub struct GuardsIn {
    #[serde(rename = "loop")]
    pub loops: Option<Mode>,
    pub churn: Option<Mode>,
    pub chanting: Option<Mode>,
    /// Sets the breakers of attended and of unattended runs.
    pub breaker: Option<Mode>,
    pub gate: Option<Mode>,
    pub health: Option<Mode>,
    pub watchdog: Option<Mode>,
    pub hours: Option<Mode>,
    pub rate: Option<Mode>,
    pub budget: Option<Mode>,
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
    pub max_iterations: Option<Limit>,
    pub max_tool_calls: Option<Limit>,
    pub max_turns: Option<Limit>,
    pub max_active_duration: Option<Limit>,
    pub max_sleep_duration: Option<Limit>,
    pub warning_threshold: Option<WarningBp>,
}

/// The tripwire's numbers (seed 4).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the same keys as in `GatePolicy`")]
pub struct GateIn {
    pub max_tokens_per_minute: Option<Count>,
    pub token_warning_threshold: Option<Count>,
    pub max_tool_calls_per_minute: Option<Count>,
    pub tool_call_warning_threshold: Option<Count>,
    pub loop_similarity_threshold: Option<OpenShare>,
    pub loop_window_size: Option<LoopWindow>,
    pub tempo_compression_ratio: Option<OpenShare>,
    pub cooldown_duration_ms: Option<WaitMs>,
    pub soft_suspend_threshold: Option<PositiveShare>,
    pub hard_stop_threshold: Option<Share>,
    pub recovery_rate: Option<Share>,
    pub recovery_cap: Option<PositiveShare>,
}

/// The runaway watchdog (KS-8).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WatchdogIn {
    /// More forwarded generation calls than this in any 60 s is a runaway.
    pub max_calls_per_minute: Option<Count>,
    /// What it stops; the preset decides if left out.
    pub scope: Option<WatchdogScope>,
}
