//! The last 60 seconds, exactly: what the rate limit, the gate and the watchdog count.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::as_list::as_list;
use crate::time::Millis;

/// How long something counts.
pub(crate) const MINUTE_MS: u64 = 60_000;

/// Marks kept at most. Beyond that, what happens within a tenth of a second shares one mark, so that a flood
/// costs some 900 of them (18 kB), more only if counters overflow. A shared mark counts from its first event, up to 0.1 s short for the others.
const MARKS_MAX: usize = 256;
const SHARED_MS: u32 = 100;
const MARKS_STEP: usize = 8;

/// What happened at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Mark {
    /// Tokens new to the conversation, for the gate (TW-4).
    pub(crate) new_tokens: u32,
    /// All tokens, for the rate limit (PO-3).
    pub(crate) tokens: u32,
    /// Tool calls, for the gate.
    #[serde(default)]
    pub(crate) tool_calls: u16,
    /// Requests, for the rate limit.
    #[serde(default)]
    pub(crate) requests: u8,
    /// Forwarded generation calls, for the watchdog.
    #[serde(default)]
    pub(crate) generations: u8,
}

as_list!(Mark: new_tokens, tokens; tool_calls = 0, requests = 0, generations = 0);

/// Sums over the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sums {
    pub(crate) new_tokens: u64,
    pub(crate) tokens: u64,
    pub(crate) tool_calls: u32,
    pub(crate) requests: u32,
    pub(crate) generations: u32,
}

/// The log of the last minute.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Minute {
    /// Low 32 bits of the time, and what happened then.
    marks: VecDeque<(u32, Mark)>,
    sums: Sums,
}

impl Minute {
    /// Forgets what is 60 s old or older.
    pub(crate) fn expire(&mut self, now: Millis) {
        while let Some((at, mark)) = self.marks.front().copied() {
            if u64::from((now.0 as u32).wrapping_sub(at)) < MINUTE_MS {
                return;
            }
            self.marks.pop_front();
            self.sums.new_tokens -= u64::from(mark.new_tokens);
            self.sums.tokens -= u64::from(mark.tokens);
            self.sums.tool_calls -= u32::from(mark.tool_calls);
            self.sums.requests -= u32::from(mark.requests);
            self.sums.generations -= u32::from(mark.generations);
        }
    }

    /// Forgets everything, after a silence longer than the 32-bit clock can tell.
    pub(crate) fn clear(&mut self) {
        *self = Minute::default();
    }

    /// Gives memory back that is not needed.
    pub(crate) fn shrink(&mut self) {
        self.marks.shrink_to_fit();
    }

    /// Counts something.
    pub(crate) fn add(&mut self, now: Millis, mark: Mark) {
        let at = now.0 as u32;
        self.sums.new_tokens += u64::from(mark.new_tokens);
        self.sums.tokens += u64::from(mark.tokens);
        self.sums.tool_calls += u32::from(mark.tool_calls);
        self.sums.requests += u32::from(mark.requests);
        self.sums.generations += u32::from(mark.generations);
        let crowded = self.marks.len() >= MARKS_MAX;
        if let Some((last_at, last)) = self.marks.back_mut() {
            let shares = *last_at == at || (crowded && at.wrapping_sub(*last_at) < SHARED_MS);
            if let Some(sum) = last.plus(mark).filter(|_| shares) {
                // Keeps the earlier time: a mark that moved on with each event would never expire.
                *last = sum;
                return;
            }
        }
        if self.marks.len() == self.marks.capacity() {
            // In small steps: this is the largest thing an agent at work holds beside its window.
            self.marks.reserve_exact(MARKS_STEP);
        }
        self.marks.push_back((at, mark));
    }

    /// The sums, after [`Minute::expire`].
    pub(crate) fn sums(&self) -> Sums {
        self.sums
    }

    /// How long until the first mark expires.
    pub(crate) fn first_expires_in(&self, now: Millis) -> Option<u64> {
        let (at, _) = self.marks.front()?;
        Some(MINUTE_MS.saturating_sub(u64::from((now.0 as u32).wrapping_sub(*at))))
    }
}

impl Mark {
    /// Both together, unless a counter would overflow.
    fn plus(self, other: Mark) -> Option<Mark> {
        Some(Mark {
            new_tokens: self.new_tokens.checked_add(other.new_tokens)?,
            tokens: self.tokens.checked_add(other.tokens)?,
            tool_calls: self.tool_calls.checked_add(other.tool_calls)?,
            requests: self.requests.checked_add(other.requests)?,
            generations: self.generations.checked_add(other.generations)?,
        })
    }
}
