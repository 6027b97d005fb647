//! Stopping: in every phase of a request and every protocol, the upstream's connection closes, the client is told, and
//! nothing is forwarded afterwards (LD-3, AN-3, KS-2).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::Read;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::common::http::{Wire, post};
use crate::common::{DIALECTS, Dialect, House, PATIENCE};
use estop_core::event::EventKind;
use estop_core::system::KillReason;
use estop_core::system::button::{Press, Unlock};
use estop_fake_model::script::{Delay, Hold, Reply};
use estop_gateway::Recorded;

/// Who stops it.
#[derive(Clone, Copy, Debug)]
enum Stop {
    Kill,
    Agent,
}

fn stop(house: &House, how: Stop, agent: &str) {
    match how {
        Stop::Kill => {
            house.engine().kill(Press::new(KillReason::Manual, "test", "test"));
        }
        Stop::Agent => {
            let agent = house.engine().agent(agent).unwrap();
            house.engine().apply(&agent, None, EventKind::AgentDeactivated { by: "test".into() });
        }
    }
}

/// A request is under way upstream; it is stopped; the upstream sees the end, and a new request goes nowhere.
/// `seen` is what the client must have seen of the answer before.
fn stops_upstream(
    house: &House,
    how: Stop,
    dialect: &Dialect,
    stream: bool,
    (ask, seen): (&str, &str),
) -> (Wire, Duration) {
    let agent = format!("a-{}", dialect.name);
    let before = house.model.requests();
    let mut wire = Wire::open(house.address());
    wire.post(&dialect.path(&agent, stream), "", ask);
    assert!(house.model.wait_for_requests(before + 1, PATIENCE), "{}: never reached the model", dialect.name);
    let number = before + 1;
    if !seen.is_empty() {
        wire.until(seen);
    }
    let pressed = Instant::now();
    stop(house, how, &agent);
    let acknowledged = house.model.requests();
    assert!(house.model.wait_for_end(number, PATIENCE).is_some(), "{}: the model still works", dialect.name);
    let took = pressed.elapsed();
    let refused = post(house.address(), &dialect.path(&agent, stream), &dialect.body("again", stream));
    assert!((400..500).contains(&refused.status), "{}: {refused:?}", dialect.name);
    assert!(refused.header("x-estop-reason").is_some(), "{}: {refused:?}", dialect.name);
    assert_eq!(house.model.requests(), acknowledged, "{}: forwarded after the stop", dialect.name);
    (wire, took)
}

/// Each protocol in a house of its own, stopped by the button and by its agent's deactivation.
fn each(reply: &Reply, stream: bool, seen: &str, check: impl Fn(&Dialect, Wire)) {
    let mut slowest = Duration::ZERO;
    for how in [Stop::Kill, Stop::Agent] {
        for dialect in &DIALECTS {
            let house = House::new();
            house.model.always(reply.clone());
            let ask = dialect.body("hello", stream);
            let (wire, took) = stops_upstream(&house, how, dialect, stream, (&ask, seen));
            slowest = slowest.max(took);
            check(dialect, wire);
        }
    }
    println!("slowest stop: {slowest:?}");
}

fn is_told(dialect: &Dialect, mut wire: Wire) {
    let reply = wire.reply();
    assert!((400..500).contains(&reply.status), "{}: {reply:?}", dialect.name);
    assert!(reply.text().contains("Stopped by estop"), "{}: {reply:?}", dialect.name);
}

#[test]
fn ld_3_stop_while_waiting_for_the_first_byte_of_a_stream() {
    each(&Reply { hold: Some(Hold::Headers), ..Reply::default() }, true, "", is_told);
}

#[test]
fn ld_3_stop_while_waiting_for_a_plain_answer() {
    each(&Reply { hold: Some(Hold::Headers), ..Reply::default() }, false, "", is_told);
}

#[test]
fn an_3_a_stopped_stream_ends_with_an_error_event() {
    let reply =
        Reply { endless: true, delay: Delay { chunk_ms: 20, ..Delay::default() }, ..Reply::default() };
    each(&reply, true, "\r\n\r\n", |dialect, mut wire| {
        let reply = wire.reply();
        assert_eq!(reply.status, 200, "{}", dialect.name);
        let text = reply.text();
        let last = text.trim_end().rsplit("\n\n").next().unwrap().to_owned();
        let last = if dialect.name.starts_with("ollama") {
            text.trim_end().rsplit('\n').next().unwrap().to_owned()
        } else {
            last
        };
        assert!(last.contains("Stopped by estop") && last.contains("error"), "{}: {last}", dialect.name);
        assert!(!text.contains("[DONE]"), "{}: a clean end", dialect.name);
    });
}

