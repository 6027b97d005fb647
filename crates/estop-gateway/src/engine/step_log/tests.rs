//! The steps before a stop: what is kept, what counts, what is masked, what is bounded.

use std::sync::LazyLock;

use estop_core::decision::{Effect, Guard, Outcome, Retry};
use estop_core::event::{CallKind, Event, EventKind, RequestReceived};
use estop_core::fingerprint::RequestFingerprint;
use estop_core::ids::RequestId;
use estop_core::loop_detector::{LoopEvidence, MatchedEntry};
use estop_core::system::GateView;
use estop_wire::request::StepIn;

use super::*;

const KEY: Hash64 = Hash64(7);

static AGENT: LazyLock<Arc<str>> = LazyLock::new(|| "a".into());

fn key(id: u64) -> StepKey<'static> {
    StepKey { agent: &AGENT, conversation: KEY, id }
}

fn time(ms: u64) -> StepTime {
    StepTime { mono: Millis(ms), wall: 1_000_000 + ms as i64 }
}

fn said<'a>(args: &'a str, result: &'a str) -> RequestIn<'a> {
    let step = StepIn {
        tool: "get_weather".into(),
        args: args.into(),
        result: result.into(),
        ended: Ended::Ok,
        call_id: None,
    };
    RequestIn {
        first_user: "look at the weather".into(),
        continues: true,
        steps: vec![step],
        ..RequestIn::default()
    }
}

fn ask(log: &StepLog, mode: EvidenceMode, id: u64, ms: u64, said: &RequestIn<'_>, kept: Kept) {
    if let Some(heads) = StepHeads::of_request(mode, said, Some("m"), time(ms)) {
        log.begin(key(id), heads);
        log.decided(key(id), Millis(ms), kept);
    }
}

/// What is shown of a stop by the request of this number, which was refused at its moment.
fn stop(id: u64, at: u64, matched: &[MatchedEntry], log: &StepLog) -> Option<IncidentSteps> {
    stop_as(EvidenceMode::Full, id, at, matched, log)
}

fn stop_as(
    most: EvidenceMode,
    id: u64,
    at: u64,
    matched: &[MatchedEntry],
    log: &StepLog,
) -> Option<IncidentSteps> {
    let received = RequestReceived {
        request: RequestId(id),
        call: CallKind::Generation,
        model: None,
        other_models: Vec::new(),
        path: None,
        print: RequestFingerprint { conversation: KEY, ..RequestFingerprint::default() },
        estimate: Default::default(),
        fleet: None,
        tags: None,
        route: None,
    };
    let event = Event { run: None, gate: GateView::OPEN, what: EventKind::RequestReceived(received) };
    let evidence = LoopEvidence { tool: None, matched: matched.to_vec() };
    let decision = Decision {
        effects: vec![Effect::LoopEvidence(evidence)],
        ..Decision::plain(Outcome::Refuse { by: Guard::Loop, retry: Retry::Never })
    };
    let stop = StopPoint { agent: "a", at: Millis(at), event: &event, decision: &decision, most };
    log.before(&stop, &Masker::new([1; 32]))
}

