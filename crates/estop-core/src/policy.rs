//! A policy: everything that decides how one agent is judged, resolved and checked.
//!
//! It is data. The file a user writes is [`crate::policy_file`]; what comes out of it is this, and it is
//! journaled whole, so that a replay knows by which rules a decision was made.

mod limits;
mod modes;
pub(crate) mod pattern;

use serde::{Deserialize, Serialize};

use crate::ids::Name;
use crate::money::NanoUsd;
use crate::time::Zone;

pub use crate::guard::Mode;
pub(crate) use limits::EffectiveLimits;
pub use limits::{Limit, LimitName, LimitSet, Limits, RunLimits};
pub use modes::Modes;

/// All rules for one agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The preset it started from (PO-5).
    pub preset: Preset,
    /// What each guard may do (PO-4).
    pub modes: Modes,
    /// Loop detection (LD-1..6).
    pub loops: LoopPolicy,
    /// Circuit breakers (CB-1).
    pub limits: Limits,
    /// Tripwire: gate and health (TW-1..6).
    pub gate: SafetyGatePolicy,
    /// Spending (PO-2).
    pub budget: BudgetPolicy,
    /// Allowed hours (PO-3); `None` = always.
    pub hours: Option<AllowedHours>,
    /// Which models may be asked (PO-7).
    #[serde(default, skip_serializing_if = "ModelRules::is_empty")]
    pub models: ModelRules,
    /// Requests and tokens a minute (PO-3).
    pub rate: RateLimit,
    /// Runaway watchdog (KS-8).
    pub watchdog: WatchdogPolicy,
    /// How a refusal looks to the client (AN-1).
    pub block_response: BlockResponse,
    /// What is kept of the steps before a stop (EV-1).
    #[serde(default, skip_serializing_if = "EvidenceMode::is_default")]
    pub evidence: EvidenceMode,
}

/// Where a policy starts (PO-5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// Enforce what a person asked for, watch the rest.
    #[default]
    Watch,
    /// Enforce every number of the seeds.
    Strict,
}

/// Loop detection settings (LD-1, LD-6). Invariant: `window_size` 5–100, `threshold_tenths` 10–500.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoopPolicy {
    /// Requests remembered for each conversation, 5–100.
    pub window_size: u8,
    /// The score that may not be exceeded, in tenths: 100 is 10.0.
    pub threshold_tenths: u16,
    /// Tools that repeat on purpose; their calls are not counted as repetition.
    pub exempt_tools: Vec<Name>,
    /// What kind of work this agent does.
    pub profile: Profile,
    /// LD-6 a is on: the same step, or a block of steps, back to back.
    pub back_to_back: bool,
    /// LD-6 b is on: the same step again and again within twenty.
    pub within_window: bool,
    /// LD-6 c is on: the same call without a break.
    pub unbroken: bool,
    /// LD-8 is on: a stretch of steps without anything new.
    pub nothing_new: bool,
    /// LD-9 is on: an agent is told before it is stopped, where a hook can tell it.
    pub nudge: bool,
    /// How the score counts.
    pub score: LoopScore,
}

impl Default for LoopPolicy {
    fn default() -> Self {
        LoopPolicy {
            window_size: 20,
            threshold_tenths: 100,
            exempt_tools: Vec::new(),
            profile: Profile::Coding,
            back_to_back: true,
            within_window: true,
            unbroken: true,
            nothing_new: true,
            nudge: true,
            score: LoopScore::default(),
        }
    }
}

/// How the loop score counts (LD-1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopScore {
    /// What is similar counts only where nothing new happened since, and so do the rules of LD-6; a long stretch without
    /// anything new is a loop by itself (LD-8).
    #[default]
    Novelty,
    /// What is similar counts, whatever came of it.
    Literal,
}

impl LoopScore {
    /// The one that does not decide.
    pub(crate) fn other(self) -> LoopScore {
        match self {
            LoopScore::Novelty => LoopScore::Literal,
            LoopScore::Literal => LoopScore::Novelty,
        }
    }
}

/// What kind of work an agent does: what counts as repetition in it (LD-6), and how long a stretch without news may be (LD-8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Works on a task by itself; asking the same again is suspicious.
    #[default]
    Coding,
    /// Works with a person who answers: a stretch may be half as long again.
    Interactive,
    /// Applies one template to many items: similar prompts are its job and do not count, and items that fail are items too.
    Batch,
    /// Watches and waits: ten seconds between two looks are a pause, and a look that shows the same is no step in a circle.
    Ops,
}

/// The tripwire's numbers (seed 4, chapters 3–5), as whole numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SafetyGatePolicy {
    /// Tokens a sliding minute.
    pub max_tokens_per_minute: u32,
    /// Warn from here.
    pub token_warning_threshold: u32,
    /// Tool calls a sliding minute.
    pub max_tool_calls_per_minute: u32,
    /// Warn from here.
    pub tool_call_warning_threshold: u32,
    /// Outputs more alike than this are the same, in thousandths.
    pub loop_similarity_threshold: u16,
    /// How many outputs in a row must be alike.
    pub loop_window_size: u8,
    /// Intervals shrunk below this share are a runaway, in thousandths.
    pub tempo_compression_ratio: u16,
    /// Wait after a veto.
    pub cooldown_duration_ms: u32,
    /// Health below this pauses, in thousandths.
    pub soft_suspend_threshold: u16,
    /// Health below this stops for good, in thousandths.
    pub hard_stop_threshold: u16,
    /// Health regained each minute, in thousandths.
    pub recovery_rate: u16,
    /// Health is not regained beyond this, in thousandths.
    pub recovery_cap: u16,
}

