//! Breakers by the clock and what they bring about, with a clock that tests put ahead.

use std::collections::BTreeMap;
use std::sync::{Mutex, Weak};

use estop_core::button::{Press, Unlock};
use estop_core::ended::Ended;
use estop_core::event::{ToolFinished, ToolRequested};
use estop_core::ids::{CallId, Hash64};
use estop_core::policy::Limit;
use estop_core::policy_file::{PolicyFile, PolicyFileIn};
use estop_core::run::{RunLimits, RunState};
use estop_core::system::{Channel, KillReason};

use super::*;
use crate::engine::eviction::Resting;
use crate::engine::tools::{RegisteredTool, RunningTool};
use crate::killswitch::connection::Connection;
use crate::killswitch::in_flight::Registered;

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

pub(crate) fn host_with(policy: &str) -> Host {
    let file: PolicyFileIn = serde_json::from_str(policy).expect("a policy file");
    let file: PolicyFile = file.check(&|_| None).expect("a good policy");
    begin(file, Millis(1000), Vec::new(), 0)
}

fn begin(file: PolicyFile, from: Millis, agents: Vec<(Name, Snapshot)>, away_ms: u64) -> Host {
    let queue = Arc::new(JournalQueue::default());
    let rulebook = Rulebook::new(file, BTreeMap::new(), Default::default());
    let places = Agents::new(10, 10, Resting::default());
    let host = Host::new(rulebook, places, queue.into(), Channels::NONE, from, System::default());
    host.open(None, None);
    host.take_up(agents, away_ms);
    host
}

fn start(host: &Host, run: &str, attended: bool, limits: RunLimits) {
    let agent = host.agent("a").expect("there is room");
    let limits = (!limits.is_empty()).then(|| Box::new(limits));
    let decision = host.tell(&agent, Some(run.into()), What::RunStarted { attended, tags: None, limits });
    assert!(decision.is_allowed(), "{decision:?}");
}

fn tool(host: &Host, run: &str, call: u64) -> Arc<Decision> {
    let agent = host.agent("a").expect("there is room");
    let (tool, action) = ("bash".into(), Hash64(call));
    let asked = ToolRequested { call: CallId(call), tool, action, test_run: false, gate: Default::default() };
    host.tell(&agent, Some(run.into()), What::ToolRequested(asked))
}

fn state(host: &Host, run: &str) -> Option<RunState> {
    host.agent("a").expect("there is room").judged().state.run_state(Some(run))
}

fn active_ms(host: &Host, run: &str) -> u64 {
    let agent = host.agent("a").expect("there is room");
    host.tell(&agent, None, What::Tick);
    let views = agent.judged().state.run_views();
    views.iter().find(|view| view.name.as_deref() == Some(run)).expect("the run is known").active_ms
}

/// Lets time pass and the sweeper look, as it does four times a second.
fn pass(host: &Host, seconds: u64) {
    host.clock.skip(seconds * 1000);
    host.tick();
}

fn running(host: &Host, run: Option<&'static str>, attended: bool) -> (Arc<Tool>, RegisteredTool) {
    let tool = Arc::new(Tool { agent: "a", run, attended, ended: Mutex::default() });
    let listed: Arc<dyn RunningTool> = Arc::<Tool>::clone(&tool);
    let registered = host.tools.register(listed).expect("there is room");
    (tool, registered)
}

fn flight(host: &Host, run: Option<&str>) -> Registered {
    let agent = host.agent("a").expect("there is room");
    let connection = Arc::new(Connection::new(
        true,
        host.clock.mono(),
        Weak::new(),
        host.heartbeats.add("test", host.clock.mono()),
    ));
    let (request, now) = (agent.next_request(), host.clock.mono());
    let flight = agent
        .flights
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
    let host = host_with("{}");
    start(&host, "r1", false, SECONDS_100);
    pass(&host, 98);
    assert!(tool(&host, "r1", 1).is_allowed());
    pass(&host, 2);
    assert_eq!(state(&host, "r1"), Some(RunState::Active), "it may sum up");
    let refused = tool(&host, "r1", 2);
    assert!(refused.reason().contains("max active duration (100s)"), "{}", refused.reason());
    pass(&host, 58);
    assert_eq!(state(&host, "r1"), Some(RunState::Active));
    pass(&host, 2);
    assert_eq!(state(&host, "r1"), Some(RunState::Escalated), "nobody asked anything meanwhile");
}

#[test]
fn cb_6_an_escalation_cuts_the_requests_and_ends_the_tools_of_its_run_alone() {
    let host = host_with("{}");
    start(&host, "r1", false, SECONDS_100);
    start(&host, "r2", false, RunLimits::default());
    let (own, other, implicit) = (flight(&host, Some("r1")), flight(&host, Some("r2")), flight(&host, None));
    let (mine, _mine) = running(&host, Some("r1"), false);
    let (person, _person) = running(&host, Some("r1"), true);
    let (others, _others) = running(&host, Some("r2"), false);
    pass(&host, 101);
    assert!(own.why_cut().is_none() && mine.why().is_none(), "a trip alone ends nothing that runs");
    pass(&host, 61);
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
    let host = host_with("{}");
    let (tool, _tool) = running(&host, None, false);
    let (person, _person) = running(&host, Some("r1"), true);
    let elsewhere = Arc::new(Tool { agent: "b", run: None, attended: false, ended: Mutex::default() });
    let listed: Arc<dyn RunningTool> = Arc::<Tool>::clone(&elsewhere);
    let _elsewhere = host.tools.register(listed).expect("there is room");
    let agent = host.agent("a").expect("there is room");
    host.tell(&agent, None, What::AgentDeactivated { by: "ann".into() });
    assert!(tool.why().is_some_and(|why| why.contains("deactivated")), "{:?}", tool.why());
    assert_eq!(person.why(), None);
    assert_eq!(elsewhere.why(), None, "another agent's");
}

