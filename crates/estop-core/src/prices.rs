//! What tokens cost (PO-2): prices of models in whole nano-dollars, and which price a model's id has.
//!
//! Never a guess: a model the table does not know has no price. Rounded up, so that many small requests are not free.
//!
//! ```
//! use estop_core::prices::{Price, RatesIn, TokenUse};
//!
//! // $3 and $15 for a million tokens.
//! let price = Price::flat(RatesIn { input: 3_000_000_000, output: 15_000_000_000, ..RatesIn::default() });
//! let used = TokenUse { input: 1_000, output: 100, ..TokenUse::default() };
//! assert_eq!(price.cost(&used).to_string(), "$0.0045");
//! ```

mod file;
mod id;
mod table;

use serde::Deserialize;

use crate::money::NanoUsd;

pub use file::PriceError;
pub use table::{PriceTable, Tariff};

/// Prices are for a million tokens.
const TOKENS_PER_PRICE: u128 = 1_000_000;

/// The most a million tokens may cost, in nano-dollars: $100,000. The dearest model costs $600.
pub const RATE_MAX: u64 = 100_000_000_000_000;

/// The most tokens one request sends, or one answer has: 16 Mi. The largest context is 2 Mi, the longest answer 272,000;
/// whoever says more is wrong, and would book any budget empty.
pub const MODEL_TOKENS_MAX: u32 = 1 << 24;

/// Tokens of one request, each counted in one place only, but for `reasoning`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenUse {
    /// Sent, and neither read from a cache nor written to one.
    pub input: u64,
    /// Read from a cache.
    pub cache_read: u64,
    /// Written to a cache for minutes.
    pub cache_write: u64,
    /// Written to a cache for an hour.
    pub cache_write_1h: u64,
    /// Received, reasoning included.
    pub output: u64,
    /// Of `output`, spent on reasoning.
    pub reasoning: u64,
}

impl TokenUse {
    /// Everything sent, caches included: what decides on the tier.
    fn sent(&self) -> u64 {
        [self.cache_read, self.cache_write, self.cache_write_1h]
            .into_iter()
            .fold(self.input, u64::saturating_add)
    }
}

/// What a million tokens of each kind cost, in nano-dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the same kinds as in `TokenUse`")]
pub struct Rates {
    pub input: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub cache_write_1h: u64,
    pub output: u64,
    pub reasoning: u64,
}

/// Rates as they are written down: what is left out costs what stands for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RatesIn {
    /// Tokens sent.
    pub input: u64,
    /// Tokens received.
    pub output: u64,
    /// Else as `input`.
    pub cache_read: Option<u64>,
    /// Else as `input`.
    pub cache_write: Option<u64>,
    /// Else as `cache_write`.
    pub cache_write_1h: Option<u64>,
    /// Else as `output`.
    pub reasoning: Option<u64>,
}

impl From<RatesIn> for Rates {
    fn from(given: RatesIn) -> Rates {
        let cache_write = given.cache_write.unwrap_or(given.input);
        Rates {
            input: given.input,
            cache_read: given.cache_read.unwrap_or(given.input),
            cache_write,
            cache_write_1h: given.cache_write_1h.unwrap_or(cache_write),
            output: given.output,
            reasoning: given.reasoning.unwrap_or(given.output),
        }
    }
}

impl Rates {
    /// Nano-dollars times a million. No sum of six products is lost, only one beyond 2^128 is cut.
    fn cost(&self, used: &TokenUse) -> u128 {
        let reasoning = used.reasoning.min(used.output);
        let parts = [
            (self.input, used.input),
            (self.cache_read, used.cache_read),
            (self.cache_write, used.cache_write),
            (self.cache_write_1h, used.cache_write_1h),
            (self.output, used.output - reasoning),
            (self.reasoning, reasoning),
        ];
        let cost = |(rate, tokens)| u128::from(rate) * u128::from(tokens);
        parts.into_iter().map(cost).fold(0, u128::saturating_add)
    }
}

/// The price of one model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Price {
    rates: Rates,
    /// By `above`, rising.
    tiers: Vec<Tier>,
    per_request: NanoUsd,
    limits: ModelLimits,
}

/// What a model reads and writes at most: the bounds of what one request may cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelLimits {
    /// Tokens of one answer, reasoning included; `None` = nobody knows.
    pub max_output: Option<u32>,
    /// Tokens that can be sent; `None` = nobody knows.
    pub max_input: Option<u32>,
    /// It may write tokens that are billed and never shown.
    pub reasons: bool,
}

/// Other rates, for every token of a request that sends many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tier {
    /// For requests that send more tokens than this.
    above: u64,
    rates: Rates,
}

/// What runs on one's own machine.
static FREE: Price = Price {
    rates: Rates { input: 0, cache_read: 0, cache_write: 0, cache_write_1h: 0, output: 0, reasoning: 0 },
    tiers: Vec::new(),
    per_request: NanoUsd(0),
    limits: ModelLimits { max_output: None, max_input: None, reasons: false },
};

impl Price {
    /// The same rates for requests of any size.
    pub fn flat(rates: impl Into<Rates>) -> Price {
        Price { rates: rates.into(), ..Price::default() }
    }

    /// What a request costs, rounded up to the next nano-dollar. Never overflows: the largest number stands for more.
    pub fn cost(&self, used: &TokenUse) -> NanoUsd {
        let for_tokens = self.rates_for(used.sent()).cost(used).div_ceil(TOKENS_PER_PRICE);
        let cost = for_tokens.saturating_add(u128::from(self.per_request.0));
        NanoUsd(u64::try_from(cost).unwrap_or(u64::MAX))
    }

    /// The rates for a request that sends this many tokens.
    pub fn rates_for(&self, tokens_sent: u64) -> &Rates {
        let reached = self.tiers.iter().rev().find(|tier| tokens_sent > tier.above);
        reached.map_or(&self.rates, |tier| &tier.rates)
    }

    /// The same price of a model with these limits.
    pub fn limited(self, limits: ModelLimits) -> Price {
        Price { limits, ..self }
    }

    /// What the model reads and writes at most.
    pub fn limits(&self) -> ModelLimits {
        self.limits
    }

    /// What a request costs at most that sends `input` tokens and gets `output` back, whatever caches do with them: a
    /// cache may be written, or not, and each token is billed in one place.
    pub fn cost_at_most(&self, input: u64, output: u64) -> NanoUsd {
        // It may send less: then a lower tier holds, which need not be the cheaper one.
        let reached = self.tiers.iter().filter(|tier| input > tier.above).map(|tier| &tier.rates);
        let (mut read, mut written) = (0, 0);
        for rates in std::iter::once(&self.rates).chain(reached) {
            let Rates { input, cache_read, cache_write, cache_write_1h, output, reasoning } = *rates;
            read = [input, cache_read, cache_write, cache_write_1h].into_iter().fold(read, u64::max);
            written = written.max(output).max(reasoning);
        }
        let cost = u128::from(read) * u128::from(input) + u128::from(written) * u128::from(output);
        let cost = cost.div_ceil(TOKENS_PER_PRICE).saturating_add(u128::from(self.per_request.0));
        NanoUsd(u64::try_from(cost).unwrap_or(u64::MAX))
    }

    /// Whether nothing ever costs anything.
    pub fn is_free(&self) -> bool {
        Price { limits: FREE.limits, ..self.clone() } == FREE
    }
}

#[cfg(test)]
mod tests;
