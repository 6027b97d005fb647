//! Laying one layer over another, key by key. What a layer does not say, the layer below decides; a list
//! replaces a list.

use super::PolicyFileIn;
use super::rules::{self, PolicyIn, Zones, merge_budget, merge_limits, set, zone};
use super::shape::{AllowedHoursIn, BudgetIn, FleetBudgetIn, LimitsIn, SafetyGateIn};
use super::values::{Days, Number};
use crate::guard::{Guard, Mode};
use crate::policy::{
    AllowedHours, BudgetPolicy, Limit, Modes, Policy, Preset, SafetyGatePolicy, WatchdogPolicy, WatchdogScope,
};

/// The policy of one agent in one role. `preset` is everybody's; `layers` are the agent's own, the later one wins.
pub(super) fn policy(
    file: &PolicyFileIn,
    zones: &Zones,
    preset: Preset,
    layers: &[&PolicyIn],
    role: Option<&str>,
) -> Policy {
    let preset = layers.iter().rev().find_map(|layer| layer.preset).unwrap_or(preset);
    let watchdog = watchdog(file, preset);

    let mut policy = Policy {
        preset,
        modes: Modes::of(preset),
        gate: gate(&file.gate),
        hours: allowed_hours(&hours_of(file, layers), zones),
        watchdog,
        ..Policy::default()
    };
    rules::merge(&mut policy, &file.policy, zones);
    merge_limits(&mut policy.limits, &file.circuit_breakers.defaults);
    if let Some(role) = role {
        let set = policy.limits.set;
        merge_limits(&mut policy.limits, &role_preset(role));
        // Nobody set those: they come with the role's name.
        policy.limits.set = set;
        if let Some(Some(limits)) = file.circuit_breakers.roles.get(role) {
            merge_limits(&mut policy.limits, limits);
        }
    }
    layers.iter().for_each(|layer| rules::merge(&mut policy, layer, zones));
    if watchdog.scope == WatchdogScope::Off {
        policy.modes[Guard::Watchdog] = Mode::Off;
    }
    policy
}

fn watchdog(file: &PolicyFileIn, preset: Preset) -> WatchdogPolicy {
    let mut watchdog = WatchdogPolicy {
        scope: match preset {
            Preset::Watch => WatchdogScope::Agent,
            Preset::Strict => WatchdogScope::System,
        },
        ..WatchdogPolicy::default()
    };
    set(&mut watchdog.max_calls_per_minute, file.watchdog.max_calls_per_minute.map(Number::get));
    set(&mut watchdog.scope, file.watchdog.scope);
    watchdog
}

/// Seed 3's roles. A file overrides them limit by limit.
fn role_preset(role: &str) -> LimitsIn {
    let limits = |tool_calls, turns, active_s| LimitsIn {
        max_tool_calls: Some(Limit::max(tool_calls)),
        max_turns: Some(Limit::max(turns)),
        max_active_duration: Some(Limit::max(active_s)),
        ..LimitsIn::default()
    };
    match role {
        "pm" => limits(50, 10, 600),
        "pr-review" | "security-review" => limits(100, 20, 1800),
        _ => LimitsIn::default(),
    }
}

/// The caps of all agents together.
pub(super) fn fleet_budget(given: &FleetBudgetIn, zones: &Zones) -> BudgetPolicy {
    let FleetBudgetIn { usd_per_day, usd_per_month, tokens_per_day, tokens_per_month, timezone } =
        given.clone();
    let caps = BudgetIn {
        usd_per_day,
        usd_per_month,
        tokens_per_day,
        tokens_per_month,
        timezone,
        ..BudgetIn::default()
    };
    let mut budget = BudgetPolicy::default();
    merge_budget(&mut budget, &caps, zones);
    budget
}

/// The gate's numbers over their defaults. A maximum takes its warning along, in seed 4's proportion
/// (40,000 of 50,000 tokens, 45 of 60 calls), so that lowering one number is enough.
pub(super) fn gate(layer: &SafetyGateIn) -> SafetyGatePolicy {
    let mut gate = SafetyGatePolicy::default();
    if let Some(max) = layer.max_tokens_per_minute.map(Number::get) {
        gate.max_tokens_per_minute = max;
        gate.token_warning_threshold = max - max / 5;
    }
    if let Some(max) = layer.max_tool_calls_per_minute.map(Number::get) {
        gate.max_tool_calls_per_minute = max;
        gate.tool_call_warning_threshold = max - max / 4;
    }
    set(&mut gate.token_warning_threshold, layer.token_warning_threshold.map(Number::get));
    set(&mut gate.tool_call_warning_threshold, layer.tool_call_warning_threshold.map(Number::get));
    set(&mut gate.loop_similarity_threshold, layer.loop_similarity_threshold.map(Number::get));
    set(&mut gate.loop_window_size, layer.loop_window_size.map(Number::get));
    set(&mut gate.tempo_compression_ratio, layer.tempo_compression_ratio.map(Number::get));
    set(&mut gate.cooldown_duration_ms, layer.cooldown_duration_ms.map(Number::get));
    set(&mut gate.soft_suspend_threshold, layer.soft_suspend_threshold.map(Number::get));
    set(&mut gate.hard_stop_threshold, layer.hard_stop_threshold.map(Number::get));
    set(&mut gate.recovery_rate, layer.recovery_rate.map(Number::get));
    set(&mut gate.recovery_cap, layer.recovery_cap.map(Number::get));
    gate
}

/// An agent's hours over everybody's.
pub(super) fn hours_of(file: &PolicyFileIn, layers: &[&PolicyIn]) -> AllowedHoursIn {
    let everybody = file.policy.allowed_hours.clone();
    layers.iter().fold(everybody, |base, layer| hours(&base, &layer.allowed_hours))
}

fn hours(base: &AllowedHoursIn, layer: &AllowedHoursIn) -> AllowedHoursIn {
    AllowedHoursIn {
        days: layer.days.or(base.days),
        from: layer.from.or(base.from),
        to: layer.to.or(base.to),
        timezone: layer.timezone.clone().or_else(|| base.timezone.clone()),
    }
}

fn allowed_hours(hours: &AllowedHoursIn, zones: &Zones) -> Option<AllowedHours> {
    let (from, to) = (hours.from?, hours.to?);
    Some(AllowedHours {
        days: hours.days.unwrap_or(Days::ALL).bits(),
        from_minute: from.minute(),
        to_minute: to.minute(),
        zone: hours.timezone.as_ref().map(|name| zone(zones, name)).unwrap_or_default(),
    })
}
