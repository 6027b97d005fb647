//! From a policy file to the rules of one agent: which layer wins.

use estop_core::guard::Guard;
use estop_core::money::NanoUsd;
use estop_core::policy::{
    AllowedHours, BlockResponse, Limit, LimitName, LimitSet, Limits, Mode, Modes, Policy, Preset, Profile,
    SafetyGatePolicy, Unpriced, WatchdogScope,
};
use estop_core::policy_file::PolicyFile;
use estop_core::time::Zone;

/// Seed 3's section, word for word.
const SEED_3: &str = include_str!("config/seed_3_circuit_breakers.yaml");

fn file(yaml: &str) -> PolicyFile {
    estop_config::parse(yaml, "estop.yaml").expect("the file is accepted")
}

/// The policy of agent `coder`.
fn coder(yaml: &str) -> Policy {
    file(yaml).resolve(Some("coder"), None)
}

/// Tool calls, turns and active seconds: what roles differ in.
fn limits_of(policy: &Policy) -> [Option<u32>; 3] {
    let Limits { max_tool_calls, max_turns, max_active_duration, .. } = &policy.limits;
    [max_tool_calls.get(), max_turns.get(), max_active_duration.get()]
}

#[test]
fn ui_5_an_empty_file_is_the_default_policy() {
    assert_eq!(file("").resolve(None, None), Policy::default());
    assert_eq!(file("").resolve(Some("anyone"), Some("anything")), Policy::default());
    assert_eq!(file(""), PolicyFile::default());
}

#[test]
fn cb_1_seed_3_is_read_word_for_word() {
    let file = file(SEED_3);
    let limits = |role| limits_of(&file.resolve(None, Some(role)));
    assert_eq!(limits("pm"), [Some(50), Some(10), Some(600)]);
    assert_eq!(limits("pr-review"), [Some(100), Some(20), Some(1800)]);
    assert_eq!(limits("security-review"), [Some(100), Some(20), Some(1800)]);
    for role in ["feat-dev", "bug-fix", "unknown"] {
        let limits = Limits { set: LimitSet::default(), ..file.resolve(None, Some(role)).limits };
        assert_eq!(limits, Limits::default(), "{role}");
    }
}

#[test]
fn cb_1_seed_3_roles_are_built_in() {
    let (built_in, seed) = (file(""), file(SEED_3));
    for role in ["pm", "pr-review", "security-review", "feat-dev"] {
        let limits =
            |file: &PolicyFile| Limits { set: LimitSet::default(), ..file.resolve(None, Some(role)).limits };
        assert_eq!(limits(&built_in), limits(&seed), "{role}");
    }
}

#[test]
fn cb_1_the_most_specific_limit_wins_one_by_one() {
    let layers = [
        ("policy", "policy: {limits: {max_tool_calls: 11, max_turns: 11, max_active_duration: 11}}\n"),
        ("defaults", "circuit_breakers:\n  defaults: {max_iterations: 12, max_tool_calls: 12}\n"),
        ("role", "  roles: {pm: {max_tool_calls: 13}}\n"),
        ("agent", "agents: {coder: {role: pm, policy: {limits: {max_tool_calls: 14}}}}\n"),
    ];
    let upto = |count: usize| layers[..count].iter().map(|(_, yaml)| *yaml).collect::<String>();
    let tool_calls =
        |count| file(&upto(count)).resolve(Some("coder"), Some("pm")).limits.max_tool_calls.get();
    // Built-in `pm` lies over `policy:` and the defaults, below the file's own role.
    assert_eq!([1, 2, 3, 4].map(tool_calls), [Some(50), Some(50), Some(13), Some(14)]);

    let all = file(&upto(4)).resolve(Some("coder"), None);
    assert_eq!(all.limits.max_iterations.get(), Some(12), "from the defaults");
    assert_eq!(all.limits.max_turns.get(), Some(10), "from the built-in role");
    let other = file(&upto(4)).resolve(None, None);
    assert_eq!(limits_of(&other), [Some(12), Some(11), Some(11)], "no role, no agent");
}

