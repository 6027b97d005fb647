//! What a request may use, and what it did: tokens and money.

use serde::Deserialize;

use crate::as_list::as_list;
use crate::budget::Amount;
use crate::money::NanoUsd;

/// What a request may cost, judged before it is forwarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// Tokens it sends.
    pub input_tokens: u32,
    /// Tokens it may get back, as far as they are reserved.
    pub output_tokens: u32,
    /// What both would cost.
    pub usd: NanoUsd,
    /// The model has no price; `usd` is 0.
    #[serde(default)]
    pub unpriced: bool,
}

as_list!(Estimate: input_tokens, output_tokens, usd; unpriced = false);

/// What a request really used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Tokens sent.
    pub input_tokens: u32,
    /// Tokens received, reasoning included.
    pub output_tokens: u32,
    /// What it cost, caches and reasoning priced.
    pub usd: NanoUsd,
    /// Of the tokens sent, read from a cache.
    #[serde(default)]
    pub cache_read_tokens: u32,
    /// Of the tokens sent, written to a cache.
    #[serde(default)]
    pub cache_write_tokens: u32,
    /// Of the tokens received, spent on reasoning.
    #[serde(default)]
    pub reasoning_tokens: u32,
    /// The provider did not say; estimated from sizes.
    #[serde(default)]
    pub estimated: bool,
}

as_list!(
    Usage: input_tokens, output_tokens, usd;
    cache_read_tokens = 0, cache_write_tokens = 0, reasoning_tokens = 0, estimated = false
);

impl Usage {
    /// Both directions.
    pub fn tokens(&self) -> u64 {
        u64::from(self.input_tokens) + u64::from(self.output_tokens)
    }
}

impl From<Usage> for Amount {
    fn from(usage: Usage) -> Amount {
        Amount { usd: usage.usd, tokens: usage.tokens() }
    }
}
