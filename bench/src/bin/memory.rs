//! Memory of an agent whose window is full: at work, and at rest; and of the steps that are kept of a conversation (EV-1).
//!
//! `cargo run --release -p estop-bench --bin memory`

use std::sync::Arc;

use estop_bench::counting_alloc::CountingAlloc;
use estop_bench::workload;
use estop_core::engine::AgentState;
use estop_core::event::{Event, EventKind};
use estop_core::operator::HookCall;
use estop_core::policy_file::{PolicyFile, PolicyFileIn};
use estop_core::time::{Millis, Now};
use estop_gateway::settings::{Limits, Settings, UnknownAgents};
use estop_gateway::{Gateway, JournalQueue, RestoredState};

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
    for (what, bytes) in [("texts of 200 bytes", 200), ("texts of 8 kB", 8_000)] {
        let [off, redacted, full] = ["off", "redacted", "full"].map(|mode| steps(mode, bytes));
        for (mode, bytes) in [("redacted", redacted), ("full", full)] {
            let bytes = bytes.saturating_sub(off);
            println!("20 steps, evidence: {mode}, {what}: {bytes} bytes a conversation");
        }
    }
}

/// Conversations whose steps are measured: one in each of so many agents, so that none of them makes room for another.
const CONVERSATIONS: usize = 20;
/// More than are kept.
const STEPS: usize = 25;

/// What a conversation of hooks holds, its agent included.
fn steps(mode: &str, bytes: usize) -> usize {
    let rules = format!(r#"{{"policy": {{"evidence": "{mode}"}}}}"#);
    let file: PolicyFileIn = serde_json::from_str(&rules).expect("a policy");
    let queue = Arc::new(JournalQueue::default());
    let settings = settings(file.check(&|_| None).expect("a good policy"));
    let gateway = Gateway::start(settings, Arc::clone(&queue), RestoredState::default()).expect("it starts");
    let (args, result) = ("a ".repeat(bytes / 2), "r ".repeat(bytes / 2));
    let hook = |agent: usize, event: &str, body: String| {
        let agent = format!("agent-{agent}");
        let call = HookCall {
            client: "generic",
            event,
            body: body.as_bytes(),
            agent: Some(&agent),
            run: Some("r"),
            ..HookCall::default()
        };
        let reply = gateway.engine().hook(call);
        assert!(reply.fault.is_none(), "{reply:?}");
    };
    let before = CountingAlloc::bytes_out();
    for agent in 0..CONVERSATIONS {
        for step in 0..STEPS {
            let asks = format!(r#"{{"tool":"bash","call":"{step}","args":{{"command":"{step} {args}"}}}}"#);
            hook(agent, "pre-tool-use", asks);
            let tells = format!(r#"{{"tool":"bash","call":"{step}","result":"{step} {result}"}}"#);
            hook(agent, "post-tool-use", tells);
        }
        // What waits for the journal's reader is not what is measured.
        queue.take(&mut Vec::new(), Some(std::time::Duration::ZERO));
    }
    (CountingAlloc::bytes_out() - before) / CONVERSATIONS
}

fn settings(policies: PolicyFile) -> Settings {
    Settings {
        listen: ([127, 0, 0, 1], 0).into(),
        socket: None,
        workers: 1,
        tls: None,
        providers: Default::default(),
        relays: Default::default(),
        mcp: Default::default(),
        keys: Vec::new(),
        require_keys: false,
        allowed_origins: Vec::new(),
        unknown_agents: UnknownAgents::default(),
        llm_enabled: true,
        limits: Limits::default(),
        policies,
        prices: Arc::default(),
    }
}