#[test]
fn cb_1_a_runs_own_role_goes_before_the_files() {
    let file = file("agents: {coder: {role: pm}}");
    assert_eq!(file.role("coder"), Some("pm"));
    assert_eq!(limits_of(&file.resolve(Some("coder"), None))[0], Some(50));
    assert_eq!(limits_of(&file.resolve(Some("coder"), Some("pr-review")))[0], Some(100));
    assert_eq!(file.agents().collect::<Vec<_>>(), ["coder"]);
}

#[test]
fn cb_1_off_is_no_limit_and_thresholds_are_exact() {
    let limits = coder("circuit_breakers: {defaults: {max_turns: off, warning_threshold: 0.29}}").limits;
    assert_eq!(limits.max_turns, Limit::Off);
    assert_eq!(limits.warning_threshold_bp, 2900);
}

#[test]
fn cb_6_wrap_up_tools_are_replaced() {
    assert_eq!(coder("policy: {wrap_up_tools: [say_goodbye]}").limits.wrap_up_tools, ["say_goodbye".into()]);
    assert_eq!(coder("policy: {wrap_up_tools: []}").limits.wrap_up_tools, []);
}

#[test]
fn cb_4_test_runners_are_replaced() {
    assert!(coder("").limits.test_runners.is_empty());
    let yaml =
        "policy: {test_runners: [./ci.sh]}\nagents: {coder: {policy: {test_runners: [earthly +test]}}}";
    assert_eq!(coder(yaml).limits.test_runners, ["earthly +test".into()]);
    assert_eq!(file(yaml).resolve(None, None).limits.test_runners, ["./ci.sh".into()]);
    assert_eq!(file(yaml).resolve(None, None).modes, Modes::default(), "a test runner is no limit");
}

#[test]
fn ld_6_each_loop_rule_has_its_own_switch() {
    let rules = |policy: &Policy| {
        let loops = &policy.loops;
        [loops.back_to_back, loops.within_window, loops.unbroken]
    };
    assert_eq!(rules(&coder("")), [true, true, true]);
    let yaml = "policy: {loop_rules: {back_to_back: false, unbroken: false}}
agents: {coder: {policy: {loop_rules: {within_window: false, unbroken: true}}}}";
    assert_eq!(rules(&file(yaml).resolve(None, None)), [false, true, false]);
    assert_eq!(rules(&coder(yaml)), [false, false, true]);
}

#[test]
fn ld_2_kill_switch_enabled_and_guards_loop_are_the_same_switch() {
    let cases = [
        ("", Mode::Shadow),
        ("policy: {kill_switch_enabled: true}", Mode::Enforce),
        ("policy: {guards: {loop: enforce}}", Mode::Enforce),
        ("policy: {kill_switch_enabled: true, guards: {loop: enforce}}", Mode::Enforce),
        ("policy: {kill_switch_enabled: false}", Mode::Shadow),
        ("policy: {kill_switch_enabled: false, guards: {loop: off}}", Mode::Off),
        ("preset: strict", Mode::Enforce),
        ("{preset: strict, policy: {kill_switch_enabled: false}}", Mode::Shadow),
        (
            "{policy: {kill_switch_enabled: true}, agents: {coder: {policy: {guards: {loop: off}}}}}",
            Mode::Off,
        ),
        (
            "{policy: {guards: {loop: off}}, agents: {coder: {policy: {kill_switch_enabled: true}}}}",
            Mode::Enforce,
        ),
    ];
    for (yaml, expected) in cases {
        let modes = coder(yaml).modes;
        assert_eq!(modes[Guard::Loop], expected, "{yaml}");
    }
}

#[test]
fn ld_1_loop_settings_are_whole_numbers() {
    let loops = coder(
        "{policy: {kill_switch_window_size: 5, kill_switch_threshold: 10.5, exempt_tools: [a, b]},
          agents: {coder: {policy: {kill_switch_threshold: 50, profile: batch, exempt_tools: [c]}}}}",
    )
    .loops;
    assert_eq!((loops.window_size, loops.threshold_tenths), (5, 500));
    assert_eq!(
        (loops.profile, loops.exempt_tools),
        (Profile::Batch, vec!["c".into()]),
        "a list replaces a list"
    );
}

