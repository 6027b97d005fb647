//! The runaway watchdog (KS-8): more than 100 forwarded generation calls in any sliding 60 s, once an episode.

use std::collections::VecDeque;

use serde::Serialize;

use crate::judgement::Judgement;
use crate::minute::MINUTE_MS;
use crate::policy::WatchdogPolicy;
use crate::time::Millis;

/// The sliding window calls are counted in.
pub const WINDOW_MS: u64 = MINUTE_MS;

/// Calls in the sliding minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WatchdogFinding {
    /// Forwarded generation calls in the last 60 s, this one included.
    pub calls: u32,
    /// More than this is a runaway.
    pub max: u32,
}

impl std::fmt::Display for WatchdogFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Runaway: {} model calls within a minute, more than {}.", self.calls, self.max)
    }
}

/// One agent's minute, with the call that asks now.
pub(crate) fn judge(generations: u32, policy: &WatchdogPolicy) -> Judgement<WatchdogFinding> {
    let calls = generations.saturating_add(1);
    let finding = WatchdogFinding { calls, max: policy.max_calls_per_minute };
    Judgement::stop_if(calls > policy.max_calls_per_minute, finding)
}

/// The watchdog over all agents together, for scope `system`. The shell asks it for each forwarded call.
#[derive(Clone, Debug, Default)]
pub struct FleetWatchdog {
    calls: VecDeque<Millis>,
    fired: bool,
}

impl FleetWatchdog {
    /// Counts a forwarded call. `true` once an episode: press the button.
    pub fn count(&mut self, now: Millis, policy: &WatchdogPolicy) -> bool {
        while self.calls.front().is_some_and(|at| now.since(*at) >= MINUTE_MS) {
            self.calls.pop_front();
        }
        let max = policy.max_calls_per_minute as usize;
        // One more than the limit is enough to know; older ones add nothing.
        crate::ring::push_bounded(&mut self.calls, now, max.saturating_add(1));
        let runaway = self.calls.len() > max;
        let fires = runaway && !self.fired;
        self.fired = runaway;
        fires
    }
}