#[test]
fn cb_5_sleep_and_active_time_go_on_over_restarts() {
    let file =
        || serde_json::from_str::<PolicyFileIn>("{}").expect("a policy file").check(&|_| None).expect("good");
    let host = begin(file(), Millis(1000), Vec::new(), 0);
    let sleep = RunLimits { max_sleep_duration: Some(Limit::max(100)), ..SECONDS_100 };
    start(&host, "r1", false, sleep);
    start(&host, "r2", false, sleep);
    pass(&host, 60);
    host.tell(&host.agent("a").expect("known"), Some("r2".into()), What::RunSlept);
    pass(&host, 30);
    let before = active_ms(&host, "r1");
    assert!((90_000..91_000).contains(&before), "{before}");
    assert!((60_000..61_000).contains(&active_ms(&host, "r2")), "sleep is not active");

    // estop is away for 60 s.
    let (_, state_then) = host.agent("a").expect("known").snapshot();
    let kept = Snapshot::read(&state_then).expect("its own snapshot");
    let from = host.clock.mono().plus(60_000);
    let host = begin(file(), from, vec![("a".into(), kept)], 60_000);
    assert_eq!(state(&host, "r2"), Some(RunState::Sleeping));
    assert!((90_000..92_000).contains(&active_ms(&host, "r1")), "nothing could be done meanwhile");
    assert!(tool(&host, "r1", 1).is_allowed());

    // 30 s + 60 s away + 11 s asleep; 90 s + 11 s active.
    pass(&host, 11);
    assert_eq!(
        state(&host, "r2"),
        Some(RunState::Escalated),
        "a sleeper is checked, and sleeps on over restarts"
    );
    let refused = tool(&host, "r1", 2);
    assert!(refused.reason().contains("max active duration (100s)"), "{}", refused.reason());
}

#[test]
fn tw_5_health_is_shown_as_the_clock_healed_it() {
    let host = host_with("{}");
    let agent = host.agent("a").expect("there is room");
    for call in 1..=9 {
        assert!(tool(&host, "r1", call).is_allowed());
        let (result, ended) = (Hash64(call), Ended::Failed);
        let finished = ToolFinished { call: CallId(call), result, ended, reports: false };
        host.tell(&agent, Some("r1".into()), What::ToolFinished(finished));
    }
    let shown = || {
        let judged = agent.judged();
        judged.state.health_at(host.clock.mono(), &judged.policy)
    };
    assert_eq!(shown(), 650);
    host.clock.skip(61_000);
    assert_eq!(shown(), 660, "nothing happened meanwhile");
    host.clock.skip(3_600_000);
    assert_eq!(shown(), 800);
}

#[test]
fn cb_6_last_words_are_those_before_the_escalation() {
    let host = host_with("{}");
    start(&host, "r1", false, SECONDS_100);
    host.last_words("a", Some("r1"), "Half of it is done.");
    pass(&host, 101);
    pass(&host, 61);
    host.last_words("a", Some("r1"), "API Error: 400");
    assert_eq!(host.words.of("a", Some("r1")).as_deref(), Some("Half of it is done."));
    let agent = host.agent("a").expect("known");
    host.tell(&agent, Some("r1".into()), What::RunExtended { by: "ann".into() });
    assert!(tool(&host, "r1", 3).is_allowed());
    host.last_words("a", Some("r1"), "Done.");
    assert_eq!(host.words.of("a", Some("r1")).as_deref(), Some("Done."));
}

#[test]
fn cb_6_the_implicit_run_may_speak_again_after_an_escalation() {
    let host = host_with(r#"{"circuit_breakers": {"defaults": {"max_tool_calls": 2}}}"#);
    let agent = host.agent("a").expect("there is room");
    let (call, tool, action) = (CallId(1), "bash".into(), Hash64(1));
    let asked = ToolRequested { call, tool, action, test_run: false, gate: Default::default() };
    let again = ToolRequested { call: CallId(2), ..asked.clone() };
    host.last_words("a", None, "The first task.");
    assert!(host.tell(&agent, None, What::ToolRequested(asked)).is_allowed());
    assert!(!host.tell(&agent, None, What::ToolRequested(again)).is_allowed());
    pass(&host, 61);
    host.last_words("a", None, "The second task.");
    assert_eq!(host.words.of("a", None).as_deref(), Some("The second task."));
}

#[test]
fn po_5_in_watch_a_circuit_breakers_section_is_enforced_for_attended_runs() {
    let mild = host_with("{}");
    let strict = host_with(r#"{"circuit_breakers": {"defaults": {"max_tool_calls": 2}}}"#);
    for (host, stops) in [(&mild, false), (&strict, true)] {
        start(host, "claude-1", true, RunLimits::default());
        let last = (1..=200).map(|call| tool(host, "claude-1", call)).last().expect("200 calls");
        assert_eq!(!last.is_allowed(), stops, "{}", last.reason());
    }
}

#[test]
fn ks_1_how_the_button_stands_is_told_of_one_moment() {
    let host = host_with("{}");
    host.open(None, None);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20_000 {
                let channels = Channels::NONE.with(Channel::Llm);
                let press = Press { channels, ..Press::new(KillReason::Manual, "ann", "api") };
                host.kill(press);
                let epoch = host.button().gate.epoch;
                let _ = host.clear(Unlock { by: "ann".into(), epoch, note: None });
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let mut seen = BTreeMap::new();
        while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
            let gate = host.button().gate;
            assert_eq!(*seen.entry(gate.epoch).or_insert(gate), gate, "of one epoch");
        }
        assert!(seen.len() > 1, "it was looked at while it changed");
    });
}