#[test]
fn po_5_presets_set_modes_and_the_watchdogs_scope() {
    let watch = coder("preset: watch");
    assert_eq!(
        (watch.preset, watch.modes, watch.watchdog.scope),
        (Preset::Watch, Modes::of(Preset::Watch), WatchdogScope::Agent)
    );
    let strict = coder("preset: strict");
    assert_eq!(
        (strict.preset, strict.modes, strict.watchdog.scope),
        (Preset::Strict, Modes::of(Preset::Strict), WatchdogScope::System)
    );
}

/// The modes of an attended run's limits: tool calls, turns, iterations.
fn attended(policy: &Policy) -> [Mode; 3] {
    let mode = |limit| {
        if policy.limits.set.contains(limit) {
            policy.modes.breaker_set
        } else {
            policy.modes[Guard::Breaker]
        }
    };
    [mode(LimitName::ToolCalls), mode(LimitName::Turns), mode(LimitName::Iterations)]
}

#[test]
fn po_5_a_limit_that_somebody_set_is_enforced_and_no_other_with_it() {
    use Mode::{Enforce, Off, Shadow};
    let untouched = [Shadow; 3];
    let turns = [Shadow, Enforce, Shadow];
    let cases = [
        ("", untouched),
        ("circuit_breakers:", untouched),
        ("circuit_breakers: {defaults: {}, roles: {}}", untouched),
        ("circuit_breakers: {defaults: {warning_threshold: 0.5}}", untouched),
        ("circuit_breakers: {defaults: {max_turns: 9}}", turns),
        ("circuit_breakers: {defaults: {max_turns: 9, max_tool_calls: 60}}", [Enforce, Enforce, Shadow]),
        ("circuit_breakers: {roles: {feat-dev: }}", untouched),
        ("{circuit_breakers: {roles: {pm: {max_turns: 9}}}, agents: {coder: {role: pm}}}", turns),
        ("{circuit_breakers: {roles: {pm: {max_turns: 9}}}, agents: {coder: {role: other}}}", untouched),
        ("policy: {limits: {max_turns: 9}}", turns),
        ("agents: {coder: {policy: {limits: {max_turns: 9}}}}", turns),
        ("agents: {other: {policy: {limits: {max_turns: 9}}}}", untouched),
        ("agents: {coder: {role: pm}}", untouched),
        ("{circuit_breakers: {defaults: {max_turns: 9}}, policy: {guards: {breaker: shadow}}}", untouched),
        ("{policy: {guards: {breaker: off}}, agents: {coder: {policy: {limits: {max_turns: 9}}}}}", [Off; 3]),
        ("{preset: strict, policy: {guards: {breaker: shadow}}}", untouched),
        ("preset: strict", [Enforce; 3]),
    ];
    for (yaml, expected) in cases {
        let policy = coder(yaml);
        assert_eq!(attended(&policy), expected, "{yaml}");
        let unattended = if yaml.contains("breaker: ") { expected[0] } else { Enforce };
        assert_eq!(policy.modes.breaker_unattended, unattended, "{yaml}");
    }
    assert_eq!(attended(&file(SEED_3).resolve(None, None)), [Enforce; 3], "seed 3 sets all of them");
}

#[test]
fn po_4_every_guard_can_be_set_alone() {
    let guards = ["loop", "churn", "chanting", "gate", "health", "watchdog", "hours", "rate", "budget"];
    for guard in guards {
        let modes = coder(&format!("{{preset: strict, policy: {{guards: {{{guard}: off}}}}}}")).modes;
        let mut expected = serde_json::to_value(Modes::of(Preset::Strict)).expect("modes are JSON");
        expected[guard] = "off".into();
        assert_eq!(serde_json::to_value(modes).expect("modes are JSON"), expected, "{guard}");
    }
}

#[test]
fn ks_8_the_watchdog_follows_the_preset_unless_told() {
    let watchdog = |yaml| coder(yaml).watchdog;
    assert_eq!(watchdog("watchdog: {max_calls_per_minute: 7}").max_calls_per_minute, 7);
    assert_eq!(watchdog("{preset: strict, watchdog: {scope: agent}}").scope, WatchdogScope::Agent);
    assert_eq!(watchdog("watchdog: {scope: system}").scope, WatchdogScope::System);
    assert_eq!(coder("{preset: strict, watchdog: {scope: off}}").modes[Guard::Watchdog], Mode::Off);
}

