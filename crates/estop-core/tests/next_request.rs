//! EV-2: what is shown of an agent is what its next request gets. Random agents, and after each event a real request beside what
//! was shown before it.

mod support;

use estop_core::agent::status::{AgentStatus, StatusKind};
use estop_core::budget::{BudgetCap, BudgetFinding};
use estop_core::decision::{Decision, Finding, Guard, Ruling};
use estop_core::engine::{AgentState, Snapshot, StatusQuery};
use estop_core::event::{CallKind, Ended, Event, EventKind, RequestReceived};
use estop_core::fingerprint::simhash::SimHash;
use estop_core::fingerprint::{RequestFingerprint, StepFingerprint};
use estop_core::ids::{Hash64, Name, RequestId};
use estop_core::policy::{AllowedHours, Mode, ModelRules, Policy, Unpriced};
use estop_core::printed_command::Commands;
use estop_core::run::{RunProblem, RunState};
use estop_core::system::button::{Latched, Press};
use estop_core::system::{
    Channel, Channels, GateView, KillReason, SystemDecision, SystemOutcome, SystemState,
};
use estop_core::time::{Millis, Now, Zone};
use support::{Random, event, policy, tick};

/// An agent, with what anybody who watched its events knows of its latest request.
#[derive(Default)]
struct Watched {
    state: AgentState,
    policy: Policy,
    latest: Option<RequestReceived>,
    run: Option<Name>,
}

impl Watched {
    fn tell(&mut self, now: Now, event: &Event) {
        if let EventKind::PolicyChanged { policy, .. } = &event.what {
            self.policy.clone_from(policy);
        }
        let acts = matches!(
            event.what,
            EventKind::RequestReceived(_)
                | EventKind::ToolRequested(_)
                | EventKind::PromptSubmitted
                | EventKind::RunStarted { .. }
                | EventKind::RunWoke
        );
        if acts {
            self.run.clone_from(&event.run);
        }
        let decision = self.state.handle(now, event, &self.policy);
        if let EventKind::RequestReceived(request) = &event.what {
            let run = decision.verdicts.get(Guard::Run).map(|verdict| &verdict.finding);
            let problem = if let Some(Finding::Run(run)) = run { run.problem } else { None };
            // A number used twice is no request at all.
            if problem != Some(RunProblem::DuplicateRequest) {
                self.latest = Some(request.clone());
            }
        }
    }

    fn status(&self, now: Now, gate: GateView, fleet: Option<BudgetFinding>) -> AgentStatus {
        let commands = &Commands::default();
        let policy = &self.policy;
        self.state.status(&StatusQuery { agent: "a", now, gate, button: None, fleet, policy, commands })
    }

    /// What a real request gets: like the latest one, and about something new.
    fn next(&self, now: Now, gate: GateView, fleet: Option<BudgetFinding>) -> Decision {
        let mut state = self.state.clone();
        let is_turn = self.latest.as_ref().is_none_or(|r| r.print.prompt.is_some() && !r.print.continues);
        let print = RequestFingerprint {
            conversation: Hash64(0xabcdef),
            prompt: Some(SimHash(0x00ff_00ff_1234_5678)),
            continues: !is_turn,
            ..RequestFingerprint::default()
        };
        let request = RequestId(1_000_000);
        let asked = match &self.latest {
            Some(latest) => RequestReceived { request, print, fleet, ..latest.clone() },
            None => RequestReceived {
                request,
                call: CallKind::Generation,
                model: self.policy.models.allow.first().cloned(),
                other_models: Vec::new(),
                path: None,
                print,
                estimate: Default::default(),
                fleet,
                tags: None,
                route: None,
            },
        };
        let mut policy = self.policy.clone();
        if self.latest.is_none() {
            policy.models = ModelRules::default();
        }
        let event = |what| Event { run: self.run.clone(), gate, what };
        if self.state.run_state(self.run.as_deref()) == Some(RunState::Completed) {
            state.handle(
                now,
                &event(EventKind::RunStarted { attended: false, tags: None, limits: None }),
                &policy,
            );
        }
        state.handle(now, &event(EventKind::RequestReceived(asked)), &policy)
    }
}

