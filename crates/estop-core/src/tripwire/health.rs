//! Health (TW-5) in whole thousandths: falls with failures, heals slowly and never fully.

use serde::{Deserialize, Serialize};

use crate::judgement::Judgement;
use crate::policy::SafetyGatePolicy;
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
pub(crate) enum HealthLoss {
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
    #[serde(default)]
    losses: HealthLosses,
}

impl Default for Health {
    fn default() -> Self {
        Health { value: FULL, failed_calls: 0, recovered_to: Millis(0), losses: HealthLosses::default() }
    }
}

/// What took an agent's health: how often each, since a person switched it on or it had recovered as far as it can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthLosses {
    /// Failed tool calls, of each row of failures the third and later ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed_calls: u16,
    /// Failed requests.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed_requests: u16,
    /// Times it began to loop or to run away.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub loops: u16,
    /// Times it fell back into that.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub flips: u16,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(count: &u16) -> bool {
    *count == 0
}

impl HealthLosses {
    /// Each with its words and what it cost, in thousandths.
    fn each(&self) -> [(u16, &'static str, u32); 4] {
        let cost = |times: u16, each: u16| u32::from(times) * u32::from(each);
        [
            (self.failed_calls, "failed tool calls", cost(self.failed_calls, FAILED_CALLS)),
            (self.failed_requests, "failed requests", cost(self.failed_requests, EXECUTION_ERROR)),
            (self.loops, "times looping or running away", cost(self.loops, LOOPING_OR_RUNAWAY)),
            (self.flips, "times falling back into that", cost(self.flips, MODE_FLIP)),
        ]
    }

    /// What cost most: `tool_failures`, `request_failures` or `looping`.
    pub fn worst(&self) -> Option<&'static str> {
        let [calls, requests, loops, flips] = self.each().map(|(_, _, cost)| cost);
        let causes = [("looping", loops + flips), ("request_failures", requests), ("tool_failures", calls)];
        causes.into_iter().filter(|(_, cost)| *cost > 0).max_by_key(|(_, cost)| *cost).map(|(name, _)| name)
    }
}

impl std::fmt::Display for HealthLosses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let happened = self.each().into_iter().filter(|(times, ..)| *times > 0);
        for (at, (times, what, cost)) in happened.enumerate() {
            let gap = if at == 0 { "" } else { ", " };
            write!(f, "{gap}{times} {what} (-{cost})")?;
        }
        Ok(())
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
    /// What took it.
    #[serde(flatten)]
    pub losses: HealthLosses,
}

impl std::fmt::Display for HealthFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let HealthFinding { health, suspend_below, stop_below, losses } = self;
        write!(f, "Health is {health} of 1000 (paused below {suspend_below}, stopped below {stop_below})")?;
        match losses.worst() {
            Some(_) => write!(f, ": {losses}."),
            None => f.write_str("."),
        }
    }
}

impl Health {
    /// In thousandths.
    pub(crate) fn value(&self) -> u16 {
        self.value
    }

    /// As it is after a person switched the agent on.
    pub(crate) fn reactivated(now: Millis) -> Health {
        Health {
            value: AFTER_ACTIVATION,
            failed_calls: 0,
            recovered_to: now,
            losses: HealthLosses::default(),
        }
    }

    /// Heals what time healed: whole minutes, up to the cap, never downwards.
    pub(crate) fn recover(&mut self, now: Millis, policy: &SafetyGatePolicy) {
        if self.value >= policy.recovery_cap {
            self.recovered_to = now;
            return;
        }
        let minutes = now.since(self.recovered_to) / MINUTE_MS;
        let healed = minutes.saturating_mul(u64::from(policy.recovery_rate));
        self.value = (u64::from(self.value) + healed).min(u64::from(policy.recovery_cap)) as u16;
        self.recovered_to = self.recovered_to.plus(minutes * MINUTE_MS);
        if self.value >= policy.recovery_cap {
            self.losses = HealthLosses::default();
        }
    }

    pub(crate) fn harm(&mut self, harm: HealthLoss) {
        let (times, loss) = match harm {
            HealthLoss::LoopingOrRunaway => (&mut self.losses.loops, LOOPING_OR_RUNAWAY),
            HealthLoss::ExecutionError => (&mut self.losses.failed_requests, EXECUTION_ERROR),
            HealthLoss::UnexpectedFlip => (&mut self.losses.flips, MODE_FLIP),
        };
        *times = times.saturating_add(1);
        self.lose(loss);
    }

    /// A tool call ended. The third failure in a row and each one after it hurt.
    pub(crate) fn tool_ended(&mut self, failed: bool) {
        if !failed {
            self.failed_calls = 0;
            return;
        }
        self.failed_calls = self.failed_calls.saturating_add(1);
        if self.failed_calls >= FAILED_CALLS_FROM {
            self.losses.failed_calls = self.losses.failed_calls.saturating_add(1);
            self.lose(FAILED_CALLS);
        }
    }

    fn lose(&mut self, loss: u16) {
        self.value = self.value.saturating_sub(loss);
    }

    /// How it stands, and why.
    pub(crate) fn finding(&self, policy: &SafetyGatePolicy) -> HealthFinding {
        HealthFinding {
            health: self.value,
            suspend_below: policy.soft_suspend_threshold,
            stop_below: policy.hard_stop_threshold,
            losses: self.losses,
        }
    }

    /// Below the first threshold the agent is suspended, below the second stopped.
    pub(crate) fn judge(&self, policy: &SafetyGatePolicy) -> Judgement<HealthFinding> {
        Judgement::stop_if(self.value < policy.soft_suspend_threshold, self.finding(policy))
    }
}
