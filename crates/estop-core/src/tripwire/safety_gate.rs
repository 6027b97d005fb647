//! SafetyGate (TW-4): the single gate of the tripwire. Vetoes in frozen order; a veto starts a cooldown.

use serde::ser::SerializeSeq;
use serde::{Deserialize, Serialize};

use crate::judgement::{Judgement, Level};
use crate::minute::Sums;
use crate::policy::SafetyGatePolicy;
use crate::time::Millis;
use crate::tripwire::activity::{ActivityMode, ActivityState, Intensity};
use crate::tripwire::intent::{Intent, IntentDecision};

/// Why the gate refuses, in the frozen order of priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum SafetyVeto {
    /// Accelerating without control.
    RunawayDetected,
    /// Entered a loop.
    LoopDetected,
    /// Token limit of the minute reached.
    TokenBudgetExceeded,
    /// Tool-call limit of the minute reached.
    RateLimitExceeded,
    /// Waiting after a veto.
    CooldownActive,
    /// Health too low.
    HealthDegraded,
}

impl SafetyVeto {
    const ALL: [SafetyVeto; 6] = [
        SafetyVeto::RunawayDetected,
        SafetyVeto::LoopDetected,
        SafetyVeto::TokenBudgetExceeded,
        SafetyVeto::RateLimitExceeded,
        SafetyVeto::CooldownActive,
        SafetyVeto::HealthDegraded,
    ];

    /// Its stable code on the wire: seed 4's name in lower case, behind the guard's.
    pub fn code(self) -> &'static str {
        match self {
            SafetyVeto::RunawayDetected => "gate_runaway_detected",
            SafetyVeto::LoopDetected => "gate_loop_detected",
            SafetyVeto::TokenBudgetExceeded => "gate_token_budget_exceeded",
            SafetyVeto::RateLimitExceeded => "gate_rate_limit_exceeded",
            SafetyVeto::CooldownActive => "gate_cooldown_active",
            SafetyVeto::HealthDegraded => "gate_health_degraded",
        }
    }

    fn text(self) -> &'static str {
        match self {
            SafetyVeto::RunawayDetected => "steps come ever faster",
            SafetyVeto::LoopDetected => "the last outputs are all alike",
            SafetyVeto::TokenBudgetExceeded => "too many tokens within a minute",
            SafetyVeto::RateLimitExceeded => "too many tool calls within a minute",
            SafetyVeto::CooldownActive => "cooling down after a veto",
            SafetyVeto::HealthDegraded => "health is too low",
        }
    }
}

/// The vetoes that apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vetoes(u8);

impl Vetoes {
    fn add_if(&mut self, applies: bool, veto: SafetyVeto) {
        self.0 |= u8::from(applies) << veto as u8;
    }

    /// In frozen order.
    pub fn iter(self) -> impl Iterator<Item = SafetyVeto> {
        SafetyVeto::ALL.into_iter().filter(move |v| self.contains(*v))
    }

    /// Whether it applies.
    pub fn contains(self, veto: SafetyVeto) -> bool {
        self.0 & 1 << veto as u8 != 0
    }

    /// The verdict: the first that applies.
    pub fn first(self) -> Option<SafetyVeto> {
        self.iter().next()
    }

    /// A new offence, not only its aftermath.
    fn starts_cooldown(self) -> bool {
        self.first().is_some_and(|v| v < SafetyVeto::CooldownActive)
    }
}

impl Serialize for Vetoes {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut seq = s.serialize_seq(None)?;
        for veto in self.iter() {
            seq.serialize_element(&veto)?;
        }
        seq.end()
    }
}

/// The gate's decision (seed 4, `SafetyDecision`), with what led to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SafetyGateFinding {
    /// What the agent is doing.
    pub mode: ActivityMode,
    /// How much it consumes.
    pub intensity: Intensity,
    /// What should happen.
    pub intent: Intent,
    /// How sure, in thousandths.
    pub confidence: u16,
    /// The verdict: the first veto that applies (seed 4, `vetoReason`).
    #[serde(rename = "vetoReason", skip_serializing_if = "Option::is_none")]
    pub veto_reason: Option<SafetyVeto>,
    /// All vetoes that apply, in frozen order.
    pub vetoes: Vetoes,
    /// Tokens that may still be used in this minute (seed 4, `remainingBudget`).
    #[serde(rename = "remainingBudget")]
    pub remaining_budget: u64,
    /// New tokens in the last minute.
    pub tokens: u64,
    /// Reaching this vetoes; tightened as health drops.
    pub tokens_max: u32,
    /// Tool calls in the last minute.
    pub tool_calls: u32,
    /// Reaching this vetoes.
    pub tool_calls_max: u32,
    /// How long the cooldown still lasts.
    pub cooldown_ms: u64,
}