fn kind_of(guard: Guard, state: &AgentState) -> StatusKind {
    use estop_core::agent::standing::Standing;
    match guard {
        Guard::System => StatusKind::Shut,
        Guard::Agent if matches!(state.standing(), Standing::Paused { .. }) => StatusKind::Paused,
        Guard::Agent | Guard::Loop | Guard::Churn | Guard::Chanting => StatusKind::Stopped,
        Guard::Run | Guard::Breaker => StatusKind::AtRunLimit,
        Guard::Hours => StatusKind::OutsideHours,
        Guard::Models => StatusKind::ModelRefused,
        Guard::Rate | Guard::Watchdog => StatusKind::RateLimited,
        Guard::Budget => StatusKind::BudgetSpent,
        Guard::Gate => StatusKind::CoolingDown,
        Guard::Health => StatusKind::Paused,
    }
}

/// More than `support` has: hours, models, months, prices, the watchdog.
fn rules(random: &mut Random) -> Policy {
    let mut policy = policy(random);
    if random.one_in(3) {
        let (from_minute, to_minute) = [(480, 1080), (1320, 360), (0, 720)][random.below(3) as usize];
        let days = if random.one_in(20) { 0 } else { random.below(127) as u8 + 1 };
        policy.hours = Some(AllowedHours { days, from_minute, to_minute, zone: zone(random) });
    }
    if random.one_in(3) {
        policy.models = ModelRules { allow: vec!["good*".into()], deny: vec!["good-but-not-this".into()] };
    }
    if random.one_in(3) {
        policy.budget.usd_per_month = Some(estop_core::money::NanoUsd(20_000_000_000));
        policy.budget.zone = zone(random);
    }
    if random.one_in(4) {
        policy.budget.unpriced = Unpriced::Deny;
    }
    if random.one_in(3) {
        policy.watchdog.max_calls_per_minute = 4;
    }
    for guard in [Guard::Hours, Guard::Models, Guard::Rate, Guard::Budget, Guard::Watchdog] {
        if random.one_in(6) {
            policy.modes[guard] = [Mode::Shadow, Mode::Off][random.below(2) as usize];
        }
    }
    policy
}

fn zone(random: &mut Random) -> Zone {
    let name = "Somewhere/Else".into();
    // Summer time begins somewhere within the test.
    let changes = vec![(1_767_225_600_000 + random.below(90 * 86_400_000) as i64 / 900_000 * 900_000, 7_200)];
    if random.one_in(2) { Zone { name, offset_s: 3_600, changes } } else { Zone::default() }
}

fn gate(random: &mut Random) -> GateView {
    let state = match random.below(12) {
        0 => SystemState::Shutdown,
        1 => SystemState::SafeMode,
        _ => SystemState::Running,
    };
    let shut = if random.one_in(8) { Channels::NONE.with(Channel::Tools) } else { Channels::NONE };
    GateView { epoch: 3, state, shut }
}

