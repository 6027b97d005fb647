//! Circuit-breaker limits (CB-1): their names, those of an agent, those of one run alone, and those in force.

use serde::{Deserialize, Serialize};

use crate::ids::Name;

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

/// Some of the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LimitSet(u8);

impl LimitSet {
    /// Adds a limit.
    pub fn add(&mut self, limit: LimitName) {
        self.0 |= 1 << limit as u8;
    }

    /// Whether a limit is in it.
    pub fn contains(self, limit: LimitName) -> bool {
        self.0 & 1 << limit as u8 != 0
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0 == 0
    }
}

/// A positive number, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At most this many; reaching it trips. Never 0.
    Max(std::num::NonZeroU32),
    /// No limit.
    Off,
}

impl Limit {
    /// A limit of `max`, for constants known to be positive; 0 becomes 1.
    pub const fn max(max: u32) -> Limit {
        match std::num::NonZeroU32::new(max) {
            Some(max) => Limit::Max(max),
            None => Limit::Max(std::num::NonZeroU32::MIN),
        }
    }

    /// The number, if there is one.
    pub fn get(self) -> Option<u32> {
        match self {
            Limit::Max(max) => Some(max.get()),
            Limit::Off => None,
        }
    }
}

impl Serialize for Limit {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Limit::Max(max) => s.serialize_u32(max.get()),
            Limit::Off => s.serialize_str("off"),
        }
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(LimitVisitor)
    }
}

struct LimitVisitor;

impl serde::de::Visitor<'_> for LimitVisitor {
    type Value = Limit;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a positive whole number, or `off` for no limit")
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Limit, E> {
        u32::try_from(value)
            .ok()
            .and_then(std::num::NonZeroU32::new)
            .map(Limit::Max)
            .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Unsigned(value), &self))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Limit, E> {
        let value = u64::try_from(value)
            .map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(value), &self))?;
        self.visit_u64(value)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Limit, E> {
        if value == "off" {
            Ok(Limit::Off)
        } else {
            Err(E::invalid_value(serde::de::Unexpected::Str(value), &self))
        }
    }
}

/// Circuit-breaker limits of a run (CB-1), already merged from defaults, role and agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Test-then-fix cycles.
    pub max_iterations: Limit,
    /// Tool calls.
    pub max_tool_calls: Limit,
    /// Turns a person or prompt started.
    pub max_turns: Limit,
    /// Seconds in ACTIVE.
    pub max_active_duration: Limit,
    /// Seconds in SLEEPING.
    pub max_sleep_duration: Limit,
    /// Share of a limit at which the agent is warned, in basis points: 8000 is 80 %.
    pub warning_threshold_bp: u16,
    /// Tools that pass on a tripped run, so that the agent can report.
    pub wrap_up_tools: Vec<Name>,
    /// Commands that run tests, beside the known ones (CB-4).
    pub test_runners: Vec<Name>,
    /// The limits somebody set: each of them is enforced wherever the run is, and no other with it (PO-5).
    #[serde(default, skip_serializing_if = "LimitSet::is_empty")]
    pub set: LimitSet,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_iterations: Limit::max(5),
            max_tool_calls: Limit::max(200),
            max_turns: Limit::max(50),
            max_active_duration: Limit::max(7200),
            max_sleep_duration: Limit::max(86_400),
            warning_threshold_bp: 8000,
            wrap_up_tools: vec!["report_complete".into(), "report_blocked".into()],
            test_runners: Vec::new(),
            set: LimitSet::default(),
        }
    }
}

/// Limits of one run alone. What is not said stays as the agent's rules have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunLimits {
    /// Test-then-fix cycles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<Limit>,
    /// Tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<Limit>,
    /// Turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<Limit>,
    /// Seconds in ACTIVE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_active_duration: Option<Limit>,
    /// Seconds in SLEEPING.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_sleep_duration: Option<Limit>,
}

impl RunLimits {
    /// Whether they say nothing.
    pub fn is_empty(&self) -> bool {
        *self == RunLimits::default()
    }

    /// What it says of one.
    pub(crate) fn get(&self, limit: LimitName) -> Option<Limit> {
        match limit {
            LimitName::ToolCalls => self.max_tool_calls,
            LimitName::Iterations => self.max_iterations,
            LimitName::Turns => self.max_turns,
            LimitName::ActiveDuration => self.max_active_duration,
            LimitName::SleepDuration => self.max_sleep_duration,
        }
    }

    /// The first limit that allows more than `limits` do, by its key. An agent may tighten its own, never loosen them.
    pub fn loosens(&self, limits: &Limits) -> Option<&'static str> {
        let looser = |own: Option<Limit>, ruled: Limit| match (own, ruled.get()) {
            (Some(own), Some(ruled)) => own.get().is_none_or(|own| own > ruled),
            (None, _) | (Some(_), None) => false,
        };
        let checks = [
            ("max_iterations", looser(self.max_iterations, limits.max_iterations)),
            ("max_tool_calls", looser(self.max_tool_calls, limits.max_tool_calls)),
            ("max_turns", looser(self.max_turns, limits.max_turns)),
            ("max_active_duration", looser(self.max_active_duration, limits.max_active_duration)),
            ("max_sleep_duration", looser(self.max_sleep_duration, limits.max_sleep_duration)),
        ];
        checks.into_iter().find_map(|(key, looser)| looser.then_some(key))
    }
}

/// The limits in force for a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EffectiveLimits {
    pub(crate) max_iterations: Limit,
    pub(crate) max_tool_calls: Limit,
    pub(crate) max_turns: Limit,
    pub(crate) max_active_duration: Limit,
    pub(crate) max_sleep_duration: Limit,
    pub(crate) warning_threshold_bp: u16,
}

impl EffectiveLimits {
    pub(crate) fn of(limits: &Limits) -> EffectiveLimits {
        EffectiveLimits {
            max_iterations: limits.max_iterations,
            max_tool_calls: limits.max_tool_calls,
            max_turns: limits.max_turns,
            max_active_duration: limits.max_active_duration,
            max_sleep_duration: limits.max_sleep_duration,
            warning_threshold_bp: limits.warning_threshold_bp,
        }
    }

    pub(crate) fn under(self, own: &RunLimits) -> EffectiveLimits {
        EffectiveLimits {
            max_iterations: own.max_iterations.unwrap_or(self.max_iterations),
            max_tool_calls: own.max_tool_calls.unwrap_or(self.max_tool_calls),
            max_turns: own.max_turns.unwrap_or(self.max_turns),
            max_active_duration: own.max_active_duration.unwrap_or(self.max_active_duration),
            max_sleep_duration: own.max_sleep_duration.unwrap_or(self.max_sleep_duration),
            warning_threshold_bp: self.warning_threshold_bp,
        }
    }
}
