//! Random rules: presets, guards in every combination of modes, small windows, tight budgets, odd zones.

use estop_core::guard::Guard;
use estop_core::money::NanoUsd;
use estop_core::policy::{
    AllowedHours, BudgetPolicy, Limit, Limits, LoopPolicy, LoopScore, Mode, ModelRules, Modes, Policy,
    Preset, Profile, RateLimit, SafetyGatePolicy, Unpriced, WatchdogPolicy, WatchdogScope,
};
use estop_core::time::Zone;

use crate::prng::Rng;
use crate::temperament::Kind;

const CENT: u64 = NanoUsd::DOLLAR.0 / 100;

/// Rules for an agent of this temperament.
pub fn any(kind: Kind, rng: &mut Rng) -> Policy {
    let preset = rng.pick(&[Preset::Watch, Preset::Watch, Preset::Strict]);
    let mut policy = Policy {
        preset,
        modes: if rng.per_mille(500) { Modes::of(preset) } else { any_modes(rng) },
        loops: any_loops(rng),
        limits: any_limits(rng),
        gate: any_gate(rng),
        budget: any_budget(rng),
        hours: rng.per_mille(100).then(|| any_hours(rng)),
        rate: any_rate(rng),
        watchdog: any_watchdog(rng),
        models: any_models(rng),
        ..Policy::default()
    };
    suit(&mut policy, kind, rng);
    policy
}

/// What a temperament needs, so that the guard it is there for has work.
fn suit(policy: &mut Policy, kind: Kind, rng: &mut Rng) {
    match kind {
        Kind::Looper | Kind::PingPong | Kind::HookLooper if rng.per_mille(700) => {
            policy.modes[Guard::Loop] = Mode::Enforce;
        }
        Kind::Churner if rng.per_mille(700) => policy.modes[Guard::Churn] = Mode::Enforce,
        Kind::Batch => policy.loops.profile = Profile::Batch,
        Kind::Poller => policy.loops.profile = Profile::Ops,
        Kind::Spender | Kind::Tight => {
            policy.modes[Guard::Budget] = Mode::Enforce;
            policy.budget = tight_budget(rng);
        }
        Kind::Night => policy.hours = Some(any_hours(rng)),
        Kind::Steady
        | Kind::Chatter
        | Kind::Sleeper
        | Kind::FanOut
        | Kind::Looper
        | Kind::PingPong
        | Kind::Churner
        | Kind::Sprinter
        | Kind::RetryStorm
        | Kind::Hooked
        | Kind::Gated
        | Kind::HookLooper
        | Kind::Lifecycle
        | Kind::Admin
        | Kind::Chaos => {}
    }
}

fn any_mode(rng: &mut Rng) -> Mode {
    rng.pick(&[Mode::Enforce, Mode::Enforce, Mode::Shadow, Mode::Off])
}

fn any_modes(rng: &mut Rng) -> Modes {
    let mut modes = Modes::all(Mode::Enforce);
    // In this order, so that a seed stands for the same rules when a guard is added.
    for guard in
        [Guard::Hours, Guard::Rate, Guard::Budget, Guard::Loop, Guard::Churn, Guard::Chanting, Guard::Breaker]
    {
        modes[guard] = any_mode(rng);
    }
    modes.breaker_unattended = any_mode(rng);
    for guard in [Guard::Gate, Guard::Health, Guard::Watchdog, Guard::Models] {
        modes[guard] = any_mode(rng);
    }
    modes
}

fn any_loops(rng: &mut Rng) -> LoopPolicy {
    let score = rng.pick(&[LoopScore::Literal, LoopScore::Novelty]);
    // A tenth of the usual patience suits nobody's work.
    let thresholds =
        if score == LoopScore::Literal { [10, 50, 100, 100, 500] } else { [100, 100, 100, 100, 500] };
    LoopPolicy {
        window_size: rng.pick(&[5, 8, 20, 20, 100]),
        threshold_tenths: rng.pick(&thresholds),
        exempt_tools: if rng.per_mille(100) { vec!["poll".into()] } else { Vec::new() },
        profile: Profile::Coding,
        score,
        ..LoopPolicy::default()
    }
}

fn any_limit(usual: u32, rng: &mut Rng) -> Limit {
    match rng.below(30) {
        0..=2 => Limit::Off,
        3 => Limit::max(1),
        4..=9 => Limit::max(rng.between_u32(2, usual)),
        _ => Limit::max(usual),
    }
}

fn any_limits(rng: &mut Rng) -> Limits {
    Limits {
        max_iterations: any_limit(5, rng),
        max_tool_calls: any_limit(200, rng),
        max_turns: any_limit(50, rng),
        max_active_duration: any_limit(7_200, rng),
        max_sleep_duration: any_limit(86_400, rng),
        ..Limits::default()
    }
}

