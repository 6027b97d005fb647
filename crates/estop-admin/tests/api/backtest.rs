//! What another kill switch would have done (TW-8): judged from the journal, and shown before it is saved.

use std::sync::Arc;

use estop_core::engine::AgentState;
use estop_core::event::{Estimate, Event, EventKind, RequestReceived, ResponseCompleted, Usage};
use estop_core::fingerprint::{RequestFingerprint, RequestText, ResponseFingerprint, ResponseText, StepText};
use estop_core::guard::Guard;
use estop_core::ids::RequestId;
use estop_core::policy::{LoopScore, Mode, Policy};
use estop_core::system::GateView;
use estop_core::time::{Millis, Now};
use estop_journal::Backtest;
use estop_store::{CaseStatus, Durability, Incident, Journal, JournalBatch, NewEvent};
use serde_json::{Value, json};

use crate::support::{Answered, Plane, START, anonymous, set};
use crate::written_journal::WrittenJournal;

const MINUTE: i64 = 60_000;
const DAY: i64 = 86_400_000;

/// Agents that call, judged and written down as a live estop does.
struct Recorder {
    journal: WrittenJournal,
    wall: i64,
    requests: u64,
    first_wall: i64,
}

impl Recorder {
    fn new(plane: &Plane, first_wall: i64) -> Recorder {
        Recorder { journal: plane.journal(), wall: first_wall, requests: 0, first_wall }
    }

    /// `times` requests of a run, all the same or each another; whether the last passed.
    fn work(&mut self, agent: &mut Agent, run: &str, times: u64, same: bool) -> bool {
        let mut passed = true;
        for number in 0..times {
            let (ask, answer) = match same {
                true => ("Is the build done?".to_owned(), "Not yet, I will look again.".to_owned()),
                false => (word(number).repeat(9), word(number + 3).repeat(11)),
            };
            passed = self.ask(agent, run, &ask, &answer, &[]);
        }
        passed
    }

    fn ask(&mut self, agent: &mut Agent, run: &str, ask: &str, answer: &str, steps: &[StepText<'_>]) -> bool {
        self.requests += 1;
        let request = RequestId(self.requests);
        let text = RequestText {
            first_user: run,
            last_user: ask,
            run: Some(run),
            continues: !steps.is_empty(),
            steps: steps.to_vec(),
            ..RequestText::default()
        };
        let estimate = Estimate { input_tokens: self.requests as u32 * 10, ..Estimate::default() };
        let received = RequestReceived {
            request,
            call: Default::default(),
            model: None,
            other_models: Vec::new(),
            path: None,
            print: RequestFingerprint::of(&text),
            estimate,
            fleet: None,
            tags: None,
            route: None,
        };
        let passed = self.tell(agent, run, EventKind::RequestReceived(received));
        if passed {
            let print = ResponseFingerprint::of(&ResponseText { text: answer, calls: Vec::new() });
            let completed = ResponseCompleted {
                request,
                ended: estop_core::event::Ended::Ok,
                print,
                usage: Usage::default(),
                first_byte_ms: Some(120),
            };
            self.tell(agent, run, EventKind::ResponseCompleted(completed));
        }
        passed
    }

    fn tell(&mut self, agent: &mut Agent, run: &str, what: EventKind) -> bool {
        self.wall += MINUTE;
        let now = Now { mono: Millis((self.wall - self.first_wall) as u64), wall: self.wall };
        let event = Event { run: Some(run.into()), gate: GateView::OPEN, what };
        let decision = agent.state.handle(now, &event, &agent.policy);
        self.journal.agent(&agent.name, now, &event, &decision);
        decision.is_allowed()
    }

    fn keep(&self, plane: &Plane) {
        plane.keep(&self.journal, JournalBatch::default());
    }
}

const WORDS: [&str; 8] =
    ["lexer ", "orders ", "mountain ", "quartz ", "violin ", "harbour ", "ledger ", "pollen "];

fn word(number: u64) -> &'static str {
    WORDS[number as usize % WORDS.len()]
}

struct Agent {
    name: String,
    state: AgentState,
    policy: Policy,
}

impl Agent {
    fn new(name: &str, loops: Mode) -> Agent {
        let mut policy = Policy::default();
        policy.modes[Guard::Loop] = loops;
        policy.loops.window_size = 30;
        // The figures below are those of plain similarity.
        policy.loops.score = LoopScore::Literal;
        Agent { name: name.to_owned(), state: AgentState::default(), policy }
    }
}

