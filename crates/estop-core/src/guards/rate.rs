//! Requests and tokens in any 60 seconds (PO-3).

use serde::Serialize;

use crate::judgement::Judgement;
use crate::minute::Minute;
use crate::policy::RateLimit;
use crate::time::Millis;

/// Use of the sliding minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RateFinding {
    /// Requests in the last 60 s.
    pub requests: u32,
    /// Their limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_max: Option<u32>,
    /// Tokens in the last 60 s.
    pub tokens: u64,
    /// Their limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_max: Option<u64>,
    /// Requests under way.
    pub in_flight: u32,
    /// When there may be room again.
    pub free_in_ms: u64,
}

impl std::fmt::Display for RateFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.in_flight >= IN_FLIGHT_MAX {
            return write!(f, "This agent has {} requests in flight, which is its limit.", self.in_flight);
        }
        f.write_str("Rate limit: ")?;
        if let Some(max) = self.requests_max {
            write!(f, "{} of {max} requests, ", self.requests)?;
        }
        if let Some(max) = self.tokens_max {
            write!(f, "{} of {max} tokens, ", self.tokens)?;
        }
        write!(f, "in the last minute. Try again in {} s.", self.free_in_ms.div_ceil(1000))
    }
}

/// Requests of one agent that may be under way at once, whatever its policy: memory must have an end.
pub const IN_FLIGHT_MAX: u32 = 1024;
/// When to try again if only requests under way are in the way: nobody knows when one ends, at once is no answer.
const BUSY_RETRY_MS: u64 = 1000;

/// One more request of `tokens` must fit. A request larger than the whole limit passes on an empty minute:
/// it could never pass otherwise.
pub(crate) fn judge(
    minute: &Minute,
    now: Millis,
    limit: &RateLimit,
    tokens: u64,
    in_flight: u32,
) -> Judgement<Option<RateFinding>> {
    let unlimited = limit.requests_per_minute.is_none() && limit.tokens_per_minute.is_none();
    if unlimited && in_flight < IN_FLIGHT_MAX {
        return Judgement::CLEAR;
    }
    let sums = minute.sums();
    let requests_full = limit.requests_per_minute.is_some_and(|max| sums.requests >= max);
    let tokens_full =
        limit.tokens_per_minute.is_some_and(|max| sums.tokens > 0 && sums.tokens + tokens > max);
    let full = requests_full || tokens_full || in_flight >= IN_FLIGHT_MAX;
    let finding = Some(RateFinding {
        requests: sums.requests,
        requests_max: limit.requests_per_minute,
        tokens: sums.tokens,
        tokens_max: limit.tokens_per_minute,
        in_flight,
        free_in_ms: if full { minute.first_expires_in(now).unwrap_or(BUSY_RETRY_MS) } else { 0 },
    });
    Judgement::stop_if(full, finding)
}
