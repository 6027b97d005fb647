//! Everything that grows has a limit, and a kind answer when it is reached (ST-3, AN-2).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::net::TcpListener;
use std::time::Duration;

use crate::common::http::{Reply, Wire, post};
use crate::common::two::{End, Two};
use crate::common::{DIALECTS, Dialect, House, PATIENCE, aim, wait, what};
use estop_core::event::{AbortedBy, EventKind};
use estop_fake_model::script::{Delay, Hold, Match, Reply as Said, Rule};
use estop_gateway::Recorded;
use estop_gateway::settings::{Limits, Settings};

/// Short enough for a test, long enough for two looks of the sweeper.
const SHORT: Duration = Duration::from_millis(300);

fn limited(change: impl FnOnce(&mut Limits)) -> House {
    House::build("{}", |settings| change(&mut settings.limits))
}

fn assert_overload(reply: &Reply, name: &str) {
    assert_eq!(reply.status, 503, "{name}: {reply:?}");
    assert_eq!(reply.header("x-estop-reason"), Some("overload"), "{name}");
    assert_eq!(reply.header("retry-after"), Some("1"), "{name}");
}

fn get(wire: &mut Wire, path: &str) -> Reply {
    wire.send(format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").as_bytes());
    wire.reply()
}

#[test]
fn st_3_a_connection_too_many_is_told_so() {
    let house = limited(|limits| limits.connections = 5);
    let dialect = &DIALECTS[0];
    let when = Match { contains: Some("hold this".into()), ..Match::default() };
    let reply = Said { hold: Some(Hold::Headers), ..Said::default() };
    house.model.script(vec![Rule { when, reply, times: None }]);
    // All of them are used: one that is not would be closed for whoever comes next.
    let mut open: Vec<Wire> = (0..5).map(|_| Wire::open(house.address())).collect();
    for wire in &mut open {
        wire.post(&dialect.path("a", false), "", &dialect.body("hold this", false));
    }
    assert!(house.model.wait_for_requests(5, PATIENCE));
    let forwarded = house.model.requests();
    for attempt in 0..20 {
        let mut wire = Wire::open(house.address());
        let reply = get(&mut wire, "/openai/v1/models");
        // Few are told at a time, so that telling them takes no descriptors; others are only closed.
        if attempt == 0 || reply.status != 0 {
            assert_overload(&reply, "the sixth");
        }
    }
    assert_eq!(house.model.requests(), forwarded, "a connection too many was served");
    let agent = house.engine().agents.get("a").unwrap();
    assert_eq!(agent.in_flight_requests.count(), 5, "those within are served on");
    open.pop();
    wait("room for one more", || {
        (get(&mut Wire::open(house.address()), "/openai/v1/models").status == 200).then_some(())
    });
}

#[test]
fn st_3_an_agents_streams_are_limited_and_others_are_not() {
    for dialect in &DIALECTS {
        let house = limited(|limits| limits.streams_per_agent = 2);
        let held = Match { contains: Some("hold this".into()), ..Match::default() };
        let reply = Said { hold: Some(Hold::Headers), ..Said::default() };
        house.model.script(vec![Rule { when: held, reply, times: None }]);
        let mut busy: Vec<Wire> = (0..2)
            .map(|_| {
                let mut wire = Wire::open(house.address());
                wire.post(&dialect.path("busy", true), "", &dialect.body("hold this", true));
                wire
            })
            .collect();
        assert!(house.model.wait_for_requests(2, PATIENCE), "{}", dialect.name);
        let ask = |agent: &str| post(house.address(), &dialect.path(agent, true), &dialect.body("hi", true));
        assert_overload(&ask("busy"), dialect.name);
        assert_overload(&post(house.address(), "/agents/busy/openai/v1/files", "x"), dialect.name);
        assert_eq!(house.model.requests(), 2, "{}: one too many was forwarded", dialect.name);
        assert_eq!(ask("other").status, 200, "{}: another agent", dialect.name);
        busy.pop();
        wait("room for one more", || (ask("busy").status == 200).then_some(()));
    }
}

#[test]
fn st_3_agents_are_limited_and_those_known_go_on() {
    // The default agent has its place from the start.
    let house = limited(|limits| limits.agents = 3);
    let ask = |agent: &str| {
        let dialect = &DIALECTS[0];
        post(house.address(), &dialect.path(agent, false), &dialect.body("hello", false))
    };
    assert_eq!(ask("one").status, 200);
    assert_eq!(ask("two").status, 200);
    for name in ["three", "four", "five"] {
        assert_overload(&ask(name), name);
    }
    assert_eq!(ask("one").status, 200, "a known agent");
    assert_eq!(house.model.requests(), 3);
}

#[test]
fn st_3_heads_are_limited_in_size_and_number() {
    let house = limited(|limits| (limits.header_bytes, limits.headers) = (10_000, 20));
    let ask = |extra: &str| {
        let mut wire = Wire::open(house.address());
        wire.post("/openai/v1/files", extra, "{}");
        wire.reply().status
    };
    assert_ne!(ask(""), 431);
    assert_ne!(ask(&"x: y\r\n".repeat(17)), 431, "twenty in all");
    let forwarded = house.model.requests();
    assert_eq!(ask(&"x: y\r\n".repeat(18)), 431, "twenty-one in all");
    assert_eq!(ask(&format!("x: {}\r\n", "y".repeat(10_000))), 431);
    let mut two = Two::open(house.address());
    let long = "y".repeat(12_000);
    let head = [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/openai/v1/models"),
        (":authority", "localhost"),
    ];
    two.headers(1, true, &[&head[..], &[("x", &long)]].concat());
    let (end, _) = two.end_of(1);
    assert!(!matches!(end, End::Status(status) if status < 400), "{end:?}");
    assert_eq!(house.model.requests(), forwarded);
}

/// What the upstream did wrong is said in the protocol's words, and never as if estop had refused.
fn assert_late(reply: &Reply, dialect: &Dialect) {
    assert_eq!(reply.status, 504, "{}: {reply:?}", dialect.name);
    assert_eq!(reply.header("x-estop-reason"), Some("upstream_timeout"), "{}", dialect.name);
    assert!(reply.text().contains("estop did not block this"), "{}: {reply:?}", dialect.name);
    assert_eq!(reply.header("x-should-retry"), None, "{}: clients may try again", dialect.name);
}

/// Asks in every protocol at once; the answers.
fn ask_all(house: &House, stream: bool) -> Vec<(&'static Dialect, Reply)> {
    let ask = |dialect: &'static Dialect| {
        let mut wire = Wire::open(house.address());
        wire.post(&dialect.path("a", stream), "", &dialect.body("hello", stream));
        (dialect, wire)
    };
    let asked: Vec<(&Dialect, Wire)> = DIALECTS.iter().map(ask).collect();
    asked.into_iter().map(|(dialect, mut wire)| (dialect, wire.reply())).collect()
}

