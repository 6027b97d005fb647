//! What other loop settings would have stopped, and how those runs ended, told from records alone (LD-7).

use estop_core::engine::AgentState;
use estop_core::event::{Ended, Estimate, Event, EventKind, RequestReceived, ResponseCompleted, Usage};
use estop_core::fingerprint::{RequestFingerprint, RequestText, ResponseFingerprint, ResponseText, StepText};
use estop_core::guard::Guard;
use estop_core::ids::RequestId;
use estop_core::policy::{LoopPolicy, Mode, Policy, Profile};
use estop_core::time::{Millis, Now};
use estop_journal::{LineWriter, Record, RunEnd, SettingOutcome, Traffic, Tuning, records};

/// An agent whose every request and answer is recorded.
struct Recorded {
    policy: Policy,
    state: AgentState,
    writer: LineWriter,
    lines: Vec<u8>,
    requests: u64,
    now: u64,
}

const EVERY_MS: u64 = 15_000;

impl Recorded {
    fn new(mode: Mode) -> Recorded {
        let mut policy = Policy::default();
        policy.modes[Guard::Loop] = mode;
        let mut lines = Vec::new();
        let writer = LineWriter::begin(&mut lines);
        Recorded { policy, state: AgentState::default(), writer, lines, requests: 0, now: 1_000 }
    }

    fn tell(&mut self, run: &str, what: EventKind) -> bool {
        let event = Event { run: Some(run.into()), ..Event::open(what) };
        let now = Now { mono: Millis(self.now), wall: self.now as i64 };
        let decision = self.state.handle(now, &event, &self.policy);
        self.writer.agent("coder", now, &event, &decision, &mut self.lines);
        decision.is_allowed()
    }

    /// Brings a result, and is answered with another call, or with words alone.
    fn step(&mut self, run: &str, result: Option<&str>, calls: bool) {
        self.requests += 1;
        self.now += EVERY_MS;
        let request = RequestId(self.requests);
        let step = |result| StepText { tool: "check_ci", args: "{}", result, ended: Ended::Unknown };
        let text = RequestText {
            system: "You deploy.",
            first_user: "Deploy it.",
            run: Some(run),
            last_user: "Deploy it.",
            continues: result.is_some(),
            steps: result.map(step).into_iter().collect(),
        };
        let asks = RequestReceived {
            request,
            call: Default::default(),
            model: None,
            other_models: Vec::new(),
            path: None,
            print: RequestFingerprint::of(&text),
            estimate: Estimate { input_tokens: 10, output_tokens: 10, ..Estimate::default() },
            fleet: None,
            tags: None,
            route: None,
        };
        if !self.tell(run, EventKind::RequestReceived(asks)) {
            return;
        }
        self.now += 500;
        let call = [("check_ci", "{}", false)];
        let text = ResponseText { text: "", calls: if calls { call.to_vec() } else { Vec::new() } };
        let usage = Usage { input_tokens: 10, output_tokens: 1, ..Usage::default() };
        let print = ResponseFingerprint::of(&text);
        let answer = ResponseCompleted { request, ended: Ended::Ok, print, usage, first_byte_ms: None };
        self.tell(run, EventKind::ResponseCompleted(answer));
    }

    /// Looks so often and sees the same; then perhaps something else, and perhaps it is done.
    fn polls(&mut self, run: &str, times: u32, then: Option<&str>, ends: bool) {
        self.step(run, None, true);
        (0..times).for_each(|_| self.step(run, Some("pipeline is running"), true));
        if let Some(result) = then {
            self.step(run, Some(result), true);
        }
        if ends {
            self.step(run, Some("ok"), false);
        }
    }

    fn tuned(&self, profiles: &[Profile], since: i64) -> (Traffic, Vec<SettingOutcome>) {
        let setting = |profile: &Profile| LoopPolicy { profile: *profile, ..LoopPolicy::default() };
        let mut tuning = Tuning::new(&self.policy, profiles.iter().map(setting), since);
        for (line, _) in records(&self.lines) {
            tuning.feed(&Record::parse(line).expect("a record"));
        }
        (tuning.traffic(), tuning.outcomes())
    }
}

const PASSED: &str = "all 41 checks have passed on commit nine, deployed to production";

fn ends(outcome: &SettingOutcome) -> Vec<RunEnd> {
    outcome.stops.iter().map(|stop| stop.end).collect()
}

#[test]
fn ld_7_a_wait_that_ends_well_is_stopped_by_one_profile_and_spared_by_another() {
    let mut agent = Recorded::new(Mode::Shadow);
    agent.polls("a", 7, Some(PASSED), true);
    let (traffic, outcomes) = agent.tuned(&[Profile::Coding, Profile::Ops], i64::MIN);
    assert_eq!((traffic.requests, traffic.runs, traffic.ended, traffic.stopped), (10, 1, 1, 0));
    assert_eq!(traffic.spent.tokens, 110);
    let [coding, ops] = &outcomes[..] else { unreachable!("two settings") };
    assert_eq!((coding.loops.stops, coding.ends.by_itself, ends(coding)), (1, 1, vec![RunEnd::ByItself]));
    let stop = &coding.stops[0];
    assert_eq!((stop.request, stop.tool.as_deref()), (6, Some("check_ci")), "the fifth look");
    // The stopped request and the four after it.
    assert_eq!((coding.loops.saved.requests, coding.loops.saved.amount.tokens), (5, 55));
    assert_eq!(coding.loops.nudges, 1);
    assert_eq!((ops.loops.stops, ops.stops.len()), (0, 0));
}

