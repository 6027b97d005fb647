//! Breakers by the clock and what they bring about, with a clock that tests put ahead.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use estop_core::decision::Decision;
use estop_core::ended::Ended;
use estop_core::engine::Snapshot;
use estop_core::event::{EventKind, ToolFinished, ToolRequested};
use estop_core::ids::{CallId, Hash64, Name};
use estop_core::policy::{Limit, RunLimits};
use estop_core::policy_file::{PolicyFile, PolicyFileIn};
use estop_core::run::RunState;
use estop_core::system::button::{Press, Unlock};
use estop_core::system::{Channel, Channels, KillReason, System};
use estop_core::time::Millis;

use super::Engine;
use crate::emergency_stop::connection::Connection;
use crate::emergency_stop::in_flight::Registered;
use crate::engine::agents::Agents;
use crate::engine::eviction::EvictedAgents;
use crate::engine::policies::Rulebook;
use crate::engine::tools::{RegisteredTool, RunningTool};
use crate::journal::JournalQueue;

/// A tool that only notes why it was ended.
struct Tool {
    agent: &'static str,
    run: Option<&'static str>,
    attended: bool,
    ended: Mutex<Option<String>>,
}

impl RunningTool for Tool {
    fn end(&self, why: &str) {
        *self.ended.lock().expect("not poisoned") = Some(why.to_owned());
    }

    fn agent(&self) -> Option<&str> {
        Some(self.agent)
    }

    fn run(&self) -> Option<&str> {
        self.run
    }

    fn is_attended(&self) -> bool {
        self.attended
    }
}

impl Tool {
    fn why(&self) -> Option<String> {
        self.ended.lock().expect("not poisoned").clone()
    }
}

pub(crate) fn engine_with(policy: &str) -> Engine {
    let file: PolicyFileIn = serde_json::from_str(policy).expect("a policy file");
    let file: PolicyFile = file.check(&|_| None).expect("a good policy");
    begin(file, Millis(1000), Vec::new(), 0)
}

fn begin(file: PolicyFile, from: Millis, agents: Vec<(Name, Snapshot)>, away_ms: u64) -> Engine {
    let queue = Arc::new(JournalQueue::default());
    let rulebook = Rulebook::new(file, BTreeMap::new(), Default::default());
    let places = Agents::new(10, 10, EvictedAgents::default());
    let engine = Engine::new(rulebook, places, queue.into(), Channels::NONE, from, System::default());
    engine.open(None, None);
    engine.restore(agents, away_ms);
    engine
}

fn start(engine: &Engine, run: &str, attended: bool, limits: RunLimits) {
    let agent = engine.agent("a").expect("there is room");
    let limits = (!limits.is_empty()).then(|| Box::new(limits));
    let decision =
        engine.apply(&agent, Some(run.into()), EventKind::RunStarted { attended, tags: None, limits });
    assert!(decision.is_allowed(), "{decision:?}");
}

fn tool(engine: &Engine, run: &str, call: u64) -> Arc<Decision> {
    let agent = engine.agent("a").expect("there is room");
    let (tool, action) = ("bash".into(), Hash64(call));
    let asked = ToolRequested { call: CallId(call), tool, action, test_run: false, gate: Default::default() };
    engine.apply(&agent, Some(run.into()), EventKind::ToolRequested(asked))
}

fn state(engine: &Engine, run: &str) -> Option<RunState> {
    engine.agent("a").expect("there is room").lock_state().state.run_state(Some(run))
}

fn active_ms(engine: &Engine, run: &str) -> u64 {
    let agent = engine.agent("a").expect("there is room");
    engine.apply(&agent, None, EventKind::Tick);
    let views = agent.lock_state().state.run_views();
    views.iter().find(|view| view.name.as_deref() == Some(run)).expect("the run is known").active_ms
}

/// Lets time pass and the sweeper look, as it does four times a second.
fn pass(engine: &Engine, seconds: u64) {
    engine.clock.skip(seconds * 1000);
    engine.tick();
}

fn running(engine: &Engine, run: Option<&'static str>, attended: bool) -> (Arc<Tool>, RegisteredTool) {
    let tool = Arc::new(Tool { agent: "a", run, attended, ended: Mutex::default() });
    let listed: Arc<dyn RunningTool> = Arc::<Tool>::clone(&tool);
    let registered = engine.tools.register(listed).expect("there is room");
    (tool, registered)
}

fn flight(engine: &Engine, run: Option<&str>) -> Registered {
    let agent = engine.agent("a").expect("there is room");
    let connection = Arc::new(Connection::new(
        true,
        engine.clock.mono(),
        Weak::new(),
        engine.heartbeats.add("test", engine.clock.mono()),
    ));
    let (request, now) = (agent.next_request(), engine.clock.mono());
    let flight = agent
        .in_flight_requests
        .register(request, Channel::Llm, "The provider", connection, now, 10)
        .expect("there is room");
    flight.set_run(run.map(Name::from));
    flight
}