/// Gemini's stream without `alt=sse` is one JSON array: stopped in the middle it ends as one, its last element the error.
#[test]
fn an_3_a_stopped_gemini_array_ends_with_an_error_element() {
    let gemini = DIALECTS.iter().find(|dialect| dialect.name == "gemini").unwrap();
    let array = Dialect { streamed: "/gemini/v1beta/models/m:streamGenerateContent", ..*gemini };
    let delay = Delay { chunk_ms: 20, ..Delay::default() };
    for how in [Stop::Kill, Stop::Agent] {
        let house = House::new();
        house.model.always(Reply { endless: true, delay, ..Reply::default() });
        let ask = array.body("hello", true);
        let (mut wire, _) = stops_upstream(&house, how, &array, true, (&ask, "candidates"));
        let reply = wire.reply();
        assert_eq!((reply.status, reply.whole), (200, true), "{how:?}: {reply:?}");
        let elements: Vec<serde_json::Value> = serde_json::from_str(&reply.text()).unwrap();
        let (last, before) = elements.split_last().unwrap();
        let message = last["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("Stopped by estop"), "{how:?}: {last}");
        assert!(!before.is_empty() && before.iter().all(|chunk| chunk["candidates"].is_array()), "{how:?}");
    }
}

#[test]
fn an_3_a_plain_answer_that_is_stopped_half_way_is_broken_off() {
    let reply = Reply { hold: Some(Hold::MidStream), size: Some(100_000), ..Reply::default() };
    each(&reply, false, "\r\n\r\n", |dialect, mut wire| {
        let reply = wire.reply();
        assert!(!reply.whole, "{}: looks complete", dialect.name);
    });
}

#[test]
fn ld_3_stop_while_the_request_is_sent_upstream() {
    let reply = Reply { hold: Some(Hold::Upload), ..Reply::default() };
    let long = "x".repeat(12 << 20);
    for how in [Stop::Kill, Stop::Agent] {
        for dialect in &DIALECTS {
            let house = House::new();
            house.model.always(reply.clone());
            let (wire, _) = stops_upstream(&house, how, dialect, true, (&dialect.body(&long, true), ""));
            is_told(dialect, wire);
        }
    }
}

#[test]
fn ld_3_stop_while_the_client_still_sends() {
    for how in [Stop::Kill, Stop::Agent] {
        for dialect in &DIALECTS {
            let house = House::new();
            let agent = format!("a-{}", dialect.name);
            let mut wire = Wire::open(house.address());
            let head = format!(
                "POST {} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1000\r\n\r\n{{",
                dialect.path(&agent, true)
            );
            wire.send(head.as_bytes());
            // Registered as soon as its head was read.
            let registered = || {
                let agent = house.engine().agents.get(&agent)?;
                (agent.in_flight_requests.count() == 1).then_some(())
            };
            wait(registered);
            stop(&house, how, &agent);
            is_told(dialect, wire);
            assert_eq!(house.model.requests(), 0, "{}", dialect.name);
        }
    }
}

#[test]
fn ld_3_stop_during_the_tls_handshake() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    for how in [Stop::Kill, Stop::Agent] {
        for dialect in &DIALECTS {
            let house = House::build("{}", |settings| {
                for provider in settings.providers.values_mut() {
                    (provider.tls, provider.port) = (true, port);
                }
            });
            let agent = format!("a-{}", dialect.name);
            let mut wire = Wire::open(house.address());
            wire.post(&dialect.path(&agent, true), "", &dialect.body("hello", true));
            let (mut upstream, _) = silent.accept().unwrap();
            upstream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut hello = [0; 1];
            upstream.read_exact(&mut hello).unwrap();
            stop(&house, how, &agent);
            // To its end: the socket is closed or reset, not only quiet.
            if let Err(error) = upstream.read_to_end(&mut Vec::new()) {
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{}", dialect.name);
            }
            is_told(dialect, wire);
        }
    }
}

