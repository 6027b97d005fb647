//! Every forwarded request is settled once, with what it used and who ended it, whatever it travelled over (PO-2, AN-3).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common;
use std::sync::Arc;

use crate::common::http::{Wire, post};
use crate::common::raw::Raw;
use crate::common::two::Two;
use crate::common::{DIALECTS, House, PATIENCE, aim, wait};
use estop_core::ended::Ended;
use estop_core::event::{AbortedBy, EventKind, ResponseCompleted, StreamAborted};
use estop_core::system::KillReason;
use estop_core::system::button::Press;
use estop_fake_model::script::{Delay, Hold, Reply};
use estop_gateway::{Gateway, JournalQueue, Recorded};

fn completed(house: &House) -> ResponseCompleted {
    let found = house.find(|record| {
        let Recorded::Agent { event, .. } = record else { return None };
        if let EventKind::ResponseCompleted(completed) = &event.what { Some(completed.clone()) } else { None }
    });
    found.expect("no answer was completed")
}

fn aborted(house: &House) -> StreamAborted {
    let found = house.find(|record| {
        let Recorded::Agent { event, .. } = record else { return None };
        if let EventKind::StreamAborted(aborted) = &event.what { Some(*aborted) } else { None }
    });
    found.expect("no request was aborted")
}

#[test]
fn po_2_an_answer_is_settled_with_its_usage() {
    for dialect in &DIALECTS {
        for stream in [false, true] {
            let house = House::new();
            let reply = post(house.address(), &dialect.path("a", stream), &dialect.body("hello", stream));
            assert_eq!((reply.status, reply.whole), (200, true));
            let ResponseCompleted { ended, print, usage, .. } = completed(&house);
            let name = format!("{} stream {stream}", dialect.name);
            assert_eq!(ended, Ended::Ok, "{name}");
            assert!(print.text.is_some(), "{name}: no text was read");
            // These two say what a stream used only if they are asked for it.
            let is_silent = stream && ["openai_chat", "openai_completions"].contains(&dialect.name);
            assert_eq!(usage.estimated, is_silent, "{name}: {usage:?}");
            assert!(usage.output_tokens > 0, "{name}: {usage:?}");
        }
    }
}

#[test]
fn po_2_a_failed_answer_is_settled_as_failed() {
    let house = House::new();
    house.model.always(Reply { status: Some(500), ..Reply::default() });
    let reply = post(house.address(), &DIALECTS[0].path("a", false), &DIALECTS[0].body("hello", false));
    assert_eq!(reply.status, 500);
    assert_eq!(completed(&house).ended, Ended::Failed);
}

#[test]
fn an_3_an_answer_that_ends_with_trailers_is_complete() {
    let body = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":7}}"#;
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\nx-sum: 1\r\n\r\n",
        body.len()
    );
    let upstream = Raw::saying(answer);
    let house = House::build("{}", |settings| aim(settings, upstream.port()));
    let reply = post(house.address(), &DIALECTS[0].path("a", false), &DIALECTS[0].body("hello", false));
    assert_eq!(reply.text(), body);
    let usage = completed(&house).usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (5, 7));
}

#[test]
fn an_3_the_journal_says_who_ended_a_request() {
    let streaming =
        Reply { endless: true, delay: Delay { chunk_ms: 10, ..Delay::default() }, ..Reply::default() };
    let holding = Reply { hold: Some(Hold::Headers), ..Reply::default() };
    let unread = Reply { endless: true, size: Some(60_000), ..Reply::default() };
    for (name, reply) in [("streaming", streaming), ("holding", holding), ("unread", unread)] {
        for kill in [true, false] {
            let house = House::new();
            house.model.always(reply.clone());
            let mut wire = Wire::open(house.address());
            wire.post(&DIALECTS[0].path("a", true), "", &DIALECTS[0].body("hello", true));
            assert!(house.model.wait_for_requests(1, PATIENCE));
            if kill {
                house.engine().kill(Press::new(KillReason::Manual, "test", "test"));
            } else {
                let agent = house.engine().agent("a").unwrap();
                house.engine().apply(&agent, None, EventKind::AgentDeactivated { by: "test".into() });
            }
            let by = aborted(&house).by;
            assert_eq!(by, if kill { AbortedBy::Kill } else { AbortedBy::Guard }, "{name}, kill: {kill}");
        }
    }
}

#[test]
fn po_2_a_provider_that_cannot_be_reached_costs_nothing() {
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let house = House::build("{}", |settings| aim(settings, dead));
    let long = "word ".repeat(20_000);
    let reply = post(house.address(), &DIALECTS[0].path("a", true), &DIALECTS[0].body(&long, true));
    assert_eq!(reply.status, 502);
    let StreamAborted { by, usage, .. } = aborted(&house);
    assert_eq!((by, usage.tokens()), (AbortedBy::Upstream, 0));
}

#[test]
fn ks_2_a_client_of_http_2_that_does_not_read_is_shown_the_door() {
    let house = House::new();
    house.model.always(Reply { endless: true, size: Some(60_000), ..Reply::default() });
    let mut two = Two::open(house.address());
    let path = DIALECTS[0].path("slow", true);
    let head = [(":method", "POST"), (":path", &path), (":scheme", "http"), (":authority", "localhost")];
    two.headers(1, false, &head);
    two.data(1, true, DIALECTS[0].body("hello", true).as_bytes());
    assert!(house.model.wait_for_requests(1, PATIENCE));
    house.engine().kill(Press::new(KillReason::Manual, "test", "test"));
    wait("the flight to end", || {
        (house.engine().agents.get("slow")?.in_flight_requests.count() == 0).then_some(())
    });
    assert_eq!(aborted(&house).by, AbortedBy::Kill);
}

#[test]
fn st_1_without_its_journal_estop_lets_nothing_through() {
    let house = House::new();
    let ask = || post(house.address(), &DIALECTS[0].path("a", false), &DIALECTS[0].body("hello", false));
    assert_eq!(ask().status, 200);
    house.queue.fail();
    for _ in 0..3 {
        let refused = ask();
        assert_eq!((refused.status, refused.header("x-estop-reason")), (503, Some("overload")));
        assert!(refused.text().contains("journal"), "{}", refused.text());
    }
    assert_eq!(house.model.requests(), 1);
}

#[test]
fn ks_5_a_second_estop_cannot_share_the_address() {
    let house = House::new();
    let mut settings = common::settings(&house.model, Default::default());
    settings.listen = house.address();
    let second = Gateway::start(settings, Arc::new(JournalQueue::default()), Default::default());
    let error = second.err().expect("two of them listen on one address").to_string();
    assert!(error.contains("listen.data"), "{error}");
}

#[test]
fn id_1_no_agent_has_the_name_of_the_systems_own_records() {
    let house = House::new();
    let by_url = post(house.address(), &DIALECTS[0].path("system", false), &DIALECTS[0].body("hello", false));
    let mut wire = Wire::open(house.address());
    wire.post("/openai/v1/chat/completions", "x-estop-agent: system\r\n", &DIALECTS[0].body("hello", false));
    for reply in [by_url, wire.reply()] {
        assert_eq!((reply.status, reply.header("x-estop-reason")), (400, Some("bad_name")));
    }
    assert_eq!(house.model.requests(), 0);
}