fn any_gate(rng: &mut Rng) -> SafetyGatePolicy {
    if rng.per_mille(600) {
        return SafetyGatePolicy::default();
    }
    SafetyGatePolicy {
        max_tokens_per_minute: rng.pick(&[5_000, 50_000, u32::MAX]),
        max_tool_calls_per_minute: rng.pick(&[5, 60, 1_000]),
        loop_window_size: rng.pick(&[2, 5, 20]),
        loop_similarity_threshold: rng.pick(&[500, 900, 1_000]),
        tempo_compression_ratio: rng.pick(&[100, 300, 900]),
        cooldown_duration_ms: rng.pick(&[1_000, 60_000, 600_000]),
        soft_suspend_threshold: rng.pick(&[600, 800]),
        hard_stop_threshold: rng.pick(&[300, 590]),
        recovery_rate: rng.pick(&[0, 10, 100]),
        recovery_cap: rng.pick(&[500, 800]),
        ..SafetyGatePolicy::default()
    }
}

fn any_budget(rng: &mut Rng) -> BudgetPolicy {
    let zone = any_zone(rng);
    let unpriced = if rng.per_mille(100) { Unpriced::Deny } else { Unpriced::Count };
    if rng.per_mille(600) {
        return BudgetPolicy { zone, unpriced, ..BudgetPolicy::default() };
    }
    BudgetPolicy { unpriced, ..tight_budget(rng) }
}

/// Caps that a few dozen requests reach; each of the six is there in half of the cases.
fn tight_budget(rng: &mut Rng) -> BudgetPolicy {
    let half = |rng: &mut Rng, low, high| rng.per_mille(500).then(|| rng.spread(low, high));
    BudgetPolicy {
        usd_per_day: half(rng, 5 * CENT, 500 * CENT).map(NanoUsd),
        usd_per_month: half(rng, 50 * CENT, 5_000 * CENT).map(NanoUsd),
        usd_per_run: half(rng, 5 * CENT, 200 * CENT).map(NanoUsd),
        tokens_per_day: half(rng, 20_000, 2_000_000),
        tokens_per_month: half(rng, 200_000, 20_000_000),
        tokens_per_run: half(rng, 20_000, 1_000_000),
        zone: any_zone(rng),
        unpriced: Unpriced::Count,
        paths: Default::default(),
    }
}

/// Nobody knows a zone of 14 hours and a quarter that changes three times in a month; the core must not care.
pub fn any_zone(rng: &mut Rng) -> Zone {
    if rng.per_mille(500) {
        return Zone::default();
    }
    let offset = |rng: &mut Rng| rng.pick(&[-43_200, -18_000, -12_600, 0, 3_600, 7_200, 20_700, 50_400]);
    let first = 1_763_164_800_000 + rng.below(3_600_000 * 24) as i64;
    let changes = (0..rng.below(4) as i64).map(|n| (first + n * 700_000_000, offset(rng))).collect();
    Zone { name: "Sim/Where".into(), offset_s: offset(rng), changes }
}

fn any_hours(rng: &mut Rng) -> AllowedHours {
    let from_minute = rng.below(1_440) as u16;
    let to_minute = rng.between(1, 1_440) as u16;
    let to_minute = if to_minute == from_minute { to_minute + 1 } else { to_minute };
    AllowedHours { days: rng.between(1, 127) as u8, from_minute, to_minute, zone: any_zone(rng) }
}

fn any_rate(rng: &mut Rng) -> RateLimit {
    let third = |rng: &mut Rng, low, high| rng.per_mille(300).then(|| rng.spread(low, high));
    RateLimit {
        requests_per_minute: third(rng, 1, 120).map(|n| n as u32),
        tokens_per_minute: third(rng, 1_000, 500_000),
    }
}

fn any_models(rng: &mut Rng) -> ModelRules {
    let names = |list: &[&str]| list.iter().map(|name| (*name).into()).collect();
    match rng.below(10) {
        0 => ModelRules { allow: names(&["large*", "small"]), deny: names(&["large-dear"]) },
        1 => ModelRules { allow: Vec::new(), deny: names(&["small"]) },
        _ => ModelRules::default(),
    }
}

fn any_watchdog(rng: &mut Rng) -> WatchdogPolicy {
    let scope = match rng.below(100) {
        0..80 => WatchdogScope::Agent,
        // Rare: it presses the red button for everybody.
        80..82 => WatchdogScope::System,
        _ => WatchdogScope::Off,
    };
    WatchdogPolicy { max_calls_per_minute: rng.pick(&[3, 10, 30, 100, 100]), scope }
}
