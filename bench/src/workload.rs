//! Events of agents at work: requests that continue with tool results, answers, hook calls, ticks.

use estop_core::decision::Decision;
use estop_core::engine::AgentState;
use estop_core::event::{
    CallKind, Ended, Estimate, Event, EventKind, RequestReceived, ResponseCompleted, ToolFinished, ToolGate,
    ToolRequested, Usage,
};
use estop_core::fingerprint::features::{Features, Numbers};
use estop_core::fingerprint::simhash::SimHash;
use estop_core::fingerprint::step_words::StepWords;
use estop_core::fingerprint::{CallFingerprint, RequestFingerprint, ResponseFingerprint, StepFingerprint};
use estop_core::ids::{CallId, Hash64, RequestId};
use estop_core::money::NanoUsd;
use estop_core::policy::Policy;
use estop_core::time::{Millis, Now};
use estop_journal::LineWriter;

use crate::random::Random;

/// An event of one of many agents.
pub struct AgentEvent {
    /// Which agent.
    pub agent: usize,
    /// When.
    pub now: Now,
    /// What.
    pub event: Event,
}

/// `count` events of `agents` agents, taking turns, a request every five seconds each.
pub fn events(count: usize, agents: usize) -> Vec<AgentEvent> {
    let mut random = Random(1);
    (0..count).map(|at| happening(at, agents, &mut random)).collect()
}

fn happening(at: usize, agents: usize, random: &mut Random) -> AgentEvent {
    let (agent, turn) = (at % agents, (at / agents) as u64);
    // Each cycle of four: request, answer with a call, hook before the tool, hook after it.
    let (cycle, phase) = (turn / 4, turn % 4);
    let mono = cycle * 5_000 + phase * 700;
    let what = match phase {
        0 => request(agent, cycle, random),
        1 => answer(cycle, random),
        2 => EventKind::ToolRequested(ToolRequested {
            call: CallId(cycle),
            tool: "Bash".into(),
            action: Hash64(random.next()),
            test_run: false,
            gate: ToolGate::Hook,
        }),
        _ => EventKind::ToolFinished(ToolFinished {
            call: CallId(cycle),
            result: Hash64(random.next()),
            ended: Ended::Ok,
            reports: false,
            words: news(random),
        }),
    };
    let now = Now { mono: Millis(mono), wall: 1_767_225_600_000 + mono as i64 };
    AgentEvent { agent, now, event: Event { run: Some("task-1".into()), ..Event::open(what) } }
}

/// A result of some forty words that nobody has seen.
fn news(random: &mut Random) -> StepWords {
    let text: String = (0..40).map(|_| format!("w{:x} ", random.next() >> 52)).collect();
    StepWords { result: Features::of(&text, Numbers::Count), ..StepWords::default() }
}

fn request(agent: usize, cycle: u64, random: &mut Random) -> EventKind {
    let step = StepFingerprint {
        tool: "Bash".into(),
        action: Hash64(random.next()),
        result: Hash64(random.next()),
        ended: Ended::Unknown,
        test_run: false,
        words: news(random),
    };
    EventKind::RequestReceived(RequestReceived {
        request: RequestId(cycle),
        call: CallKind::Generation,
        model: Some("claude-sonnet-4-5".into()),
        other_models: Vec::new(),
        path: None,
        print: RequestFingerprint {
            conversation: Hash64(agent as u64 + 1),
            ask: Hash64(7),
            prompt: Some(SimHash(0x1234_5678_9abc_def0)),
            continues: cycle > 0,
            asked: Features::default(),
            steps: if cycle > 0 { vec![step] } else { Vec::new() },
        },
        estimate: Estimate {
            input_tokens: 20_000 + cycle as u32 * 300,
            output_tokens: 4_096,
            usd: NanoUsd(90_000_000),
            ..Estimate::default()
        },
        fleet: None,
        tags: None,
        route: None,
    })
}

fn answer(cycle: u64, random: &mut Random) -> EventKind {
    EventKind::ResponseCompleted(ResponseCompleted {
        request: RequestId(cycle),
        ended: Ended::Ok,
        print: ResponseFingerprint {
            text: Some(SimHash(random.next())),
            exact: Some(SimHash(random.next())),
            more_calls: 0,
            calls: vec![CallFingerprint {
                tool: "Bash".into(),
                action: Hash64(random.next()),
                test_run: false,
            }],
        },
        usage: Usage {
            input_tokens: 20_000,
            output_tokens: 180,
            usd: NanoUsd(62_700_000),
            ..Usage::default()
        },
        first_byte_ms: Some(900),
    })
}

/// Requests and answers of one agent without hooks, five seconds apart.
pub fn agent_events(agent: usize, requests: usize) -> impl Iterator<Item = AgentEvent> {
    let mut random = Random(agent as u64);
    (0..requests as u64 * 2).map(move |at| {
        let (cycle, answers) = (at / 2, at % 2 == 1);
        let what = if answers { answer(cycle, &mut random) } else { request(agent, cycle, &mut random) };
        let mono = cycle * 5_000 + u64::from(answers) * 2_000;
        let now = Now { mono: Millis(mono), wall: 1_767_225_600_000 + mono as i64 };
        AgentEvent { agent, now, event: Event { run: Some("task-1".into()), ..Event::open(what) } }
    })
}

/// A policy with everything switched on that costs something, and limits too high to reach.
pub fn policy() -> Policy {
    let mut policy = Policy::default();
    policy.limits.max_tool_calls = estop_core::policy::Limit::max(u32::MAX);
    policy.limits.max_turns = estop_core::policy::Limit::max(u32::MAX);
    policy.limits.max_active_duration = estop_core::policy::Limit::max(u32::MAX);
    policy.budget.usd_per_day = Some(NanoUsd(u64::MAX / 2));
    policy.budget.usd_per_month = Some(NanoUsd(u64::MAX / 2));
    policy.rate.requests_per_minute = Some(1_000);
    policy
}

/// Judges all events, each by its own agent's state. Returns the states and how many were allowed.
pub fn judge(
    events: &[AgentEvent],
    agents: usize,
    policy: &Policy,
    mut each: impl FnMut(&AgentEvent, Decision),
) -> Vec<AgentState> {
    let mut states: Vec<AgentState> = (0..agents).map(|_| AgentState::default()).collect();
    for happening in events {
        let decision = states[happening.agent].handle(happening.now, &happening.event, policy);
        each(happening, decision);
    }
    states
}

/// The journal of the events: the policy first, then everything.
pub fn journal(events: &[AgentEvent], agents: usize, policy: &Policy) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = LineWriter::begin(&mut out);
    let names: Vec<String> = (0..agents).map(|at| format!("agent-{at}")).collect();
    let mut states: Vec<AgentState> = (0..agents).map(|_| AgentState::default()).collect();
    let mut tell = |agent: usize, now: Now, event: &Event| {
        let decision = states[agent].handle(now, event, policy);
        writer.agent(&names[agent], now, event, &decision, &mut out);
    };
    for agent in 0..agents {
        let learn =
            Event::open(EventKind::PolicyChanged { by: "bench".into(), policy: Box::new(policy.clone()) });
        tell(agent, Now::default(), &learn);
    }
    for happening in events {
        tell(happening.agent, happening.now, &happening.event);
    }
    writer.end(&mut out);
    out
}
