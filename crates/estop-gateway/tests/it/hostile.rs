//! Hostile clients and upstreams on the data port (ST-3, rows H1, H2, H3, H5, H7, H8): they get nowhere, and everybody
//! else is served meanwhile.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crate::common::http::{Reply, Wire, post, post_with};
use crate::common::raw::Raw;
use crate::common::two::{
    self, CONTINUATION, DATA, END_HEADERS, END_STREAM, End, HEADERS, PING, RST_STREAM, SETTINGS, Two,
    WINDOW_UPDATE,
};
use crate::common::{DIALECTS, Dialect, House, PATIENCE, aim, wait, what};
use estop_core::event::{AbortedBy, EventKind};
use estop_core::system::KillReason;
use estop_core::system::button::Press;
use estop_fake_model::script::{Reply as Said, Rule};
use estop_gateway::Recorded;
use estop_gateway::settings::{Limits, Settings};

/// Short enough for a test, long enough for two looks of the sweeper.
const SHORT: Duration = Duration::from_millis(300);
/// As many connections as a small attack has.
const MANY: usize = 200;

fn limited(change: impl FnOnce(&mut Limits)) -> House {
    let house = House::build("{}", |settings| change(&mut settings.limits));
    house.model.always(Said { body: Some("ok".into()), ..Said::default() });
    house
}

