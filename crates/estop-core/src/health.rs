//! Health (TW-5) in whole thousandths: falls with failures, heals slowly and never fully.

use serde::{Deserialize, Serialize};

use crate::judgement::Judgement;
use crate::policy::GatePolicy;
use crate::time::Millis;

/// All of it.
pub const FULL: u16 = 1000;
/// After a person switched the agent on again (LD-4).
pub(crate) const AFTER_ACTIVATION: u16 = 800;
const LOOPING_OR_RUNAWAY: u16 = 100;
const EXECUTION_ERROR: u16 = 20;
const MODE_FLIP: u16 = 20;
const FAILED_CALLS: u16 = 50;
/// From this failed call in a row on, each one hurts.
const FAILED_CALLS_FROM: u8 = 3;
const MINUTE_MS: u64 = 60_000;

/// What makes an agent less healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Harm {
    LoopingOrRunaway,
    ExecutionError,
    UnexpectedFlip,
}

/// An agent's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Health {
    value: u16,
    failed_calls: u8,
    /// From here the next minute of recovery counts.
    recovered_to: Millis,
}

impl Default for Health {
    fn default() -> Self {
        Health { value: FULL, failed_calls: 0, recovered_to: Millis(0) }
    }
}

/// What the guard `health` saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HealthFinding {
    /// In thousandths.
    pub health: u16,
    /// Below this the agent is paused.
    pub suspend_below: u16,
    /// Below this it is stopped for good.
    pub stop_below: u16,
}

impl std::fmt::Display for HealthFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let HealthFinding { health, suspend_below, stop_below } = self;
        write!(f, "Health is {health} of 1000 (paused below {suspend_below}, stopped below {stop_below}).")
    }
}

impl Health {
    /// In thousandths.
    pub(crate) fn value(&self) -> u16 {
        self.value
    }

    /// As it is after a person switched the agent on.
    pub(crate) fn reactivated(now: Millis) -> Health {
        Health { value: AFTER_ACTIVATION, failed_calls: 0, recovered_to: now }
    }

    /// Heals what time healed: whole minutes, up to the cap, never downwards.
    pub(crate) fn recover(&mut self, now: Millis, policy: &GatePolicy) {
        if self.value >= policy.recovery_cap {
            self.recovered_to = now;
            return;
        }
        let minutes = now.since(self.recovered_to) / MINUTE_MS;
        let healed = minutes.saturating_mul(u64::from(policy.recovery_rate));
        self.value = (u64::from(self.value) + healed).min(u64::from(policy.recovery_cap)) as u16;
        self.recovered_to = self.recovered_to.plus(minutes * MINUTE_MS);
    }

    pub(crate) fn harm(&mut self, harm: Harm) {
        self.lose(match harm {
            Harm::LoopingOrRunaway => LOOPING_OR_RUNAWAY,
            Harm::ExecutionError => EXECUTION_ERROR,
            Harm::UnexpectedFlip => MODE_FLIP,
        });
    }

    /// A tool call ended. The third failure in a row and each one after it hurt.
    pub(crate) fn tool_ended(&mut self, failed: bool) {
        if !failed {
            self.failed_calls = 0;
            return;
        }
        self.failed_calls = self.failed_calls.saturating_add(1);
        if self.failed_calls >= FAILED_CALLS_FROM {
            self.lose(FAILED_CALLS);
        }
    }

    fn lose(&mut self, loss: u16) {
        self.value = self.value.saturating_sub(loss);
    }

    /// Below the first threshold the agent is suspended, below the second stopped.
    pub(crate) fn judge(&self, policy: &GatePolicy) -> Judgement<HealthFinding> {
        let finding = HealthFinding {
            health: self.value,
            suspend_below: policy.soft_suspend_threshold,
            stop_below: policy.hard_stop_threshold,
        };
        Judgement::stop_if(self.value < policy.soft_suspend_threshold, finding)
    }
}
