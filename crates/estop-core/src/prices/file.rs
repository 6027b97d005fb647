//! The file of prices: its shape, and what must hold in it. docs/prices.md describes it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::table::{Families, Family};
use super::{MODEL_TOKENS_MAX, ModelLimits, Price, RATE_MAX, Rates, RatesIn, Tier};
use crate::money::NanoUsd;

/// Why a file of prices cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PriceError {
    /// Not JSON, or not of this shape.
    #[error("{0}")]
    Unreadable(#[from] serde_json::Error),
    /// A price that cannot be meant.
    #[error("{provider} {model}: a price is above ${} for a million tokens", RATE_MAX / NanoUsd::DOLLAR.0)]
    TooDear {
        /// Whose.
        provider: Box<str>,
        /// Which model.
        model: Box<str>,
    },
    /// Tiers that do not rise.
    #[error("{provider} {model}: the tiers must rise by `above`")]
    Tiers {
        /// Whose.
        provider: Box<str>,
        /// Which model.
        model: Box<str>,
    },
    /// A maximum that no model has.
    #[error("{provider} {model}: max_output and max_input must be 1 to {MODEL_TOKENS_MAX} tokens")]
    Limits {
        /// Whose.
        provider: Box<str>,
        /// Which model.
        model: Box<str>,
    },
    /// Two models with the same id or prefix.
    #[error("{provider}: `{id}` has two prices")]
    Twice {
        /// Whose.
        provider: Box<str>,
        /// The id or prefix.
        id: Box<str>,
    },
    /// A fallback that does not exist.
    #[error("{provider}: its fallback `{fallback}` is no provider of the file")]
    UnknownFallback {
        /// Whose.
        provider: Box<str>,
        /// The name that leads nowhere.
        fallback: Box<str>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileIn {
    as_of: Box<str>,
    /// Where it comes from, for people.
    #[serde(default, rename = "source")]
    _source: BTreeMap<Box<str>, Box<str>>,
    providers: BTreeMap<Box<str>, ProviderIn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderIn {
    #[serde(default)]
    hosts: Vec<Box<str>>,
    #[serde(default)]
    strip: Vec<Box<str>>,
    #[serde(default)]
    fallback: Vec<Box<str>>,
    models: Vec<ModelIn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelIn {
    #[serde(default)]
    ids: Vec<String>,
    #[serde(default)]
    prefixes: Vec<String>,
    rates: RatesIn,
    #[serde(default)]
    request: u64,
    #[serde(default)]
    tiers: Vec<TierIn>,
    #[serde(default)]
    max_output: Option<u32>,
    #[serde(default)]
    max_input: Option<u32>,
    #[serde(default)]
    reasons: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TierIn {
    above: u64,
    rates: RatesIn,
}

/// Reads a whole file.
pub(super) fn read(text: &str) -> Result<Families, PriceError> {
    let file: FileIn = serde_json::from_str(text)?;
    let names: Vec<Box<str>> = file.providers.keys().cloned().collect();
    let mut by_name = BTreeMap::new();
    for (provider, given) in file.providers {
        if let Some(fallback) = given.fallback.iter().find(|other| !names.contains(other)) {
            return Err(PriceError::UnknownFallback { provider, fallback: fallback.clone() });
        }
        by_name.insert(provider.clone(), family(&provider, given)?);
    }
    Ok(Families { as_of: file.as_of, by_name })
}

fn family(provider: &str, given: ProviderIn) -> Result<Family, PriceError> {
    let ProviderIn { hosts, strip, fallback, models } = given;
    let mut family = Family { hosts, strip, fallback, ..Family::default() };
    for model in models {
        let name = model.ids.first().or(model.prefixes.first()).map_or("", String::as_str);
        family.prices.push(price(&model, provider, name)?);
        let price = family.prices.len() - 1;
        for (names, map) in [(model.ids, &mut family.ids), (model.prefixes, &mut family.prefixes)] {
            for id in names {
                let id = id.to_ascii_lowercase().into_boxed_str();
                if map.insert(id.clone(), price).is_some() {
                    return Err(PriceError::Twice { provider: provider.into(), id });
                }
            }
        }
    }
    family.prefix_bytes_min = family.prefixes.keys().map(|prefix| prefix.len()).min().unwrap_or(0);
    Ok(family)
}

fn price(model: &ModelIn, provider: &str, name: &str) -> Result<Price, PriceError> {
    let tier = |tier: &TierIn| Tier { above: tier.above, rates: tier.rates.into() };
    let price = Price {
        rates: model.rates.into(),
        tiers: model.tiers.iter().map(tier).collect(),
        per_request: NanoUsd(model.request),
        limits: ModelLimits {
            max_output: model.max_output,
            max_input: model.max_input,
            reasons: model.reasons,
        },
    };
    let known = [model.max_output, model.max_input];
    if known.into_iter().flatten().any(|most| most == 0 || most > MODEL_TOKENS_MAX) {
        return Err(PriceError::Limits { provider: provider.into(), model: name.into() });
    }
    let mut all = std::iter::once(&price.rates).chain(price.tiers.iter().map(|tier| &tier.rates));
    if model.request > RATE_MAX || all.any(|rates| dearest(rates) > RATE_MAX) {
        return Err(PriceError::TooDear { provider: provider.into(), model: name.into() });
    }
    if !price.tiers.is_sorted_by(|tier, next| tier.above < next.above) {
        return Err(PriceError::Tiers { provider: provider.into(), model: name.into() });
    }
    Ok(price)
}

fn dearest(rates: &Rates) -> u64 {
    let Rates { input, cache_read, cache_write, cache_write_1h, output, reasoning } = *rates;
    [input, cache_read, cache_write, cache_write_1h, output, reasoning].into_iter().fold(0, u64::max)
}
