//! Rules in force, written as people write them.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::values::Decimal;
use crate::guard::Guard;
use crate::money::NanoUsd;
use crate::policy::{AllowedHours, BudgetPolicy, Limits, Modes};

/// What serde makes of it: a word, or an object of the same keys.
pub(super) fn plain(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// A scaled whole number as people write it: 105 with one decimal is 10.5.
pub(super) fn number(scaled: u64, decimals: u32) -> Value {
    let number: Option<f64> = Decimal(scaled, decimals).to_string().parse().ok();
    json!(number)
}

/// Spending caps.
pub(super) fn budget(budget: &BudgetPolicy) -> Value {
    let usd = |usd: Option<NanoUsd>| usd.map(|usd| number(usd.0, 9));
    json!({
        "usd_per_day": usd(budget.usd_per_day),
        "usd_per_month": usd(budget.usd_per_month),
        "usd_per_run": usd(budget.usd_per_run),
        "tokens_per_day": budget.tokens_per_day,
        "tokens_per_month": budget.tokens_per_month,
        "tokens_per_run": budget.tokens_per_run,
        "timezone": budget.zone.name,
        "unpriced": plain(&budget.unpriced),
        "paths": {"allow": budget.paths.allow},
    })
}

/// When work is allowed.
pub(super) fn hours(hours: &AllowedHours) -> Value {
    const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let clock = |minute: u16| format!("{:02}:{:02}", minute / 60, minute % 60);
    let days = DAYS.iter().enumerate().filter(|(bit, _)| hours.days & 1 << bit != 0);
    json!({
        "days": days.map(|(_, day)| *day).collect::<Vec<_>>(),
        "from": clock(hours.from_minute),
        "to": clock(hours.to_minute),
        "timezone": hours.zone.name,
    })
}

/// The mode of each guard.
pub(super) fn guards(modes: &Modes) -> Value {
    let by_guard = Guard::SWITCHES.map(|guard| (guard.name(), modes[guard]));
    let more = [("breaker_set", modes.breaker_set), ("breaker_unattended", modes.breaker_unattended)];
    let all: Map<String, Value> =
        by_guard.into_iter().chain(more).map(|(name, mode)| (name.to_owned(), plain(&mode))).collect();
    Value::Object(all)
}

/// Circuit-breaker limits.
pub(super) fn limits(limits: &Limits) -> Value {
    json!({
        "max_iterations": limits.max_iterations,
        "max_tool_calls": limits.max_tool_calls,
        "max_turns": limits.max_turns,
        "max_active_duration": limits.max_active_duration,
        "max_sleep_duration": limits.max_sleep_duration,
        "warning_threshold": number(limits.warning_threshold_bp.into(), 4),
    })
}
