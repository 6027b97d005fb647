//! Usage as providers count it, brought to one meaning.
//!
//! A stream says its usage several times, always in all, sometimes in parts: of each number the largest counts.

use super::UsageIn;
use super::field::Count;

/// Numbers read so far. A number that was never said is `None`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UsageTotals {
    pub(super) input: Counter,
    /// Input that comes on top of `input` (Gemini: what its own tools read).
    pub(super) input_more: Counter,
    pub(super) cache_read: Counter,
    pub(super) cache_write: Counter,
    /// Of `cache_write`, for an hour (Anthropic).
    pub(super) cache_write_1h: Counter,
    pub(super) output: Counter,
    pub(super) reasoning: Counter,
    /// `input` is without what went through a cache (Anthropic).
    pub(super) cache_apart: bool,
    /// `output` is without `reasoning` (Gemini, xAI).
    pub(super) reasoning_apart: bool,
}

/// One number, the largest said.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counter(Option<u64>);

impl Counter {
    /// A number was said, or not.
    pub(super) fn say(&mut self, count: Count) {
        self.0 = self.0.max(count.0);
    }

    fn or_zero(self) -> u64 {
        self.0.unwrap_or(0)
    }
}

impl UsageTotals {
    /// What was used; `None` if nothing was said.
    pub(super) fn usage(&self) -> Option<UsageIn> {
        let all =
            [self.input, self.input_more, self.cache_read, self.cache_write, self.output, self.reasoning];
        if all.iter().all(|counter| counter.0.is_none()) {
            return None;
        }
        let (cache_read, cache_write) = (self.cache_read.or_zero(), self.cache_write.or_zero());
        let mut input = self.input.or_zero().saturating_add(self.input_more.or_zero());
        if self.cache_apart {
            input = input.saturating_add(cache_read).saturating_add(cache_write);
        }
        let reasoning = self.reasoning.or_zero();
        let mut output = self.output.or_zero();
        if self.reasoning_apart {
            output = output.saturating_add(reasoning);
        }
        // A part is never larger than its whole, whatever was sent.
        let cache_read = cache_read.min(input);
        let cache_write = cache_write.min(input - cache_read);
        let cache_write_1h = self.cache_write_1h.or_zero().min(cache_write);
        let reasoning = reasoning.min(output);
        Some(UsageIn { input, cache_read, cache_write, cache_write_1h, output, reasoning })
    }
}
