//! Seeds that once broke an invariant. A failing seed becomes a line here, with what it found.

#![expect(clippy::panic, reason = "a test fails by panicking")]

use estop_core::engine::AgentState;
use estop_sim::{Config, run};

struct Found {
    seed: u64,
    agents: usize,
    events: u64,
    what: &'static str,
}

const fn found(seed: u64, agents: usize, events: u64, what: &'static str) -> Found {
    Found { seed, agents, events, what }
}

/// The number of events is where it broke, with some to spare: the schedule has moved a little since.
const SEEDS: &[Found] = &[
    found(1, 100, 12_000, "a window of two or three outputs panicked; then the gate said: again after 0 ms"),
    found(1, 200, 12_000, "a start with a latch behind the journal took the epoch back"),
    found(2, 200, 14_000, "a month entered twice forgot what had been spent in it"),
    found(3, 200, 2_000, "reservations beyond 2^64 nano-dollars were lost when one of them was settled"),
    found(
        10,
        200,
        30_000,
        "failed results switched an agent off with the decision that let its request through",
    ),
    found(20, 150, 56_000, "a call number used again for another tool call was not counted"),
    found(30, 200, 16_000, "the same, for an embedding that carried results"),
    found(45, 150, 36_000, "the model closed an implicit run earlier than the core"),
    found(204, 150, 33_000, "the same: a stream that goes on is activity of its run"),
];

#[test]
fn what_broke_once_holds() {
    for Found { seed, agents, events, what } in SEEDS {
        let config = Config { seed: *seed, agents: *agents, events: *events, ..Config::default() };
        if let Err(broken) = run::<AgentState>(&config) {
            panic!("{what}, again:\n{broken}");
        }
    }
}