#[test]
fn ld_3_stop_while_connecting() {
    // A listener whose queue is full lets nobody in: whoever connects keeps trying.
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    full.listen(0).unwrap();
    let address = full.local_addr().unwrap().as_socket().unwrap();
    let mut queued = Vec::new();
    while let Ok(socket) = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        queued.push(socket);
        assert!(queued.len() < 64, "the queue never fills");
    }
    for how in [Stop::Kill, Stop::Agent] {
        for dialect in &DIALECTS {
            let house = House::build("{}", |settings| {
                for provider in settings.providers.values_mut() {
                    provider.port = address.port();
                }
            });
            let agent = format!("a-{}", dialect.name);
            let mut wire = Wire::open(house.address());
            wire.post(&dialect.path(&agent, true), "", &dialect.body("hello", true));
            wait(|| (connecting_to(address.port()) == 1).then_some(()));
            stop(&house, how, &agent);
            is_told(dialect, wire);
            wait(|| (connecting_to(address.port()) == 0).then_some(()));
        }
    }
}

/// Sockets of this machine that try to reach a port (state SYN_SENT in `/proc/net/tcp`).
fn connecting_to(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let wanted = format!("0100007F:{port:04X}");
    let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    table.lines().skip(1).map(fields).filter(|f| f[2] == wanted && f[3] == "02").count()
}

#[test]
fn ld_3_stop_closes_the_socket_of_one_agent_and_leaves_its_neighbours() {
    let reply =
        Reply { endless: true, delay: Delay { chunk_ms: 20, ..Delay::default() }, ..Reply::default() };
    for dialect in &DIALECTS {
        let house = House::build("{}", |settings| settings.workers = 1);
        house.model.always(reply.clone());
        let mut neighbour = Wire::open(house.address());
        neighbour.post(&dialect.path("neighbour", true), "", &dialect.body("hello", true));
        assert!(house.model.wait_for_requests(1, PATIENCE));
        let ask = dialect.body("hello", true);
        let (mut wire, _) = stops_upstream(&house, Stop::Agent, dialect, true, (&ask, "\r\n\r\n"));
        assert!(wire.reply().text().contains("Stopped by estop"), "{}", dialect.name);
        let before = house.model.request(1).unwrap().sent_bytes;
        wait(|| (house.model.request(1)?.sent_bytes > before).then_some(()));
        drop(neighbour);
        assert!(house.model.wait_for_end(1, PATIENCE).is_some(), "{}: a vanished client", dialect.name);
    }
}

#[test]
fn ks_2_a_client_that_does_not_read_cannot_keep_the_model_working() {
    let house = House::new();
    house.model.always(Reply { endless: true, size: Some(60_000), ..Reply::default() });
    let dialect = &DIALECTS[0];
    let (wire, _) = stops_upstream(&house, Stop::Kill, dialect, true, (&dialect.body("hello", true), ""));
    // And it is shown the door: its own connection closes too, though it never read a byte.
    wait(|| (house.engine().agents.get("a-openai_chat")?.in_flight_requests.count() == 0).then_some(()));
    drop(wire);
}

#[test]
fn an_3_a_vanished_client_cancels_upstream_and_what_was_used_is_accounted() {
    for dialect in &DIALECTS {
        let house = House::new();
        let reply =
            Reply { endless: true, delay: Delay { chunk_ms: 5, ..Delay::default() }, ..Reply::default() };
        house.model.always(reply);
        let mut wire = Wire::open(house.address());
        wire.post(&dialect.path("a", true), "", &dialect.body("hello", true));
        assert!(house.model.wait_for_requests(1, PATIENCE));
        wire.at_least(3_000);
        drop(wire);
        assert!(house.model.wait_for_end(1, PATIENCE).is_some(), "{}", dialect.name);
        let usage = house.find(|record| {
            let Recorded::Agent { event, .. } = record else { return None };
            if let EventKind::StreamAborted(aborted) = &event.what {
                Some((aborted.by, aborted.usage))
            } else {
                None
            }
        });
        let (by, usage) = usage.unwrap_or_else(|| panic!("{}: never settled", dialect.name));
        assert_eq!(by, estop_core::event::AbortedBy::Client, "{}", dialect.name);
        assert!(usage.output_tokens > 0, "{}: {usage:?}", dialect.name);
    }
}

