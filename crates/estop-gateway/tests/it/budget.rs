//! A cap holds whatever is asked, in whatever order, and however it ends (PO-2).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};

use crate::common::http::{Reply as Got, Wire, post};
use crate::common::{DIALECTS, House, PATIENCE, wait};
use estop_core::event::{AbortedBy, EventKind, Usage};
use estop_core::money::NanoUsd;
use estop_core::prices::PriceTable;
use estop_fake_model::script::{Abort, AbortAt, AbortHow, Delay, Hold, Reply, UsageReply};
use estop_gateway::Recorded;
use proptest::prelude::*;
use serde_json::{Value, from_value, json};

const CHAT: &str = "/openai/v1/chat/completions";

/// gpt-5 and gpt-5-nano reason, gpt-4o does not, and gpt-5-pro is dear.
fn prices() -> Arc<PriceTable> {
    let rates = |input: u64, output: u64| json!({"input": input * 10_000_000, "output": output * 10_000_000});
    let models = json!([
        {"ids": ["gpt-5"], "rates": rates(125, 1_000), "max_output": 128_000, "max_input": 272_000, "reasons": true},
        {"ids": ["gpt-5-nano"], "rates": rates(5, 40), "max_output": 128_000, "max_input": 272_000, "reasons": true},
        {"ids": ["gpt-4o"], "rates": rates(250, 1_000), "max_output": 16_384, "max_input": 128_000},
        {"ids": ["gpt-5-pro"], "rates": rates(1_500, 12_000), "max_output": 272_000, "max_input": 400_000},
        {"ids": ["embed"], "rates": rates(10, 0)},
    ]);
    let table = json!({"as_of": "2026-11-15", "providers": {"openai": {"models": models}}});
    Arc::new(PriceTable::from_json(&table.to_string()).unwrap())
}

fn priced(policy: &Value) -> House {
    let mut policy = policy.clone();
    policy["watchdog"] = json!({"scope": "off"});
    House::build(&policy.to_string(), |settings| {
        settings.prices = prices();
        settings.limits.streams_per_agent = 1_000;
    })
}

fn capped(usd_per_day: f64) -> House {
    priced(&json!({"policy": {"budget": {"usd_per_day": usd_per_day}}}))
}

fn used(input: u64, output: u64) -> Option<UsageReply> {
    Some(from_value(json!({"input": input, "output": output})).unwrap())
}

fn ask(house: &House, agent: &str, body: &str) -> Got {
    post(house.address(), &format!("/agents/{agent}{CHAT}"), body)
}

fn question(model: &str, more: &str) -> String {
    format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hello"}}]{more}}}"#)
}

fn spent(house: &House, agent: &str) -> NanoUsd {
    let agent = house.engine().agent(agent).unwrap();
    wait("all requests to end", || (agent.lock_state().state.in_flight() == 0).then_some(()));
    let judged = agent.lock_state();
    assert_eq!(judged.state.budget().reserved(), Default::default(), "nothing stays reserved");
    judged.state.budget().spent_today().usd
}

/// What the first request that ended was settled with, and who ended it.
fn settled(house: &House) -> (Usage, Option<AbortedBy>) {
    let found = house.find(|record| {
        let Recorded::Agent { event, .. } = record else { return None };
        if let EventKind::ResponseCompleted(completed) = &event.what {
            return Some((completed.usage, None));
        }
        let EventKind::StreamAborted(aborted) = &event.what else { return None };
        Some((aborted.usage, Some(aborted.by)))
    });
    found.expect("nothing was settled")
}

#[test]
fn po_2_forty_parallel_requests_without_a_limit_do_not_pass_one_dollar_forty_times() {
    let house = capped(1.0);
    let slow = Delay { headers_ms: 400, ..Delay::default() };
    house.model.always(Reply { usage: used(20, 100_000), delay: slow, ..Reply::default() });
    let (passed, together) = (AtomicU64::new(0), Barrier::new(40));
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| {
                together.wait();
                let reply = ask(&house, "a", &question("gpt-5", ""));
                if reply.status == 200 {
                    passed.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                // Who waits is told so: it ends by itself (AN-2). Once all is spent, nothing ends by itself.
                assert_eq!(reply.header("x-estop-reason"), Some("budget"));
                match reply.status {
                    429 => {
                        assert_eq!(reply.header("retry-after"), Some("10"), "{}", reply.text());
                        assert!(reply.text().contains("It ends by itself"), "{}", reply.text());
                    }
                    400 => assert_eq!(reply.header("retry-after"), None, "{}", reply.text()),
                    other => panic!("{other}: {}", reply.text()),
                }
            });
        }
    });
    assert_eq!(passed.into_inner(), 1);
    assert_eq!(house.model.requests(), 1);
    let once = spent(&house, "a");
    assert_eq!(once, NanoUsd(1_000_000_000 + 25_000), "the excess of one request, and no more");
    let last = ask(&house, "a", &question("gpt-5", ""));
    assert_eq!((last.status, last.header("retry-after")), (400, None));
}