/// An agent nobody was before: the watchdog counts each one's calls.
fn somebody() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("/agents/somebody-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// An honest client is served.
fn assert_served(house: &House, name: &str) {
    for path in ["/openai/v1/files", "/openai/v1/chat/completions"] {
        let reply = post(house.address(), &format!("{}{path}", somebody()), r#"{"messages":[]}"#);
        assert_eq!((reply.status, reply.text().as_str()), (200, "ok"), "{name}: {path}");
    }
    let mut two = Two::open(house.address());
    two.headers(1, true, &head_of_two("GET", &format!("{}/openai/v1/models", somebody())));
    assert_eq!(two.end_of(1).0, End::Status(200), "{name}: over HTTP/2");
}

fn head_of_two<'a>(method: &'a str, path: &'a str) -> [(&'a str, &'a str); 4] {
    [(":method", method), (":scheme", "http"), (":path", path), (":authority", "127.0.0.1")]
}

fn many(house: &House, bytes: &[u8]) -> Vec<Wire> {
    let open = |_| {
        let mut wire = Wire::open(house.address());
        wire.send(bytes);
        wire
    };
    (0..MANY).map(open).collect()
}

// H1: those who are slow.

#[test]
fn st_3_h1_connections_that_never_finish_a_head_are_closed() {
    let house = limited(|limits| limits.header_timeout = SHORT);
    let beginnings: [&[u8]; 6] = [
        b"",
        b"P",
        b"PRI * HTTP/2.0\r\n\r\nSM",
        b"POST /openai/v1/files HTTP/1.1\r\nhost: 127.0.0.1\r\nx: ",
        b"\r\n\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ];
    for bytes in beginnings {
        let name = String::from_utf8_lossy(bytes);
        let slow = many(&house, bytes);
        assert_served(&house, &name);
        for mut wire in slow {
            // Whatever is said before, the end comes.
            let mut said = Vec::new();
            let ended = wire.socket.read_to_end(&mut said);
            let late = |e: &std::io::Error| matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            assert!(!ended.as_ref().is_err_and(late), "{name:?}: still open");
        }
    }
    assert_served(&house, "afterwards");
}

#[test]
fn st_3_h1_a_head_that_trickles_is_closed_though_it_moves() {
    let house = limited(|limits| limits.header_timeout = SHORT);
    let mut wire = Wire::open(house.address());
    wire.send(b"GET /openai/v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n");
    wait("the trickle is closed", || {
        wire.send(b"x: y\r\n");
        wire.socket.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        match wire.socket.read(&mut [0; 64]) {
            Ok(0) => Some(()),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Some(()),
            Ok(_) | Err(_) => None,
        }
    });
    assert_eq!(house.model.requests(), 0);
}

#[test]
fn st_3_h1_the_second_head_on_a_connection_has_no_more_time_than_the_first() {
    let house = limited(|limits| limits.header_timeout = SHORT);
    let mut wire = Wire::open(house.address());
    wire.post("/openai/v1/files", "", "{}");
    assert_eq!(wire.reply().status, 200);
    wire.send(b"POST /openai/v1/files HTTP/1.1\r\nhost: ");
    assert!(wire.is_closed());
}

#[test]
fn st_3_h1_a_connection_of_http_2_stays_between_requests() {
    // Frames between requests are no slow head.
    let house = limited(|limits| limits.header_timeout = SHORT);
    let mut two = Two::open(house.address());
    two.headers(1, true, &head_of_two("GET", "/openai/v1/models"));
    assert_eq!(two.end_of(1).0, End::Status(200));
    two.frame(PING, 0, 0, &[7; 8]);
    std::thread::sleep(SHORT * 4);
    two.headers(3, true, &head_of_two("GET", "/openai/v1/models"));
    // The status is in the table by then, which this client does not read: any answer will do.
    assert!(matches!(two.end_of(3).0, End::Status(_)), "closed between requests");
    assert_eq!(house.model.requests(), 2);
}

#[test]
fn st_3_h1_a_body_that_stops_is_408_on_every_path() {
    let house = limited(|limits| limits.body_idle_timeout = SHORT);
    let paths =
        DIALECTS.iter().map(|d| d.path("slow", true)).chain(["/agents/slow/openai/v1/files".to_owned()]);
    let mut slow = Vec::new();
    for path in paths {
        for framing in ["content-length: 100", "transfer-encoding: chunked"] {
            let start = if framing.starts_with('t') { "1\r\n{\r\n" } else { "{" };
            let mut wire = Wire::open(house.address());
            wire.send(
                format!("POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{framing}\r\n\r\n{start}").as_bytes(),
            );
            slow.push((format!("{path}, {framing}"), wire));
        }
    }
    for (name, mut wire) in slow {
        let reply = wire.reply();
        assert_eq!((reply.status, reply.header("x-estop-reason")), (408, Some("body_timeout")), "{name}");
        assert!(wire.is_closed(), "{name}");
    }
    let whole = house.model.seen().into_iter().filter(|seen| seen.body_read).count();
    assert_eq!(whole, 0, "half a body was taken for a whole one");
}

#[test]
fn st_3_h1_many_slow_bodies_hold_up_nobody() {
    let house = limited(|limits| (limits.body_idle_timeout, limits.streams_per_agent) = (SHORT, MANY * 3));
    let head = |path: &str| {
        format!("POST /agents/slow{path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1000\r\n\r\n{{")
    };
    let files = many(&house, head("/openai/v1/files").as_bytes());
    let chats = many(&house, head("/openai/v1/chat/completions").as_bytes());
    assert_served(&house, "slow bodies");
    for mut wire in files.into_iter().chain(chats) {
        assert_eq!(wire.reply().status, 408);
    }
    wait("all gone", || (house.engine().agents.get("slow")?.in_flight_requests.count() == 0).then_some(()));
}

#[test]
fn st_3_h1_clients_that_do_not_read_are_shown_the_door() {
    let house = House::build("{}", |settings: &mut Settings| {
        settings.limits.client_write_timeout = SHORT;
    });
    let endless = Said { endless: true, size: Some(60_000), ..Said::default() };
    let dialect = &DIALECTS[0];
    house.model.script(vec![Rule {
        when: estop_fake_model::script::Match { contains: Some("for ever".into()), ..Default::default() },
        times: None,
        reply: endless,
    }]);
    // Few: each fills the kernel's buffers first.
    let count = 3;
    let unread: Vec<Wire> = (0..count)
        .map(|_| {
            let mut wire = Wire::open(house.address());
            wire.post(&dialect.path("slow", true), "", &dialect.body("for ever", true));
            wire
        })
        .collect();
    let honest = post(house.address(), &dialect.path("honest", true), &dialect.body("hello", true));
    assert_eq!(honest.status, 200);
    assert!(house.model.wait_for_requests(count + 1, PATIENCE));
    for seen in house.model.seen().iter().filter(|seen| seen.body.contains("for ever")) {
        assert!(house.model.wait_for_end(seen.number, PATIENCE).is_some(), "the model still works");
    }
    wait("all gone", || (house.engine().agents.get("slow")?.in_flight_requests.count() == 0).then_some(()));
    drop(unread);
}

#[test]
fn st_3_h1_a_client_of_http_2_that_does_not_read_cannot_keep_the_model_working() {
    let house = limited(|limits| limits.client_write_timeout = SHORT);
    house.model.always(Said { endless: true, size: Some(60_000), ..Said::default() });
    let dialect = &DIALECTS[0];
    let mut two = Two::open(house.address());
    two.headers(1, false, &head_of_two("POST", &dialect.path("slow", true)));
    two.data(1, true, dialect.body("hello", true).as_bytes());
    assert!(house.model.wait_for_requests(1, PATIENCE));
    assert!(house.model.wait_for_end(1, PATIENCE).is_some(), "the model still works");
    house.model.always(Said { body: Some("ok".into()), ..Said::default() });
    assert_served(&house, "slow reader of HTTP/2");
}

/// An upload whose answer has come already must not hold up whoever gets its upstream connection next.
#[test]
fn st_3_h1_an_upload_that_is_answered_early_blocks_nobody() {
    let early = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = early.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for socket in early.incoming() {
            let Ok(mut socket) = socket else { return };
            std::thread::spawn(move || {
                // Answers each head it sees, without waiting for a body.
                let mut piece = [0; 4096];
                while let Ok(n @ 1..) = socket.read(&mut piece) {
                    if common::http::find(&piece[..n], b" HTTP/1.1\r\n").is_some() {
                        drop(socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"));
                    }
                }
            });
        }
    });
    let house = House::build("{}", |settings| {
        settings.workers = 1;
        aim(settings, port);
    });
    let mut slow = Wire::open(house.address());
    let head = "POST /openai/v1/files HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1000000\r\n\r\nhalf";
    slow.send(head.as_bytes());
    assert_eq!(slow.reply().status, 200);
    for _ in 0..5 {
        let reply = post(house.address(), "/agents/honest/openai/v1/files", "{}");
        assert_eq!((reply.status, reply.text().as_str()), (200, "ok"));
    }
}

/// What is not inspected stops as well: nothing more of an upload goes to the model after the button.
#[test]
fn ks_2_an_upload_stops_with_the_button() {
    let house = House::new();
    let mut wire = Wire::open(house.address());
    wire.send(b"POST /openai/v1/files HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n");
    assert!(house.model.wait_for_requests(1, PATIENCE));
    house.engine().kill(Press::new(KillReason::Manual, "test", "test"));
    wire.send(b"4\r\nhalf\r\n0\r\n\r\n");
    let reply = wire.reply();
    assert!((400..500).contains(&reply.status) && reply.text().contains("Stopped by estop"), "{reply:?}");
    let seen = house.model.wait_for_end(1, PATIENCE).unwrap();
    assert!(!seen.body_read, "the upload went on: {seen:?}");
}

// H2: those who send too much.

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

#[test]
fn st_3_h2_a_body_beyond_the_limit_is_413() {
    let house = limited(|limits| (limits.body_bytes, limits.upload_bytes) = (100_000, 100_000));
    let paths = DIALECTS.iter().map(|d| d.path("a", true)).chain(["/agents/a/openai/v1/files".to_owned()]);
    for path in paths {
        let long = vec![b' '; 100_001];
        let announced =
            format!("POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {}\r\n\r\n", long.len());
        let chunked =
            format!("POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n");
        for (name, bytes) in [
            ("announced, not sent", announced.clone().into_bytes()),
            ("announced", [announced.as_bytes(), &long].concat()),
            ("announced as 2^63", announced.replace("100001", "9223372036854775808").into_bytes()),
            ("in one chunk", [chunked.as_bytes(), &chunk(&long), b"0\r\n\r\n"].concat()),
            ("in many chunks", [chunked.as_bytes(), &chunk(&[b' '; 1000]).repeat(101)].concat()),
            ("a chunk of 2^60", [chunked.as_bytes(), b"1000000000000000\r\n", &long].concat()),
        ] {
            let mut wire = Wire::open(house.address());
            wire.send(&bytes);
            let reply = wire.reply();
            assert_eq!(
                (reply.status, reply.header("x-estop-reason")),
                (413, Some("body_too_large")),
                "{path}: {name}"
            );
            // A request that was sent to its end may be followed by another.
            assert!(name.ends_with("chunk") || wire.is_closed(), "{path}: {name}");
        }
        let fits = [chunked.as_bytes(), &chunk(br#"{"#), b"0\r\n\r\n"].concat();
        let mut wire = Wire::open(house.address());
        wire.send(&fits);
        assert_ne!(wire.reply().status, 413, "{path}: a short one");
    }
    let long = house.model.seen().into_iter().filter(|seen| seen.body_length > 1).count();
    assert_eq!(long, 0, "a body beyond the limit was forwarded");
}

#[test]
fn st_3_h2_endless_bodies_are_cut_off() {
    let house = limited(|limits| (limits.body_bytes, limits.upload_bytes) = (1 << 20, 1 << 20));
    for path in ["/agents/a/openai/v1/files", "/agents/a/openai/v1/chat/completions"] {
        let mut wire = Wire::open(house.address());
        wire.send(
            format!("POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n")
                .as_bytes(),
        );
        let piece = chunk(&[b' '; 65_536]);
        let mut sent = 0;
        while wire.socket.write_all(&piece).is_ok() {
            sent += 1;
            // What the kernel buffers on both sides is on top of the limit.
            assert!(sent < 1000, "{path}: nobody stops it");
        }
        assert_eq!(wire.reply().status, 413, "{path}");
    }
    assert_served(&house, "endless bodies");
}

#[test]
fn st_3_h2_bodies_share_a_memory_and_announcing_one_takes_none() {
    let house = limited(|limits| {
        (limits.body_bytes, limits.memory_bytes) = (100_000, 150_000);
    });
    let half = |sent: usize| {
        let mut wire = Wire::open(house.address());
        let path = "/agents/a/openai/v1/chat/completions";
        let head = format!("POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100000\r\n\r\n");
        wire.send(&[head.as_bytes(), &vec![b' '; sent]].concat());
        wire
    };
    let ask = || {
        let large = format!("{}{{\"messages\":[]}}", " ".repeat(60_000));
        post(house.address(), &format!("{}/openai/v1/chat/completions", somebody()), &large)
    };
    // Announced alone, they cost nobody anything.
    let idle: Vec<Wire> = (0..50).map(|_| half(0)).collect();
    wait("all announced", || {
        (house.engine().agents.get("a")?.in_flight_requests.count() == 50).then_some(())
    });
    assert_eq!(ask().status, 200, "crowded out by announcements");
    // Sent, they fill it: the second of two has no room, whichever it is.
    let (held, reply) = wait("memory is full", || {
        let held = half(99_000);
        Some((held, ask())).filter(|(_, reply)| reply.status != 200)
    });
    assert_eq!((reply.status, reply.header("x-estop-reason")), (503, Some("overload")), "{reply:?}");
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert_served(&house, "a full memory");
    drop((idle, held));
    wait("memory is free again", || (ask().status == 200).then_some(()));
}

#[test]
fn st_3_h2_a_compressed_request_is_not_unpacked() {
    let house = limited(|_| {});
    for dialect in &DIALECTS {
        for encoding in ["gzip", "br", "zstd", "deflate", "gzip, gzip", "x"] {
            let extra = format!("content-encoding: {encoding}\r\n");
            let reply = post_with(house.address(), &dialect.path("a", true), &extra, "\u{1f}bomb");
            assert_eq!(
                (reply.status, reply.header("x-estop-reason")),
                (415, Some("content_encoding")),
                "{}",
                dialect.name
            );
        }
    }
    assert_eq!(house.model.connections().accepted, 0);
    let passed = post_with(house.address(), "/openai/v1/files", "content-encoding: gzip\r\n", "\u{1f}bomb");
    assert_eq!(passed.status, 200, "what is not inspected passes as it is");
    assert_eq!(house.model.request(1).unwrap().body, "\u{1f}bomb");
}

// H3: those who send what two parsers read differently.

/// Bodies that no protocol has.
fn hostile_bodies(dialect: &Dialect) -> Vec<(&'static str, Vec<u8>)> {
    let usual = dialect.body("hello", true);
    let open = &usual[..usual.len() - 1];
    let with = |more: &str| format!("{open},{more}}}").into_bytes();
    let deep = |levels: usize| with(&format!("\"x\":{}1{}", "[".repeat(levels), "]".repeat(levels)));
    let deep_objects = with(&format!("\"x\":{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000)));
    let (first, _) = usual[1..].split_once(':').unwrap();
    let mut not_utf8 = usual.replace("hello", "hel?lo").into_bytes();
    let at = not_utf8.iter().position(|b| *b == b'?').unwrap();
    not_utf8[at] = 0xff;
    let utf16: Vec<u8> = usual.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let key = first.trim_matches('"');
    let tokens = match dialect.name {
        "openai_responses" => r#""max_output_tokens""#,
        "gemini" => r#""generationConfig":{"maxOutputTokens""#,
        name if name.starts_with("ollama") => r#""options":{"num_predict""#,
        _ => r#""max_tokens""#,
    };
    vec![
        ("nested 10^5 deep", deep(100_000)),
        ("nested 10^6 deep", deep(1_000_000)),
        ("objects 10^5 deep", deep_objects),
        ("only open brackets", vec![b'['; 1_000_000]),
        ("a key twice", with(&format!("\"{key}\":\"other\""))),
        ("a key twice, escaped", with(&format!("\"\\u{:04x}{}\":\"other\"", key.as_bytes()[0], &key[1..]))),
        ("a key in two cases", with(&format!("\"{}\":\"other\"", key.to_uppercase()))),
        ("a lone surrogate", usual.replace("hello", "\\ud800").into_bytes()),
        ("a lone low surrogate", usual.replace("hello", "\\udc00x").into_bytes()),
        ("NaN", with("\"x\":NaN")),
        ("Infinity", with("\"x\":-Infinity")),
        ("1e999 tokens", with(&format!("{tokens}:1e999{}", "}".repeat(tokens.matches('{').count())))),
        ("a number with a zero first", with("\"x\":01")),
        ("a number with a plus", with("\"x\":+1")),
        ("a number in hex", with("\"x\":0x1")),
        ("a number without an end", with("\"x\":1.")),
        ("byte order mark", [b"\xef\xbb\xbf", usual.as_bytes()].concat()),
        ("a second document", format!("{usual}{usual}").into_bytes()),
        ("rubbish behind", format!("{usual}x").into_bytes()),
        ("NUL behind", format!("{usual}\0").into_bytes()),
        ("not UTF-8", not_utf8),
        ("UTF-16", utf16),
        ("a control character in a text", usual.replace("hello", "hel\u{1}lo").into_bytes()),
        ("a line end in a text", usual.replace("hello", "hel\nlo").into_bytes()),
        ("a bad escape", usual.replace("hello", "\\x41").into_bytes()),
        ("half an escape", usual.replace("hello", "\\u00").into_bytes()),
        ("a comma too many", with("")),
        ("a comment", with("/* x */\"x\":1")),
        ("single quotes", with("'x':1")),
        ("a key without quotes", with("x:1")),
        ("cut off", usual.as_bytes()[..usual.len() - 2].to_vec()),
        ("empty", Vec::new()),
        ("blank", b" \r\n\t".to_vec()),
        ("null", b"null".to_vec()),
        ("a list", format!("[{usual}]").into_bytes()),
        ("a text", b"\"text\"".to_vec()),
        ("a number", b"1".to_vec()),
        ("true", b"true".to_vec()),
        ("a form", b"model=m&prompt=hello".to_vec()),
    ]
}

/// The error has the shape of the protocol, and the sentence of a person.
fn assert_shape(dialect: &Dialect, reply: &Reply, name: &str) {
    let json: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
    let error = &json["error"];
    let good = match dialect.name {
        "anthropic" => json["type"] == "error" && error["type"].is_string() && error["message"].is_string(),
        "gemini" => error["code"] == 400 && error["status"].is_string() && error["message"].is_string(),
        ollama if ollama.starts_with("ollama") => error.is_string(),
        _ => {
            error["type"] == "invalid_request_error"
                && error["message"].is_string()
                && error["code"].is_string()
        }
    };
    assert!(good, "{}, {name}: {json}", dialect.name);
}

#[test]
fn st_3_h3_hostile_json_is_400_in_the_protocols_shape_and_is_not_forwarded() {
    let house = limited(|_| {});
    let mut failed = Vec::new();
    for dialect in &DIALECTS {
        for (name, body) in hostile_bodies(dialect) {
            let mut wire = Wire::open(house.address());
            let path = dialect.path("a", true);
            let head =
                format!("POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {}\r\n\r\n", body.len());
            wire.send(&[head.as_bytes(), &body].concat());
            let reply = wire.reply();
            if (reply.status, reply.header("x-estop-reason")) == (400, Some("unreadable_request")) {
                assert_shape(dialect, &reply, name);
            } else {
                failed.push(format!("{}, {name}: {} {}", dialect.name, reply.status, reply.text()));
            }
        }
    }
    assert_eq!(house.model.requests(), 0, "forwarded; {}", failed.join("\n"));
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_served(&house, "hostile JSON");
}

#[test]
fn st_3_h3_embeddings_are_read_as_strictly() {
    let house = limited(|_| {});
    for (name, body) in [
        ("cut off", r#"{"model":"m""#),
        ("a key twice", r#"{"model":"m","model":"n","input":"x"}"#),
        ("a lone surrogate in a model's name", r#"{"model":"\ud800","input":"x"}"#),
        ("empty", ""),
        ("a list", "[]"),
        ("rubbish behind", r#"{"model":"m","input":"x"}}"#),
    ] {
        let reply = post(house.address(), "/openai/v1/embeddings", body);
        assert_eq!(
            (reply.status, reply.header("x-estop-reason")),
            (400, Some("unreadable_request")),
            "{name}"
        );
    }
    assert_eq!(house.model.requests(), 0);
}

// H5: those who flood HTTP/2.

/// Writes frames until they are refused or `count` were written; whether the connection was given up.
fn flood(address: SocketAddr, count: u32, mut frames: impl FnMut(u32) -> Vec<u8>) -> bool {
    let mut two = Two::open(address);
    let reading = two.socket.try_clone().unwrap();
    let given_up = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&given_up);
    let reader = std::thread::spawn(move || {
        let mut two = Two { socket: reading };
        // Answers are not taken for frames to answer: only the end counts.
        while let Some(frame) = two.next() {
            if frame.kind == two::GOAWAY {
                seen.store(true, Ordering::Relaxed);
            }
        }
    });
    for at in 0..count {
        if given_up.load(Ordering::Relaxed) || !two.send(&frames(at)) {
            given_up.store(true, Ordering::Relaxed);
            break;
        }
    }
    let _ = two.socket.shutdown(Shutdown::Both);
    let _ = reader.join();
    given_up.load(Ordering::Relaxed)
}

#[test]
fn st_3_h5_floods_end_their_own_connection_and_others_are_served() {
    let house = limited(|_| {});
    let head = two::block(&head_of_two("GET", "/agents/flood/openai/v1/models"));
    let open_head = two::block(&head_of_two("POST", "/agents/flood/openai/v1/chat/completions"));
    let stream = |at: u32| at * 2 + 1;
    let settings = [[0, 4].as_slice(), &65_535_u32.to_be_bytes()].concat();
    type Frames<'a> = Box<dyn FnMut(u32) -> Vec<u8> + Send + 'a>;
    let floods: Vec<(&str, u32, bool, Frames<'_>)> = vec![
        (
            "rapid reset",
            20_000,
            true,
            Box::new(|at| {
                let open = two::frame(HEADERS, END_HEADERS | END_STREAM, stream(at), &head);
                [open, two::frame(RST_STREAM, 0, stream(at), &8_u32.to_be_bytes())].concat()
            }),
        ),
        (
            "made to reset",
            20_000,
            true,
            Box::new(|at| {
                // The server resets the stream by itself: a window of nothing is an error of the stream.
                let open = two::frame(HEADERS, END_HEADERS, stream(at), &open_head);
                [open, two::frame(WINDOW_UPDATE, 0, stream(at), &[0; 4])].concat()
            }),
        ),
        (
            "continuations without end",
            100_000,
            true,
            Box::new(|at| match at {
                0 => two::frame(HEADERS, 0, 1, &open_head),
                _ => two::frame(CONTINUATION, 0, 1, &two::block(&[("x", "y")])),
            }),
        ),
        (
            "empty continuations",
            100_000,
            true,
            Box::new(|at| match at {
                0 => two::frame(HEADERS, 0, 1, &open_head),
                _ => two::frame(CONTINUATION, 0, 1, &[]),
            }),
        ),
        ("settings", 50_000, false, Box::new(|_| two::frame(SETTINGS, 0, 0, &settings))),
        ("pings", 50_000, false, Box::new(|_| two::frame(PING, 0, 0, &[0; 8]))),
        (
            "empty data",
            50_000,
            false,
            Box::new(|at| match at {
                0 => two::frame(HEADERS, END_HEADERS, 1, &open_head),
                _ => two::frame(DATA, 0, 1, &[]),
            }),
        ),
        ("unknown frames", 50_000, false, Box::new(|_| two::frame(99, 0, 0, &[0; 16]))),
    ];
    for (name, count, ends, mut frames) in floods {
        let address = house.address();
        std::thread::scope(|scope| {
            let flooding = scope.spawn(move || flood(address, count, &mut *frames));
            while !flooding.is_finished() {
                assert_served(&house, name);
            }
            let given_up = flooding.join().unwrap();
            assert!(given_up || !ends, "{name}: nobody stops it");
        });
        assert_served(&house, name);
        wait("all gone", || match house.engine().agents.get("flood") {
            None => Some(()),
            Some(agent) => (agent.in_flight_requests.count() == 0).then_some(()),
        });
    }
}

#[test]
fn st_3_h5_streams_of_one_connection_are_limited() {
    let house = limited(|_| {});
    house.model.always(Said { hold: Some(estop_fake_model::script::Hold::Headers), ..Said::default() });
    let mut two = Two::open(house.address());
    for at in 0..400_u32 {
        two.headers(at * 2 + 1, true, &head_of_two("GET", "/agents/wide/openai/v1/models"));
    }
    // Those beyond the limit are refused one by one, or the connection is given up.
    let refused = std::iter::from_fn(|| two.next())
        .find(|frame| frame.kind == RST_STREAM || frame.kind == two::GOAWAY)
        .is_some();
    assert!(refused);
    assert!(house.model.requests() <= 256, "{}", house.model.requests());
}

// H7: those who want estop to connect elsewhere.

struct Canary {
    address: SocketAddr,
    listener: TcpListener,
}

impl Canary {
    fn new() -> Canary {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Canary { address: listener.local_addr().unwrap(), listener }
    }

    /// Whether anybody connected so far.
    fn sang(&self) -> bool {
        self.listener.accept().is_ok()
    }
}

#[test]
fn st_3_h7_no_client_chooses_where_estop_connects() {
    let canary = Canary::new();
    let house = limited(|_| {});
    let to = canary.address.to_string();
    let url = format!("http://{to}/v1");
    let headers = [
        "x-forwarded-host",
        "x-forwarded-server",
        "x-forwarded-for",
        "x-forwarded-proto",
        "x-host",
        "x-original-host",
        "x-original-url",
        "x-rewrite-url",
        "x-upstream",
        "x-upstream-url",
        "x-target-url",
        "x-base-url",
        "base-url",
        "base_url",
        "api-base",
        "api_base",
        "x-api-base",
        "custom-host",
        "custom_host",
        "x-portkey-custom-host",
        "x-litellm-api-base",
        "helicone-target-url",
        "helicone-openai-api-base",
        "forwarded",
        "via",
        "referer",
        "proxy-connection",
        "x-http-destinationurl",
        "destination",
        "alt-used",
    ];
    let paths = ["/openai/v1/chat/completions", "/openai/v1/files", "/agents/a/anthropic/v1/messages"];
    for path in paths {
        for header in headers {
            for value in [&to, &url] {
                let extra = format!("{header}: {value}\r\n");
                let reply = post_with(house.address(), path, &extra, r#"{"max_tokens":1,"messages":[]}"#);
                assert_eq!(reply.status, 200, "{path}, {header}");
            }
        }
        for query in ["api_base", "base_url", "custom_host", "url", "host", "endpoint"] {
            let path = format!("{path}?{query}={url}");
            assert_eq!(post(house.address(), &path, r#"{"messages":[]}"#).status, 200, "{path}");
        }
    }
    let image = format!(
        r#"{{"model":"m","api_base":"{url}","base_url":"{url}","custom_host":"{url}","proxy":"{url}","webhook":"{url}",
        "messages":[{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"{url}/x.png"}}}},
        {{"type":"text","text":"look at {url}"}}]}}]}}"#
    );
    assert_eq!(post(house.address(), "/openai/v1/chat/completions", &image).status, 200);
    let elsewhere = [
        format!("GET {url}/openai/v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"),
        format!("GET {url}/openai/v1/models HTTP/1.1\r\nhost: {to}\r\n\r\n"),
        format!("CONNECT {to} HTTP/1.1\r\nhost: {to}\r\n\r\n"),
        format!("GET /{to}/v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"),
        format!("GET /http://{to}/v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"),
        format!("GET /agents/a/{to}/v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"),
        format!("GET //{to}/v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"),
        format!("GET @{to}/v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"),
    ];
    let before = house.model.requests();
    for request in elsewhere {
        let mut wire = Wire::open(house.address());
        wire.send(request.as_bytes());
        let reply = wire.reply();
        assert!((400..500).contains(&reply.status), "{request}: {reply:?}");
    }
    assert_eq!(house.model.requests(), before);
    // As part of a path it is the provider's business.
    let mut wire = Wire::open(house.address());
    wire.send(format!("GET /openai//{to}/v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").as_bytes());
    assert_eq!(wire.reply().status, 200);
    assert_eq!(house.model.request(before + 1).unwrap().path, format!("//{to}/v1/models"));
    assert!(!canary.sang(), "somebody was connected elsewhere");
}

#[test]
fn st_3_h7_redirects_are_passed_on_and_never_followed() {
    let canary = Canary::new();
    let to = canary.address;
    for status in [301, 302, 303, 307, 308] {
        for extra in [
            "",
            "alt-svc: h2=\"{to}\"\r\n",
            "refresh: 0; url=http://{to}/\r\nlink: <http://{to}/>; rel=preload\r\n",
        ] {
            let extra = extra.replace("{to}", &to.to_string());
            let raw = Raw::saying(format!(
                "HTTP/1.1 {status} Elsewhere\r\nlocation: http://{to}/v1/x\r\n{extra}content-length: 0\r\n\r\n"
            ));
            let house = House::build("{}", |settings| aim(settings, raw.port()));
            for path in ["/openai/v1/files", "/openai/v1/chat/completions"] {
                let reply = post(house.address(), path, r#"{"messages":[]}"#);
                assert_eq!(reply.status, status, "{path}");
                assert_eq!(reply.header("location"), Some(format!("http://{to}/v1/x").as_str()), "{path}");
            }
            assert_eq!(raw.log().requests.len(), 2);
        }
    }
    assert!(!canary.sang(), "a redirect was followed");
}

// H8: those who speak in estop's or the connection's name.

#[test]
fn st_3_h8_headers_of_the_connection_and_of_estop_stay_behind_both_ways() {
    let raw = Raw::saying(
        "HTTP/1.1 200 OK\r\nconnection: x-internal, keep-alive\r\nx-internal: secret\r\nkeep-alive: timeout=5\r\n\
         proxy-authenticate: Basic\r\nproxy-connection: keep-alive\r\nupgrade: h2c\r\ntrailer: x-late\r\n\
         x-estop-reason: spoofed\r\nX-ESTOP-Agent: spoofed\r\nx-estop-new: spoofed\r\nx-kept: yes\r\n\
         content-length: 2\r\n\r\nok",
    );
    let house = House::build("{}", |settings| aim(settings, raw.port()));
    let sent = "connection: x-agent, close-not\r\nconnection: x-second\r\nx-agent: secret\r\nx-second: secret\r\n\
                keep-alive: timeout=9\r\nproxy-authorization: Basic secret\r\nproxy-connection: keep-alive\r\n\
                te: trailers\r\ntrailer: x-late\r\nupgrade: h2c\r\nx-estop-agent: a\r\nx-estop-run: r\r\n\
                X-Estop-Reason: spoofed\r\nx-estop-new: spoofed\r\nexpect: 100-continue\r\nx-kept: yes\r\n";
    for path in ["/openai/v1/files", "/openai/v1/chat/completions"] {
        let mut wire = Wire::open(house.address());
        wire.post(path, sent, r#"{"messages":[]}"#);
        assert_eq!(wire.head().unwrap().status, 100, "{path}: as it was asked for");
        let reply = wire.reply();
        assert_eq!((reply.status, reply.text().as_str()), (200, "ok"), "{path}");
        let names: Vec<&str> = reply.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["x-kept", "content-length", "date"], "{path}: to the client");
        let request = raw.log().requests.pop().unwrap();
        let names: Vec<String> = request
            .head
            .split("\r\n")
            .skip(1)
            .map(|line| line.split(':').next().unwrap().to_ascii_lowercase())
            .collect();
        let mut expected = vec!["content-type", "x-kept", "host", "content-length"];
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        expected.sort_unstable();
        names.sort_unstable();
        assert_eq!(names, expected, "{path}: to the model");
    }
}

#[test]
fn st_3_h8_trailers_do_not_speak_in_estops_name() {
    let raw = Raw::saying(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-estop-reason\r\n\r\n2\r\nok\r\n0\r\nx-estop-reason: spoofed\r\n\r\n",
    );
    let house = House::build("{}", |settings| aim(settings, raw.port()));
    let mut two = Two::open(house.address());
    two.headers(1, true, &head_of_two("GET", "/openai/v1/models"));
    let frames: Vec<_> = std::iter::from_fn(|| two.next())
        .filter(|frame| frame.stream == 1)
        .scan(false, |ended, frame| {
            let before =
                std::mem::replace(ended, frame.flags & END_STREAM != 0 && frame.kind != WINDOW_UPDATE);
            (!before).then_some(frame)
        })
        .take_while(|frame| frame.kind != RST_STREAM)
        .take(3)
        .collect();
    let trailers = frames.iter().skip(1).find(|frame| frame.kind == HEADERS);
    assert!(trailers.is_none_or(|frame| frame.payload.is_empty()), "{frames:?}");
    let mut wire = Wire::open(house.address());
    wire.post("/openai/v1/files", "te: trailers\r\n", "{}");
    assert!(!wire.until("\r\n0\r\n").contains("spoofed"));
}

#[test]
fn st_3_h8_identity_is_not_taken_from_what_the_model_says() {
    // A model that answers in estop's name changes nothing about whom the next request belongs to.
    let raw = Raw::saying(
        "HTTP/1.1 200 OK\r\nx-estop-agent: root\r\nx-estop-run: root\r\ncontent-length: 2\r\n\r\n{}",
    );
    let house = House::build("{}", |settings| aim(settings, raw.port()));
    for _ in 0..3 {
        assert_eq!(post(house.address(), "/openai/v1/chat/completions", r#"{"messages":[]}"#).status, 200);
    }
    wait("three answers", || {
        (house.records().iter().filter(|r| r.contains("response_completed")).count() >= 3).then_some(())
    });
    assert!(house.records().iter().all(|record| !record.contains("root")));
}

#[test]
fn st_3_h8_a_rebound_name_does_not_reach_a_loopback_listener() {
    let house = limited(|_| {});
    for host in [
        "evil.example",
        "evil.example:4100",
        "127.0.0.1.evil.example",
        "192.168.0.1",
        "0.0.0.0",
        "localhost.evil",
        "xlocalhost",
    ] {
        let mut wire = Wire::open(house.address());
        wire.send(
            format!("POST /openai/v1/files HTTP/1.1\r\nhost: {host}\r\ncontent-length: 0\r\n\r\n").as_bytes(),
        );
        let reply = wire.reply();
        assert_eq!((reply.status, reply.header("x-estop-reason")), (421, Some("wrong_host")), "{host}");
    }
    for host in [
        "127.0.0.1",
        "127.9.9.9:1",
        "localhost",
        "LOCALHOST:4100",
        "estop.localhost",
        "[::1]",
        "[::1]:4100",
        "[::ffff:127.0.0.1]",
    ] {
        let mut wire = Wire::open(house.address());
        wire.send(
            format!("POST /openai/v1/files HTTP/1.1\r\nhost: {host}\r\ncontent-length: 0\r\n\r\n").as_bytes(),
        );
        assert_eq!(wire.reply().status, 200, "{host}");
    }
}

#[test]
fn st_3_h8_a_web_page_cannot_spend_the_key_that_estop_holds() {
    let house = House::build("{}", |settings| {
        let provider = settings.providers.get_mut("openai").unwrap();
        provider.key = Some("sk-injected".to_owned().into());
    });
    house.model.always(Said { body: Some("ok".into()), ..Said::default() });
    for site in ["cross-site", "same-site", "Cross-Site", "", "unknown"] {
        for path in ["/openai/v1/chat/completions", "/openai/v1/files"] {
            let extra = format!("sec-fetch-site: {site}\r\n");
            let reply = post_with(house.address(), path, &extra, r#"{"messages":[]}"#);
            assert_eq!(
                (reply.status, reply.header("x-estop-reason")),
                (403, Some("cross_site")),
                "{site}, {path}"
            );
            let twice = format!("sec-fetch-site: none\r\nsec-fetch-site: {site}\r\n");
            assert_eq!(
                post_with(house.address(), path, &twice, r#"{"messages":[]}"#).status,
                403,
                "{site}, {path}, twice"
            );
        }
    }
    assert_eq!(house.model.requests(), 0);
    for site in ["same-origin", "none"] {
        let extra = format!("sec-fetch-site: {site}\r\n");
        assert_eq!(post_with(house.address(), "/openai/v1/files", &extra, "{}").status, 200, "{site}");
    }
    let own = post_with(house.address(), "/anthropic/v1/files", "sec-fetch-site: cross-site\r\n", "{}");
    assert_eq!(own.status, 403, "nor count as an agent where estop holds no key");
}

/// A model that answers with something that is not HTTP, or too much of it.
#[test]
fn st_3_h8_an_upstream_that_is_no_http_server_is_502() {
    let long_head = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(1 << 20));
    let many_headers = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(1000));
    let split = "HTTP/1.1 200 OK\r\nx: a\rHTTP/1.1 200 OK\r\n\r\n";
    let answers = [
        ("rubbish", "rubbish\r\n\r\n"),
        ("nothing", ""),
        ("SSH", "SSH-2.0-x\r\n"),
        ("HTTP/0.9", "<html>"),
        ("HTTP/3", "HTTP/3.0 200 OK\r\n\r\n"),
        ("no status", "HTTP/1.1 OK\r\n\r\n"),
        ("a bad length", "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"),
        ("two lengths", "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"),
        ("a bad header", "HTTP/1.1 200 OK\r\nbad header: x\r\n\r\n"),
        ("a header with CR", split),
        ("a head of 1 MiB", &long_head),
        ("a thousand headers", &many_headers),
        ("interim answers without end", "HTTP/1.1 100 Continue\r\n\r\n"),
    ];
    for (name, answer) in answers {
        let raw = Raw::saying_then_closing(answer);
        let house = House::build("{}", |settings| aim(settings, raw.port()));
        for dialect in [&DIALECTS[0], &DIALECTS[3]] {
            let reply = post(house.address(), &dialect.path("a", true), &dialect.body("hello", true));
            assert_eq!(reply.status, 502, "{name}: {reply:?}");
            assert_eq!(reply.header("x-estop-reason"), Some("upstream_unreachable"), "{name}");
        }
        assert_eq!(raw.log().requests.len(), 2, "{name}: asked again");
    }
}

/// Sockets that are opened and dropped in any state leave nothing behind.
#[test]
fn st_3_h1_connections_that_come_and_go_leave_nothing_behind() {
    let house = limited(|limits| limits.connections = 50);
    let beginnings: [&[u8]; 5] = [
        b"",
        b"GET ",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /agents/gone/openai/v1/files HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{",
        b"POST /agents/gone/openai/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{",
    ];
    for round in 0..40 {
        for bytes in beginnings {
            let mut socket = TcpStream::connect(house.address()).unwrap();
            let _ = socket.write_all(bytes);
            if round % 2 == 0 {
                let _ = socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO));
            }
        }
    }
    wait("room for everybody", || {
        let reply = post(house.address(), "/agents/honest/openai/v1/files", "{}");
        (reply.status == 200).then_some(())
    });
    wait("nothing under way", || match house.engine().agents.get("gone") {
        None => Some(()),
        Some(agent) => (agent.in_flight_requests.count() == 0).then_some(()),
    });
}

/// Whatever a client or a model writes into a name, a record of it stays small: the journal's queue counts records.
#[test]
fn st_3_h2_what_is_written_down_of_a_request_is_bounded() {
    const RECORD_MAX: usize = 64 << 10;
    let long = "x".repeat(1 << 20);
    let calls = |count: usize, name: &str| {
        let call = |at| {
            format!(r#"{{"id":"c{at}","type":"function","function":{{"name":"{name}","arguments":"{{}}"}}}}"#)
        };
        let result = |at| format!(r#"{{"role":"tool","tool_call_id":"c{at}","content":"{at}"}}"#);
        let all: Vec<String> = (0..count).map(call).collect();
        let results: Vec<String> = (0..count).map(result).collect();
        format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":"go"}},{{"role":"assistant","tool_calls":[{}]}},{}]}}"#,
            all.join(","),
            results.join(",")
        )
    };
    let models_call = format!(
        r#"{{"id":"r","choices":[{{"index":0,"message":{{"role":"assistant","tool_calls":[{{"id":"c","type":"function",
        "function":{{"name":"{long}","arguments":"{{}}"}}}}]}},"finish_reason":"tool_calls"}}]}}"#
    );
    let cases = [
        ("a model's name", format!(r#"{{"model":"{long}","messages":[]}}"#), "{}".to_owned()),
        (
            "a model's name beyond ASCII",
            format!(r#"{{"model":"{}","messages":[]}}"#, "\u{1F600}".repeat(9999)),
            "{}".to_owned(),
        ),
        ("a tool's name", calls(1, &long), "{}".to_owned()),
        ("many calls", calls(5_000, "read"), "{}".to_owned()),
        ("a tool's name in an answer", calls(1, "read"), models_call),
    ];
    for (name, body, answer) in cases {
        let house = limited(|_| {});
        house.model.always(Said { body: Some(answer), ..Said::default() });
        assert_eq!(post(house.address(), "/openai/v1/chat/completions", &body).status, 200, "{name}");
        let ended =
            |record: &Recorded| matches!(what(record)?, EventKind::ResponseCompleted(_)).then_some(());
        assert!(house.find(ended).is_some(), "{name}");
        let longest = house.records().iter().map(String::len).max().unwrap();
        assert!(longest < RECORD_MAX, "{name}: a record of {longest} bytes");
    }
}

/// The journal says of a broken upload that its client is to blame, not the provider.
#[test]
fn st_3_h2_a_broken_upload_is_the_clients_fault() {
    let house = limited(|_| {});
    let mut wire = Wire::open(house.address());
    wire.send(b"POST /openai/v1/files HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\nzz\r\n");
    assert_eq!(wire.reply().status, 400);
    let aborted = |record: &Recorded| match what(record) {
        Some(EventKind::StreamAborted(aborted)) => Some(aborted.by),
        Some(_) | None => None,
    };
    assert_eq!(house.find(aborted), Some(AbortedBy::Client));
}

/// A refusal that is told before a large body was read must reach clients that look for an answer only after sending.
#[test]
fn an_1_a_refusal_reaches_a_client_that_is_still_sending() {
    let house = House::new();
    house.engine().kill(Press::new(KillReason::Manual, "test", "test"));
    let long = "x".repeat(8 << 20);
    for dialect in &DIALECTS {
        let mut wire = Wire::open(house.address());
        wire.post(&dialect.path("a", true), "", &dialect.body(&long, true));
        let reply = wire.reply();
        assert_eq!(reply.header("x-estop-reason"), Some("system"), "{}: {reply:?}", dialect.name);
    }
    assert_eq!(house.model.requests(), 0);
}