fn a_life(seed: u64, seen: &mut std::collections::BTreeMap<&'static str, u32>) {
    let mut random = Random(seed);
    let mut now = Now { mono: Millis(1_000), wall: 1_767_225_600_000 + random.below(86_400_000) as i64 };
    let mut agent = Watched::default();
    let policy = Box::new(rules(&mut random));
    agent.tell(now, &Event::open(EventKind::PolicyChanged { by: "test".into(), policy }));
    let lively = random.one_in(2);
    for step in 0..150 {
        tick(&mut random, &mut now);
        let mut event = event(&mut random);
        if lively && matches!(event.what, EventKind::AgentDeactivated { .. } | EventKind::AgentPaused { .. })
        {
            event.what = EventKind::AgentActivated { by: "test".into() };
        }
        if let EventKind::PolicyChanged { policy, .. } = &mut event.what {
            **policy = rules(&mut random);
        }
        if let EventKind::RequestReceived(request) = &mut event.what {
            let models = ["good-one", "good-but-not-this", "bad", ""];
            let model = models[random.below(4) as usize];
            request.model = (!model.is_empty()).then(|| model.into());
        }
        if matches!(event.what, EventKind::Tick) {
            let guard = Guard::SWITCHES[random.below(Guard::SWITCHES.len() as u64) as usize];
            let (by, note) = ("test".into(), None);
            event.what = EventKind::GuardSnoozed { by, guard, for_ms: 600_000, until: 0, note };
        }
        agent.tell(now, &event);
        let (gate, fleet) = (gate(&mut random), fleet(&mut random));
        let later = random.below(3) * random.below(40_000);
        let at = Now { mono: now.mono.plus(later), wall: now.wall + later as i64 };
        let status = agent.status(at, gate, fleet);
        let decision = agent.next(at, gate, fleet);
        let context = || format!("seed {seed}, step {step}: shown {status:?}, but {:?}", decision.outcome);
        assert_eq!(status.passes, decision.is_allowed(), "{}", context());
        *seen.entry(status.kind.name()).or_default() += 1;
        match decision.refused_by() {
            Some(guard) => {
                assert_eq!(
                    (status.guard, status.kind),
                    (Some(guard), kind_of(guard, &agent.state)),
                    "{}",
                    context()
                );
                if let Some(until) = status.until {
                    ends_then(&agent, at, gate, fleet, guard, until, &context);
                    *seen.entry("until").or_default() += 1;
                }
            }
            None => {
                let would_stop = decision.verdicts.iter().find(|(_, v)| v.ruling == Ruling::WouldStop);
                let run = decision.verdicts.get(Guard::Run).map(|verdict| &verdict.finding);
                let sums_up = matches!(run, Some(Finding::Run(run)) if run.tripped.is_some());
                assert_eq!(status.kind == StatusKind::AtRunLimit, sums_up, "{}", context());
                if let (Some((guard, _)), false) = (would_stop, sums_up) {
                    assert_eq!(status.kind, StatusKind::Watched, "{guard:?} is only watched: {}", context());
                }
            }
        }
    }
}

/// Until then it is refused, by this guard or one that comes before it; from then on not by this one.
fn ends_then(
    agent: &Watched,
    at: Now,
    gate: GateView,
    fleet: Option<BudgetFinding>,
    guard: Guard,
    until: i64,
    context: &dyn Fn() -> String,
) {
    let after = |wall: i64| Now { mono: at.mono.plus((wall - at.wall).unsigned_abs()), wall };
    assert!(until > at.wall, "{}", context());
    let before = agent.next(after(until - 1), gate, fleet).refused_by();
    assert!(before.is_some_and(|before| before <= guard), "a moment before {before:?}: {}", context());
    let then = agent.next(after(until), gate, fleet).refused_by();
    assert_ne!(then, Some(guard), "it is still refused then: {}", context());
}

fn fleet(random: &mut Random) -> Option<BudgetFinding> {
    let spent = random.below(100);
    random.one_in(6).then(|| BudgetFinding::of(BudgetCap::FleetUsdPerDay, (spent, 0), 20, 0, 100))
}

#[test]
fn ev_2_what_is_shown_of_an_agent_is_what_its_next_request_gets() {
    let mut seen = std::collections::BTreeMap::new();
    for seed in 0..500 {
        a_life(seed, &mut seen);
    }
    // A test that never came to a state says nothing of it.
    for kind in [
        "active",
        "watched",
        "rate_limited",
        "cooling_down",
        "outside_hours",
        "model_refused",
        "paused",
        "at_run_limit",
        "budget_spent",
        "stopped",
        "shut",
        "until",
    ] {
        assert!(seen.get(kind).is_some_and(|count| *count >= 20), "{kind}: {seen:?}");
    }
}

const NOON: Now = Now { mono: Millis(1_000), wall: 1_767_268_800_000 };

/// A request that brings the result of one and the same call.
fn repeated(number: u64, conversation: u64, action: u64) -> RequestReceived {
    let step = StepFingerprint {
        tool: "run_shell".into(),
        action: Hash64(action),
        result: Hash64(action),
        ended: Ended::Ok,
        test_run: false,
        words: Default::default(),
    };
    RequestReceived {
        request: RequestId(number),
        call: CallKind::Generation,
        model: None,
        other_models: Vec::new(),
        path: None,
        print: RequestFingerprint {
            conversation: Hash64(conversation),
            ask: Hash64(1),
            prompt: Some(SimHash(7)),
            continues: true,
            steps: vec![step],
            ..RequestFingerprint::default()
        },
        estimate: Default::default(),
        fleet: None,
        tags: None,
        route: None,
    }
}

