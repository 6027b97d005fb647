//! HTTP/1.1 with clients: requests are answered in their order, whatever pieces they come in and however late their client
//! reads (ID-6, ST-3).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::Write as _;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::http::Wire;
use crate::common::raw::Raw;
use crate::common::{DIALECTS, House, PATIENCE, aim};
use estop_fake_model::FakeModel;
use estop_fake_model::script::{Delay, Match, Reply as Said, Rule};
use estop_gateway::{JournalFile, JournalQueue};
use estop_journal::State;
use sha2::{Digest, Sha256};

/// As many small pieces as fill every socket.
const PIECES: usize = 4000;
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
    // Whether they come in one piece or not.
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

/// A client whose socket is soon full.
fn late_reader(house: &House) -> Wire {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4 << 10).unwrap();
    socket.connect(&house.address().into()).unwrap();
    Wire::on(socket.into())
}

/// A provider that answers in small pieces, one after the other, and much more than sockets hold. It may break off before
/// the end.
fn in_small_chunks(breaks_off: bool) -> (Raw, Vec<u8>) {
    let piece: Vec<u8> = (0..3000_u32).map(|n| b'a' + (n * n % 23) as u8).collect();
    let body = piece.repeat(PIECES);
    let raw = Raw::start(move |socket, _, _| {
        let mut say = |bytes: &[u8]| socket.write_all(bytes).is_ok();
        say(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n");
        let chunk = [b"bb8\r\n", &*piece, b"\r\n"].concat();
        for _ in 0..PIECES {
            if !say(&chunk) {
                return;
            }
            // Each is read by itself.
            std::thread::sleep(Duration::from_micros(100));
        }
        if breaks_off {
            let _ = socket.shutdown(Shutdown::Both);
        } else {
            say(b"0\r\n\r\n");
        }
    });
    (raw, body)
}

#[test]
fn id_6_a_long_answer_in_small_pieces_is_whole_for_whoever_reads_late() {
    let (raw, body) = in_small_chunks(false);
    let house = House::build("{}", |settings| aim(settings, raw.port()));
    for before in ["", "\r\n"] {
        let mut wire = late_reader(&house);
        for _ in 0..2 {
            wire.send(format!("{before}{}", request(FILES, "x")).as_bytes());
            std::thread::sleep(Duration::from_millis(1200));
            let reply = wire.reply();
            assert_eq!((reply.status, reply.whole, reply.body == body), (200, true, true), "{before:?}");
        }
    }
}

#[test]
fn an_3_an_answer_that_breaks_off_never_ends_well_for_whoever_reads_late() {
    let (raw, body) = in_small_chunks(true);
    let house = House::build("{}", |settings| aim(settings, raw.port()));
    let mut wire = late_reader(&house);
    wire.send(request(FILES, "x").as_bytes());
    std::thread::sleep(Duration::from_millis(1200));
    let reply = wire.reply();
    assert_eq!((reply.status, reply.whole), (200, false));
    assert!(body.starts_with(&reply.body[..reply.body.len().min(1000)]));
    assert!(wire.is_closed(), "nothing follows what is not whole");
}

/// The end of an answer waits for the journal; when its turn ends, the socket may be full.
#[test]
fn st_1_the_end_of_an_answer_arrives_though_the_socket_was_full() {
    // Of a known length, and as much as fills any socket: the end of each comes when the one before is not sent.
    let body = "0123456789abcdef".repeat(190);
    let raw = Raw::saying(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
    let house = House::build("{}", |settings| aim(settings, raw.port()));
    let mut wire = late_reader(&house);
    let count = 2000;
    let sending = {
        let mut socket = wire.socket.try_clone().unwrap();
        let all = request(FILES, "x").repeat(count);
        std::thread::spawn(move || socket.write_all(all.as_bytes()))
    };
    std::thread::sleep(Duration::from_millis(500));
    for at in 0..count {
        let reply = wire.reply();
        assert_eq!((reply.status, reply.text() == body), (200, true), "answer {at}");
    }
    sending.join().unwrap().unwrap();
}

/// A journal whose disk gets full.
#[derive(Clone, Debug, Default)]
struct Filling(Arc<AtomicBool>);

impl JournalFile for Filling {
    fn write(&self, _: &[u8], _: u64) -> std::io::Result<()> {
        let is_full = self.0.load(Ordering::Relaxed);
        if is_full { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
    fn sync(&self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn st_1_an_answer_that_cannot_be_kept_is_broken_off_at_once() {
    let file = Filling::default();
    let queue = JournalQueue::with_file(Box::new(file.clone()), State::default());
    let model = FakeModel::start(Default::default()).unwrap();
    let delay = Delay { first_byte_ms: 300, ..Delay::default() };
    let held = Said { body: Some("ok".into()), delay, ..Said::default() };
    let house = House::keeping(model, "{}", queue, |_| {});
    house.model.always(held);
    let mut wire = Wire::open(house.address());
    wire.send(request(DIALECTS[0].plain, r#"{"messages":[]}"#).as_bytes());
    assert!(house.model.wait_for_requests(1, PATIENCE));
    file.0.store(true, Ordering::Relaxed);
    let asked = Instant::now();
    assert!(!wire.rest().ends_with(b"ok"), "nobody is told what a dead process would not remember");
    assert!(asked.elapsed() < PATIENCE, "it was broken off, and not left to whoever sweeps");
}

/// Answers without a body have none, whatever the provider says, and the connection goes on.
#[test]
fn id_6_no_answer_has_a_body_that_its_status_has_not() {
    let house = House::new();
    for status in [204, 304] {
        house.model.always(Said { status: Some(status), body: Some("".into()), ..Said::default() });
        let mut wire = Wire::open(house.address());
        for _ in 0..3 {
            wire.send(request(FILES, "x").as_bytes());
            let head = wire.head().unwrap();
            assert_eq!(head.status, status);
            let framing = |name: &str| head.headers.iter().any(|(n, _)| n == name);
            assert!(!framing("transfer-encoding"), "{head:?}");
        }
    }
}

/// A body that nobody wants does not take its answer along.
#[test]
fn an_1_a_refusal_is_read_though_its_body_comes_late() {
    let house = House::new();
    house.model.always(said("ok"));
    let mut wire = Wire::open(house.address());
    // Refused by its head alone.
    wire.send(b"POST /nobody/v1/files HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 5\r\n\r\n");
    let refused = wire.reply();
    assert!((400..500).contains(&refused.status), "{}", refused.status);
    if refused.header("connection") == Some("close") {
        return assert!(wire.is_closed());
    }
    wire.send(b"12345");
    wire.send(request(FILES, "x").as_bytes());
    assert_eq!(wire.reply().text(), "ok");
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
