//! What a request may use, and what it did: tokens and money.

use serde::{Deserialize, Serialize};

use crate::budget::{Amount, Need};
use crate::money::NanoUsd;

/// Fields that are as usual are left out of a record.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What a request may cost, judged before it is forwarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// Tokens it sends, as far as can be guessed from its size: what rates are counted with.
    pub input_tokens: u32,
    /// Tokens it may get back at most.
    pub output_tokens: u32,
    /// What is reserved for it: the most it may cost.
    pub usd: NanoUsd,
    /// The model has no price, or what the path costs cannot be known; `usd` is 0 or too little.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unpriced: bool,
    /// Tokens it may send beyond `input_tokens`; reserved too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub more_input_tokens: u32,
    /// Of the tokens reserved, those that are only a bound: the client named no limit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub open_tokens: u64,
    /// The same of the money.
    #[serde(default, skip_serializing_if = "is_default")]
    pub open_usd: NanoUsd,
}

impl Estimate {
    /// Tokens that are reserved, sent ones.
    pub fn input_reserved(&self) -> u64 {
        u64::from(self.input_tokens) + u64::from(self.more_input_tokens)
    }
}

impl From<Estimate> for Need {
    fn from(estimate: Estimate) -> Need {
        let tokens = estimate.input_reserved() + u64::from(estimate.output_tokens);
        let open = Amount { usd: estimate.open_usd, tokens: estimate.open_tokens };
        Need { most: Amount { usd: estimate.usd, tokens }, open }
    }
}

/// What a request really used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Tokens sent.
    pub input_tokens: u32,
    /// Tokens received, reasoning included.
    pub output_tokens: u32,
    /// What it cost, caches and reasoning priced.
    pub usd: NanoUsd,
    /// Of the tokens sent, read from a cache.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cache_read_tokens: u32,
    /// Of the tokens sent, written to a cache.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cache_write_tokens: u32,
    /// Of the tokens received, spent on reasoning.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reasoning_tokens: u32,
    /// The provider did not say, or said more than any answer has: estimated from sizes, or from what was reserved.
    #[serde(default, skip_serializing_if = "is_default")]
    pub estimated: bool,
}

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
