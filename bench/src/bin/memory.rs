//! Memory of an agent whose window is full: at work, and at rest.
//!
//! `cargo run --release -p estop-bench --bin memory`

use estop_bench::counting_alloc::CountingAlloc;
use estop_bench::workload;
use estop_core::engine::AgentState;
use estop_core::event::{Event, EventKind};
use estop_core::time::{Millis, Now};

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc;

const AGENTS: usize = 1_000;

fn main() {
    let policy = workload::policy();
    let requests = usize::from(policy.loops.window_size) + 5;
    let mut states: Vec<AgentState> = (0..AGENTS).map(|_| AgentState::default()).collect();
    let before = CountingAlloc::bytes_out();
    for (agent, state) in states.iter_mut().enumerate() {
        for happening in workload::agent_events(agent, requests) {
            state.handle(happening.now, &happening.event, &policy);
        }
    }
    let held = |what: &str| {
        let heap = (CountingAlloc::bytes_out() - before) / AGENTS;
        let fixed = size_of::<AgentState>();
        println!("{what:32} {:5} bytes an agent ({fixed} fixed + {heap} on the heap)", fixed + heap);
    };
    held("at work, 12 requests a minute:");
    let later = requests as u64 * 5_000 + 60_000;
    for state in &mut states {
        let now = Now { mono: Millis(later), wall: 1_767_225_600_000 + later as i64 };
        state.handle(now, &Event::open(EventKind::Tick), &policy);
    }
    held("at rest for a minute:");
}