async fn backtest(plane: &Plane, agent: &str, values: Value) -> Answered {
    plane.post(&format!("/api/agents/{agent}/backtest"), values).await
}

#[tokio::test]
async fn tw_8_a_backtest_agrees_with_a_replay_by_the_same_rules() {
    let plane = Plane::with_agents(4).await;
    let mut recorder = Recorder::new(&plane, START - DAY);
    // The nth same request scores (n-1) + 2(n-2): 1, 4, 7, 10, 13.
    for (number, times) in [(0, 3), (1, 4), (2, 7)] {
        recorder.work(&mut Agent::new(&format!("a{number}"), Mode::Shadow), "task", times, true);
    }
    recorder.work(&mut Agent::new("a3", Mode::Shadow), "task", 8, false);
    recorder.keep(&plane);
    for threshold in [3.0, 4.0, 7.0, 9.9, 13.0] {
        let mut policy = Agent::new("any", Mode::Enforce).policy;
        policy.loops.threshold_tenths = (threshold * 10.0) as u16;
        let mut replay = Backtest::new(|_: &str| policy.clone());
        let mut feed = |lines: &[u8]| {
            let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            lines.for_each(|line| replay.feed(line).unwrap());
            true
        };
        plane.store.lines(&mut feed).unwrap();
        let outcomes: Vec<_> = replay.outcomes().collect();
        assert_eq!(outcomes.len(), 4);
        for (agent, outcome) in outcomes {
            let found = backtest(&plane, agent, json!({"threshold": threshold})).await.expect(200).json();
            let tried = &found["tried"];
            assert_eq!(tried["stops"], outcome.stops.len(), "{agent} at {threshold}: {found}");
            assert_eq!(tried["runs"], outcome.stops.len(), "{agent} at {threshold}");
            let first = tried["newest"].as_array().unwrap().last();
            let expected = outcome.stops.first().map(|stop| (json!(stop.seq), json!(stop.reason)));
            assert_eq!(first.map(|stop| (stop["seq"].clone(), stop["reason"].clone())), expected);
        }
    }
    let found = backtest(&plane, "a2", json!({"threshold": 4})).await.expect(200).json();
    assert_eq!(found["records"], 14);
    assert_eq!(found["complete"], true);
    assert_eq!(
        (&found["tried"]["newest"][0]["score"], &found["today"]["newest"][0]["score"]),
        (&json!(7.0), &json!(13.0))
    );
    let text = found["text"].as_str().unwrap();
    assert!(
        text.starts_with(
            "With 4.0 it would have stopped 1 run in the last 7 days; with today's 10.0, 1 run."
        ),
        "{text}"
    );
    assert!(text.contains("only watched"), "{text}");
}

#[tokio::test]
async fn tw_8_each_run_is_judged_for_itself_and_one_that_was_stopped_up_to_its_stop() {
    let plane = Plane::with_agents(1).await;
    let mut agent = Agent::new("a0", Mode::Enforce);
    let mut recorder = Recorder::new(&plane, START - DAY);
    assert!(recorder.work(&mut agent, "good", 6, false));
    assert!(!recorder.work(&mut agent, "one", 6, true), "the sixth scores 13");
    recorder.tell(&mut agent, "one", EventKind::AgentActivated { by: "ada".into() });
    assert!(recorder.work(&mut agent, "two", 4, true), "the fourth scores 7");
    recorder.keep(&plane);
    let stops = async |threshold: f64| {
        let found = backtest(&plane, "a0", json!({"threshold": threshold})).await.expect(200).json();
        (found["tried"]["runs"].as_u64().unwrap(), found["today"]["runs"].as_u64().unwrap())
    };
    assert_eq!(stops(10.0).await, (1, 1), "what was refused then is judged, too");
    assert_eq!(stops(12.9).await, (1, 1));
    assert_eq!(stops(13.0).await, (0, 1), "a score may reach the threshold");
    assert_eq!(stops(6.9).await, (2, 1));
    let narrow = backtest(&plane, "a0", json!({"window": 5, "threshold": 12.5})).await.expect(200).json();
    assert_eq!(narrow["tried"]["window"], 5);
    assert!(narrow["text"].as_str().unwrap().starts_with("With window 5 and 12.5 it would"), "{narrow}");
}