const SECONDS_100: RunLimits = RunLimits {
    max_iterations: None,
    max_tool_calls: None,
    max_turns: None,
    max_active_duration: Some(Limit::max(100)),
    max_sleep_duration: None,
};

#[test]
fn cb_5_an_agent_that_does_nothing_trips_by_the_clock_and_is_escalated_by_itself() {
    let engine = engine_with("{}");
    start(&engine, "r1", false, SECONDS_100);
    pass(&engine, 98);
    assert!(tool(&engine, "r1", 1).is_allowed());
    pass(&engine, 2);
    assert_eq!(state(&engine, "r1"), Some(RunState::Active), "it may sum up");
    let refused = tool(&engine, "r1", 2);
    assert!(refused.reason().contains("max active duration (100s)"), "{}", refused.reason());
    pass(&engine, 58);
    assert_eq!(state(&engine, "r1"), Some(RunState::Active));
    pass(&engine, 2);
    assert_eq!(state(&engine, "r1"), Some(RunState::Escalated), "nobody asked anything meanwhile");
}

#[test]
fn cb_6_an_escalation_cuts_the_requests_and_ends_the_tools_of_its_run_alone() {
    let engine = engine_with("{}");
    start(&engine, "r1", false, SECONDS_100);
    start(&engine, "r2", false, RunLimits::default());
    let (own, other, implicit) =
        (flight(&engine, Some("r1")), flight(&engine, Some("r2")), flight(&engine, None));
    let (mine, _mine) = running(&engine, Some("r1"), false);
    let (person, _person) = running(&engine, Some("r1"), true);
    let (others, _others) = running(&engine, Some("r2"), false);
    pass(&engine, 101);
    assert!(own.why_cut().is_none() && mine.why().is_none(), "a trip alone ends nothing that runs");
    pass(&engine, 61);
    let cut = own.why_cut().expect("it was cut");
    let says = "Stopped by estop: This run was escalated to a human: max active duration (100s). \
                Start a new run, or extend this one.";
    assert_eq!((cut.code, cut.message.as_str()), ("circuit_breaker", says));
    assert_eq!(mine.why().as_deref(), Some(says));
    assert_eq!(person.why(), None, "a person's program is refused, not killed");
    assert!(other.why_cut().is_none() && implicit.why_cut().is_none(), "other runs go on");
    assert_eq!(others.why(), None);
}

#[test]
fn tl_2_an_agent_that_is_switched_off_loses_its_tools_but_a_person_s() {
    let engine = engine_with("{}");
    let (tool, _tool) = running(&engine, None, false);
    let (person, _person) = running(&engine, Some("r1"), true);
    let elsewhere = Arc::new(Tool { agent: "b", run: None, attended: false, ended: Mutex::default() });
    let listed: Arc<dyn RunningTool> = Arc::<Tool>::clone(&elsewhere);
    let _elsewhere = engine.tools.register(listed).expect("there is room");
    let agent = engine.agent("a").expect("there is room");
    engine.apply(&agent, None, EventKind::AgentDeactivated { by: "ann".into() });
    assert!(tool.why().is_some_and(|why| why.contains("deactivated")), "{:?}", tool.why());
    assert_eq!(person.why(), None);
    assert_eq!(elsewhere.why(), None, "another agent's");
}

#[test]
fn cb_5_sleep_and_active_time_go_on_over_restarts() {
    let file =
        || serde_json::from_str::<PolicyFileIn>("{}").expect("a policy file").check(&|_| None).expect("good");
    let engine = begin(file(), Millis(1000), Vec::new(), 0);
    let sleep = RunLimits { max_sleep_duration: Some(Limit::max(100)), ..SECONDS_100 };
    start(&engine, "r1", false, sleep);
    start(&engine, "r2", false, sleep);
    pass(&engine, 60);
    engine.apply(&engine.agent("a").expect("known"), Some("r2".into()), EventKind::RunSlept);
    pass(&engine, 30);
    let before = active_ms(&engine, "r1");
    assert!((90_000..91_000).contains(&before), "{before}");
    assert!((60_000..61_000).contains(&active_ms(&engine, "r2")), "sleep is not active");

    // estop is away for 60 s.
    let (_, state_then) = engine.agent("a").expect("known").snapshot();
    let kept = Snapshot::read(&state_then).expect("its own snapshot");
    let from = engine.clock.mono().plus(60_000);
    let engine = begin(file(), from, vec![("a".into(), kept)], 60_000);
    assert_eq!(state(&engine, "r2"), Some(RunState::Sleeping));
    assert!((90_000..92_000).contains(&active_ms(&engine, "r1")), "nothing could be done meanwhile");
    assert!(tool(&engine, "r1", 1).is_allowed());

    // 30 s + 60 s away + 11 s asleep; 90 s + 11 s active.
    pass(&engine, 11);
    assert_eq!(
        state(&engine, "r2"),
        Some(RunState::Escalated),
        "a sleeper is checked, and sleeps on over restarts"
    );
    let refused = tool(&engine, "r1", 2);
    assert!(refused.reason().contains("max active duration (100s)"), "{}", refused.reason());
}