#[test]
fn po_2_budgets_add_up_key_by_key_and_are_exact() {
    let budget = coder(
        "{policy: {budget: {usd_per_day: 5, usd_per_month: 100.5, tokens_per_day: 1000000, timezone: Europe/Berlin}},
          agents: {coder: {policy: {budget: {usd_per_day: 12.50, usd_per_run: 0.000001, unpriced: deny}}}}}",
    )
    .budget;
    assert_eq!(budget.usd_per_day, Some(NanoUsd(12_500_000_000)));
    assert_eq!(budget.usd_per_month, Some(NanoUsd(100_500_000_000)));
    assert_eq!(budget.usd_per_run, Some(NanoUsd(1_000)));
    assert_eq!((budget.tokens_per_day, budget.tokens_per_month), (Some(1_000_000), None));
    assert_eq!((&*budget.zone.name, budget.unpriced), ("Europe/Berlin", Unpriced::Deny));
}

#[test]
fn po_3_hours_know_days_nights_and_zones() {
    let hours = coder("policy: {allowed_hours: {from: '08:00', to: '18:30'}}").hours;
    let all_days =
        AllowedHours { days: 0b111_1111, from_minute: 480, to_minute: 1110, zone: Zone::default() };
    assert_eq!(hours, Some(all_days));

    let night =
        "{policy: {allowed_hours: {days: [mon, fri, mon], from: '08:00', to: '18:00', timezone: Asia/Tokyo}},
        agents: {coder: {policy: {allowed_hours: {from: '22:00', to: '06:00'}}}}}";
    let hours = coder(night).hours.expect("hours are set");
    assert_eq!((hours.days, hours.from_minute, hours.to_minute), (0b001_0001, 1320, 360));
    assert_eq!((&*hours.zone.name, hours.zone.offset_s), ("Asia/Tokyo", 9 * 3600), "inherited");

    let midnight = coder("policy: {allowed_hours: {from: '00:00', to: '24:00'}}").hours;
    assert_eq!(midnight.map(|hours| hours.to_minute), Some(1440));
}

#[test]
fn po_3_rates_and_answers() {
    let policy = coder(
        "{policy: {rate_limit: {requests_per_minute: 60}, block_response: message},
          agents: {coder: {policy: {rate_limit: {tokens_per_minute: 100000}}}}}",
    );
    assert_eq!(policy.rate.requests_per_minute, Some(60));
    assert_eq!(policy.rate.tokens_per_minute, Some(100_000));
    assert_eq!(policy.block_response, BlockResponse::Message);
}

#[test]
fn tw_4_gate_numbers_are_exact_and_warnings_follow_their_maximum() {
    assert_eq!(coder(GATE_AS_SHIPPED).gate, SafetyGatePolicy::default());
    let gate =
        coder("gate: {max_tokens_per_minute: 1000, max_tool_calls_per_minute: 10, recovery_rate: 0.001}")
            .gate;
    assert_eq!(
        (gate.token_warning_threshold, gate.tool_call_warning_threshold, gate.recovery_rate),
        (800, 8, 1)
    );
}

const GATE_AS_SHIPPED: &str = "
gate:
  max_tokens_per_minute: 50000
  token_warning_threshold: 40000
  max_tool_calls_per_minute: 60
  tool_call_warning_threshold: 45
  loop_similarity_threshold: 0.9
  loop_window_size: 5
  tempo_compression_ratio: 0.3
  cooldown_duration_ms: 60000
  soft_suspend_threshold: 0.6
  hard_stop_threshold: 0.3
  recovery_rate: 0.01
  recovery_cap: 0.8
";

#[test]
fn tw_7_a_policy_survives_the_journal() {
    let yaml =
        "{preset: strict, policy: {kill_switch_threshold: 2.5, exempt_tools: [a], limits: {max_turns: off},
        budget: {usd_per_day: 0.000001, timezone: Europe/Berlin},
        allowed_hours: {from: '22:00', to: '06:00', timezone: America/New_York}}}";
    for policy in [Policy::default(), coder(yaml), coder(SEED_3)] {
        let json = serde_json::to_string(&policy).expect("a policy is JSON");
        let back: Policy = serde_json::from_str(&json).expect("and comes back");
        assert_eq!(back, policy);
    }
}