#[tokio::test]
async fn tw_8_a_plain_repetition_is_no_matter_of_the_threshold() {
    let plane = Plane::with_agents(1).await;
    let mut agent = Agent::new("a0", Mode::Shadow);
    let mut recorder = Recorder::new(&plane, START - DAY);
    for answer in WORDS {
        let ended = estop_core::event::Ended::Ok;
        let step = StepText { tool: "read", args: r#"{"path": "a"}"#, result: "empty", ended };
        recorder.ask(&mut agent, "task", "Read it.", answer, &[step]);
    }
    recorder.keep(&plane);
    let found = backtest(&plane, "a0", json!({"threshold": 50})).await.expect(200).json();
    assert_eq!((&found["tried"]["stops"], &found["tried"]["by_rule"]), (&json!(1), &json!(1)), "{found}");
    assert!(found["text"].as_str().unwrap().contains("no threshold changes that"), "{found}");
}

#[tokio::test]
async fn tw_8_a_backtest_is_bounded_and_strict_about_what_it_is_asked() {
    let plane = Plane::with_agents(1).await;
    let mut recorder = Recorder::new(&plane, START - 10 * DAY);
    recorder.work(&mut Agent::new("a0", Mode::Shadow), "old", 7, true);
    recorder.keep(&plane);
    for (values, field) in [
        (json!({"window": 4}), "window"),
        (json!({"window": 101}), "window"),
        (json!({"threshold": 0.9}), "threshold"),
        (json!({"threshold": 50.1}), "threshold"),
        (json!({"threshold": 50.01}), "threshold"),
        (json!({"days": 0}), "days"),
        (json!({"days": 31}), "days"),
        (json!({"day": 3}), "day"),
    ] {
        let problem = backtest(&plane, "a0", values).await.expect(400).json();
        assert_eq!(problem["errors"][0]["field"], field, "{problem}");
    }
    backtest(&plane, "nobody", json!({})).await.expect(404);
    let week = backtest(&plane, "a0", json!({"threshold": 5})).await.expect(200).json();
    assert_eq!(week["tried"]["stops"], 0, "it was before: {week}");
    let month = backtest(&plane, "a0", json!({"threshold": 5, "days": 30})).await.expect(200).json();
    assert_eq!((&month["tried"]["stops"], &month["days"]), (&json!(1), &json!(30)));
    // A viewer may ask: nothing is changed by it.
    let token = plane.token("viewer").await;
    let request = anonymous("POST", "/api/agents/a0/backtest", Some(json!({"window": 5.0})));
    plane.send(set(request, "authorization", &format!("Bearer {token}"))).await.expect(200);
}

#[tokio::test]
async fn ui_1_the_agent_page_shows_the_effect_before_it_is_saved_also_without_a_script() {
    let plane = Plane::with_agents(1).await;
    let mut recorder = Recorder::new(&plane, START - DAY);
    recorder.work(&mut Agent::new("a0", Mode::Shadow), "task", 5, true);
    recorder.keep(&plane);
    let plain = plane.get("/agents/a0").await.expect(200).text();
    assert!(!plain.contains("would have stopped 1 run"), "nobody asked");
    assert!(plain.contains("formmethod=\"get\"") && plain.contains("data-shows-effect"));
    let shown = plane.get("/agents/a0?enabled=on&window_size=20&threshold=6.5").await.expect(200).text();
    assert!(
        shown.contains("With window 20 and 6.5 it would have stopped 1 run in the last 7 days"),
        "{shown}"
    );
    assert!(shown.contains("value=\"6.5\"") && shown.contains("run task: Loop score 7.0, limit 6.5"));
    for (query, says) in [("threshold=99", "from 1 to 50"), ("threshold=%3Cscript%3E", "must be a number")] {
        let wrong = plane.get(&format!("/agents/a0?{query}")).await.expect(200).text();
        assert!(wrong.contains(says) && !wrong.contains("<script>"), "{query}");
    }
}

fn incident(plane: &Plane, id: &str, evidence: &Value) {
    let incident = Incident {
        id: id.into(),
        agent: "a0".into(),
        run: Some("task".into()),
        seq: 1,
        kind: "loop".into(),
        opened_at: START,
        status: CaseStatus::Open,
        summary: "a0 was stopped".to_owned(),
        evidence: evidence.to_string(),
        resolution: None,
        resolved_at: None,
        history: Vec::new(),
        earlier: None,
        later: None,
        version: 1,
    };
    let batch = JournalBatch { incidents: vec![incident], ..JournalBatch::default() };
    plane.store.append(Arc::new(batch), Durability::Process).unwrap();
}

#[tokio::test]
async fn ui_1_an_incident_has_a_timeline_of_its_agent() {
    let plane = Plane::with_agents(2).await;
    incident(&plane, "stop", &json!({"cause": "loop"}));
    let told = [(1, "a0", "kill_switch"), (2, "a1", "paused"), (3, "a0", "<b>odd"), (4, "a0", "activated")];
    let events = told.iter().map(|(seq, agent, event_type)| NewEvent {
        seq: *seq,
        wall: START,
        agent: Some((*agent).into()),
        event_type: (*event_type).into(),
        detail: "{}".to_owned(),
    });
    let batch = JournalBatch { events: events.collect(), ..JournalBatch::default() };
    plane.store.append(Arc::new(batch), Durability::Process).unwrap();
    let page = plane.get("/incidents/stop").await.expect(200).text();
    let (_, timeline) = page.split_once("Events around it").unwrap();
    let at = |text: &str| timeline.find(text).unwrap_or_else(|| unreachable!("{text}: {timeline}"));
    assert!(at(">kill switch<") < at("odd<") && at("odd<") < at(">activated<"), "oldest first: {timeline}");
    assert!(!timeline.contains("<b>odd") && !timeline.contains("paused"), "{timeline}");
}

#[tokio::test]
async fn ui_1_an_incident_says_which_threshold_would_have_let_it_pass() {
    let plane = Plane::with_agents(1).await;
    incident(&plane, "by-score", &json!({"cause": "loop", "score": 12.5, "threshold": 10.0, "window": 9}));
    incident(
        &plane,
        "by-rule",
        &json!({"cause": "loop", "score": 12.5, "threshold": 10.0, "repetition": {"text": "<b>x</b>"}}),
    );
    incident(&plane, "too-high", &json!({"cause": "loop", "score": 50.5, "threshold": 10.0}));
    incident(&plane, "unwell", &json!({"cause": "health", "score": 2.0, "threshold": 10.0}));
    let unwell = plane.get("/incidents/unwell").await.expect(200).text();
    assert!(
        unwell.contains("Score 2.0") && !unwell.contains("threshold would have"),
        "no threshold decided: {unwell}"
    );
    let page = plane.get("/incidents/by-score").await.expect(200).text();
    assert!(
        page.contains("With 12.5 the agent would not have been stopped here")
            && page.contains("value=\"12.5\""),
        "{page}"
    );
    let tried = plane.get("/incidents/by-score?threshold=14").await.expect(200).text();
    assert!(
        tried.contains("Nothing of this agent is in the journal") && tried.contains("value=\"14\""),
        "{tried}"
    );
    let rule = plane.get("/incidents/by-rule").await.expect(200).text();
    assert!(
        rule.contains("No threshold would have prevented this stop") && !rule.contains("<b>x</b>"),
        "{rule}"
    );
    assert!(plane.get("/incidents/too-high").await.expect(200).text().contains("above 50"));
    let token = plane.token("operator").await;
    let request =
        set(anonymous("GET", "/incidents/by-score", None), "authorization", &format!("Bearer {token}"));
    let seen = plane.send(request).await.expect(200).text();
    assert!(!seen.contains("kill-switch") && seen.contains("Resolve"), "loosening is for admins");
}

#[tokio::test]
async fn po_5_strict_is_counted_from_what_guards_in_shadow_would_have_stopped() {
    let plane = Plane::with_agents(2).await;
    let events =
        [("a0", "loop", 1), ("a0", "loop", 2), ("a1", "loop", 3), ("a1", "<i>gate", 4), ("a0", "old", 40)];
    let events = events.iter().enumerate().map(|(seq, (agent, guard, hours))| NewEvent {
        seq: seq as u64 + 1,
        wall: START - hours * 5 * 3_600_000,
        agent: Some((*agent).into()),
        event_type: "would_have_stopped".into(),
        detail: json!({"guard": guard}).to_string(),
    });
    let batch = JournalBatch { events: events.collect(), ..JournalBatch::default() };
    plane.store.append(Arc::new(batch), Durability::Process).unwrap();
    let preset = plane.get("/api/preset").await.expect(200).json();
    assert_eq!((&preset["preset"], &preset["origin"]), (&json!("watch"), &json!("default")));
    assert_eq!(
        preset["would_have_stopped"],
        json!([{"guard": "loop", "stops": 3, "agents": 2}, {"guard": "<i>gate", "stops": 1, "agents": 1}])
    );
    let settings = plane.get("/settings").await.expect(200).text();
    assert!(settings.contains("would have stopped 4 times") && !settings.contains("<i>gate"), "{settings}");
    assert!(settings.contains("goes on watching"), "not every one would be enforced: {settings}");
    assert!(plane.get("/agents/a0").await.expect(200).text().contains("would have stopped 2 times"));
    let event = |seq: u64| NewEvent {
        seq: 10 + seq,
        wall: START,
        agent: Some("a0".into()),
        event_type: "would_have_stopped".into(),
        detail: json!({"guard": "loop"}).to_string(),
    };
    let batch = JournalBatch { events: (0..6000).map(event).collect(), ..JournalBatch::default() };
    plane.store.append(Arc::new(batch), Durability::Process).unwrap();
    let many = plane.get("/settings").await.expect(200).text();
    assert!(many.contains("would have stopped at least 5000 times"), "{many}");
}

#[tokio::test]
async fn ui_1_an_agents_requests_are_listed_with_what_became_of_them() {
    let plane = Plane::with_agents(1).await;
    assert!(
        plane.get("/agents/a0").await.expect(200).text().contains("No requests among its newest records")
    );
    let mut agent = Agent::new("a0", Mode::Enforce);
    let mut recorder = Recorder::new(&plane, START - DAY);
    for run in 0..12 {
        assert!(recorder.work(&mut agent, &format!("good-{run}"), 5, false));
    }
    assert!(!recorder.work(&mut agent, "one", 6, true), "the sixth is refused");
    recorder.keep(&plane);
    let rows = |page: &str| page.matches("<td data-th=\"Outcome\">").count();
    let shown = plane.get("/agents/a0").await.expect(200).text();
    assert_eq!(rows(&shown), 10);
    assert!(
        shown.contains("by loop") && shown.contains("answered") && !shown.contains("no answer yet"),
        "{shown}"
    );
    assert!(shown.contains("/agents/a0/requests"));
    let first = plane.get("/agents/a0/requests").await.expect(200).text();
    assert_eq!(rows(&first), 50);
    let links =
        first.split("href=\"/agents/a0/requests?").skip(1).map(|rest| rest.split('"').next().unwrap());
    let next = links.last().unwrap().replace("&#38;", "&");
    let rest = plane.get(&format!("/agents/a0/requests?{next}")).await.expect(200).text();
    assert_eq!(rows(&rest), 16, "each once: {next}");
    assert!(!rest.contains("no answer yet") && !rest.contains(">Older<"), "{rest}");
    plane.get("/agents/a0/requests?before=x").await.expect(400);

    let csv = async |query: &str| {
        let file = plane.get(&format!("/agents/a0/requests.csv?{query}")).await.expect(200).text();
        file.lines().skip(1).map(str::to_owned).collect::<Vec<String>>()
    };
    let all = csv("").await;
    assert_eq!(all.len(), 66);
    for (query, expected) in [
        ("outcome=refused", 1),
        ("guard=loop", 1),
        ("guard=budget", 0),
        ("run=good-3", 5),
        ("outcome=answered&run=one", 5),
    ] {
        let page = plane.get(&format!("/agents/a0/requests?{query}")).await.expect(200).text();
        assert_eq!((rows(&page), csv(query).await.len()), (expected, expected), "{query}");
    }
    // Newest first; the rows from the tenth to the thirtieth.
    let minute = |row: usize| all[row][1..17].to_owned();
    let range = format!("from={}&to={}", minute(29), minute(9));
    assert_eq!(csv(&range).await, all[9..30], "{range}");
    let page = plane.get(&format!("/agents/a0/requests?{range}")).await.expect(200).text();
    assert_eq!(rows(&page), 21);
    assert!(csv("to=2001-01-01").await.is_empty() && csv("from=2199-01-01").await.is_empty());
    let mut by_tokens = csv("sort=tokens").await;
    by_tokens.sort();
    let mut sorted = all.clone();
    sorted.sort();
    assert_eq!(by_tokens, sorted, "the same rows in another order");
    for wrong in ["outcome=none", "guard=none", "run=%3Cb%3E", "from=yesterday", "to=%22", "sort=agent"] {
        plane.get(&format!("/agents/a0/requests?{wrong}")).await.expect(400);
    }

    // The last of six that asked the same.
    let number = all[1].rsplit(',').next().unwrap().trim_matches('"');
    let one = plane.get(&format!("/agents/a0/requests/{number}")).await.expect(200).text();
    for part in ["after 0.120 s", "The same as", "which was answered", "/agents/a0/requests?run=one"] {
        assert!(one.contains(part), "{part}: {one}");
    }
    plane.get("/agents/nobody/requests").await.expect(404);
}
