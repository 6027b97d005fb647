//! What models cost (PO-2): the shipped table or a file of one's own, and the prices the configuration sets over it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::LazyLock;

use estop_core::ids::Name;
use estop_core::policy_file::Number;
use estop_core::prices::{ModelLimits, Price, PriceTable, RatesIn, Tariff};

use serde::Deserialize;

use super::env::Env;
use super::fault::ValueError;
use super::paths;
use super::providers::{Protocol, Provider, ProviderIn};
use super::suggest::closest;
use super::values::{FilePath, ModelTokens, Rate, given};

/// `prices:`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PricesIn {
    #[serde(deserialize_with = "given")]
    pub(super) file: Option<FilePath>,
    /// By `model` or `provider/model`.
    pub(super) models: BTreeMap<Name, ModelPriceIn>,
}

/// What a million tokens of one model cost.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelPriceIn {
    pub(super) input: Rate,
    pub(super) output: Rate,
    #[serde(default, deserialize_with = "given")]
    pub(super) cache_read: Option<Rate>,
    #[serde(default, deserialize_with = "given")]
    pub(super) cache_write: Option<Rate>,
    #[serde(default, deserialize_with = "given")]
    pub(super) cache_write_1h: Option<Rate>,
    #[serde(default, deserialize_with = "given")]
    pub(super) reasoning: Option<Rate>,
    /// Tokens of one answer at most.
    #[serde(default, deserialize_with = "given")]
    pub(super) max_output: Option<ModelTokens>,
    /// Tokens that can be sent at most.
    #[serde(default, deserialize_with = "given")]
    pub(super) max_input: Option<ModelTokens>,
    /// It may write tokens that are billed and never shown.
    #[serde(default, deserialize_with = "given")]
    pub(super) reasons: Option<bool>,
}

/// Written by `scripts/prices`.
const SHIPPED: &str = include_str!("../prices/prices.json");

static TABLE: LazyLock<PriceTable> =
    LazyLock::new(|| PriceTable::from_json(SHIPPED).expect("the shipped prices are valid"));

/// The shipped table has 0.2 MB.
const FILE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What stands in `prices` of a provider whose models cost nothing.
const FREE: &str = "free";

/// The whole table for these providers.
pub(super) fn prices(
    given: &PricesIn,
    named_providers: &BTreeMap<Name, Option<ProviderIn>>,
    providers: &BTreeMap<String, Provider>,
    env: &Env,
) -> Result<PriceTable, ValueError> {
    let mut table = match &given.file {
        Some(path) => from_file(&paths::expanded(path, &["prices", "file"], env)?)?,
        None => TABLE.clone(),
    };
    for (name, provider) in providers {
        let named_provider = named_providers.get(name.as_str()).and_then(Option::as_ref);
        let tariff = match named_provider.and_then(|provider| provider.prices.as_deref()) {
            Some(FREE) => Tariff::Free,
            Some(other) => named(other, name, &table)?,
            None => usual(name, provider, &table),
        };
        table.set_provider(name, tariff);
    }
    for (model, price) in &given.models {
        set(&mut table, model, price)?;
    }
    Ok(table)
}

fn from_file(path: &Path) -> Result<PriceTable, ValueError> {
    let fault = |what: String| {
        ValueError::new(&["prices", "file"], format!("prices.file: {} {what}", path.display()))
    };
    // Asked before it is opened: opening a pipe waits for somebody to write into it.
    let about = std::fs::metadata(path).map_err(|error| fault(unreadable(&error)))?;
    if !about.is_file() {
        return Err(fault("is not a regular file".into()));
    }
    let mut text = String::new();
    let file = File::open(path).map_err(|error| fault(unreadable(&error)))?;
    file.take(FILE_BYTES_MAX as u64 + 1)
        .read_to_string(&mut text)
        .map_err(|error| fault(unreadable(&error)))?;
    if text.len() > FILE_BYTES_MAX {
        return Err(fault(format!("is larger than {FILE_BYTES_MAX} bytes")));
    }
    PriceTable::from_json(&text).map_err(|error| {
        fault(format!("is no table of prices: {error}")).with_help("docs/prices.md describes it.".to_owned())
    })
}

fn unreadable(error: &std::io::Error) -> String {
    if error.kind() == std::io::ErrorKind::NotFound {
        "does not exist".to_owned()
    } else {
        format!("cannot be read: {error}")
    }
}

/// The prices a person named for a provider.
fn named(prices: &str, provider: &str, table: &PriceTable) -> Result<Tariff, ValueError> {
    if table.providers().any(|known| known == prices) {
        return Ok(Tariff::As(prices.into()));
    }
    let message = format!("providers.{provider}.prices: the price table has no provider `{prices}`");
    let help = match closest(prices, table.providers().chain([FREE])) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("Known: {FREE}, {}", table.providers().collect::<Vec<_>>().join(", ")),
    };
    Err(ValueError::new(&["providers", provider, "prices"], message).with_help(help))
}

/// Whose prices a provider has if nobody says: what speaks Ollama runs on one's own machine; else its name decides,
/// else its host. A model of anybody else has no price until it is given one.
fn usual(name: &str, provider: &Provider, table: &PriceTable) -> Tariff {
    if provider.protocol == Protocol::Ollama {
        return Tariff::Free;
    }
    let by_name = table.providers().find(|known| *known == name);
    by_name
        .or_else(|| table.provider_at(provider.base_url.host()))
        .map_or(Tariff::Own, |of| Tariff::As(of.into()))
}

fn set(table: &mut PriceTable, model: &str, given: &ModelPriceIn) -> Result<(), ValueError> {
    let fault = |message: String| Err(ValueError::new(&["prices", "models", model], message));
    if model.trim() != model || model.is_empty() {
        return fault(
            "prices.models: every key must be the id of a model, without space around it".to_owned(),
        );
    }
    let rates = RatesIn {
        input: given.input.get(),
        output: given.output.get(),
        cache_read: given.cache_read.map(Number::get),
        cache_write: given.cache_write.map(Number::get),
        cache_write_1h: given.cache_write_1h.map(Number::get),
        reasoning: given.reasoning.map(Number::get),
    };
    let limits = ModelLimits {
        max_output: given.max_output.map(Number::get),
        max_input: given.max_input.map(Number::get),
        reasons: given.reasons.unwrap_or(false),
    };
    match table.set_model(model, Price::flat(rates).limited(limits)) {
        None => Ok(()),
        Some(_) => fault(format!(
            "prices.models: `{model}` stands there twice, once in other letters; leave one out"
        )),
    }
}

#[cfg(test)]
mod tests;