#[test]
fn tw_5_health_is_shown_as_the_clock_healed_it() {
    let engine = engine_with("{}");
    let agent = engine.agent("a").expect("there is room");
    for call in 1..=9 {
        assert!(tool(&engine, "r1", call).is_allowed());
        let (result, ended) = (Hash64(call), Ended::Failed);
        let finished =
            ToolFinished { call: CallId(call), result, ended, reports: false, words: Default::default() };
        engine.apply(&agent, Some("r1".into()), EventKind::ToolFinished(finished));
    }
    let shown = || {
        let judged = agent.lock_state();
        judged.state.health_at(engine.clock.mono(), &judged.policy)
    };
    assert_eq!(shown(), 650);
    engine.clock.skip(61_000);
    assert_eq!(shown(), 660, "nothing happened meanwhile");
    engine.clock.skip(3_600_000);
    assert_eq!(shown(), 800);
}

#[test]
fn cb_6_last_words_are_those_before_the_escalation() {
    let engine = engine_with("{}");
    start(&engine, "r1", false, SECONDS_100);
    engine.record_output("a", Some("r1"), "Half of it is done.");
    pass(&engine, 101);
    pass(&engine, 61);
    engine.record_output("a", Some("r1"), "API Error: 400");
    assert_eq!(engine.last_output.of("a", Some("r1")).as_deref(), Some("Half of it is done."));
    let agent = engine.agent("a").expect("known");
    engine.apply(&agent, Some("r1".into()), EventKind::RunExtended { by: "ann".into() });
    assert!(tool(&engine, "r1", 3).is_allowed());
    engine.record_output("a", Some("r1"), "Done.");
    assert_eq!(engine.last_output.of("a", Some("r1")).as_deref(), Some("Done."));
}

#[test]
fn cb_6_the_implicit_run_may_speak_again_after_an_escalation() {
    let engine = engine_with(r#"{"circuit_breakers": {"defaults": {"max_tool_calls": 2}}}"#);
    let agent = engine.agent("a").expect("there is room");
    let (call, tool, action) = (CallId(1), "bash".into(), Hash64(1));
    let asked = ToolRequested { call, tool, action, test_run: false, gate: Default::default() };
    let again = ToolRequested { call: CallId(2), ..asked.clone() };
    engine.record_output("a", None, "The first task.");
    assert!(engine.apply(&agent, None, EventKind::ToolRequested(asked)).is_allowed());
    assert!(!engine.apply(&agent, None, EventKind::ToolRequested(again)).is_allowed());
    pass(&engine, 61);
    engine.record_output("a", None, "The second task.");
    assert_eq!(engine.last_output.of("a", None).as_deref(), Some("The second task."));
}

#[test]
fn po_5_in_watch_a_circuit_breakers_section_is_enforced_for_attended_runs() {
    let mild = engine_with("{}");
    let strict = engine_with(r#"{"circuit_breakers": {"defaults": {"max_tool_calls": 2}}}"#);
    for (engine, stops) in [(&mild, false), (&strict, true)] {
        start(engine, "claude-1", true, RunLimits::default());
        let last = (1..=200).map(|call| tool(engine, "claude-1", call)).last().expect("200 calls");
        assert_eq!(!last.is_allowed(), stops, "{}", last.reason());
    }
}

#[test]
fn ks_1_how_the_button_stands_is_told_of_one_moment() {
    let engine = engine_with("{}");
    engine.open(None, None);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20_000 {
                let channels = Channels::NONE.with(Channel::Llm);
                let press = Press { channels, ..Press::new(KillReason::Manual, "ann", "api") };
                engine.kill(press);
                let epoch = engine.button().gate.epoch;
                let _ = engine.clear(Unlock { by: "ann".into(), epoch, note: None });
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let mut seen = BTreeMap::new();
        while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
            let gate = engine.button().gate;
            assert_eq!(*seen.entry(gate.epoch).or_insert(gate), gate, "of one epoch");
        }
        assert!(seen.len() > 1, "it was looked at while it changed");
    });
}

/// What people are shown is found out on a copy: who asks holds up neither a request nor a kill.
#[test]
fn ks_1_what_an_agents_next_request_would_get_is_asked_without_its_lock() {
    let engine = engine_with("{}");
    let agent = engine.agent("a").expect("there is room");
    let copy = agent.copy();
    let judged = agent.lock_state();
    let (now, commands) = (engine.clock.now(), estop_core::printed_command::Commands::default());
    let status = copy.state.status(&estop_core::engine::StatusQuery {
        agent: "a",
        now,
        gate: engine.latch.view(),
        button: None,
        fleet: None,
        policy: &copy.policy,
        commands: &commands,
    });
    assert!(!status.label.is_empty());
    drop(judged);
}