fn ask(agent: &mut Watched, number: u64, conversation: u64, action: u64) {
    let now = Now { mono: Millis(1_000 + number * 2_000), wall: NOON.wall + number as i64 * 2_000 };
    let request = repeated(number, conversation, action);
    agent.tell(now, &Event::open(EventKind::RequestReceived(request)));
}

#[test]
fn ev_2_an_agent_whose_loop_is_only_watched_is_shown_as_watched_until_it_does_something_else() {
    let mut agent = Watched::default();
    let shown = |agent: &Watched| agent.status(NOON, GateView::OPEN, None);
    ask(&mut agent, 1, 1, 1);
    assert_eq!(shown(&agent).kind, StatusKind::Active);
    (2..12).for_each(|number| ask(&mut agent, number, 1, 1));
    let status = shown(&agent);
    assert_eq!((status.kind, status.passes, status.guard), (StatusKind::Watched, true, Some(Guard::Loop)));
    assert_eq!(status.label, "watched: would have been stopped (loop)");
    assert!(status.sentence.contains("estop agents loop-guard a --on"), "{}", status.sentence);
    // Enforced from here on, nothing is only watched any more.
    let mut enforced = Watched { state: agent.state.clone(), ..Watched::default() };
    enforced.policy.modes[Guard::Loop] = Mode::Enforce;
    assert_eq!(shown(&enforced).kind, StatusKind::Active);
    // Another conversation, in which nothing repeats.
    ask(&mut agent, 20, 2, 99);
    assert_eq!(shown(&agent).kind, StatusKind::Active);
}

#[test]
fn ev_2_who_stopped_or_paused_an_agent_is_said_and_survives_a_snapshot() {
    let mut agent = Watched::default();
    let by = |by: &str| Name::from(by);
    agent.tell(NOON, &Event::open(EventKind::AgentPaused { by: by("bob") }));
    let status = agent.status(NOON, GateView::OPEN, None);
    assert_eq!((status.label.as_str(), status.by.as_deref()), ("paused by bob", Some("bob")));
    agent.tell(NOON, &Event::open(EventKind::AgentResumed { by: by("carol") }));
    assert_eq!(agent.status(NOON, GateView::OPEN, None).by, None);
    agent.tell(NOON, &Event::open(EventKind::AgentDeactivated { by: by("alice") }));
    // Who is off stays off by the first hand.
    agent.tell(NOON, &Event::open(EventKind::AgentDeactivated { by: by("bob") }));
    let bytes = agent.state.snapshot(4, &agent.policy);
    agent.state = Snapshot::read(&bytes).expect("it was just written").state;
    let status = agent.status(NOON, GateView::OPEN, None);
    assert_eq!((status.kind, status.by.as_deref()), (StatusKind::Stopped, Some("alice")));
    assert!(status.sentence.starts_with("alice deactivated it."), "{}", status.sentence);
}

#[test]
fn ev_2_who_pressed_the_button_is_said_and_a_shut_channel_beside_the_model_too() {
    let agent = Watched::default();
    let gate = GateView { epoch: 2, state: SystemState::Shutdown, shut: Channels::ALL };
    let press = Press::new(KillReason::Manual, "dora", "dashboard");
    let decision = SystemDecision { outcome: SystemOutcome::Applied, gate };
    let button = Latched::at_start(GateView::OPEN, 0).after(&press.event(), &decision, NOON.wall);
    let (policy, commands) = (Policy::default(), Commands::default());
    let asked = |gate, button| {
        let (now, policy, commands) = (NOON, &policy, &commands);
        agent.state.status(&StatusQuery { agent: "a", now, gate, button, fleet: None, policy, commands })
    };
    let status = asked(gate, Some(&button));
    assert_eq!((status.kind, status.by.as_deref()), (StatusKind::Shut, Some("dora")));
    assert!(status.sentence.contains("pressed by dora (dashboard)"), "{}", status.sentence);
    let tools = GateView { shut: Channels::NONE.with(Channel::Tools), ..GateView::OPEN };
    assert_eq!(asked(tools, None).label, "active, tools shut");
}
