//! What was let through in the last minute, counted one by one.

use std::collections::VecDeque;

/// A minute, less the tenth of a second by which the core may forget early when it is flooded.
const WINDOW_MS: u64 = 60_000 - 100;

/// What happened at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// Requests.
    pub requests: u64,
    /// Generating ones among them.
    pub generations: u64,
    /// Tokens, as the rate limit counts them.
    pub tokens: u64,
    /// Tool calls seen by hooks.
    pub tool_calls: u64,
}

/// The last minute of one agent.
#[derive(Clone, Debug, Default)]
pub struct Minute(VecDeque<(u64, Counted)>);

impl Minute {
    /// Forgets what is too old.
    pub fn expire(&mut self, now: u64) {
        while self.0.front().is_some_and(|(at, _)| now.saturating_sub(*at) >= WINDOW_MS) {
            self.0.pop_front();
        }
    }

    /// Counts something.
    pub fn add(&mut self, now: u64, counted: Counted) {
        self.0.push_back((now, counted));
    }

    /// Everything is forgotten when a person switches the agent on.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// All together.
    pub fn sum(&self) -> Counted {
        self.0.iter().fold(Counted::default(), |sum, (_, c)| Counted {
            requests: sum.requests + c.requests,
            generations: sum.generations + c.generations,
            tokens: sum.tokens + c.tokens,
            tool_calls: sum.tool_calls + c.tool_calls,
        })
    }
}
