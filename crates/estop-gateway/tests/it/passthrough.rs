//! What the client gets through estop is what it would get from the model itself, byte for byte and chunk by chunk, and
//! what the model gets is what the client sent (ID-6).
//!
//! Every answer is asked for twice, of the model directly and through estop, over HTTP/1.1 and HTTP/2, with and without
//! TLS, and compared.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use crate::common::http::{Reply, Wire};
use crate::common::raw::Raw;
use crate::common::two::{DATA, End, HEADERS, Two};
use crate::common::{DIALECTS, Dialect, House, PATIENCE, aim, wait, what};
use estop_core::event::EventKind;
use estop_fake_model::script::{
    Abort, AbortAt, AbortHow, Encoding, Hold, Reply as Said, Rule, Split, UsageReply,
};
use estop_fake_model::{FakeModel, Options};
use estop_gateway::settings::Settings;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};

/// How estop speaks to the model.
#[derive(Clone, Copy, Debug)]
enum Way {
    Plain,
    Tls,
}

const WAYS: [Way; 2] = [Way::Plain, Way::Tls];

/// A gateway that speaks to a model of its own in this way.
fn house(way: Way) -> House {
    let tls = matches!(way, Way::Tls);
    let model = FakeModel::start(Options { tls, ..Options::default() }).unwrap();
    let ca = model.certificate_pem().map(|pem| vec![CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()]);
    House::on(model, "{}", |settings: &mut Settings| {
        for provider in settings.providers.values_mut() {
            provider.ca.clone_from(&ca);
        }
    })
}

/// What belongs to one connection, and the clock.
const OF_THE_CONNECTION: [&str; 5] = ["connection", "keep-alive", "transfer-encoding", "date", "trailer"];

/// What two answers must agree in: status, headers in the order of each name, body, and whether it came to its end.
fn essence(reply: &Reply) -> (u16, Vec<(String, String)>, Vec<u8>, bool) {
    let kept = |(name, _): &&(String, String)| !OF_THE_CONNECTION.contains(&name.as_str());
    let mut headers: Vec<_> = reply.headers.iter().filter(kept).cloned().collect();
    headers.sort_by(|a, b| a.0.cmp(&b.0));
    (reply.status, headers, reply.body.clone(), reply.whole)
}

fn short(reply: &Reply) -> String {
    let (status, headers, body, whole) = essence(reply);
    let text = String::from_utf8_lossy(&body[..body.len().min(600)]).into_owned();
    format!("{status} {headers:?} whole: {whole}, {} bytes: {text:?}", body.len())
}

fn ask(address: SocketAddr, path: &str, body: &str) -> Reply {
    common::http::post(address, path, body)
}

/// Compares the answers of two models, one asked directly and one through estop.
fn compare(direct: &FakeModel, house: &House, said: &Said, dialect: &Dialect, stream: bool, name: &str) {
    for model in [direct, &house.model] {
        model.reset();
        // The second an answer was made in is in it.
        model.always(Said { created: Some(1_767_225_600), ..said.clone() });
    }
    let body = dialect.body("hello", stream);
    let provider = dialect.plain.trim_start_matches('/').find('/').unwrap() + 1;
    let path = if stream { dialect.streamed } else { dialect.plain };
    let plain = ask(direct.addr(), &path[provider..], &body);
    // An agent of its own: nothing here is a loop.
    let through = ask(house.address(), &dialect.path(&format!("a-{}", name.len()), stream), &body);
    // Broken off, how much came before is a matter of luck; that it is the same answer is not.
    let (a, b) = (&plain.body, &through.body);
    let begins = a.starts_with(b) || b.starts_with(a);
    let are_broken = plain.status == through.status && !plain.whole && !through.whole && begins;
    if essence(&plain) != essence(&through) && !are_broken {
        panic!("{name}: differs\n direct: {}\nthrough: {}", short(&plain), short(&through));
    }
}

