//! Limits of one run alone (CB-1): what a person or a supervisor sets for it, over those of its agent.

use serde::{Deserialize, Serialize};

use super::Run;
use crate::breaker::LimitName;
use crate::policy::{Limit, Limits};

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
pub(crate) struct Caps {
    pub(crate) max_iterations: Limit,
    pub(crate) max_tool_calls: Limit,
    pub(crate) max_turns: Limit,
    pub(crate) max_active_duration: Limit,
    pub(crate) max_sleep_duration: Limit,
    pub(crate) warning_threshold_bp: u16,
}

impl Caps {
    pub(crate) fn of(limits: &Limits) -> Caps {
        Caps {
            max_iterations: limits.max_iterations,
            max_tool_calls: limits.max_tool_calls,
            max_turns: limits.max_turns,
            max_active_duration: limits.max_active_duration,
            max_sleep_duration: limits.max_sleep_duration,
            warning_threshold_bp: limits.warning_threshold_bp,
        }
    }

    fn under(self, own: &RunLimits) -> Caps {
        Caps {
            max_iterations: own.max_iterations.unwrap_or(self.max_iterations),
            max_tool_calls: own.max_tool_calls.unwrap_or(self.max_tool_calls),
            max_turns: own.max_turns.unwrap_or(self.max_turns),
            max_active_duration: own.max_active_duration.unwrap_or(self.max_active_duration),
            max_sleep_duration: own.max_sleep_duration.unwrap_or(self.max_sleep_duration),
            warning_threshold_bp: self.warning_threshold_bp,
        }
    }
}

impl Run {
    /// The limits in force: this run's own over those of its agent. What each may do says [`Run::mode_of`].
    pub(crate) fn caps(&self, limits: &Limits) -> Caps {
        let ruled = Caps::of(limits);
        self.limits.as_ref().map_or(ruled, |own| ruled.under(own))
    }
}