impl std::fmt::Display for SafetyGateFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let SafetyGateFinding { tokens, tokens_max, tool_calls, tool_calls_max, .. } = self;
        if self.vetoes == Vetoes::default() {
            return write!(
                f,
                "Safety gate: {tokens} of {tokens_max} tokens and {tool_calls} of {tool_calls_max} tool calls in the last minute. Slow down."
            );
        }
        f.write_str("Safety gate: ")?;
        for (at, veto) in self.vetoes.iter().enumerate() {
            write!(f, "{}{}", if at == 0 { "" } else { "; " }, veto.text())?;
        }
        write!(
            f,
            " ({tokens} of {tokens_max} tokens, {tool_calls} of {tool_calls_max} tool calls in the last minute)."
        )?;
        match self.cooldown_ms.div_ceil(1000) {
            0 => f.write_str(" A person must let the agent go on."),
            seconds => write!(f, " Try again in {seconds} s."),
        }
    }
}

/// What the gate is asked to weigh.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SafetyGateInput<'a> {
    pub(crate) activity: ActivityState,
    pub(crate) intent: IntentDecision,
    pub(crate) sums: Sums,
    pub(crate) health: u16,
    /// Health may veto (its own guard is enforced).
    pub(crate) health_counts: bool,
    pub(crate) policy: &'a SafetyGatePolicy,
}

/// The gate's memory: only when its cooldown ends.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SafetyGate {
    cooldown_until: Millis,
}

impl SafetyGate {
    pub(crate) fn judge(&self, now: Millis, w: &SafetyGateInput<'_>) -> Judgement<SafetyGateFinding> {
        // Health that may not stop the agent may not tighten its budget either.
        let health = if w.health_counts { w.health } else { u16::MAX };
        let tokens_max = tightened(w.policy.max_tokens_per_minute, health, w.policy);
        let mut vetoes = Vetoes::default();
        let stops = w.intent.intent == Intent::Stop;
        vetoes.add_if(stops && w.activity.mode == ActivityMode::Runaway, SafetyVeto::RunawayDetected);
        vetoes.add_if(stops && w.activity.mode == ActivityMode::Looping, SafetyVeto::LoopDetected);
        vetoes.add_if(w.sums.new_tokens >= u64::from(tokens_max), SafetyVeto::TokenBudgetExceeded);
        vetoes.add_if(w.sums.tool_calls >= w.policy.max_tool_calls_per_minute, SafetyVeto::RateLimitExceeded);
        vetoes.add_if(now < self.cooldown_until, SafetyVeto::CooldownActive);
        vetoes.add_if(
            w.health_counts && w.health < w.policy.soft_suspend_threshold,
            SafetyVeto::HealthDegraded,
        );
        let left = self.cooldown_until.since(now);
        let starts = left == 0 && vetoes.starts_cooldown();
        let cooldown_ms = if starts { u64::from(w.policy.cooldown_duration_ms) } else { left };
        let finding = SafetyGateFinding {
            mode: w.activity.mode,
            intensity: w.activity.intensity,
            intent: w.intent.intent,
            confidence: w.intent.confidence,
            veto_reason: vetoes.first(),
            vetoes,
            remaining_budget: u64::from(tokens_max).saturating_sub(w.sums.new_tokens),
            tokens: w.sums.new_tokens,
            tokens_max,
            tool_calls: w.sums.tool_calls,
            tool_calls_max: w.policy.max_tool_calls_per_minute,
            cooldown_ms,
        };
        let near = finding.tokens >= u64::from(w.policy.token_warning_threshold)
            || finding.tool_calls >= w.policy.tool_call_warning_threshold;
        let level = match (vetoes.first(), near) {
            (Some(_), _) => Level::Stop,
            (None, true) => Level::Warn,
            (None, false) => Level::Pass,
        };
        Judgement { level, seen: finding }
    }

    /// How long the cooldown still lasts.
    pub(crate) fn cooldown_left(&self, now: Millis) -> u64 {
        self.cooldown_until.since(now)
    }

    /// A veto was given. Only a new offence starts the cooldown; waiting does not extend it.
    pub(crate) fn vetoed(&mut self, now: Millis, vetoes: Vetoes, policy: &SafetyGatePolicy) {
        if vetoes.starts_cooldown() && now >= self.cooldown_until {
            self.cooldown_until = now.plus(u64::from(policy.cooldown_duration_ms));
        }
    }
}

/// The token budget shrinks with health below the recovery cap (TW-6).
fn tightened(max: u32, health: u16, policy: &SafetyGatePolicy) -> u32 {
    let cap = policy.recovery_cap.max(1);
    if health >= cap { max } else { (u64::from(max) * u64::from(health) / u64::from(cap)).max(1) as u32 }
}
