//! A short run in debug, with every invariant at each step and the journal replayed.

#![expect(clippy::panic, reason = "a test fails by panicking")]

use estop_core::engine::AgentState;
use estop_sim::temperament::Kind;
use estop_sim::{Config, Summary, run};

fn simulate(config: Config) -> Summary {
    run::<AgentState>(&config).unwrap_or_else(|broken| panic!("{broken}"))
}

#[test]
fn no_invariant_breaks_in_sixty_thousand_events() {
    for seed in 100..104 {
        simulate(Config { seed, agents: 150, events: 15_000, ..Config::default() });
    }
}

#[test]
fn a_few_agents_live_long_enough_to_meet_everything() {
    let summary = simulate(Config { seed: 6, agents: 57, events: 20_000, ..Config::default() });
    for kind in Kind::ALL {
        assert!(summary.by_kind.contains_key(&kind), "{kind:?} took no part");
    }
    for guard in
        ["system", "agent", "run", "hours", "rate", "budget", "loop", "churn", "chanting", "breaker", "gate"]
    {
        assert!(summary.by_guard.contains_key(guard), "{guard} never spoke");
    }
    assert!(summary.rebuilt > 0, "no state was rebuilt");
    assert!(summary.retries > 100, "{} requests were retries", summary.retries);
}

#[test]
fn cb_3_no_call_at_an_mcp_gate_goes_uncounted() {
    for seed in 300..304 {
        let config = Config { seed, agents: 60, events: 15_000, gated: true, ..Config::default() };
        let summary = simulate(config);
        assert!(summary.by_kind.contains_key(&Kind::Gated), "nobody has such a gate");
        assert!(summary.by_guard.contains_key("breaker"), "no limit was reached");
    }
}

#[test]
fn a_seed_means_one_run() {
    let config = Config { seed: 3, agents: 40, events: 3_000, ..Config::default() };
    let digest = simulate(config).digest;
    assert_eq!(simulate(config).digest, digest);
    assert_ne!(simulate(Config { seed: 4, ..config }).digest, digest);
}