#[test]
fn an_3_a_client_that_vanishes_before_the_answer_cancels_upstream() {
    for dialect in &DIALECTS {
        let house = House::new();
        house.model.always(Reply { hold: Some(Hold::Headers), ..Reply::default() });
        let mut wire = Wire::open(house.address());
        wire.post(&dialect.path("a", false), "", &dialect.body("hello", false));
        assert!(house.model.wait_for_requests(1, PATIENCE));
        drop(wire);
        assert!(house.model.wait_for_end(1, PATIENCE).is_some(), "{}", dialect.name);
    }
}

/// Every protocol gets the canned answer, plain and streamed; other paths a refusal; no upstream is touched.
fn is_canned(house: &House) {
    let accepted = house.model.connections().accepted;
    for dialect in &DIALECTS {
        for stream in [false, true] {
            let reply = post(house.address(), &dialect.path("a", stream), &dialect.body("hello", stream));
            assert!(reply.text().contains("System is in safe mode. LLM is disabled."), "{reply:?}");
            assert_eq!(
                (reply.status, reply.header("x-estop-reason")),
                (200, Some("system")),
                "{}",
                dialect.name
            );
        }
    }
    let files = post(house.address(), "/openai/v1/files", "{}");
    assert!(files.status >= 400 && files.header("x-estop-reason").is_some(), "no side doors: {files:?}");
    assert_eq!(house.model.connections().accepted, accepted);
}

#[test]
fn ks_9_a_shut_channel_answers_without_touching_an_upstream() {
    is_canned(&House::build("{}", |settings| settings.llm_enabled = false));
}

#[test]
fn ks_2_a_shut_channel_holds_no_connection_to_a_model() {
    let house = House::new();
    let reply = post(house.address(), &DIALECTS[0].path("a", false), &DIALECTS[0].body("hello", false));
    assert_eq!((reply.status, house.model.connections().open), (200, 1), "{reply:?}");
    house.engine().kill(Press::new(KillReason::Manual, "test", "test"));
    wait(|| (house.model.connections().open == 0).then_some(()));
}

#[test]
fn ks_9_safe_mode_answers_without_touching_an_upstream() {
    let house = House::new();
    let engine = house.engine();
    engine.kill(Press::new(KillReason::Manual, "test", "test"));
    let shut = post(house.address(), &DIALECTS[0].path("a", false), &DIALECTS[0].body("hello", false));
    assert_eq!(shut.status, 400, "a pressed button is no answer: {shut:?}");
    let unlock = Unlock { by: "test".into(), epoch: engine.latch.view().epoch, note: None };
    engine.restart(unlock.clone()).unwrap();
    is_canned(&house);
    engine.clear(Unlock { epoch: engine.latch.view().epoch, ..unlock }).unwrap();
    let open = post(house.address(), &DIALECTS[0].path("a", false), &DIALECTS[0].body("hello", false));
    assert_eq!((open.status, open.header("x-estop-reason")), (200, None), "{open:?}");
}

fn wait<T>(mut ready: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn an_1_a_policy_that_answers_by_message_does_so_for_requests_under_way() {
    for dialect in &DIALECTS {
        for stream in [false, true] {
            let house = House::with_policy(r#"{"policy":{"block_response":"message"}}"#);
            house.model.always(Reply { hold: Some(Hold::Headers), ..Reply::default() });
            let mut wire = Wire::open(house.address());
            wire.post(&dialect.path("a", stream), "", &dialect.body("hello", stream));
            assert!(house.model.wait_for_requests(1, PATIENCE), "{}", dialect.name);
            stop(&house, Stop::Kill, "a");
            let reply = wire.reply();
            assert_eq!(
                (reply.status, reply.header("x-estop-reason")),
                (200, Some("system")),
                "{}: {reply:?}",
                dialect.name
            );
            assert!(reply.text().contains("Stopped by estop"), "{}: {reply:?}", dialect.name);
        }
    }
}

#[test]
fn an_1_a_refused_upload_is_told_so_however_large_it_is() {
    let house = House::new();
    stop(&house, Stop::Agent, "a");
    let mut wire = Wire::open(house.address());
    wire.post("/agents/a/openai/v1/files", "", &"x".repeat(16 << 20));
    let reply = wire.reply();
    assert_eq!(
        (reply.status, reply.header("x-estop-reason"), reply.header("connection")),
        (400, Some("agent_inactive"), Some("close")),
        "{reply:?}"
    );
    assert_eq!(house.model.requests(), 0);
}