/// The model works on none of the requests it got.
fn assert_all_ended(house: &House, name: &str) {
    for seen in house.model.seen() {
        assert!(
            house.model.wait_for_end(seen.number, PATIENCE).is_some(),
            "{name}: still works on {}",
            seen.path
        );
    }
}

#[test]
fn an_2_a_model_that_does_not_begin_to_answer_is_504() {
    let house = House::build("{}", |settings: &mut Settings| {
        settings.limits.first_byte_timeout = SHORT;
    });
    house.model.always(Said { hold: Some(Hold::Headers), ..Said::default() });
    for (dialect, reply) in ask_all(&house, true) {
        assert_late(&reply, dialect);
    }
    assert_all_ended(&house, "late");
    let aborted = |record: &Recorded| match what(record) {
        Some(EventKind::StreamAborted(aborted)) => Some(aborted.by),
        Some(_) | None => None,
    };
    assert_eq!(house.find(aborted), Some(AbortedBy::Upstream));
}

#[test]
fn an_2_other_paths_have_the_same_patience() {
    let house = limited(|limits| limits.first_byte_timeout = SHORT);
    house.model.always(Said { hold: Some(Hold::Headers), ..Said::default() });
    let reply = post(house.address(), "/openai/v1/files", "x");
    assert_late(&reply, &DIALECTS[0]);
}

