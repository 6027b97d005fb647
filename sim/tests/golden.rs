//! Debug and release decide alike: both must come to the digest written here.
//!
//! Another digest means that the core decides something differently, or writes it otherwise. If that is wanted, put the new one here; the
//! same number comes from `cargo run --release -p estop-sim -- --seed 1 --agents 100 --events 20000`.

#![expect(clippy::panic, reason = "a test fails by panicking")]

use estop_core::engine::AgentState;
use estop_sim::{Config, run};

const SEED_1: &str = "eac348c1f973aa2c35f43370befd739771e63bc4d4452107ced872568cdaaa84";

#[test]
fn seed_1_has_its_digest() {
    let config = Config { seed: 1, agents: 100, events: 20_000, ..Config::default() };
    let summary = run::<AgentState>(&config).unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(summary.digest, SEED_1);
}