fn abort(at: AbortAt, how: AbortHow) -> Said {
    Said { abort: Some(Abort { at, how, after_events: 3 }), ..Said::default() }
}

/// Answers that every protocol gives plain and streamed.
fn answers() -> Vec<(&'static str, Said)> {
    let odd: Vec<(String, String)> = [
        ("retry-after", "7"),
        ("x-ratelimit-remaining-requests", "0"),
        ("x-should-retry", "true"),
        ("content-type", "text/html"),
        ("set-cookie", "a=b; Path=/"),
        ("x-empty", ""),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let error =
        |status| Said { status: Some(status), headers: odd.iter().cloned().collect(), ..Said::default() };
    let encoded = |encoding| Said { encoding: Some(encoding), size: Some(5_000), ..Said::default() };
    let without_usage = serde_json::from_str::<UsageReply>(r#""none""#).unwrap();
    vec![
        ("usual", Said::default()),
        ("one byte at a time", Said { split: Some(Split::Bytes(1)), ..Said::default() }),
        ("random pieces", Said { split: Some(Split::Random(7)), size: Some(20_000), ..Said::default() }),
        ("CR LF", Said { crlf: true, ..Said::default() }),
        ("no usage", Said { usage: Some(without_usage), ..Said::default() }),
        ("reasoning", Said { reasoning: Some("hm \u{1F600}".into()), ..Said::default() }),
        ("a call, again", Said { repeat_call: true, ..Said::default() }),
        ("100 kB", Said { size: Some(100_000), ..Said::default() }),
        ("gzip", encoded(Encoding::Gzip)),
        ("deflate", encoded(Encoding::Deflate)),
        ("br", encoded(Encoding::Br)),
        ("zstd", encoded(Encoding::Zstd)),
        ("gzip in single bytes", Said { split: Some(Split::Bytes(1)), ..encoded(Encoding::Gzip) }),
        ("400", error(400)),
        ("401", error(401)),
        ("404", error(404)),
        ("413", error(413)),
        ("429", error(429)),
        ("500", error(500)),
        ("502", error(502)),
        ("503", error(503)),
        ("529", error(529)),
        ("reset after headers", abort(AbortAt::AfterHeaders, AbortHow::Rst)),
        ("closed after headers", abort(AbortAt::AfterHeaders, AbortHow::Fin)),
        ("ended after headers", abort(AbortAt::AfterHeaders, AbortHow::Eof)),
        ("reset mid-stream", abort(AbortAt::MidStream, AbortHow::Rst)),
        ("closed mid-stream", abort(AbortAt::MidStream, AbortHow::Fin)),
        ("ended mid-stream", abort(AbortAt::MidStream, AbortHow::Eof)),
        ("error event mid-stream", abort(AbortAt::MidStream, AbortHow::ErrorEvent)),
    ]
}

fn every_answer(way: Way) {
    let direct = FakeModel::start(Options::default()).unwrap();
    let house = house(way);
    for (name, said) in answers() {
        for dialect in &DIALECTS {
            for stream in [false, true] {
                let name = format!("{way:?}, {}, {name}, stream: {stream}", dialect.name);
                compare(&direct, &house, &said, dialect, stream, &name);
            }
        }
    }
}

#[test]
fn id_6_answers_are_passed_on_unchanged() {
    every_answer(Way::Plain);
}

#[test]
fn id_6_answers_are_passed_on_unchanged_over_tls() {
    every_answer(Way::Tls);
}

#[test]
fn id_6_ten_megabytes_pass_unchanged() {
    let direct = FakeModel::start(Options::default()).unwrap();
    let said = Said { size: Some(10 << 20), ..Said::default() };
    for way in WAYS {
        let house = house(way);
        for stream in [false, true] {
            compare(&direct, &house, &said, &DIALECTS[0], stream, &format!("{way:?}, stream: {stream}"));
        }
    }
}

/// Raw answers of an HTTP/1.1 server: name, request, bytes, and whether the server closes after them.
fn raw_answers() -> Vec<(&'static str, &'static str, Vec<u8>, bool)> {
    const CHAT: &str = "POST /openai/v1/chat/completions";
    const FILES: &str = "POST /openai/v1/files";
    let ok = |head: &str, body: &[u8]| [format!("HTTP/1.1 200 OK\r\n{head}\r\n").as_bytes(), body].concat();
    let sse = "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n";
    let chunked = |head: &str, pieces: &[&str]| {
        let chunk = |piece: &&str| format!("{:x}\r\n{piece}\r\n", piece.len());
        ok(head, (pieces.iter().map(chunk).collect::<String>() + "0\r\n\r\n").as_bytes())
    };
    let mixed = ["data: {\"a\":1}\r", "\r\n", "data: {\"b\":2}\n\ndata: x\r\rdata:\r\n\r\n", "data: unended"];
    let binary: Vec<u8> = (0..=255).collect();
    let long = format!("data: {}\n\n", "y".repeat(2 << 20));
    vec![
        ("mixed line ends", CHAT, chunked(sse, &mixed), false),
        ("comments only", CHAT, chunked(sse, &[": hello\n\n", ":\n", ": bye\n\n"]), false),
        ("single bytes", CHAT, chunked(sse, &["d", "a", "t", "a", ":", " ", "{", "}", "\n", "\n"]), false),
        ("one event of 2 MiB", CHAT, chunked(sse, &[&long]), false),
        ("no event at all", CHAT, chunked(sse, &[]), false),
        ("not JSON", CHAT, ok("content-type: application/json\r\ncontent-length: 3\r\n", b"{]x"), false),
        (
            "half of JSON",
            CHAT,
            ok("content-type: application/json\r\ncontent-length: 5\r\n", b"{\"a\":"),
            false,
        ),
        ("bytes of all kinds", CHAT, ok("content-length: 256\r\n", &binary), false),
        (
            "a false content-encoding",
            CHAT,
            ok("content-encoding: gzip\r\ncontent-length: 5\r\n", b"plain"),
            false,
        ),
        (
            "an unknown content-encoding",
            CHAT,
            ok("content-encoding: x\r\ncontent-length: 5\r\n", b"plain"),
            false,
        ),
        ("no content-type", CHAT, ok("content-length: 2\r\n", b"{}"), false),
        ("empty", CHAT, ok("content-length: 0\r\n", b""), false),
        ("empty chunks", FILES, chunked("transfer-encoding: chunked\r\n", &[]), false),
        (
            "up to the end",
            CHAT,
            ok("content-type: text/event-stream\r\n", b"data: {}\n\ndata: [DONE]\n\n"),
            true,
        ),
        ("HTTP/1.0 up to the end", CHAT, b"HTTP/1.0 200 OK\r\nx: y\r\n\r\ndata: {}\n\n".to_vec(), true),
        ("HTTP/1.0 with a length", CHAT, b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_vec(), true),
        ("shorter than announced", CHAT, ok("content-length: 10\r\n", b"{}"), true),
        ("chunks without an end", CHAT, ok(sse, b"5\r\ndata:\r\n"), true),
        ("a broken chunk", CHAT, ok(sse, b"5\r\ndata:\r\nzz\r\n"), true),
        ("longer than announced", CHAT, ok("content-length: 2\r\n", b"{}more"), true),
        (
            "a length beside chunks",
            CHAT,
            chunked("content-length: 99\r\ntransfer-encoding: chunked\r\n", &["{}"]),
            true,
        ),
        (
            "a length behind chunks",
            CHAT,
            chunked("transfer-encoding: chunked\r\ncontent-length: 1\r\n", &["{}"]),
            true,
        ),
        ("two equal lengths", CHAT, ok("content-length: 2\r\ncontent-length: 2\r\n", b"{}"), true),
        ("trailers", CHAT, ok(sse, b"2\r\n: \r\n0\r\nx-cost: 5\r\nx-estop-reason: spoofed\r\n\r\n"), false),
        ("two cookies", CHAT, ok("set-cookie: a=1\r\nset-cookie: b=2\r\ncontent-length: 0\r\n", b""), false),
        ("names in capitals", CHAT, ok("X-REQUEST-ID: A\r\nContent-Length: 0\r\n", b""), false),
        ("values beyond ASCII", CHAT, ok("x-name: \u{e4}\u{f6}\r\ncontent-length: 0\r\n", b""), false),
        ("200 headers", CHAT, ok(&format!("{}content-length: 0\r\n", "x-h: v\r\n".repeat(200)), b""), false),
        (
            "a header of 50 kB",
            CHAT,
            ok(&format!("x-h: {}\r\ncontent-length: 0\r\n", "v".repeat(50_000)), b""),
            false,
        ),
        (
            "a hint first",
            CHAT,
            [b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".to_vec(), ok("content-length: 2\r\n", b"{}")]
                .concat(),
            false,
        ),
        ("204", FILES, b"HTTP/1.1 204 No Content\r\nx: y\r\n\r\n".to_vec(), false),
        ("205", FILES, b"HTTP/1.1 205 Reset Content\r\ncontent-length: 0\r\n\r\n".to_vec(), false),
        (
            "304 with a length",
            FILES,
            b"HTTP/1.1 304 Not Modified\r\netag: \"x\"\r\ncontent-length: 1234\r\n\r\n".to_vec(),
            false,
        ),
        ("HEAD with a length", "HEAD /openai/v1/files", ok("content-length: 1234\r\n", b""), false),
        ("HEAD of chunks", "HEAD /openai/v1/files", ok("transfer-encoding: chunked\r\n", b""), false),
        (
            "302",
            FILES,
            b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/x\r\ncontent-length: 0\r\n\r\n".to_vec(),
            false,
        ),
        ("status 299", FILES, b"HTTP/1.1 299 Odd\r\ncontent-length: 2\r\n\r\nok".to_vec(), false),
        ("status 999", FILES, b"HTTP/1.1 999 Odd\r\ncontent-length: 2\r\n\r\nok".to_vec(), false),
    ]
}

fn ask_raw(address: SocketAddr, line: &str) -> Reply {
    let mut wire = Wire::open(address);
    let body = r#"{"messages":[]}"#;
    let body = if line.starts_with("HEAD") { "" } else { body };
    wire.send(
        format!("{line} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {}\r\n\r\n{body}", body.len())
            .as_bytes(),
    );
    let head = loop {
        match wire.head() {
            None => return Reply::default(),
            Some(head) if head.status < 200 => {}
            Some(head) => break head,
        }
    };
    if line.starts_with("HEAD") || [204, 304].contains(&head.status) {
        return Reply { status: head.status, headers: head.headers, body: Vec::new(), whole: true };
    }
    wire.body_of(head)
}

#[test]
fn id_6_odd_answers_of_odd_servers_are_passed_on_unchanged() {
    for (name, line, answer, closes) in raw_answers() {
        let raw = if closes { Raw::saying_then_closing(answer) } else { Raw::saying(answer) };
        let house = House::build("{}", |settings| aim(settings, raw.port()));
        let direct = ask_raw(raw.address, &line.replace("/openai", ""));
        let through = ask_raw(house.address(), line);
        let (mut a, mut b) = (essence(&direct), essence(&through));
        if name.contains("beside chunks") || name.contains("behind chunks") {
            // RFC 9112 §6.3: the length means nothing then, and is not passed on.
            let is_length = |header: &(String, String)| header.0 == "content-length";
            assert!(!b.1.iter().any(is_length), "{name}: {b:?}");
            a.1.retain(|header| !is_length(header));
            (a.2, a.3) = (b"{}".to_vec(), true);
        }
        if name == "304 with a length" {
            // hyper leaves out the length of a body that is not there (RFC 9110 §8.6 allows both).
            a.1.retain(|header| header.0 != "content-length");
        }
        if name == "two equal lengths" {
            a.1.dedup();
            b.1.dedup();
        }
        assert_eq!(a, b, "{name}:\n direct: {}\nthrough: {}", short(&direct), short(&through));
        assert_eq!(through.header("x-estop-reason"), None, "{name}");
    }
}

#[test]
fn id_6_an_answer_without_a_body_is_a_complete_answer() {
    let answers = raw_answers();
    for wanted in ["empty", "204", "304 with a length", "HEAD with a length", "205"] {
        let (_, line, answer, _) = answers.iter().find(|(name, ..)| *name == wanted).unwrap();
        let raw = Raw::saying(answer.clone());
        let house = House::build("{}", |settings| aim(settings, raw.port()));
        assert!(ask_raw(house.address(), line).status > 0, "{wanted}");
        let ended = house.find(|record| match what(record) {
            Some(EventKind::ResponseCompleted(_)) => Some("completed"),
            Some(EventKind::StreamAborted(_)) => Some("aborted"),
            Some(_) | None => None,
        });
        assert_eq!(ended, Some("completed"), "{wanted}");
    }
}

/// Bodies that a parser would write differently.
fn odd_bodies(dialect: &Dialect, stream: bool) -> Vec<Vec<u8>> {
    let usual = dialect.body("hello", stream);
    let inner = &usual[1..usual.len() - 1];
    let odd = [
        usual.clone(),
        format!(" \t\r\n {{ {inner} }} \n\n"),
        format!("{{\"zz_unknown\": [1.0, -0, 1E2, 12345678901234567890123], {inner}}}"),
        format!("{{{inner}, \"\\u007a\\/\\\"\": \"\\ud83d\\ude00 \u{1F600} \\b\\f\"}}"),
        format!("{{{inner},\n\"deep\":{}1{}}}", "[".repeat(100), "]".repeat(100)),
        dialect.body(&"long ".repeat(400_000), stream),
    ];
    odd.map(String::into_bytes).into()
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn id_6_the_model_gets_what_the_client_sent() {
    for way in WAYS {
        let house = house(way);
        house.model.always(Said { body: Some("{}".into()), ..Said::default() });
        for dialect in &DIALECTS {
            for (at, body) in odd_bodies(dialect, true).into_iter().enumerate() {
                let name = format!("{way:?}, {}, body {at}", dialect.name);
                let before = house.model.requests();
                let mut wire = Wire::open(house.address());
                let path = dialect.path(&format!("b{at}"), true);
                let head = format!(
                    "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: Application/JSON; x=\"y\"\r\n\
                     user-agent: odd/1.0 (\u{e4})\r\nx-twice: a\r\nx-twice: b\r\naccept-encoding: br, zstd\r\n\
                     x-empty:\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                wire.send(&[head.as_bytes(), &body].concat());
                let reply = wire.reply();
                assert_eq!((reply.status, reply.text().as_str()), (200, "{}"), "{name}");
                let seen = house.model.request(before + 1).unwrap();
                assert_eq!(seen.body_sha256, hex(&body), "{name}");
                let sent_path = &dialect.streamed[dialect.streamed[1..].find('/').unwrap() + 1..];
                let seen_path = if seen.query.is_empty() {
                    seen.path.clone()
                } else {
                    format!("{}?{}", seen.path, seen.query)
                };
                assert_eq!(seen_path, sent_path, "{name}");
                assert_eq!(seen.header("content-type"), Some("Application/JSON; x=\"y\""), "{name}");
                assert_eq!(seen.header("user-agent"), Some("odd/1.0 (\u{e4})"), "{name}");
                assert_eq!(seen.header("accept-encoding"), Some("br, zstd"), "{name}");
                assert_eq!(seen.header("x-empty"), Some(""), "{name}");
                let twice: Vec<&str> =
                    seen.headers.iter().filter(|(n, _)| n == "x-twice").map(|(_, v)| v.as_str()).collect();
                assert_eq!(twice, ["a", "b"], "{name}");
                assert_eq!(seen.header("content-length"), Some(body.len().to_string().as_str()), "{name}");
            }
        }
    }
}

#[test]
fn id_6_uploads_pass_as_they_come() {
    let binary: Vec<u8> = (0..1_000_003_u32).map(|at| (at % 251) as u8).collect();
    for way in WAYS {
        let house = house(way);
        house.model.always(Said { body: Some("{}".into()), ..Said::default() });
        let mut wire = Wire::open(house.address());
        let head = "POST /openai/v1/files?purpose=%7Bx%7D&a=b+c HTTP/1.1\r\nhost: 127.0.0.1\r\n\
                    content-type: multipart/form-data; boundary=x\r\ntransfer-encoding: chunked\r\n\r\n";
        wire.send(head.as_bytes());
        for piece in binary.chunks(100_000) {
            wire.send(format!("{:x}\r\n", piece.len()).as_bytes());
            wire.send(piece);
            wire.send(b"\r\n");
        }
        wire.send(b"0\r\n\r\n");
        assert_eq!(wire.reply().status, 200, "{way:?}");
        let seen = house.model.request(1).unwrap();
        assert_eq!(seen.body_sha256, hex(&binary), "{way:?}");
        assert_eq!(seen.query, "purpose=%7Bx%7D&a=b+c", "{way:?}");
    }
}

#[test]
fn id_6_streams_are_not_held_back() {
    // The model sends a part and then nothing more: what the client has by then cannot have waited for the rest.
    for way in WAYS {
        let house = house(way);
        for encoding in [None, Some(Encoding::Gzip), Some(Encoding::Br)] {
            for dialect in &DIALECTS {
                house.model.reset();
                house.model.always(Said { hold: Some(Hold::MidStream), encoding, ..Said::default() });
                let mut wire = Wire::open(house.address());
                wire.post(&dialect.path("a", true), "", &dialect.body("hello", true));
                assert!(house.model.wait_for_requests(1, PATIENCE));
                let sent = wait("three events", || {
                    let sent = house.model.request(1)?.sent_bytes;
                    (sent > 0).then_some(sent)
                });
                let head = wire.head().unwrap();
                assert_eq!(head.status, 200, "{way:?}, {}", dialect.name);
                let first = wire.some_of_body(usize::try_from(sent).unwrap().min(20));
                assert!(!first.is_empty(), "{way:?}, {}, {encoding:?}: nothing came", dialect.name);
            }
        }
    }
}

#[test]
fn id_6_the_next_chunk_is_sent_only_when_the_first_was_seen() {
    let (go, gone) = channel::<()>();
    let gone = Mutex::new(gone);
    let raw = Raw::start(move |socket, _, _| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        socket.write_all(head.as_bytes()).unwrap();
        for at in 0..20 {
            socket.write_all(format!("1\r\n{}\r\n", char::from(b'a' + at)).as_bytes()).unwrap();
            if gone.lock().unwrap().recv_timeout(PATIENCE).is_err() {
                return;
            }
        }
        socket.write_all(b"0\r\n\r\n").unwrap();
    });
    let house = House::build("{}", |settings| aim(settings, raw.port()));
    let mut wire = Wire::open(house.address());
    wire.post("/openai/v1/chat/completions", "", &DIALECTS[0].body("hello", true));
    assert_eq!(wire.head().unwrap().status, 200);
    for at in 0..20 {
        // Each byte is let go by the one before it having arrived.
        assert_eq!(wire.some_of_body(1), [b'a' + at]);
        go.send(()).unwrap();
    }
}

#[test]
fn id_6_a_client_of_http_2_gets_the_same() {
    let direct = FakeModel::start(Options::default()).unwrap();
    for way in WAYS {
        let house = house(way);
        for dialect in &DIALECTS {
            for (name, said) in [
                ("usual", Said::default()),
                ("100 kB", Said { size: Some(100_000), ..Said::default() }),
                ("single bytes", Said { split: Some(Split::Bytes(1)), ..Said::default() }),
                ("529", Said { status: Some(529), ..Said::default() }),
            ] {
                let asked = dialect.body("hello", true);
                let path = dialect.path("a", true);
                let plain_path = &dialect.streamed[dialect.streamed[1..].find('/').unwrap() + 1..];
                let tries = (0..10).any(|_| {
                    for model in [&direct, &house.model] {
                        model.reset();
                        model.always(said.clone());
                    }
                    let plain = ask(direct.addr(), plain_path, &asked);
                    let mut two = Two::open(house.address());
                    let head = [
                        (":method", "POST"),
                        (":scheme", "http"),
                        (":path", &path),
                        (":authority", "127.0.0.1"),
                    ];
                    two.headers(1, false, &head);
                    two.data(1, true, asked.as_bytes());
                    let (end, body) = two.end_of(1);
                    end == End::Status(plain.status) && body == plain.body
                });
                assert!(tries, "{way:?}, {}, {name}", dialect.name);
            }
        }
    }
}

#[test]
fn id_6_a_client_of_http_2_gets_a_stream_as_it_comes() {
    let house = house(Way::Plain);
    house.model.always(Said { hold: Some(Hold::MidStream), ..Said::default() });
    for dialect in &DIALECTS {
        let mut two = Two::open(house.address());
        let path = dialect.path("a", true);
        let head = [(":method", "POST"), (":scheme", "http"), (":path", &path), (":authority", "127.0.0.1")];
        two.headers(1, false, &head);
        two.data(1, true, dialect.body("hello", true).as_bytes());
        let kinds: Vec<u8> = std::iter::from_fn(|| two.next())
            .map(|frame| frame.kind)
            .filter(|kind| [HEADERS, DATA].contains(kind))
            .take(2)
            .collect();
        assert_eq!(kinds, [HEADERS, DATA], "{}", dialect.name);
    }
}

#[test]
fn id_6_a_model_that_breaks_off_before_its_headers_is_upstreams_fault() {
    for way in WAYS {
        let house = house(way);
        for how in [AbortHow::Rst, AbortHow::Fin] {
            for dialect in &DIALECTS {
                house
                    .model
                    .script(vec![Rule { reply: abort(AbortAt::BeforeHeaders, how), ..Rule::default() }]);
                let before = house.model.requests();
                let reply = ask(house.address(), &dialect.path("a", true), &dialect.body("hello", true));
                let name = format!("{way:?}, {how:?}, {}", dialect.name);
                assert_eq!(reply.status, 502, "{name}: {reply:?}");
                assert_eq!(reply.header("x-estop-reason"), Some("upstream_unreachable"), "{name}");
                assert_eq!(house.model.requests(), before + 1, "{name}: sent again");
            }
        }
    }
}

#[test]
fn id_6_a_connection_that_the_model_closed_is_replaced() {
    // It closes after each answer and does not say so beforehand. A request that comes before estop could notice is lost
    // with the connection, so the next one waits for that.
    let noticed = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&noticed);
    let raw = Raw::start(move |socket, _, _| {
        drop(socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"));
        drop(socket.shutdown(Shutdown::Write));
        drop(socket.read_to_end(&mut Vec::new()));
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let house = House::build("{}", |settings| {
        settings.workers = 1;
        aim(settings, raw.port());
    });
    for at in 0..50 {
        let reply = ask(house.address(), &format!("/agents/a{at}/openai/v1/files"), "{}");
        assert_eq!((reply.status, reply.text().as_str()), (200, "ok"), "request {at}");
        wait("estop to notice", || (noticed.load(Ordering::Relaxed) > at).then_some(()));
    }
    assert_eq!(raw.log().requests.len(), 50, "each was sent once");
}