#[test]
fn an_2_a_model_that_lets_nobody_in_is_504() {
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
    let house = House::build("{}", |settings| {
        settings.limits.connect_timeout = SHORT;
        aim(settings, address.port());
    });
    for (dialect, reply) in ask_all(&house, true) {
        assert_late(&reply, dialect);
    }
}

#[test]
fn an_2_a_model_that_does_not_shake_hands_is_504() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let house = House::build("{}", |settings| {
        settings.limits.connect_timeout = SHORT;
        aim(settings, port);
        settings.providers.values_mut().for_each(|provider| provider.tls = true);
    });
    let dialect = &DIALECTS[0];
    let reply = post(house.address(), &dialect.path("a", true), &dialect.body("hello", true));
    assert_late(&reply, dialect);
}

#[test]
fn an_2_a_model_that_is_not_there_is_502() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let house = House::build("{}", |settings| aim(settings, port));
    for dialect in &DIALECTS {
        let reply = post(house.address(), &dialect.path("a", true), &dialect.body("hello", true));
        assert_eq!(reply.status, 502, "{}: {reply:?}", dialect.name);
        assert_eq!(reply.header("x-estop-reason"), Some("upstream_unreachable"), "{}", dialect.name);
        assert!(reply.text().contains("estop did not block this"), "{}", dialect.name);
    }
}

#[test]
fn an_2_a_stream_that_stops_in_the_middle_ends_with_an_error_event() {
    let house = House::build("{}", |settings: &mut Settings| {
        settings.limits.stream_idle_timeout = SHORT;
    });
    for hold in [Hold::Body, Hold::MidStream] {
        house.model.reset();
        house.model.always(Said { hold: Some(hold), ..Said::default() });
        for (dialect, reply) in ask_all(&house, true) {
            let name = format!("{hold:?}, {}", dialect.name);
            assert_eq!(reply.status, 200, "{name}");
            assert!(reply.text().contains("stopped in the middle"), "{name}: {}", reply.text());
            assert!(!reply.text().contains("[DONE]"), "{name}: a clean end");
        }
        assert_all_ended(&house, &format!("{hold:?}"));
    }
}

#[test]
fn an_2_a_plain_answer_that_stops_in_the_middle_is_broken_off() {
    let house = limited(|limits| limits.stream_idle_timeout = SHORT);
    house.model.always(Said { hold: Some(Hold::MidStream), size: Some(100_000), ..Said::default() });
    for (dialect, reply) in ask_all(&house, false) {
        assert_eq!((reply.status, reply.whole), (200, false), "{}", dialect.name);
    }
}

#[test]
fn an_2_a_slow_stream_that_moves_is_left_alone() {
    let house = limited(|limits| {
        (limits.stream_idle_timeout, limits.first_byte_timeout) =
            (Duration::from_secs(2), Duration::from_secs(2));
    });
    let delay = Delay { headers_ms: 300, first_byte_ms: 300, chunk_ms: 60, ..Delay::default() };
    house.model.always(Said { delay, ..Said::default() });
    for (dialect, reply) in ask_all(&house, true) {
        assert!(reply.whole && !reply.text().contains("estop"), "{}: {}", dialect.name, reply.text());
    }
}

/// Made-up names may use up the places for agents, but not those of the configuration.
#[test]
fn st_3_made_up_agents_cannot_lock_out_those_of_the_configuration() {
    let house = House::build(r#"{"agents": {"vip": {}}}"#, |settings| settings.limits.agents = 5);
    let ask = |agent: &str| {
        post(house.address(), &DIALECTS[0].path(agent, false), &DIALECTS[0].body("hello", false))
    };
    let made_up: Vec<u16> = (0..6).map(|n| ask(&format!("junk-{n}")).status).collect();
    assert_eq!(made_up, [200, 200, 200, 503, 503, 503]);
    assert_eq!((ask("vip").status, ask("default").status), (200, 200));
}