#[test]
fn ev_1_the_steps_before_a_stop_say_what_was_done_and_which_of_it_counts() {
    let log = StepLog::default();
    let body = said(r#"{"city":"Berlin"}"#, "rain");
    ask(&log, EvidenceMode::Redacted, 1, 10, &body, Kept::Admitted);
    let answer = Observed { text: "It rains.".to_owned(), ..Observed::default() };
    let usage = Usage { input_tokens: 5, output_tokens: 3, ..Usage::default() };
    log.answered(key(1), Millis(15), &answer, usage, Ended::Ok);
    ask(&log, EvidenceMode::Redacted, 2, 20, &body, Kept::Admitted);
    ask(&log, EvidenceMode::Redacted, 3, 30, &body, Kept::No);
    ask(&log, EvidenceMode::Redacted, 4, 40, &body, Kept::Stopped);
    let matched = [MatchedEntry { back: 1, ago_ms: Some(20), prompt: false, response: false, step: true }];
    let shown = stop(4, 40, &matched, &log).expect("steps");
    assert_eq!(shown.task.as_ref().map(|task| task.text.as_str()), Some("look at the weather"));
    let ends: Vec<StepEnd> = shown.steps.iter().map(|step| step.end).collect();
    assert_eq!(ends, [StepEnd::Ok, StepEnd::UnderWay, StepEnd::Refused]);
    let counts: Vec<bool> = shown.steps.iter().map(|step| step.counts.step).collect();
    assert_eq!(counts, [false, true, true]);
    let first = &shown.steps[0];
    assert_eq!(
        (&*first.did[0].tool, first.did[0].args.text.as_str()),
        ("get_weather", r#"{"city":"Berlin"}"#)
    );
    assert_eq!(first.did[0].result.as_ref().map(|result| result.text.as_str()), Some("rain"));
    assert_eq!(
        (first.answer.as_ref().map(|text| text.text.as_str()), first.took_ms),
        (Some("It rains."), Some(5))
    );
    assert_eq!((first.input_tokens, first.output_tokens), (5, 3));
    let in_flight: Vec<u64> = shown.in_flight.iter().map(|step| step.request).collect();
    assert_eq!(in_flight, [2], "its answer had not come");
}

#[test]
fn ev_1_off_keeps_nothing_redacted_masks_and_full_shows_all() {
    let secret = "sk-ant-api03-0123456789abcdefghij";
    let long = format!("token={secret} {} {secret}", "word ".repeat(1_000));
    let body = said(&long, "x");
    let kept = |mode| {
        let log = StepLog::default();
        ask(&log, mode, 1, 10, &body, Kept::Admitted);
        stop(1, 10, &[], &log)
    };
    assert_eq!(kept(EvidenceMode::Off), None);
    let redacted = kept(EvidenceMode::Redacted).expect("steps");
    let args = &redacted.steps[0].did[0].args;
    assert!(!args.text.contains("0123456789") && args.text.contains("[masked:"), "{}", args.text);
    assert_eq!((args.text.chars().count(), args.of_bytes), (300, Some(long.len() as u64)));
    let full = kept(EvidenceMode::Full).expect("steps");
    assert_eq!(full.mode, EvidenceMode::Full);
    assert!(full.steps[0].did[0].args.text.contains(secret));
}

#[test]
fn ev_1_half_a_secret_at_the_end_of_an_excerpt_is_left_out() {
    for before in 900..1_024 {
        let text = format!("{} sk-ant-api03-0123456789abcdefghij0123456789", "é".repeat(before / 2));
        let log = StepLog::default();
        ask(&log, EvidenceMode::Redacted, 1, 10, &said(&text, &text), Kept::Admitted);
        let shown = format!("{:?}", stop(1, 10, &[], &log));
        assert!(!shown.contains("sk-ant"), "{before}: {shown}");
    }
}

#[test]
fn ev_1_a_conversation_of_which_nothing_was_admitted_is_not_kept() {
    let log = StepLog::default();
    ask(&log, EvidenceMode::Redacted, 1, 10, &said("sk-ant-api03-0123456789abcdefghij", "x"), Kept::No);
    assert_eq!(stop(0, 20, &[], &log), None);
    let part = log.part("a");
    assert_eq!((part.conversations, part.bytes, part.pending.len()), (0, 0, 0));
}

#[test]
fn ev_1_whoever_hears_of_a_stop_before_it_is_noted_finds_the_step_that_completed_it() {
    let log = StepLog::default();
    let body = said("first", "x");
    let heads = |ms| StepHeads::of_request(EvidenceMode::Redacted, &body, None, time(ms)).expect("heads");
    log.begin(key(1), heads(10));
    let alone = stop(1, 10, &[], &log).expect("the step is found");
    assert_eq!(alone.task.map(|task| task.text).as_deref(), Some("look at the weather"));
    assert_eq!(alone.steps.iter().map(|step| step.end).collect::<Vec<_>>(), [StepEnd::Refused]);
    assert_eq!(stop(2, 10, &[], &log), None, "it is not the step of another stop");
    log.decided(key(1), Millis(10), Kept::Admitted);
    log.begin(key(2), heads(20));
    let matched = [MatchedEntry { back: 1, ago_ms: Some(10), prompt: false, response: false, step: true }];
    let counting = |log: &StepLog| -> Vec<(Option<u64>, bool, StepEnd)> {
        let shown = stop(2, 20, &matched, log).expect("steps");
        shown.steps.iter().map(|step| (step.request, step.counts.step, step.end)).collect()
    };
    let before = counting(&log);
    assert_eq!(before, [(Some(1), true, StepEnd::UnderWay), (Some(2), true, StepEnd::Refused)]);
    log.decided(key(2), Millis(20), Kept::Stopped);
    assert_eq!(counting(&log), before);
}

#[test]
fn ev_1_a_refused_request_pushes_nothing_out() {
    let log = StepLog::default();
    let (small, big) = (said("small", "x"), "x ".repeat(100_000));
    let mut wide = said(&big, &big);
    let step = wide.steps[0].clone();
    wide.steps = vec![step; 100];
    for n in 0..20 {
        ask(&log, EvidenceMode::Full, n, n, &small, Kept::Admitted);
    }
    for n in 20..100 {
        ask(&log, EvidenceMode::Full, n, n, &wide, Kept::No);
        // In conversations of its own, too.
        let heads = StepHeads::of_request(EvidenceMode::Full, &wide, None, time(n)).expect("heads");
        let elsewhere = StepKey { conversation: Hash64(1_000 + n), ..key(n) };
        log.begin(elsewhere, heads);
        log.decided(elsewhere, Millis(n), Kept::No);
    }
    let shown = stop(0, 100, &[], &log).expect("steps");
    assert_eq!((shown.steps.len(), shown.older), (20, 0));
    ask(&log, EvidenceMode::Full, 100, 100, &wide, Kept::Stopped);
    let shown = stop(100, 100, &[], &log).expect("steps");
    assert_eq!((shown.steps.len(), shown.older), (21, 0), "nor does the one by which it was stopped");
    for n in 101..200 {
        ask(&log, EvidenceMode::Full, n, n, &wide, Kept::Stopped);
    }
    let part = log.part("a");
    let rings: Vec<&Ring> = part.agents.values().flat_map(BTreeMap::values).collect();
    assert!(rings.len() == 1 && rings.iter().all(|ring| ring.bytes() <= 3 * 65_536), "{}", part.bytes);
}

#[test]
fn ev_1_what_is_shown_follows_the_policy_at_the_end() {
    let secret = "sk-ant-api03-0123456789abcdefghij";
    let log = StepLog::default();
    ask(&log, EvidenceMode::Full, 1, 10, &said(secret, secret), Kept::Admitted);
    let shown = |most| stop_as(most, 0, 20, &[], &log);
    assert_eq!(shown(EvidenceMode::Off), None);
    let redacted = shown(EvidenceMode::Redacted).expect("steps");
    assert_eq!(redacted.mode, EvidenceMode::Redacted);
    assert!(!format!("{redacted:?}").contains("0123456789"), "{redacted:?}");
    assert!(format!("{:?}", shown(EvidenceMode::Full)).contains(secret));
}

#[test]
fn ev_1_steps_conversations_and_bytes_are_bounded() {
    let log = StepLog::default();
    let big = "x ".repeat(100_000);
    for n in 0..500 {
        ask(&log, EvidenceMode::Full, n, n, &said(&big, &big), Kept::Admitted);
    }
    let shown = stop(0, 500, &[], &log).expect("steps");
    assert!(shown.steps.len() <= 20, "{}", shown.steps.len());
    assert_eq!(shown.older as usize + shown.steps.len(), 500);
    for n in 0..1_000 {
        let heads =
            StepHeads::of_request(EvidenceMode::Full, &said(&big, &big), None, time(n)).expect("heads");
        let key = StepKey { conversation: Hash64(n), ..key(n) };
        log.begin(key, heads);
        log.decided(key, Millis(n), Kept::Admitted);
    }
    let part = log.part("a");
    assert!(part.bytes <= BYTES_MAX && part.conversations <= CONVERSATIONS_MAX, "{}", part.bytes);
    let rings = part.agents.values().flat_map(BTreeMap::values);
    assert_eq!(rings.map(Ring::bytes).sum::<usize>(), part.bytes);
    drop(part);
    log.forget("a", "its agent was deleted");
    let part = log.part("a");
    assert_eq!((part.bytes, part.conversations), (0, 0));
}

/// Texts with a secret each, and the secret.
fn corpus() -> Vec<(String, String)> {
    let lines = include_str!("../../../tests/data/secrets.txt").lines().filter(|line| !line.starts_with('#'));
    let plain = lines.map(|line| {
        let line =
            line.replace('~', "").replace(r"\\n", "\u{1}").replace(r"\n", "\n").replace('\u{1}', r"\n");
        line.replace(r"\e", "\u{1b}").replace(r"\z", "\u{200b}")
    });
    let cases = plain.map(|line| {
        let (before, rest) = line.split_once('⟦').expect("a secret begins");
        let (secret, after) = rest.split_once('⟧').expect("a secret ends");
        (format!("{before}{secret}{after}"), secret.to_owned())
    });
    cases.collect()
}

#[test]
fn ev_1_no_secret_of_the_corpus_is_shown_wherever_it_stands() {
    let cases = corpus();
    assert!(cases.len() >= 390, "{}", cases.len());
    let mut shown_secrets = Vec::new();
    for (text, secret) in &cases {
        let inside = serde_json::json!({ "command": text, "env": [{ "text": text }] }).to_string();
        let log = StepLog::default();
        let body = RequestIn {
            last_user: text.as_str().into(),
            first_user: inside.as_str().into(),
            continues: false,
            ..said(text, &inside)
        };
        ask(&log, EvidenceMode::Redacted, 1, 10, &body, Kept::Admitted);
        let calls = vec![estop_wire::response::CallIn { args: inside.clone(), ..Default::default() }];
        let answer = Observed { text: text.clone(), calls, ..Observed::default() };
        log.answered(key(1), Millis(15), &answer, Usage::default(), Ended::Ok);
        let shown = serde_json::to_string(&stop(0, 20, &[], &log).expect("steps")).expect("JSON");
        let lines = secret.lines().map(|line| line.get(..12).unwrap_or(line));
        // What colours, escapes and characters without width leave in one piece.
        let pieces = secret.split(|c: char| !c.is_ascii_alphanumeric()).filter(|piece| piece.len() >= 10);
        if lines.chain(pieces).any(|part| shown.contains(part)) {
            shown_secrets.push(text);
        }
    }
    assert!(shown_secrets.is_empty(), "{} of {}: {shown_secrets:#?}", shown_secrets.len(), cases.len());
}
