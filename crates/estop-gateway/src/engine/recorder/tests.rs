//! What is handed over without waiting, and what becomes of it.

use estop_core::time::Millis;
use estop_wire::protocol::Protocol;
use serde_json::Value;

use super::*;

fn tap() -> (Arc<Tap>, Receiver<Captured>) {
    let (queue, receiver) = sync_channel(QUEUE_MAX);
    let view = RecordingView { agent: "a".into(), by: "ann".into(), since: 0, until: 0 };
    let (queued, dropped, ended) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicBool::new(false));
    (Arc::new(Tap { view, queue, queued, dropped, ended }), receiver)
}

fn request(n: u64, body: &str) -> CapturedRequest {
    CapturedRequest {
        request: RequestId(n),
        at: Millis(n),
        protocol: Protocol::OpenAiChat,
        body: Bytes::copy_from_slice(body.as_bytes()),
        conversation: Hash64(7),
        run: None,
    }
}

/// What a reader says of all that was handed over, once the recording has ended.
fn read(tap: &Arc<Tap>, receiver: Receiver<Captured>, bytes_max: u64) -> Vec<Value> {
    let until = Instant::now() + Duration::from_secs(3_600);
    let (masker, told) = (Masker::new([1; 32]), lines::Told::default());
    let reader =
        Reader { tap: Arc::clone(tap), receiver, masker, told, until, bytes_max, requests: 0, unread: 0 };
    let mut lines = Vec::new();
    let mut on_line = |line: RecordingLine| {
        lines.push(value(&line));
        true
    };
    reader.run(&mut on_line);
    lines
}

fn value(line: &RecordingLine) -> Value {
    let (RecordingLine::Next(text) | RecordingLine::Last(text)) = line;
    serde_json::from_str(text).expect("JSON")
}

const BODY: &str = r#"{"messages":[{"role":"user","content":"hello"}]}"#;

#[test]
fn ld_7_nothing_is_recorded_of_agents_that_nobody_named() {
    let recorder = Recorder::default();
    assert!(recorder.of("a").is_none());
    let (tap, _receiver) = tap();
    recorder.add(&tap).expect("room");
    assert!(recorder.of("a").is_some() && recorder.of("b").is_none());
    assert!(matches!(recorder.add(&tap), Err(OperatorError::Recorded { .. })));
    assert!(recorder.end("a") && !recorder.end("a"));
    assert!(recorder.of("a").is_none() && recorder.views().is_empty());
    tap.request(request(1, BODY));
    assert_eq!(tap.queued.load(Ordering::Relaxed), 0, "a request under way is not recorded to its end");
}

#[test]
fn ld_7_a_full_queue_drops_and_counts_and_never_waits() {
    let (tap, receiver) = tap();
    let more = 10;
    for n in 0..QUEUE_MAX as u64 + more {
        tap.request(request(n, BODY));
    }
    assert_eq!(tap.dropped.load(Ordering::Relaxed), more);
    assert_eq!(tap.queued.load(Ordering::Relaxed), QUEUE_MAX * BODY.len());
    tap.ended.store(true, Ordering::Relaxed);
    let lines = read(&tap, receiver, u64::MAX);
    assert_eq!(lines.len(), QUEUE_MAX + 1);
    let end = lines.last().expect("the end");
    assert_eq!(
        (&end["end"], &end["dropped"], &end["requests"]),
        (&"asked".into(), &more.into(), &QUEUE_MAX.into())
    );
    assert_eq!(tap.queued.load(Ordering::Relaxed), 0);
}

#[test]
fn ld_7_bytes_that_wait_are_bounded_too() {
    let (tap, receiver) = tap();
    let large = "x".repeat(QUEUE_BYTES_MAX / 2 + 1);
    tap.request(request(1, &large));
    tap.request(request(2, &large));
    tap.request(request(3, BODY));
    assert_eq!(tap.dropped.load(Ordering::Relaxed), 1);
    tap.ended.store(true, Ordering::Relaxed);
    let lines = read(&tap, receiver, u64::MAX);
    assert_eq!(
        (&lines[0]["request"], &lines[0]["dropped"]),
        (&3.into(), &1.into()),
        "it says that there is a gap"
    );
    assert_eq!(lines[1]["unread"], 1, "and what could not be read");
}

#[test]
fn ld_7_a_reader_that_takes_no_more_is_told_why_it_ended() {
    let (tap, receiver) = tap();
    for n in 0..3 {
        tap.request(request(n, BODY));
    }
    let until = Instant::now() + Duration::from_secs(3_600);
    let (masker, told, bytes_max) = (Masker::new([1; 32]), lines::Told::default(), u64::MAX);
    let reader =
        Reader { tap: Arc::clone(&tap), receiver, masker, told, until, bytes_max, requests: 0, unread: 0 };
    let mut lines = Vec::new();
    let said = reader.run(&mut |line| {
        lines.push(value(&line));
        lines.len() < 2
    });
    assert_eq!(lines.len(), 3, "one that is taken, one that is not, and the last");
    assert_eq!(lines[2]["end"], "slow");
    assert!(said.ends_with("its reader took no more"), "{said}");
    tap.request(request(4, BODY));
    assert_eq!(tap.queued.load(Ordering::Relaxed), BODY.len(), "only what waited before");
}

#[test]
fn ld_7_a_line_is_no_longer_than_its_limit() {
    let (tap, receiver) = tap();
    let step = "\u{1}".repeat(128 << 10);
    let call = |n: usize| {
        serde_json::json!({"role": "assistant", "tool_calls": [{"id": n.to_string(), "type": "function",
            "function": {"name": "read", "arguments": "{}"}}]})
    };
    let result =
        |n: usize| serde_json::json!({"role": "tool", "tool_call_id": n.to_string(), "content": step});
    let messages: Vec<Value> = (0..100).flat_map(|n| [call(n), result(n)]).collect();
    tap.request(request(1, &serde_json::json!({ "messages": messages }).to_string()));
    tap.request(request(2, BODY));
    tap.ended.store(true, Ordering::Relaxed);
    let lines = read(&tap, receiver, u64::MAX);
    assert_eq!(lines.len(), 2, "the second request and the end");
    assert_eq!((&lines[0]["request"], &lines[1]["dropped"]), (&2.into(), &1.into()));
}

#[test]
fn ld_7_words_that_stay_are_told_once_and_the_size_ends_it() {
    let (tap, receiver) = tap();
    for n in 0..100 {
        tap.request(request(n, BODY));
    }
    tap.ended.store(true, Ordering::Relaxed);
    let lines = read(&tap, receiver, 2_000);
    assert_eq!((&lines[0]["last_user"], &lines[1]["last_user"]), (&"hello".into(), &Value::Null));
    assert!(lines.len() < 20, "{}", lines.len());
    assert_eq!(lines.last().expect("the end")["end"], "size");
}