impl Default for SafetyGatePolicy {
    fn default() -> Self {
        SafetyGatePolicy {
            max_tokens_per_minute: 50_000,
            token_warning_threshold: 40_000,
            max_tool_calls_per_minute: 60,
            tool_call_warning_threshold: 45,
            loop_similarity_threshold: 900,
            loop_window_size: 5,
            tempo_compression_ratio: 300,
            cooldown_duration_ms: 60_000,
            soft_suspend_threshold: 600,
            hard_stop_threshold: 300,
            recovery_rate: 10,
            recovery_cap: 800,
        }
    }
}

/// Spending caps (PO-2). `None` = no cap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetPolicy {
    /// Money a calendar day.
    pub usd_per_day: Option<NanoUsd>,
    /// Money a calendar month.
    pub usd_per_month: Option<NanoUsd>,
    /// Money for one run.
    pub usd_per_run: Option<NanoUsd>,
    /// Tokens a calendar day.
    pub tokens_per_day: Option<u64>,
    /// Tokens a calendar month.
    pub tokens_per_month: Option<u64>,
    /// Tokens for one run.
    pub tokens_per_run: Option<u64>,
    /// Whose midnight it is.
    pub zone: Zone,
    /// What to do with a model that has no price.
    pub unpriced: Unpriced,
    /// Which paths may be asked under a cap though nobody knows what they cost.
    #[serde(default, skip_serializing_if = "PathRules::is_empty")]
    pub paths: PathRules,
}

impl BudgetPolicy {
    /// Whether any of its caps is in dollars.
    pub fn caps_usd(&self) -> bool {
        [self.usd_per_day, self.usd_per_month, self.usd_per_run].iter().any(Option::is_some)
    }
}

/// Paths of providers that may be asked under a cap though nobody knows what they cost (PO-2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathRules {
    /// As they follow the provider's name: `/v1/files`. `*` stands for any run of characters.
    pub allow: Vec<Name>,
}

impl PathRules {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.allow.is_empty()
    }

    /// Whether a path is named, in letters of any case.
    pub fn allows(&self, path: &str) -> bool {
        self.allow.iter().any(|pattern| pattern::matches(pattern, path))
    }
}

/// What happens to a request whose model has no price (PO-2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unpriced {
    /// Refuse it where dollars are capped, since it could not be counted there. Else count its tokens and flag it.
    #[default]
    DenyUnderCap,
    /// Count its tokens and flag it.
    Count,
    /// Refuse it.
    Deny,
}

/// Which models may be asked (PO-7). Names as clients send them; `*` stands for any run of characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelRules {
    /// Only these; empty = every model.
    pub allow: Vec<Name>,
    /// Never these, also if they are allowed.
    pub deny: Vec<Name>,
}

impl ModelRules {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }
}

/// When an agent may work (PO-3). `from == to` never occurs; `from > to` spans midnight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowedHours {
    /// Bit 0 = Monday … bit 6 = Sunday; a span over midnight belongs to the day it starts on.
    pub days: u8,
    /// First allowed minute of the day.
    pub from_minute: u16,
    /// First minute that is not allowed any more; 1440 = midnight.
    pub to_minute: u16,
    /// Whose clock.
    pub zone: Zone,
}

/// Sliding-minute limits (PO-3). `None` = no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// Requests in any 60 s.
    pub requests_per_minute: Option<u32>,
    /// Tokens in any 60 s.
    pub tokens_per_minute: Option<u64>,
}

/// The runaway watchdog (KS-8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchdogPolicy {
    /// More forwarded generation calls than this in any 60 s is a runaway.
    pub max_calls_per_minute: u32,
    /// What it stops.
    pub scope: WatchdogScope,
}

impl Default for WatchdogPolicy {
    fn default() -> Self {
        WatchdogPolicy { max_calls_per_minute: 100, scope: WatchdogScope::Agent }
    }
}

/// What a runaway stops (KS-8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchdogScope {
    /// Only the agent that ran away.
    Agent,
    /// Everything: it presses the red button.
    System,
    /// Nothing.
    Off,
}

/// How a refusal looks to the client (AN-1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockResponse {
    /// An error in the protocol's shape that clients do not retry.
    #[default]
    Error,
    /// A final assistant message with status 200.
    Message,
}

/// What is kept of an agent's steps, to be stored with its incidents (EV-1). Nothing of it changes a decision, and none of it is
/// in the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceMode {
    /// Nothing.
    Off,
    /// Short excerpts without their secrets.
    #[default]
    Redacted,
    /// Longer excerpts as they were.
    Full,
}

impl EvidenceMode {
    /// Whether it is what holds where nothing is said.
    pub fn is_default(&self) -> bool {
        *self == EvidenceMode::default()
    }

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            EvidenceMode::Off => "off",
            EvidenceMode::Redacted => "redacted",
            EvidenceMode::Full => "full",
        }
    }
}