#[test]
fn ld_7_only_news_after_the_stop_make_a_run_look_healthy() {
    for (then, ended, end) in [
        (Some(PASSED), true, RunEnd::ByItself),
        (None, false, RunEnd::Unknown),
        (Some(PASSED), false, RunEnd::Unknown),
    ] {
        let mut agent = Recorded::new(Mode::Shadow);
        agent.polls("a", 7, then, ended);
        let (_, outcomes) = agent.tuned(&[Profile::Coding], i64::MIN);
        assert_eq!(ends(&outcomes[0]), [end], "{then:?} {ended}");
    }
    let mut agent = Recorded::new(Mode::Shadow);
    agent.polls("a", 7, None, false);
    agent.step("a", Some("pipeline is running"), false);
    let (traffic, outcomes) = agent.tuned(&[Profile::Coding], i64::MIN);
    assert_eq!((traffic.ended, ends(&outcomes[0])), (1, vec![RunEnd::WithoutNews]));
    assert_eq!(outcomes[0].ends.unclear(), 1);
}

#[test]
fn ld_7_a_run_that_a_person_cut_short_counts_as_stuck_and_one_that_had_ended_does_not() {
    let mut agent = Recorded::new(Mode::Shadow);
    agent.polls("done", 7, Some(PASSED), true);
    agent.polls("stuck", 7, None, false);
    agent.tell("stuck", EventKind::AgentDeactivated { by: "ann".into() });
    let (traffic, outcomes) = agent.tuned(&[Profile::Coding, Profile::Ops], i64::MIN);
    assert_eq!((traffic.runs, traffic.ended), (2, 1));
    assert_eq!(ends(&outcomes[0]), [RunEnd::ByItself, RunEnd::ByHand]);
    assert_eq!((outcomes[0].ends.by_itself, outcomes[0].ends.by_hand), (1, 1));
    // An hour later it says nothing about this run.
    let mut agent = Recorded::new(Mode::Shadow);
    agent.polls("stuck", 7, None, false);
    agent.now += 3_600_000;
    agent.tell("stuck", EventKind::AgentPaused { by: "ann".into() });
    assert_eq!(ends(&agent.tuned(&[Profile::Coding], i64::MIN).1[0]), [RunEnd::Unknown]);
}

#[test]
fn ld_7_what_the_loop_guard_stopped_is_unclear_and_says_whether_a_person_let_it_go_on() {
    let mut agent = Recorded::new(Mode::Enforce);
    agent.polls("a", 7, Some(PASSED), true);
    let stopped = |agent: &Recorded| agent.tuned(&[Profile::Coding, Profile::Ops], i64::MIN);
    let (traffic, outcomes) = stopped(&agent);
    assert_eq!((traffic.requests, traffic.stopped, traffic.ended), (5, 1, 0));
    assert_eq!(ends(&outcomes[0]), [RunEnd::ByLoopGuard { activated: false }]);
    assert_eq!(outcomes[1].loops.stops, 0, "another profile is judged up to there");
    agent.tell("a", EventKind::AgentActivated { by: "ann".into() });
    agent.step("a", Some(PASSED), false);
    let (_, outcomes) = stopped(&agent);
    assert_eq!(ends(&outcomes[0]), [RunEnd::ByLoopGuard { activated: true }]);
    assert_eq!((outcomes[0].ends.unclear(), outcomes[0].ends.activated), (1, 1));
}

#[test]
fn ld_7_what_is_older_only_fills_the_windows() {
    let mut agent = Recorded::new(Mode::Shadow);
    agent.polls("old", 7, Some(PASSED), true);
    let since = agent.now as i64 + 1;
    agent.polls("new", 7, Some(PASSED), true);
    let (traffic, outcomes) = agent.tuned(&[Profile::Coding], since);
    assert_eq!((traffic.requests, traffic.runs, outcomes[0].loops.stops), (10, 1, 1));
    assert_eq!(outcomes[0].stops[0].stop.run.as_deref(), Some("new"));
}

#[test]
fn ld_7_of_many_stops_the_newest_are_kept_and_all_are_counted() {
    let mut agent = Recorded::new(Mode::Shadow);
    for run in 0..30 {
        agent.polls(&format!("r{run}"), 6, Some(PASSED), true);
    }
    let (traffic, outcomes) = agent.tuned(&[Profile::Coding], i64::MIN);
    let coding = &outcomes[0];
    assert_eq!((traffic.runs, coding.loops.runs, coding.ends.by_itself), (30, 30, 30));
    assert_eq!((coding.stops.len(), coding.stops[19].stop.run.as_deref()), (20, Some("r29")));
}
