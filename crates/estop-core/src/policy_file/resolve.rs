//! Laying one layer over another, key by key. What a layer does not say, the layer below decides; a list
//! replaces a list.

use std::collections::BTreeMap;

use super::shape::{
    AllowedHoursIn, BudgetIn, FleetBudgetIn, GateIn, LimitsIn, PolicyFileIn, PolicyIn, RateLimitIn,
};
use super::values::{Days, MicroUsd, Number, ThresholdTenths};
use crate::guard::{Guard, Mode};
use crate::ids::Name;
use crate::money::NanoUsd;
use crate::policy::{
    AllowedHours, BudgetPolicy, GatePolicy, Limit, LimitName, Limits, Modes, Policy, Preset, RateLimit,
    WatchdogPolicy, WatchdogScope,
};
use crate::time::Zone;

/// Time zones by the name the file uses. Invariant: every name in the file is here.
pub(super) type Zones = BTreeMap<Name, Zone>;

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
    merge_policy(&mut policy, &file.policy, zones);
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
    layers.iter().for_each(|layer| merge_policy(&mut policy, layer, zones));
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

fn merge_policy(policy: &mut Policy, layer: &PolicyIn, zones: &Zones) {
    let loops = &mut policy.loops;
    set(&mut loops.window_size, layer.kill_switch_window_size.map(Number::get));
    set(&mut loops.threshold_tenths, layer.kill_switch_threshold.map(ThresholdTenths::get));
    set(&mut loops.exempt_tools, layer.exempt_tools.clone());
    set(&mut loops.profile, layer.profile);
    set(&mut loops.back_to_back, layer.loop_rules.back_to_back);
    set(&mut loops.within_window, layer.loop_rules.within_window);
    set(&mut loops.unbroken, layer.loop_rules.unbroken);
    set(&mut loops.nothing_new, layer.loop_rules.nothing_new);
    set(&mut loops.nudge, layer.loop_rules.nudge);
    set(&mut loops.score, layer.loop_score);
    set(&mut policy.block_response, layer.block_response);
    set(&mut policy.limits.wrap_up_tools, layer.wrap_up_tools.clone());
    set(&mut policy.limits.test_runners, layer.test_runners.clone());
    let loops = &mut policy.modes[Guard::Loop];
    set(loops, layer.kill_switch_enabled.map(|on| if on { Mode::Enforce } else { Mode::Shadow }));
    layer.guards.merge(&mut policy.modes);
    merge_budget(&mut policy.budget, &layer.budget, zones);
    merge_rate(&mut policy.rate, &layer.rate_limit);
    set(&mut policy.models.allow, layer.models.allow.clone());
    set(&mut policy.models.deny, layer.models.deny.clone());
    merge_limits(&mut policy.limits, &layer.limits);
}

fn merge_budget(budget: &mut BudgetPolicy, layer: &BudgetIn, zones: &Zones) {
    let nano = |micro: MicroUsd| NanoUsd(micro.get() * 1000);
    budget.usd_per_day = layer.usd_per_day.map(nano).or(budget.usd_per_day);
    budget.usd_per_month = layer.usd_per_month.map(nano).or(budget.usd_per_month);
    budget.usd_per_run = layer.usd_per_run.map(nano).or(budget.usd_per_run);
    budget.tokens_per_day = layer.tokens_per_day.map(Number::get).or(budget.tokens_per_day);
    budget.tokens_per_month = layer.tokens_per_month.map(Number::get).or(budget.tokens_per_month);
    budget.tokens_per_run = layer.tokens_per_run.map(Number::get).or(budget.tokens_per_run);
    set(&mut budget.zone, layer.timezone.as_ref().map(|name| zone(zones, name)));
    set(&mut budget.unpriced, layer.unpriced);
    set(&mut budget.paths.allow, layer.paths.allow.clone());
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

fn merge_rate(rate: &mut RateLimit, layer: &RateLimitIn) {
    rate.requests_per_minute = layer.requests_per_minute.map(Number::get).or(rate.requests_per_minute);
    rate.tokens_per_minute = layer.tokens_per_minute.map(Number::get).or(rate.tokens_per_minute);
}

fn merge_limits(limits: &mut Limits, layer: &LimitsIn) {
    let own = &mut limits.set;
    let mut lay = |name: LimitName, target: &mut Limit, given: Option<Limit>| {
        if let Some(limit) = given {
            *target = limit;
            own.add(name);
        }
    };
    lay(LimitName::Iterations, &mut limits.max_iterations, layer.max_iterations);
    lay(LimitName::ToolCalls, &mut limits.max_tool_calls, layer.max_tool_calls);
    lay(LimitName::Turns, &mut limits.max_turns, layer.max_turns);
    lay(LimitName::ActiveDuration, &mut limits.max_active_duration, layer.max_active_duration);
    lay(LimitName::SleepDuration, &mut limits.max_sleep_duration, layer.max_sleep_duration);
    set(&mut limits.warning_threshold_bp, layer.warning_threshold.map(Number::get));
}

/// The gate's numbers over their defaults. A maximum takes its warning along, in seed 4's proportion
/// (40,000 of 50,000 tokens, 45 of 60 calls), so that lowering one number is enough.
pub(super) fn gate(layer: &GateIn) -> GatePolicy {
    let mut gate = GatePolicy::default();
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

fn zone(zones: &Zones, name: &str) -> Zone {
    zones.get(name).cloned().expect("every zone was found when the file was checked")
}

fn set<T>(target: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *target = value;
    }
}