#[test]
fn po_2_the_budget_of_all_lets_one_unbounded_request_run_alone_too() {
    let house = priced(&json!({"budget": {"usd_per_day": 1.0}}));
    house.model.always(Reply { hold: Some(Hold::Headers), ..Reply::default() });
    let mut first = Wire::open(house.address());
    first.post(&format!("/agents/a{CHAT}"), "", &question("gpt-5", ""));
    assert!(house.model.wait_for_requests(1, PATIENCE));
    for agent in ["a", "b", "c"] {
        let reply = ask(&house, agent, &question("gpt-5", r#","max_tokens":1"#));
        assert_eq!((reply.status, reply.header("retry-after")), (429, Some("10")), "{}", reply.text());
        assert!(reply.text().contains("all agents together"), "{}", reply.text());
    }
    assert_eq!(house.model.requests(), 1);
}

#[test]
fn po_2_a_limit_the_client_names_is_reserved_and_must_fit() {
    let house = capped(1.0);
    let reply = ask(&house, "a", &question("gpt-5", r#","max_completion_tokens":120000"#));
    assert_eq!((reply.status, reply.header("retry-after")), (400, None));
    assert!(reply.text().contains("max_tokens"), "{}", reply.text());
    assert_eq!(ask(&house, "a", &question("gpt-5", r#","max_completion_tokens":50000"#)).status, 200);
    // Of five answers each has as many.
    let five = ask(&house, "a", &question("gpt-5", r#","max_completion_tokens":50000,"n":5"#));
    assert_eq!(five.status, 400);
}

/// Its own limit, and whether it streams and asks to be told what it used.
#[derive(Clone, Debug)]
struct Asking {
    limit: Option<u64>,
    streams: bool,
    with_usage: bool,
}

fn asking() -> impl Strategy<Value = Asking> {
    let limit = prop::option::of(Just(16_384_u64));
    (limit, any::<bool>(), any::<bool>()).prop_map(|(limit, streams, with_usage)| Asking {
        limit,
        streams,
        with_usage,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// For any schedule of parallel plain and streamed requests: booked ≤ cap + the excess of one request.
    #[test]
    fn po_2_no_parallel_schedule_books_more_than_the_cap_and_the_excess_of_one(
        cap_cents in 5..60u64,
        asks in prop::collection::vec(asking(), 8..40),
    ) {
        let house = capped(cap_cents as f64 / 100.0);
        let next = Mutex::new(asks.iter().enumerate());
        house.model.always(Reply {
            usage: used(30, 16_384),
            delay: Delay { headers_ms: 5, ..Delay::default() },
            ..Reply::default()
        });
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| loop {
                    let Some((n, ask_of)) = next.lock().unwrap().next() else { return };
                    let limit = ask_of.limit.map(|limit| format!(r#","max_tokens":{limit}"#)).unwrap_or_default();
                    let stream = match (ask_of.streams, ask_of.with_usage) {
                        (false, _) => "",
                        (true, false) => r#","stream":true"#,
                        (true, true) => r#","stream":true,"stream_options":{"include_usage":true}"#,
                    };
                    let body = format!(
                        r#"{{"model":"gpt-4o","messages":[{{"role":"user","content":"number {n}"}}]{limit}{stream}}}"#
                    );
                    let reply = ask(&house, "a", &body);
                    assert!([200, 400, 429].contains(&reply.status), "{}: {}", reply.status, reply.text());
                });
            }
        });
        // The dearest single request there can be: all of its answer, and what it sends.
        let one = 16_384 * 10_000 + 30 * 2_500;
        let booked = spent(&house, "a").0;
        prop_assert!(booked <= cap_cents * 10_000_000 + one, "{booked} of {cap_cents} cents");
    }
}

#[test]
fn po_2_paths_that_cannot_be_priced_are_refused_under_a_cap() {
    const UNPRICED: [&str; 14] = [
        "/openai/v1/batches",
        "/openai/v1/images/generations",
        "/openai/v1/videos",
        "/openai/v1/audio/speech",
        "/openai/v1/threads/runs",
        "/openai/v1/fine_tuning/jobs",
        "/openai/v1/realtime/sessions",
        "/openai/v1/files",
        "/openai/v1/b%61tches",
        "/anthropic/v1/messages/batches",
        "/gemini/v1beta/models/m:batchGenerateContent",
        "/gemini/v1beta/models/m:predictLongRunning",
        "/ollama/api/pull",
        "/ollama/api/create",
    ];
    let policies = [
        json!({"policy": {"budget": {"usd_per_day": 1.0}}}),
        json!({"policy": {"budget": {"tokens_per_run": 1_000_000}}}),
        json!({"budget": {"usd_per_month": 1.0}}),
    ];
    for policy in &policies {
        let house = priced(policy);
        for path in UNPRICED {
            let reply = post(house.address(), &format!("/agents/a{path}"), "{}");
            assert!([400, 403].contains(&reply.status), "{path}: {}", reply.status);
            assert_eq!((reply.header("x-estop-reason"), reply.header("retry-after")), (Some("budget"), None));
            assert!(reply.text().contains("budget.paths.allow"), "{path}: {}", reply.text());
        }
        let free = [
            ("GET", "/openai/v1/models"),
            ("DELETE", "/openai/v1/files/file-1"),
            ("POST", "/openai/v1/batches/batch_1/cancel"),
            ("POST", "/anthropic/v1/messages/count_tokens"),
        ];
        for (method, path) in free {
            let mut wire = Wire::open(house.address());
            wire.send(
                format!("{method} /agents/a{path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n")
                    .as_bytes(),
            );
            assert_ne!(wire.reply().header("x-estop-reason"), Some("budget"), "{method} {path}");
        }
        let mut wire = Wire::open(house.address());
        let odd = "GET /agents/a/openai/v1/batches HTTP/1.1\r\nhost: localhost\r\nx-http-method-override: POST\r\n\r\n";
        wire.send(odd.as_bytes());
        assert_eq!(wire.reply().header("x-estop-reason"), Some("budget"));
    }
}

#[test]
fn po_2_paths_the_policy_names_pass_and_are_counted_as_unpriced() {
    let paths = json!({"allow": ["/v1/files", "/v1/batches*"]});
    let named = priced(&json!({"policy": {"budget": {"usd_per_day": 1.0, "paths": paths}}}));
    let uncapped = priced(&json!({}));
    for (house, path, passes) in [
        (&named, "/openai/v1/files", true),
        (&named, "/openai/v1/FILES/", true),
        (&named, "/openai/v1/b%61tches", true),
        (&named, "/openai/v1/filesystem", false),
        (&named, "/openai/v1/images/generations", false),
        (&uncapped, "/openai/v1/images/generations", true),
    ] {
        let reply = post(house.address(), &format!("/agents/a{path}"), "{}");
        assert_eq!(reply.header("x-estop-reason").is_none(), passes, "{path}: {}", reply.text());
    }
    let unpriced = uncapped.find(|record| {
        let Recorded::Agent { event, .. } = record else { return None };
        if let EventKind::RequestReceived(received) = &event.what { Some(received.clone()) } else { None }
    });
    let unpriced = unpriced.unwrap();
    assert!(unpriced.estimate.unpriced);
    assert_eq!(unpriced.path.as_deref(), Some("/v1/images/generations"));
}

#[test]
fn po_2_a_client_that_hangs_up_does_not_make_a_plain_request_free() {
    let house = capped(10.0);
    house.model.always(Reply { hold: Some(Hold::Headers), ..Reply::default() });
    let mut wire = Wire::open(house.address());
    wire.post(&format!("/agents/a{CHAT}"), "", &question("gpt-4o", r#","max_tokens":1000"#));
    assert!(house.model.wait_for_requests(1, PATIENCE));
    drop(wire);
    let (usage, by) = settled(&house);
    assert_eq!((by, usage.output_tokens, usage.estimated), (Some(AbortedBy::Client), 1_000, true));
    assert!(usage.usd.0 >= 1_000 * 10_000, "{usage:?}");
    assert_eq!(spent(&house, "a"), usage.usd);
}

#[test]
fn po_2_a_provider_that_closes_before_it_answers_bills_no_answer() {
    let house = capped(10.0);
    let abort = Abort { at: AbortAt::BeforeHeaders, how: AbortHow::Rst, after_events: 0 };
    house.model.always(Reply { abort: Some(abort), ..Reply::default() });
    assert_eq!(ask(&house, "a", &question("gpt-4o", r#","max_tokens":1000"#)).status, 502);
    let (usage, by) = settled(&house);
    assert_eq!((by, usage.output_tokens), (Some(AbortedBy::Upstream), 0));
}

#[test]
fn po_2_a_stream_without_usage_is_settled_with_what_a_model_may_have_thought() {
    let none = || Some(from_value(json!("none")).unwrap());
    for (model, hidden) in [("gpt-5", true), ("gpt-4o", false)] {
        let house = capped(10.0);
        house.model.always(Reply { text: Some("short".into()), usage: none(), ..Reply::default() });
        let body = question(model, r#","stream":true,"max_completion_tokens":20000"#);
        assert_eq!(ask(&house, "a", &body).status, 200);
        let (usage, _) = settled(&house);
        assert!(usage.estimated, "{model}: {usage:?}");
        assert_eq!(usage.output_tokens == 20_000, hidden, "{model}: {usage:?}");
    }
    // A stream that says what it used is settled with that.
    let house = capped(10.0);
    house.model.always(Reply { text: Some("short".into()), usage: used(10, 77), ..Reply::default() });
    let more = r#","stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":20000"#;
    assert_eq!(ask(&house, "a", &question("gpt-5", more)).status, 200);
    let (usage, _) = settled(&house);
    assert_eq!((usage.output_tokens, usage.estimated), (77, false));
}

#[test]
fn po_2_an_answer_nobody_can_read_is_settled_with_what_was_reserved() {
    let house = capped(10.0);
    let headers = [("content-encoding".to_owned(), "br".to_owned())].into();
    house.model.always(Reply { body: Some("unreadable".into()), headers, ..Reply::default() });
    assert_eq!(ask(&house, "a", &question("gpt-4o", r#","max_tokens":1000"#)).status, 200);
    let (usage, _) = settled(&house);
    assert_eq!((usage.output_tokens, usage.estimated), (1_000, true));
}

#[test]
fn po_2_one_answer_cannot_book_billions() {
    let house = priced(&json!({}));
    let usage = json!({"prompt_tokens": u64::MAX, "completion_tokens": u64::MAX});
    let answer =
        json!({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": usage});
    house.model.always(Reply { json: Some(answer), ..Reply::default() });
    assert_eq!(ask(&house, "a", &question("gpt-5", "")).status, 200);
    let (usage, _) = settled(&house);
    assert_eq!((usage.input_tokens, usage.output_tokens), (1 << 24, 1 << 24));
    assert!(usage.estimated);
    assert_eq!(usage.usd, NanoUsd((1 << 24) * (1_250 + 10_000)));
}

#[test]
fn po_2_where_path_and_body_name_a_model_both_must_be_allowed_and_the_dearer_counts() {
    let deployment =
        |model: &str| format!("/agents/a/openai/openai/deployments/{model}/chat/completions?api-version=1");
    let house = priced(&json!({"policy": {"models": {"allow": ["gpt-5-nano"]}}}));
    for (path, body, passes) in [
        ("gpt-5-nano", "gpt-5-nano", true),
        ("gpt-5-pro", "gpt-5-nano", false),
        ("gpt-5-nano", "gpt-5-pro", false),
    ] {
        let reply = post(house.address(), &deployment(path), &question(body, ""));
        assert_eq!(reply.header("x-estop-reason").is_none(), passes, "{path} {body}: {}", reply.text());
    }
    for (path, body) in [("gpt-5-pro", "gpt-5-nano"), ("gpt-5-nano", "gpt-5-pro")] {
        let house = priced(&json!({}));
        house.model.always(Reply { usage: used(1_000, 1_000), ..Reply::default() });
        assert_eq!(post(house.address(), &deployment(path), &question(body, "")).status, 200);
        let (usage, _) = settled(&house);
        assert_eq!(usage.usd, NanoUsd(1_000 * (15_000 + 120_000)), "{path} {body}");
    }
}

#[test]
fn po_2_embeddings_are_priced_under_a_cap() {
    let house = capped(1.0);
    house.model.always(Reply {
        json: Some(json!({"data": [], "usage": {"prompt_tokens": 1_000, "total_tokens": 1_000}})),
        ..Reply::default()
    });
    let reply =
        post(house.address(), "/agents/a/openai/v1/embeddings", r#"{"model":"embed","input":"hello"}"#);
    assert_eq!(reply.status, 200);
    let (usage, _) = settled(&house);
    assert_eq!((usage.input_tokens, usage.usd), (1_000, NanoUsd(100_000)));
}

#[test]
fn po_2_a_stream_that_runs_alone_is_cut_at_the_cap() {
    let house = priced(&json!({"policy": {"budget": {"tokens_per_day": 6_000}}}));
    for dialect in &DIALECTS[..1] {
        let words: String = (0..400).map(|n| format!("word{n} ")).collect();
        house.model.always(Reply { endless: true, text: Some(words), ..Reply::default() });
        let reply = post(house.address(), &dialect.path("a", true), &dialect.body("Write a book", true));
        assert!(reply.text().contains("Stopped by estop"), "{}", dialect.name);
        let agent = house.engine().agent("a").unwrap();
        wait("the flight to end", || (agent.lock_state().state.in_flight() == 0).then_some(()));
        let tokens = agent.lock_state().state.budget().spent_today().tokens;
        // It is cut with the piece that passes the cap, and a piece is as large as one read.
        assert!((5_000..40_000).contains(&tokens), "{tokens}");
    }
}
