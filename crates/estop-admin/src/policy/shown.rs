//! Rules in force, written in the shape people write them in: the file's `policy:`.

use estop_core::guard::Guard;
use estop_core::money::NanoUsd;
use estop_core::policy::{AllowedHours, BudgetPolicy, GatePolicy, Limits, LoopPolicy, Mode, Modes, Policy};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::output::{dollars, tenths};

/// The whole policy. What is not set is null.
pub(crate) fn in_file_shape(policy: &Policy) -> Map<String, Value> {
    let LoopPolicy {
        window_size,
        threshold_tenths,
        exempt_tools,
        profile,
        back_to_back,
        within_window,
        unbroken,
        nothing_new,
        nudge,
        score,
    } = &policy.loops;
    let shape = json!({
        "preset": word(&policy.preset),
        "kill_switch_enabled": policy.modes[Guard::Loop] == Mode::Enforce,
        "kill_switch_window_size": window_size,
        "kill_switch_threshold": tenths(u32::from(*threshold_tenths)),
        "exempt_tools": exempt_tools,
        "loop_rules": {
            "back_to_back": back_to_back,
            "within_window": within_window,
            "unbroken": unbroken,
            "nothing_new": nothing_new,
            "nudge": nudge,
        },
        "loop_score": word(score),
        "profile": word(profile),
        "budget": budget(&policy.budget),
        "allowed_hours": policy.hours.as_ref().map(hours),
        "rate_limit": word(&policy.rate),
        "models": {"allow": policy.models.allow, "deny": policy.models.deny},
        "block_response": word(&policy.block_response),
        "guards": guards(&policy.modes),
        "wrap_up_tools": policy.limits.wrap_up_tools,
        "test_runners": policy.limits.test_runners,
        "limits": limits(&policy.limits),
    });
    match shape {
        Value::Object(shape) => shape,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

/// Adds what holds for all agents: the gate's numbers in seed 4's units, and the watchdog's.
pub(crate) fn add_shared(policy: &Policy, shape: &mut Map<String, Value>) {
    shape.insert("gate".to_owned(), gate(&policy.gate));
    shape.insert("watchdog".to_owned(), word(&policy.watchdog));
}

fn gate(gate: &GatePolicy) -> Value {
    let share = |thousandths: u16| f64::from(thousandths) / 1000.0;
    let GatePolicy {
        max_tokens_per_minute,
        token_warning_threshold,
        max_tool_calls_per_minute,
        tool_call_warning_threshold,
        loop_similarity_threshold,
        loop_window_size,
        tempo_compression_ratio,
        cooldown_duration_ms,
        soft_suspend_threshold,
        hard_stop_threshold,
        recovery_rate,
        recovery_cap,
    } = *gate;
    json!({
        "max_tokens_per_minute": max_tokens_per_minute,
        "token_warning_threshold": token_warning_threshold,
        "max_tool_calls_per_minute": max_tool_calls_per_minute,
        "tool_call_warning_threshold": tool_call_warning_threshold,
        "loop_similarity_threshold": share(loop_similarity_threshold),
        "loop_window_size": loop_window_size,
        "tempo_compression_ratio": share(tempo_compression_ratio),
        "cooldown_duration_ms": cooldown_duration_ms,
        "soft_suspend_threshold": share(soft_suspend_threshold),
        "hard_stop_threshold": share(hard_stop_threshold),
        "recovery_rate": share(recovery_rate),
        "recovery_cap": share(recovery_cap),
    })
}

fn word(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn budget(budget: &BudgetPolicy) -> Value {
    let usd = |usd: Option<NanoUsd>| usd.map(dollars);
    json!({
        "usd_per_day": usd(budget.usd_per_day),
        "usd_per_month": usd(budget.usd_per_month),
        "usd_per_run": usd(budget.usd_per_run),
        "tokens_per_day": budget.tokens_per_day,
        "tokens_per_month": budget.tokens_per_month,
        "tokens_per_run": budget.tokens_per_run,
        "timezone": budget.zone.name,
        "unpriced": word(&budget.unpriced),
        "paths": {"allow": budget.paths.allow},
    })
}

fn hours(hours: &AllowedHours) -> Value {
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

fn guards(modes: &Modes) -> Value {
    let by_guard = Guard::SWITCHES.map(|guard| (guard.name(), modes[guard]));
    let more = [("breaker_set", modes.breaker_set), ("breaker_unattended", modes.breaker_unattended)];
    let all: Map<String, Value> =
        by_guard.into_iter().chain(more).map(|(name, mode)| (name.to_owned(), word(&mode))).collect();
    Value::Object(all)
}

fn limits(limits: &Limits) -> Value {
    json!({
        "max_iterations": limits.max_iterations,
        "max_tool_calls": limits.max_tool_calls,
        "max_turns": limits.max_turns,
        "max_active_duration": limits.max_active_duration,
        "max_sleep_duration": limits.max_sleep_duration,
        "warning_threshold": f64::from(limits.warning_threshold_bp) / 10_000.0,
    })
}
