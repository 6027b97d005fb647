//! Prices and the table, on a small file of its own. The shipped file is tested where it is shipped.

use proptest::prelude::*;

use super::*;

const DOLLAR: u64 = 1_000_000_000;

const FILE: &str = r#"{"as_of": "2026-11-15", "providers": {
    "openai": {"hosts": ["api.openai.com"], "strip": ["openai/"], "models": [
        {"ids": ["gpt-5"], "rates": {"input": 1250000000, "output": 10000000000, "cache_read": 125000000}},
        {"ids": ["gpt-4o"], "rates": {"input": 2500000000, "output": 10000000000}},
        {"ids": ["gpt-4o-2024-05-13"], "rates": {"input": 5000000000, "output": 15000000000}},
        {"prefixes": ["gpt-5-nano-"], "rates": {"input": 50000000, "output": 400000000}}]},
    "anthropic": {"strip": ["anthropic/"], "models": [
        {"ids": ["claude-opus-4"], "prefixes": ["claude-opus-4-0"], "rates": {"input": 15000000000, "output": 75000000000}},
        {"prefixes": ["claude-opus-4-5"], "rates": {"input": 5000000000, "output": 25000000000, "cache_read": 500000000,
            "cache_write": 6250000000, "cache_write_1h": 10000000000}}]},
    "azure": {"hosts": [".openai.azure.com"], "fallback": ["openai"], "models": [
        {"ids": ["phi-4"], "rates": {"input": 125000000, "output": 500000000}}]},
    "openrouter": {"models": [
        {"ids": ["anthropic/claude-opus-4.5"], "rates": {"input": 5000000000, "output": 25000000000}},
        {"ids": ["deep/research"], "rates": {"input": 2000000000, "output": 8000000000, "reasoning": 3000000000}, "request": 5000000}]},
    "gemini": {"strip": ["models/"], "models": [
        {"ids": ["Gemini-2.5-Pro"], "rates": {"input": 1250000000, "output": 10000000000},
            "tiers": [{"above": 200000, "rates": {"input": 2500000000, "output": 15000000000}}]}]}
}}"#;

fn table() -> PriceTable {
    PriceTable::from_json(FILE).expect("the file is valid")
}

/// Input rate in thousandths of a dollar.
fn input(table: &PriceTable, provider: &str, model: &str) -> Option<u64> {
    table.find(provider, model).map(|price| price.rates_for(0).input / 1_000_000)
}

fn price(provider: &str, model: &str) -> Price {
    table().find(provider, model).expect("has a price").clone()
}

#[test]
fn po_2_cached_tokens_are_priced() {
    let used = TokenUse {
        input: 1_000,
        cache_read: 10_000,
        cache_write: 2_000,
        cache_write_1h: 3_000,
        output: 0,
        reasoning: 0,
    };
    let cost = price("anthropic", "claude-opus-4-5").cost(&used);
    assert_eq!(cost, NanoUsd(5_000_000 + 5_000_000 + 12_500_000 + 30_000_000));
    // Without prices of their own, they cost what is sent.
    let cost = price("openai", "gpt-4o").cost(&used);
    assert_eq!(cost, NanoUsd(16_000 * 2_500));
}

#[test]
fn po_2_reasoning_is_output_unless_priced_apart() {
    let used = TokenUse { output: 1_000, reasoning: 400, ..TokenUse::default() };
    assert_eq!(price("openai", "gpt-5").cost(&used), NanoUsd(10_000_000));
    assert_eq!(
        price("openrouter", "deep/research").cost(&used),
        NanoUsd(600 * 8_000 + 400 * 3_000 + 5_000_000)
    );
    // More reasoning than output cannot be.
    let used = TokenUse { output: 10, reasoning: 400, ..TokenUse::default() };
    assert_eq!(price("openai", "gpt-5").cost(&used), NanoUsd(100_000));
}

#[test]
fn po_2_long_requests_have_other_prices() {
    let price = price("gemini", "gemini-2.5-pro");
    let cost =
        |input, cache_read| price.cost(&TokenUse { input, cache_read, output: 1_000, ..TokenUse::default() });
    assert_eq!(cost(200_000, 0), NanoUsd(250_000_000 + 10_000_000));
    assert_eq!(cost(200_001, 0), NanoUsd(200_001 * 2_500 + 15_000_000), "every token costs more");
    assert_eq!(cost(1, 200_000), NanoUsd(200_001 * 2_500 + 15_000_000), "cached tokens count");
}

#[test]
fn po_2_costs_are_rounded_up() {
    let price = Price::flat(RatesIn { input: 1, output: 0, ..RatesIn::default() });
    let cost = |input| price.cost(&TokenUse { input, ..TokenUse::default() });
    assert_eq!(
        (cost(0), cost(1), cost(1_000_000), cost(1_000_001)),
        (NanoUsd(0), NanoUsd(1), NanoUsd(1), NanoUsd(2))
    );
}

