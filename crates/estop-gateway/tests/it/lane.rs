//! The lane of usual requests answers as hyper does, in the same order, whatever pieces a request comes in (ID-6, ST-3).
//!
//! A line end before a request means nothing, and makes it hyper's: so each is asked both ways.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use crate::common::http::{Head, Reply, Wire};
use crate::common::raw::Raw;
use crate::common::{DIALECTS, House, aim};
use estop_fake_model::script::{Match, Reply as Said, Rule};
use estop_gateway::settings::HttpVersion;
use sha2::{Digest, Sha256};

/// What makes the next request hyper's.
const FOR_HYPER: &str = "\r\n";
const FILES: &str = "/openai/v1/files";

fn said(text: &str) -> Said {
    Said { body: Some(text.into()), ..Said::default() }
}

fn request(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// All that is said to a client before the connection ends, with each date taken out. The client ends it.
fn told(house: &House, sent: &[&str]) -> String {
    let mut wire = Wire::open(house.address());
    for piece in sent {
        wire.send(piece.as_bytes());
    }
    // Both ends take a client that ends its side for gone: the last request asks for the end instead.
    let last = format!("GET {FILES} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n");
    wire.send(last.as_bytes());
    let text = String::from_utf8_lossy(&wire.rest()).into_owned();
    let kept = |line: &&str| !line.starts_with("date: ");
    text.split("\r\n").filter(kept).collect::<Vec<_>>().join("\r\n")
}

/// Header lines in any order, and chunks of any size, say the same.
fn essence(reply: &Reply) -> (u16, Vec<(String, String)>, String, bool) {
    let kept = |(name, _): &&(String, String)| name != "date";
    let mut headers: Vec<_> = reply.headers.iter().filter(kept).cloned().collect();
    headers.sort();
    (reply.status, headers, reply.text(), reply.whole)
}

#[test]
fn id_6_the_lane_answers_as_hyper_does() {
    let large = format!("HTTP/1.1 200 OK\r\ncontent-length: 300000\r\n\r\n{}", "x".repeat(300_000));
    let answers: [&str; 14] = [
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 Fine\r\nx-a: 1\r\nx-b: 2\r\nx-a: 3\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\netag: \"a\"\r\n\r\n",
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 4\r\n\r\nwait",
        "HTTP/1.1 299 \r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-t\r\n\r\n2\r\nok\r\n0\r\nx-t: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok",
        &large,
    ];
    for answer in answers {
        let closes = answer.contains("content-length: 9") || answer.starts_with("HTTP/1.0");
        let raw = if closes { Raw::saying_then_closing(answer) } else { Raw::saying(answer) };
        let house = House::build("{}", |settings| {
            aim(settings, raw.port());
            settings.providers.values_mut().for_each(|provider| provider.http = HttpVersion::One);
        });
        let name = &answer[..answer.len().min(60)];
        for path in [FILES, DIALECTS[0].plain] {
            let usual = request(path, r#"{"messages":[]}"#);
            let ask = |sent: String| {
                let mut wire = Wire::open(house.address());
                wire.send(sent.as_bytes());
                let head = wire.head().unwrap();
                // Without a word about its length the end of such an answer would be waited for.
                let is_without = matches!(head.status, 204 | 304);
                let bare =
                    |head: Head| Reply { status: head.status, headers: head.headers, ..Reply::default() };
                essence(&if is_without { bare(head) } else { wire.body_of(head) })
            };
            assert_eq!(ask(usual.clone()), ask(format!("{FOR_HYPER}{usual}")), "{name}: {path}");
        }
    }
}

#[test]
fn id_6_requests_that_come_together_are_answered_in_their_order() {
    let house = House::new();
    let on_path = |name: &&str| Rule {
        when: Match { path: Some(format!("/{name}")), ..Match::default() },
        times: None,
        reply: said(name),
    };
    let rules = ["one", "two", "three", "four"].iter().map(on_path);
    house.model.script(rules.chain([Rule { reply: said("last"), ..Rule::default() }]).collect());
    let at = |name: &str| request(&format!("{FILES}/{name}"), "x");
    let chunked = |name: &str| {
        format!(
            "POST {FILES}/{name} HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
        )
    };
    let order = |text: &str| {
        let bodies = text.split("\r\n\r\n").skip(1);
        bodies.map(|rest| rest.split("HTTP/1.1").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // Whichever of them are usual, and whether they come in one piece.
    for sent in [
        [at("one"), at("two"), at("three"), at("four")],
        [at("one"), at("two"), chunked("three"), at("four")],
        [chunked("one"), at("two"), at("three"), chunked("four")],
    ] {
        let pieces: Vec<&str> = sent.iter().map(String::as_str).collect();
        let all = sent.concat();
        for text in [told(&house, &pieces), told(&house, &[&all])] {
            assert_eq!(order(&text), ["one", "two", "three", "four", "last"], "{text}");
        }
    }
}

#[test]
fn id_6_a_request_may_come_byte_by_byte() {
    let house = House::new();
    house.model.always(said("ok"));
    let body = r#"{"messages":[{"role":"user","content":"word by word"}]}"#;
    for path in [FILES, DIALECTS[0].plain] {
        let mut wire = Wire::open(house.address());
        for byte in request(path, body).as_bytes() {
            wire.send(&[*byte]);
            std::thread::sleep(Duration::from_micros(200));
        }
        let reply = wire.reply();
        assert_eq!((reply.status, reply.text().as_str()), (200, "ok"));
        // The same connection serves the next one, as one piece.
        wire.send(request(path, body).as_bytes());
        assert_eq!(wire.reply().text(), "ok");
        assert!(house.model.seen().iter().all(|seen| seen.body == body));
    }
}

#[test]
fn id_6_large_bodies_pass_both_ways_to_a_client_that_reads_late() {
    let house = House::new();
    let text = "0123456789abcdef".repeat(40_000);
    house.model.always(said(&text));
    let mut wire = Wire::open(house.address());
    for _ in 0..2 {
        wire.send(request(FILES, &text).as_bytes());
        std::thread::sleep(Duration::from_millis(100));
        let reply = wire.reply();
        assert_eq!((reply.status, reply.whole, reply.text() == text), (200, true, true));
    }
    let digest: String = Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(house.model.seen().iter().all(|seen| seen.body_sha256 == digest));
    assert_eq!(house.model.seen().len(), 2);
}

#[test]
fn st_3_a_refusal_that_closes_ends_the_connection() {
    let house = House::build("{}", |settings| settings.limits.body_bytes = 100);
    house.model.always(said("ok"));
    let mut wire = Wire::open(house.address());
    let small = request(DIALECTS[0].plain, r#"{"messages":[]}"#);
    wire.send(small.as_bytes());
    assert_eq!(wire.reply().status, 200);
    wire.send(request(DIALECTS[0].plain, &"x".repeat(1000)).as_bytes());
    let reply = wire.reply();
    assert_eq!((reply.status, reply.header("connection")), (413, Some("close")));
    assert!(wire.is_closed());
    assert_eq!(house.model.seen().len(), 1);
}