#[test]
fn po_2_ids_resolve_as_clients_send_them() {
    let table = table();
    for (provider, model, expected) in [
        ("openai", "gpt-5", Some(1_250)),
        ("openai", "GPT-5", Some(1_250)),
        ("openai", "openai/gpt-5", Some(1_250)),
        ("openai", "gpt-5-2025-08-07", Some(1_250)),
        ("openai", "openai/gpt-5-20250807", Some(1_250)),
        ("openai", "gpt-5-latest", Some(1_250)),
        ("openai", "gpt-4o-2024-05-13", Some(5_000)),
        ("openai", "gpt-4o-2024-08-06", Some(2_500)),
        ("openai", "gpt-5-nano-2025-08-07", Some(50)),
        ("openai", "gpt-5-mini", None),
        ("openai", "gpt-55", None),
        ("openai", "anthropic/gpt-5", None),
        ("openai", "openai/openai/gpt-5", None),
        ("openai", "openai/gpt-5-nano-2025-08-07", Some(50)),
        ("anthropic", "claude-opus-4@20250514", Some(15_000)),
        ("anthropic", "claude-opus-4-5-20251101", Some(5_000)),
        ("anthropic", "claude-opus-4-9", None),
        ("anthropic", "claude-opus-4-5-fast", None),
        ("azure", "gpt-5", Some(1_250)),
        ("azure", "phi-4", Some(125)),
        ("azure", "claude-opus-4", None),
        ("gemini", "models/gemini-2.5-pro", Some(1_250)),
        ("openrouter", "anthropic/claude-opus-4.5", Some(5_000)),
        ("openrouter", "anthropic/claude-opus-4.5-20251101", Some(5_000)),
        ("openrouter", "anthropic/claude-opus-4.5:nitro", None),
        ("openrouter", "claude-opus-4.5", None),
    ] {
        assert_eq!(input(&table, provider, model), expected, "{provider} {model}");
    }
}

#[test]
fn po_2_unknown_model_is_unpriced() {
    let mut table = table();
    table.set_provider("vllm", Tariff::Own);
    let long = "x".repeat(10_000);
    for (provider, model) in [
        ("openai", "gpt-99"),
        ("nobody", "gpt-5"),
        ("vllm", "gpt-5"),
        ("openai", ""),
        ("openai", &long),
        ("", ""),
    ] {
        assert_eq!(table.find(provider, model), None, "{provider} {model}");
    }
    assert_eq!(PriceTable::default().find("openai", "gpt-5"), None);
}

#[test]
fn po_2_override_wins() {
    let mut table = table();
    let own =
        |dollars: u64| Price::flat(RatesIn { input: dollars * DOLLAR, output: 0, ..RatesIn::default() });
    assert_eq!(table.set_model("GPT-5", own(7)), None);
    table.set_model("azure/gpt-5", own(8));
    table.set_model("my-model", own(9));
    table.set_provider("ollama", Tariff::Free);
    table.set_provider("proxy", Tariff::As("openai".into()));
    for (provider, model, expected) in [
        ("openai", "gpt-5", Some(7_000)),
        ("openai", "openai/gpt-5-2025-08-07", Some(7_000)),
        ("openai", "gpt-4o", Some(2_500)),
        ("azure", "gpt-5-2025-08-07", Some(8_000)),
        ("proxy", "gpt-4o", Some(2_500)),
        ("proxy", "gpt-5", Some(7_000)),
        ("ollama", "llama3.2:3b", Some(0)),
        ("ollama", "my-model", Some(9_000)),
        ("anything", "My-Model", Some(9_000)),
    ] {
        assert_eq!(input(&table, provider, model), expected, "{provider} {model}");
    }
    assert!(table.find("ollama", "llama3.2:3b").expect("has a price").is_free());
    assert_eq!(table.set_model("gpt-5", own(1)), Some(own(7)));
}

#[test]
fn po_2_providers_are_known_by_their_hosts() {
    let table = table();
    assert_eq!(table.provider_at("api.openai.com"), Some("openai"));
    assert_eq!(table.provider_at("mine.openai.azure.com"), Some("azure"));
    assert_eq!(table.provider_at("openai.azure.com"), None);
    assert_eq!(table.provider_at("xapi.openai.com"), None);
    assert_eq!(
        table.providers().collect::<Vec<_>>(),
        ["anthropic", "azure", "gemini", "openai", "openrouter"]
    );
    assert_eq!(table.as_of(), "2026-11-15");
}

#[test]
fn po_2_files_that_contradict_themselves_are_refused() {
    let refused = |providers: &str| {
        let text = format!(r#"{{"as_of": "", "providers": {{"p": {providers}}}}}"#);
        PriceTable::from_json(&text).expect_err("is refused").to_string()
    };
    let rates = r#""rates": {"input": 1, "output": 1}"#;
    assert_eq!(
        refused(&format!(r#"{{"models": [{{"ids": ["a"], {rates}}}, {{"ids": ["A"], {rates}}}]}}"#)),
        "p: `a` has two prices"
    );
    let tier = format!(r#"{{"above": 5, {rates}}}"#);
    let tiers = format!(r#"{{"models": [{{"ids": ["a"], {rates}, "tiers": [{tier}, {tier}]}}]}}"#);
    assert_eq!(refused(&tiers), "p a: the tiers must rise by `above`");
    let dear = r#"{"models": [{"ids": ["a"], "rates": {"input": 100000000000001, "output": 1}}]}"#;
    assert_eq!(refused(dear), "p a: a price is above $100000 for a million tokens");
    assert_eq!(
        refused(r#"{"models": [], "fallback": ["q"]}"#),
        "p: its fallback `q` is no provider of the file"
    );
    assert!(
        refused(r#"{"models": [{"ids": ["a"], "rates": {"input": -1, "output": 1}}]}"#)
            .contains("line 1 column")
    );
    assert!(
        refused(r#"{"models": [{"ids": ["a"], "rates": {"input": 1.5, "output": 1}}]}"#)
            .contains("line 1 column")
    );
    assert!(refused(r#"{"models": [], "modles": []}"#).contains("unknown field `modles`"));
}

fn rates() -> impl Strategy<Value = Rates> {
    prop::array::uniform6(prop_oneof![0..100 * DOLLAR, 0..=u64::MAX]).prop_map(
        |[input, cache_read, cache_write, cache_write_1h, output, reasoning]| Rates {
            input,
            cache_read,
            cache_write,
            cache_write_1h,
            output,
            reasoning,
        },
    )
}

fn tokens() -> impl Strategy<Value = u64> {
    prop_oneof![0..500_000_u64, 0..=u64::MAX]
}

fn used() -> impl Strategy<Value = TokenUse> {
    prop::array::uniform6(tokens()).prop_map(
        |[input, cache_read, cache_write, cache_write_1h, output, reasoning]| TokenUse {
            input,
            cache_read,
            cache_write,
            cache_write_1h,
            output,
            reasoning: reasoning.min(output),
        },
    )
}

/// A price whose tiers are never cheaper than what is below them.
fn rising() -> impl Strategy<Value = Price> {
    let tier = |rates: Rates, above: u64| {
        let dearer = |rate: u64| rate.saturating_mul(2).max(rate);
        let rates = Rates {
            input: dearer(rates.input),
            cache_read: dearer(rates.cache_read),
            cache_write: dearer(rates.cache_write),
            cache_write_1h: dearer(rates.cache_write_1h),
            output: dearer(rates.output),
            reasoning: dearer(rates.reasoning),
        };
        Tier { above, rates }
    };
    (rates(), prop::option::of(tokens()), 0..=u64::MAX).prop_map(move |(rates, above, request)| Price {
        rates,
        tiers: above.map(|above| tier(rates, above)).into_iter().collect(),
        per_request: NanoUsd(request),
        limits: ModelLimits::default(),
    })
}

proptest! {
    #[test]
    fn po_2_more_tokens_never_cost_less(price in rising(), less in used(), more in used()) {
        let all = TokenUse {
            input: less.input.saturating_add(more.input),
            cache_read: less.cache_read.saturating_add(more.cache_read),
            cache_write: less.cache_write.saturating_add(more.cache_write),
            cache_write_1h: less.cache_write_1h.saturating_add(more.cache_write_1h),
            output: less.output.saturating_add(more.output - more.reasoning),
            reasoning: less.reasoning,
        };
        prop_assert!(price.cost(&less) <= price.cost(&all));
        let thought = TokenUse { output: less.output.saturating_add(1), ..less };
        prop_assert!(price.cost(&less) <= price.cost(&thought));
    }

    #[test]
    fn po_2_costs_are_exact_where_they_fit(rates in rates(), used in used()) {
        let exact = Price::flat(rates).cost(&used);
        let parts = [
            TokenUse { input: used.input, ..TokenUse::default() },
            TokenUse { cache_read: used.cache_read, ..TokenUse::default() },
            TokenUse { cache_write: used.cache_write, ..TokenUse::default() },
            TokenUse { cache_write_1h: used.cache_write_1h, ..TokenUse::default() },
            TokenUse { output: used.output, reasoning: used.reasoning, ..TokenUse::default() },
        ];
        let sum = parts.iter().map(|part| u128::from(Price::flat(rates).cost(part).0)).sum::<u128>();
        let cut = u128::from(u64::MAX);
        // Each part is rounded up once.
        prop_assert!(u128::from(exact.0) <= sum.min(cut) && sum.min(cut) <= u128::from(exact.0).saturating_add(5).min(cut).max(u128::from(exact.0)));
    }

    #[test]
    fn po_2_no_id_breaks_the_lookup(provider in "\\PC{0,40}", model in "\\PC{0,250}") {
        let table = table();
        prop_assert_eq!(table.find(&provider, &model), None);
        table.find("openai", &format!("gpt-5{model}"));
    }
}
