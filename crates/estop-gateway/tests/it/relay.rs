//! The message relay (KS-10): byte for byte both ways, to nowhere but the configured targets, under the same gate as
//! everything else, and closed in the middle when the button is pressed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::common::http::{Reply, Wire, post, post_with};
use crate::common::raw::{Raw, RawRequest};
use crate::common::two::{End, Two};
use crate::common::{DIALECTS, House, PATIENCE, wait, what};
use estop_core::engine::Snapshot;
use estop_core::event::EventKind;
use estop_core::operator::Stopped;
use estop_core::system::button::{Press, Unlock};
use estop_core::system::{Channel, Channels, KillReason};
use estop_fake_model::FakeModel;
use estop_fake_model::script::{Hold, Reply as Said};
use estop_gateway::settings::{AgentKey, Auth, Provider, Relay, Settings};
use estop_gateway::{Evicted, EvictedAgents, JournalQueue, RestoredState, States};
use estop_wire::protocol::Family;
use sha2::{Digest, Sha256};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
/// A Telegram token stands in the path.
const TOKEN: &str = "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw";
const REJECTED: &str = r#"{"status":"rejected","reason":"system_shutdown"}"#;
const BLOCKED: &str = r#"{"status":"blocked","reason":"system_shutdown"}"#;

/// An app and a platform, with the relay `support` between them.
struct Between {
    app: Raw,
    platform: Raw,
    house: House,
}

fn between() -> Between {
    between_with("{}", |_| {})
}

fn between_with(policy: &str, change: impl FnOnce(&mut Settings)) -> Between {
    between_these(Raw::saying(OK), Raw::saying(OK), policy, change)
}

fn between_these(app: Raw, platform: Raw, policy: &str, change: impl FnOnce(&mut Settings)) -> Between {
    let house = House::build(policy, |settings| {
        let (into, out) = (target(app.port(), "/hook"), target(platform.port(), "/api"));
        settings.relays.insert("support".into(), relay("support", Some(into), Some(out)));
        change(settings);
    });
    Between { app, platform, house }
}

fn relay(agent: &str, into: Option<Provider>, out: Option<Provider>) -> Relay {
    Relay { agent: agent.into(), into, out, secret: None, concurrency: 100 }
}

fn target(port: u16, base_path: &str) -> Provider {
    Provider {
        family: Family::OpenAi,
        tls: false,
        host: "127.0.0.1".into(),
        port,
        base_path: base_path.into(),
        auth: Auth::None,
        key: None,
        ca: None,
    }
}

impl Between {
    fn post(&self, path: &str, extra: &str, body: &str) -> Reply {
        post_with(self.house.address(), path, extra, body)
    }

    fn kill(&self, channels: Channels) -> Stopped {
        let press = Press::new(KillReason::Manual, "test", "test");
        self.house.engine().kill(Press { channels, ..press })
    }

    /// Requests that reached the app, and the platform.
    fn arrived(&self) -> (usize, usize) {
        (self.app.log().requests.len(), self.platform.log().requests.len())
    }
}

/// A platform that takes a request and does not answer; counts the sockets that were closed meanwhile.
fn silent() -> (Raw, Arc<AtomicUsize>) {
    let closed: Arc<AtomicUsize> = Arc::default();
    let counted = Arc::clone(&closed);
    let raw = Raw::start(move |socket, _, _| wait_for_close(socket, &counted));
    (raw, closed)
}

fn wait_for_close(socket: &mut TcpStream, closed: &AtomicUsize) {
    let mut more = [0; 1];
    while matches!(socket.read(&mut more), Ok(1)) {}
    closed.fetch_add(1, Ordering::SeqCst);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// HMAC-SHA-256 (RFC 2104), with a key shorter than a block.
fn hmac(key: &[u8], message: &[u8]) -> String {
    let pad =
        |with: u8| -> Vec<u8> { (0..64).map(|at| key.get(at).copied().unwrap_or_default() ^ with).collect() };
    let inner = Sha256::digest([&pad(0x36), message].concat());
    hex(&Sha256::digest([pad(0x5c), inner.to_vec()].concat()))
}

const SIGNING_SECRET: &[u8] = b"8f742231b10e8888abcd99yyyzzz85a5";

/// Slack's signature, version 0.
fn slack_signature(timestamp: &str, body: &[u8]) -> String {
    format!("v0={}", hmac(SIGNING_SECRET, &[b"v0:", timestamp.as_bytes(), b":", body].concat()))
}

fn signature_holds(request: &RawRequest) -> bool {
    let one = |name| request.values(name).concat();
    one("x-slack-signature") == slack_signature(&one("x-slack-request-timestamp"), &request.body)
}

#[test]
fn ks_10_hmac_is_slacks() {
    // The example of Slack's documentation.
    let body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V\
        &channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=\
        &response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN\
        &trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    assert_eq!(
        slack_signature("1531420618", body.as_bytes()),
        "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    );
}

#[test]
fn ks_10_a_webhook_arrives_byte_for_byte_and_its_signature_holds() {
    let at = between();
    let odd = "{ \"b\":1,\r\n\t\"a\" : \"\u{e4}\\u00e4 \u{1f6d1}\",\"a\":2 }\n\n";
    for (number, body) in [odd.as_bytes().to_vec(), Vec::new(), (0..=255).cycle().take(300_000).collect()]
        .into_iter()
        .enumerate()
    {
        let head = format!(
            "POST /relay/support/in/slack/events?x=%2F&&y HTTP/1.1\r\nhost: 127.0.0.1\r\n\
             content-type: application/json; charset=utf-8\r\nX-Slack-Request-Timestamp: 1531420618\r\n\
             X-Slack-Signature: {}\r\nX-Signature-Ed25519: {}\r\nX-Telegram-Bot-Api-Secret-Token: s3cret-T\r\n",
            slack_signature("1531420618", &body),
            "ab".repeat(64),
        );
        let mut wire = Wire::open(at.house.address());
        // By length, in one piece; then in chunks, byte by byte.
        wire.send(
            &[head.as_bytes(), format!("content-length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat(),
        );
        assert_eq!(wire.reply().text(), "ok");
        wire.send(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes());
        for byte in body.iter().take(200) {
            wire.send(&[b"1\r\n", &[*byte][..], b"\r\n"].concat());
        }
        let rest = body.get(200..).unwrap_or_default();
        if !rest.is_empty() {
            wire.send(&[format!("{:x}\r\n", rest.len()).as_bytes(), rest, b"\r\n"].concat());
        }
        wire.send(b"0\r\n\r\n");
        assert_eq!(wire.reply().text(), "ok");
        let log = at.app.log();
        assert_eq!(log.faults, Vec::<String>::new());
        assert_eq!(log.requests.len(), 2 * (number + 1));
        for request in log.requests.iter().skip(2 * number) {
            assert_eq!(request.line(), "POST /hook/slack/events?x=%2F&&y HTTP/1.1");
            assert_eq!(request.body, body);
            assert!(signature_holds(request), "{}", request.head);
            assert_eq!(request.values("x-signature-ed25519"), ["ab".repeat(64)]);
            assert_eq!(request.values("x-telegram-bot-api-secret-token"), ["s3cret-T"]);
        }
    }
    assert_eq!(at.arrived().1, 0, "nothing of it went to the platform");
}

#[test]
fn ks_10_what_the_app_sends_reaches_the_platform_as_it_is() {
    let at = between();
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"] {
        at.platform.reset();
        let body = if method == "GET" { "" } else { r#"{"chat_id":1,"text":"Hi"}"# };
        let mut wire = Wire::open(at.house.address());
        wire.send(
            format!(
                "{method} /relay/support/out/bot{TOKEN}/sendMessage?a=b&key=%20x HTTP/1.1\r\nhost: localhost:4100\r\n\
                 authorization: Bearer xoxb-1\r\naccept-encoding: gzip\r\nconnection: keep-alive, x-hop\r\nx-hop: 1\r\n\
                 te: trailers\r\nx-estop-run: r1\r\nx-estop-agent: other\r\nuser-agent: bot/1\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
            .as_bytes(),
        );
        assert_eq!(wire.reply().text(), "ok", "{method}");
        let log = at.platform.log();
        let [request] = log.requests.as_slice() else { panic!("{method}: {:?}", log.requests) };
        let line = format!("{method} /api/bot{TOKEN}/sendMessage?a=b&key=%20x HTTP/1.1");
        assert_eq!(request.line(), line);
        assert_eq!(request.body, body.as_bytes());
        assert_eq!(request.values("host"), [format!("127.0.0.1:{}", at.platform.port())]);
        assert_eq!(request.values("authorization"), ["Bearer xoxb-1"]);
        assert_eq!(request.values("accept-encoding"), ["gzip"]);
        assert_eq!(request.values("user-agent"), ["bot/1"]);
        let lower = request.head.to_ascii_lowercase();
        assert!(
            !lower.contains("x-estop") && !lower.contains("x-hop") && !lower.contains("\r\nte:"),
            "{lower}"
        );
        assert_eq!(log.faults, Vec::<String>::new());
    }
    let mut wire = Wire::open(at.house.address());
    wire.send(b"HEAD /relay/support/out HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(wire.head().unwrap().status, 200);
    assert_eq!(at.platform.log().requests.last().unwrap().line(), "HEAD /api HTTP/1.1");
    assert_eq!(at.arrived().0, 0, "nothing of it came in");
}

#[test]
fn ks_10_answers_come_back_as_they_are() {
    // Empty, by length, in chunks of one byte, compressed, redirected, failed.
    let gzip: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\x02\xff\xcb\x48\xcd\xc9\xc9\x07\0\x86\xa6\x10\x36\x05\0\0\0";
    let pieces: Vec<u8> = gzip.iter().flat_map(|byte| [b"1\r\n", &[*byte][..], b"\r\n"].concat()).collect();
    let head = |status: &str, more: &str| format!("HTTP/1.1 {status}\r\n{more}\r\n").into_bytes();
    let answers: Vec<(u16, Vec<u8>, Vec<u8>)> = vec![
        (204, head("204 No Content", "x-a: 1\r\n"), Vec::new()),
        (
            200,
            [head("200 OK", "content-encoding: gzip\r\ncontent-length: 25\r\n"), gzip.to_vec()].concat(),
            gzip.to_vec(),
        ),
        (
            200,
            [
                head("200 OK", "content-encoding: gzip\r\ntransfer-encoding: chunked\r\n"),
                pieces,
                b"0\r\n\r\n".to_vec(),
            ]
            .concat(),
            gzip.to_vec(),
        ),
        (302, head("302 Found", "location: http://127.0.0.1:1/evil\r\ncontent-length: 0\r\n"), Vec::new()),
        (
            429,
            [head("429 Slow", "retry-after: 7\r\ncontent-length: 3\r\n"), b"no\n".to_vec()].concat(),
            b"no\n".to_vec(),
        ),
        (500, head("500 Oh", "content-length: 0\r\nx-estop-reason: lies\r\n"), Vec::new()),
    ];
    let said = answers.clone();
    let platform = Raw::start(move |socket, _, number| drop(socket.write_all(&said[number].1)));
    let at = between_these(Raw::saying(OK), platform, "{}", |_| {});
    for (status, _, body) in &answers {
        let mut wire = Wire::open(at.house.address());
        wire.post("/relay/support/out/x", "", "{}");
        let head = wire.head().unwrap();
        let reply = if *status == 204 {
            Reply { status: 204, headers: head.headers, ..Reply::default() }
        } else {
            wire.body_of(head)
        };
        assert_eq!((reply.status, &reply.body), (*status, body));
        assert_eq!(reply.header("x-estop-reason"), None, "an upstream does not speak for estop");
        match status {
            302 => assert_eq!(
                reply.header("location"),
                Some("http://127.0.0.1:1/evil"),
                "passed back, not followed"
            ),
            429 => assert_eq!(reply.header("retry-after"), Some("7")),
            _ => {}
        }
        if !body.is_empty() && *status == 200 {
            assert_eq!(reply.header("content-encoding"), Some("gzip"));
        }
    }
    assert_eq!(at.arrived().1, answers.len());
}

#[test]
fn ks_10_a_kill_closes_an_open_long_poll_and_tells_the_app() {
    let (platform, closed) = silent();
    let at = between_these(Raw::saying(OK), platform, "{}", |_| {});
    let mut polls: Vec<Wire> = (0..3).map(|_| Wire::open(at.house.address())).collect();
    for wire in &mut polls {
        wire.send(
            format!(
                "GET /relay/support/out/bot{TOKEN}/getUpdates?timeout=50 HTTP/1.1\r\nhost: localhost\r\n\r\n"
            )
            .as_bytes(),
        );
    }
    wait("the platform has them", || (at.arrived().1 == 3).then_some(()));
    let stopped = at.kill(Channels::ALL);
    assert_eq!(stopped.ended.messages, 3);
    assert_eq!(stopped.ended.model_calls, 0);
    wait("their sockets are closed", || (closed.load(Ordering::SeqCst) == 3).then_some(()));
    for wire in &mut polls {
        let reply = wire.reply();
        assert_eq!((reply.status, reply.text().as_str()), (403, BLOCKED));
        assert_eq!(reply.header("x-estop-reason"), Some("system_shutdown"));
    }
}

#[test]
fn ks_10_a_kill_ends_a_webhook_under_way_and_an_upload_and_a_half_sent_answer() {
    let (app, closed) = silent();
    let platform = Raw::start(|socket, _, _| {
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf");
        wait_for_close(socket, &AtomicUsize::new(0));
    });
    let at = between_these(app, platform, "{}", |_| {});
    let address = at.house.address();
    let (mut webhook, mut answer, mut upload) =
        (Wire::open(address), Wire::open(address), Wire::open(address));
    webhook.post("/relay/support/in", "", "{}");
    answer.post("/relay/support/out/x", "", "{}");
    upload.send(b"POST /relay/support/out/y HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\nsome");
    wait("all are under way", || {
        // What other connections bring may stand between its head and that.
        let half = common::http::find(&at.platform.log().bytes, b"some").is_some();
        (at.app.log().requests.len() == 1 && half).then_some(())
    });
    answer.until("half");
    assert_eq!(at.kill(Channels::ALL).ended.messages, 3);
    wait("the app's socket is closed", || (closed.load(Ordering::SeqCst) == 1).then_some(()));
    let reply = webhook.reply();
    assert_eq!((reply.status, reply.text().as_str()), (503, REJECTED));
    let reply = upload.reply();
    assert_eq!((reply.status, reply.text().as_str()), (403, BLOCKED));
    assert!(!answer.reply().whole, "a half answer does not look whole");
}

#[test]
fn ks_10_nothing_passes_after_a_kill_until_it_is_cleared() {
    let at = between();
    at.kill(Channels::ALL);
    let reply = at.post("/relay/support/in/x", "", "{}");
    assert_eq!((reply.status, reply.text().as_str()), (503, REJECTED));
    assert_eq!(reply.header("x-estop-reason"), Some("system_shutdown"));
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let reply = at.post("/relay/support/out/x", "", "{}");
    assert_eq!((reply.status, reply.text().as_str()), (403, BLOCKED));
    // Without a body the connection stays, and stays shut.
    let mut wire = Wire::open(at.house.address());
    for _ in 0..2 {
        wire.send(b"GET /relay/support/out/x HTTP/1.1\r\nhost: localhost\r\n\r\n");
        assert_eq!(wire.reply().status, 403);
    }
    let unlock = |epoch| Unlock { by: "test".into(), epoch, note: None };
    let engine = at.house.engine();
    engine.restart(unlock(engine.button().gate.epoch)).unwrap();
    assert_eq!(at.post("/relay/support/in/x", "", "{}").text(), REJECTED, "shut in safe mode too");
    assert_eq!(at.arrived(), (0, 0));
    engine.clear(unlock(engine.button().gate.epoch)).unwrap();
    assert_eq!(at.post("/relay/support/in/x", "", "{}").text(), "ok");
    assert_eq!(at.arrived(), (1, 0));
    let records = at.house.records();
    let refused = records.iter().filter(|r| r.contains("\"message_") && r.contains("\"refuse\"")).count();
    assert_eq!(refused, 5, "each is written down: {records:#?}");
    assert!(
        records.iter().any(|r| r.starts_with("support ")
            && r.contains(r#"{"type":"message_in","data":{"relay":"support"}}"#))
    );
}

#[test]
fn ks_10_a_kill_closes_connections_that_carry_nothing() {
    let closed: Arc<AtomicUsize> = Arc::default();
    let counted = Arc::clone(&closed);
    let platform = Raw::start(move |socket, _, _| {
        let _ = socket.write_all(OK.as_bytes());
        wait_for_close(socket, &counted);
    });
    let at = between_these(Raw::saying(OK), platform, "{}", |_| {});
    assert_eq!(at.post("/relay/support/out/x", "", "{}").text(), "ok");
    at.kill(Channels::NONE.with(Channel::Llm));
    assert_eq!(at.post("/relay/support/in/x", "", "{}").text(), "ok");
    assert_eq!(closed.load(Ordering::SeqCst), 0, "kept for the next message");
    at.kill(Channels::NONE.with(Channel::Messaging));
    // Half of what an idle connection is kept for: it is not its age that closes it.
    let end = Instant::now() + Duration::from_secs(10);
    while closed.load(Ordering::SeqCst) == 0 {
        assert!(Instant::now() < end, "it is still open");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn ks_1_messaging_and_llm_are_shut_apart() {
    let (ask, path) = (DIALECTS[0].body("hello", false), DIALECTS[0].path("support", false));
    let at = between();
    at.kill(Channels::NONE.with(Channel::Messaging));
    assert_eq!(at.post("/relay/support/out/x", "", "{}").text(), BLOCKED);
    assert_eq!(at.post("/relay/support/in/x", "", "{}").text(), REJECTED);
    assert_eq!(post(at.house.address(), &path, &ask).status, 200, "the same agent's model is not shut");
    assert_eq!(at.arrived(), (0, 0));

    let (platform, closed) = silent();
    let at = between_these(Raw::saying(OK), platform, "{}", |_| {});
    let mut poll = Wire::open(at.house.address());
    poll.post("/relay/support/out/getUpdates", "", "{}");
    wait("it is under way", || (at.arrived().1 == 1).then_some(()));
    assert_eq!(at.kill(Channels::NONE.with(Channel::Llm)).ended.messages, 0);
    assert_eq!(post(at.house.address(), &path, &ask).status, 400);
    assert_eq!(at.post("/relay/support/in/x", "", "{}").text(), "ok");
    assert_eq!(closed.load(Ordering::SeqCst), 0, "the long poll goes on");
    assert_eq!(at.kill(Channels::NONE.with(Channel::Messaging)).ended.messages, 1);
    assert_eq!(poll.reply().text(), BLOCKED);
}

#[test]
fn ks_10_an_agent_that_is_stopped_neither_hears_nor_speaks() {
    let (platform, closed) = silent();
    let at = between_these(Raw::saying(OK), platform, "{}", |_| {});
    let mut poll = Wire::open(at.house.address());
    poll.post("/relay/support/out/getUpdates", "", "{}");
    wait("it is under way", || (at.arrived().1 == 1).then_some(()));
    let (engine, agent) = (at.house.engine(), at.house.engine().agent("support").unwrap());
    engine.apply(&agent, None, EventKind::AgentDeactivated { by: "test".into() });
    wait("its socket is closed", || (closed.load(Ordering::SeqCst) == 1).then_some(()));
    for reply in [poll.reply(), at.post("/relay/support/out/x", "", "{}")] {
        assert_eq!(reply.status, 403);
        assert_eq!(reply.header("x-estop-reason"), Some("agent_inactive"));
        assert!(
            reply
                .text()
                .starts_with(r#"{"status":"blocked","reason":"agent_inactive","message":"Stopped by estop"#)
        );
        assert!(serde_json::from_str::<serde_json::Value>(&reply.text()).is_ok());
    }
    let reply = at.post("/relay/support/in/x", "", "{}");
    assert_eq!(reply.status, 503);
    assert!(reply.text().starts_with(r#"{"status":"rejected","reason":"agent_inactive""#));
    engine.apply(&agent, None, EventKind::AgentActivated { by: "test".into() });
    assert_eq!(at.post("/relay/support/in/x", "", "{}").text(), "ok");
    engine.apply(&agent, None, EventKind::AgentPaused { by: "test".into() });
    let (into, out) = (at.post("/relay/support/in/x", "", "{}"), at.post("/relay/support/out/x", "", "{}"));
    assert_eq!((into.status, out.status), (503, 429));
    assert!(into.text().contains("agent_paused") && out.header("retry-after").is_some());
    assert_eq!(at.arrived(), (1, 1));
}

#[test]
fn po_3_hours_hold_for_messages() {
    let days = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 86_400;
    // The first day of the epoch was a Thursday; this one is three days away, whatever midnight passes.
    let far = ["thu", "fri", "sat", "sun", "mon", "tue", "wed"][(days as usize + 3) % 7];
    let policy = format!(
        r#"{{"agents":{{"support":{{"policy":{{"allowed_hours":{{"days":["{far}"],"from":"00:00","to":"24:00"}}}}}}}}}}"#
    );
    let at = between_with(&policy, |_| {});
    let (into, out) = (at.post("/relay/support/in/x", "", "{}"), at.post("/relay/support/out/x", "", "{}"));
    assert_eq!((into.status, out.status), (503, 403));
    assert!(
        into.text().starts_with(r#"{"status":"rejected","reason":"hours","message":"#),
        "{}",
        into.text()
    );
    assert!(out.text().starts_with(r#"{"status":"blocked","reason":"hours","message":"#), "{}", out.text());
    assert_eq!(at.arrived(), (0, 0));
}

#[test]
fn ks_10_tokens_and_words_are_written_nowhere() {
    let canaries =
        [TOKEN, "xoxb-canary", "canary-words", "canary-query", "k3y-canary", "path-s3cret-of-the-relay"];
    let at = between_with("{}", |settings| {
        settings.relays.get_mut("support").unwrap().secret =
            Some("path-s3cret-of-the-relay".to_owned().into());
        // Nobody listens there.
        settings.relays.insert("gone".into(), relay("gone", None, Some(target(1, ""))));
    });
    let header = "authorization: Bearer xoxb-canary\r\n";
    let mut seen = Vec::new();
    for path in [
        format!("/relay/support/out/bot{TOKEN}/sendMessage?q=canary-query"),
        "/relay/support/in/path-s3cret-of-the-relay/x".to_owned(),
        format!("/relay/support/in/wrong/bot{TOKEN}"),
        format!("/relay/gone/out/bot{TOKEN}/sendMessage"),
        format!("/relay/nobody/out/bot{TOKEN}"),
        format!("/relay/bot{TOKEN}/out"),
        format!("/relay/support/bot{TOKEN}"),
        format!("/relay/support/out/../bot{TOKEN}"),
    ] {
        seen.push(at.post(&path, header, r#"{"text":"canary-words"}"#));
        seen.push(at.post(&path, "x-estop-key: k3y-canary\r\n", r#"{"text":"canary-words"}"#));
    }
    at.kill(Channels::ALL);
    seen.push(at.post(&format!("/relay/support/out/bot{TOKEN}/sendMessage"), header, "canary-words"));
    let statuses: Vec<u16> = seen.iter().map(|reply| reply.status).collect();
    assert_eq!(
        statuses,
        [200, 401, 200, 200, 404, 404, 502, 401, 404, 404, 404, 404, 404, 404, 400, 400, 403]
    );
    let written = at.house.records().join("\n");
    assert!(written.contains("message_out"));
    for canary in canaries {
        assert!(!written.contains(canary), "{canary} was written down: {written}");
        for reply in &seen {
            assert!(
                !format!("{:?}{}", reply.headers, reply.text()).contains(canary),
                "{canary} is in {reply:?}"
            );
        }
    }
}

#[test]
fn ks_10_no_path_leads_elsewhere() {
    let other = Raw::saying(OK);
    let port = other.port();
    let at = between_with("{}", |settings| {
        settings.relays.insert("hr".into(), relay("hr", None, Some(target(port, "/private"))));
    });
    for (path, status) in [
        ("/relay", 404),
        ("/relay/", 404),
        ("/relay/support", 404),
        ("/relay/support/", 404),
        ("/relay/support/up", 404),
        ("/relay/support/inx", 404),
        ("/relay/support/%69n/x", 404),
        ("/relay/supp%6frt/in/x", 404),
        ("/relay//in/x", 404),
        ("//relay/support/in/x", 404),
        ("/%72elay/support/in/x", 404),
        ("/RELAY/support/in/x", 404),
        ("/agents/a/relay/support/in/x", 404),
        ("/relay/hr/in/x", 404),
        ("/relay/support/out/../../hr/out/x", 400),
        ("/relay/support/out/..", 400),
        ("/relay/support/out/%2e%2e/x", 400),
        ("/relay/support/out/.%2E/x", 400),
        ("/relay/support/out/a%2f..%2fb", 400),
        ("/relay/support/out/a%5c..%5cb", 400),
        ("/relay/support/out/..;/x", 400),
        ("/relay/support/out/./x", 400),
        ("http://127.0.0.1/relay/support/out/x", 400),
        ("http://169.254.169.254/relay/support/in/x", 400),
    ] {
        let reply = at.post(path, "", "{}");
        assert_eq!(reply.status, status, "{path}: {}", reply.text());
        assert!(serde_json::from_str::<serde_json::Value>(&reply.text()).is_ok(), "{path}: {}", reply.text());
    }
    assert_eq!(at.arrived(), (0, 0));
    assert!(other.log().requests.is_empty());
    // What only looks like a way out stays below the target's own path.
    for (path, line) in [
        ("/relay/support/out//evil.example/x", "/api//evil.example/x"),
        ("/relay/support/out/@evil.example/x", "/api/@evil.example/x"),
        ("/relay/support/out/http://evil.example/x", "/api/http://evil.example/x"),
        ("/relay/support/out/a%2Fb%3Fc", "/api/a%2Fb%3Fc"),
        ("/relay/support/out/...", "/api/..."),
        ("/relay/support/out?url=http://evil", "/api?url=http://evil"),
    ] {
        assert_eq!(at.post(path, "x-forwarded-host: evil.example\r\n", "{}").text(), "ok", "{path}");
        assert_eq!(at.platform.log().requests.last().unwrap().line(), format!("POST {line} HTTP/1.1"));
    }
    let unknown = at.post("/relay/nobody/out/x", "", "{}").text();
    assert!(unknown.contains("unknown_relay") && unknown.contains("hr, support"), "{unknown}");
    let no_in = at.post("/relay/hr/in/x", "", "{}").text();
    assert!(no_in.contains("no `in`"), "{no_in}");
    assert_eq!(post(at.house.address(), "/relay/hr/out/x", "{}").text(), "ok");
    assert_eq!(other.log().requests[0].line(), "POST /private/x HTTP/1.1");
}

#[test]
fn an_4_websockets_are_no_side_door() {
    let at = between();
    for way in ["in", "out"] {
        let mut wire = Wire::open(at.house.address());
        wire.send(
            format!(
                "GET /relay/support/{way}/link HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
                 sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )
            .as_bytes(),
        );
        let reply = wire.reply();
        assert_eq!(reply.status, 426);
        assert!(reply.text().contains("Socket Mode"), "{}", reply.text());
    }
    // An upstream that switches all the same is not followed.
    assert_eq!(at.arrived(), (0, 0));
    let platform =
        Raw::saying("HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n");
    let at = between_these(Raw::saying(OK), platform, "{}", |_| {});
    assert_eq!(at.post("/relay/support/out/x", "", "{}").status, 502);
}

#[test]
fn id_2_what_goes_out_needs_the_agents_key_where_keys_are_required() {
    let key = |agent: &str, key: &str| AgentKey { agent: agent.into(), key: key.to_owned().into() };
    let at = between_with("{}", |settings| {
        settings.keys = vec![key("support", "k-support"), key("other", "k-other")];
        settings.require_keys = true;
    });
    let platforms = "authorization: Bearer xoxb-1\r\n";
    for (extra, status, reason) in [
        ("", 401, "key_missing"),
        (platforms, 401, "key_missing"),
        ("x-estop-key: nobodys\r\n", 401, "key_unknown"),
        ("x-estop-key: k-other\r\n", 403, "key_of_another"),
        ("authorization: Bearer k-other\r\n", 403, "key_of_another"),
    ] {
        let reply = at.post("/relay/support/out/x", extra, "{}");
        assert_eq!((reply.status, reply.header("x-estop-reason")), (status, Some(reason)), "{extra}");
    }
    assert_eq!(at.arrived(), (0, 0));
    let both = format!("x-estop-key: k-support\r\n{platforms}");
    assert_eq!(at.post("/relay/support/out/x?key=k-support&a=1", &both, "{}").text(), "ok");
    assert_eq!(at.post("/relay/support/out/x", "authorization: Bearer k-support\r\n", "{}").text(), "ok");
    let log = at.platform.log();
    assert_eq!(log.requests[0].values("authorization"), ["Bearer xoxb-1"]);
    assert_eq!(log.requests[0].line(), "POST /api/x?a=1 HTTP/1.1");
    assert!(!String::from_utf8_lossy(&log.bytes).contains("k-support"), "an estop key travelled on");
    // A platform cannot hold one.
    assert_eq!(at.post("/relay/support/in/x", "x-estop-key: nobodys\r\n", "{}").text(), "ok");
    assert!(!String::from_utf8_lossy(&at.app.log().bytes).contains("nobodys"));
}

#[test]
fn ks_10_what_comes_in_can_need_a_secret_in_its_path() {
    let secret = "0123456789abcdef0123456789abcdef";
    let at = between_with("{}", |settings| {
        settings.relays.get_mut("support").unwrap().secret = Some(secret.to_owned().into());
    });
    for wrong in
        ["", "/", "/x", &format!("/{secret}x"), &format!("/x/{secret}"), &format!("//{secret}"), "/%30"]
    {
        let reply = at.post(&format!("/relay/support/in{wrong}"), "", "{}");
        assert_eq!((reply.status, reply.header("x-estop-reason")), (404, Some("unknown_path")), "{wrong}");
    }
    assert_eq!(at.arrived(), (0, 0));
    for (path, line) in
        [("", "/hook"), ("/", "/hook/"), ("/events?a=1", "/hook/events?a=1"), ("?a=1", "/hook?a=1")]
    {
        assert_eq!(at.post(&format!("/relay/support/in/{secret}{path}"), "", "{}").text(), "ok");
        assert_eq!(at.app.log().requests.last().unwrap().line(), format!("POST {line} HTTP/1.1"));
    }
    assert!(!String::from_utf8_lossy(&at.app.log().bytes).contains(secret));
    assert_eq!(at.post("/relay/support/out/x", "", "{}").text(), "ok", "what goes out has no use for it");
}

#[test]
fn st_3_messages_are_limited_in_number_and_size() {
    let (app, closed) = silent();
    let at = between_these(app, Raw::saying(OK), "{}", |settings| {
        settings.relays.get_mut("support").unwrap().concurrency = 2;
        settings.limits.body_bytes = 1_000;
        settings.limits.upload_bytes = 2_000;
    });
    let address = at.house.address();
    let mut held: Vec<Wire> = (0..2).map(|_| Wire::open(address)).collect();
    held.iter_mut().for_each(|wire| wire.post("/relay/support/in", "", "{}"));
    wait("both are under way", || (at.arrived().0 == 2).then_some(()));
    let shed = at.post("/relay/support/in", "", "{}");
    assert_eq!((shed.status, shed.header("x-estop-reason")), (503, Some("overload")));
    assert_eq!(shed.header("retry-after"), Some("1"));
    assert_eq!(
        at.post("/relay/support/out/x", "", "{}").text(),
        "ok",
        "a flood from outside leaves the other way free"
    );
    // A client that goes away gives its place back, and its target is told.
    drop(held.pop());
    wait("its socket is closed", || (closed.load(Ordering::SeqCst) == 1).then_some(()));
    let mut next = Wire::open(address);
    wait("there is a place again", || {
        next = Wire::open(address);
        next.post("/relay/support/in", "", "{}");
        wait("it arrives, or is shed", || {
            let arrived = at.arrived().0 == 3;
            let _ = next.socket.set_read_timeout(Some(Duration::from_millis(5)));
            let shed = matches!(next.socket.peek(&mut [0]), Ok(1));
            (arrived || shed).then_some(arrived)
        })
        .then_some(())
    });

    for (way, max) in [("in", 1_000), ("out", 2_000)] {
        let at = between_with("{}", |settings| {
            settings.limits.body_bytes = 1_000;
            settings.limits.upload_bytes = 2_000;
        });
        let path = format!("/relay/support/{way}/x");
        assert_eq!(at.post(&path, "", &"x".repeat(max)).text(), "ok");
        let reply = at.post(&path, "", &"x".repeat(max + 1));
        assert_eq!((reply.status, reply.header("x-estop-reason")), (413, Some("body_too_large")), "{way}");
        let mut wire = Wire::open(at.house.address());
        let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n");
        wire.send(format!("{head}{:x}\r\n{}\r\n0\r\n\r\n", max + 1, "x".repeat(max + 1)).as_bytes());
        let reply = wire.reply();
        assert_eq!(
            (reply.status, reply.header("x-estop-reason")),
            (413, Some("body_too_large")),
            "{way}, in chunks"
        );
        let whole = at.app.log().requests.len() + at.platform.log().requests.len();
        assert_eq!(whole, 1, "{way}: only the one that fits arrived whole");
    }
}

#[test]
fn ks_10_a_client_that_goes_away_ends_its_message() {
    let (platform, closed) = silent();
    let at = between_these(Raw::saying(OK), platform, "{}", |_| {});
    let mut poll = Wire::open(at.house.address());
    poll.send(b"GET /relay/support/out/getUpdates HTTP/1.1\r\nhost: localhost\r\n\r\n");
    wait("it is under way", || (at.arrived().1 == 1).then_some(()));
    poll.socket.shutdown(Shutdown::Both).unwrap();
    wait("its socket is closed", || (closed.load(Ordering::SeqCst) == 1).then_some(()));
    wait("it is off the list", || {
        (at.house.engine().agent("support").unwrap().in_flight_requests.count() == 0).then_some(())
    });
}

#[test]
fn ks_10_targets_that_do_not_answer_are_named_as_such() {
    let (platform, _) = silent();
    let at = between_these(Raw::saying_then_closing(""), platform, "{}", |settings| {
        settings.limits.first_byte_timeout = Duration::from_millis(50);
        settings.relays.insert("gone".into(), relay("gone", Some(target(1, "")), None));
    });
    for (path, status, reason, who) in [
        ("/relay/support/out/x", 504, "upstream_timeout", "The platform"),
        ("/relay/support/in/x", 502, "upstream_unreachable", "The app"),
        ("/relay/gone/in/x", 502, "upstream_unreachable", "The app"),
    ] {
        let reply = at.post(path, "", "{}");
        assert_eq!(
            (reply.status, reply.header("x-estop-reason")),
            (status, Some(reason)),
            "{}",
            reply.text()
        );
        assert!(
            reply.text().starts_with(r#"{"status":"failed""#) && reply.text().contains(who),
            "{}",
            reply.text()
        );
        assert_eq!(reply.header("connection"), Some("close"), "what its client still sends is not read");
    }
}

#[test]
fn ks_10_a_shut_channel_says_so_to_a_message_of_any_size() {
    let at = between_with("{}", |settings| {
        (settings.limits.body_bytes, settings.limits.upload_bytes) = (1_000, 1_000);
    });
    at.kill(Channels::NONE.with(Channel::Messaging));
    for (way, status, body) in [("in", 503, REJECTED), ("out", 403, BLOCKED)] {
        let reply = at.post(&format!("/relay/support/{way}/x"), "", &"x".repeat(2_000));
        assert_eq!((reply.status, &*reply.text()), (status, body));
    }
}

#[test]
fn ks_10_webhooks_come_by_tunnels_and_not_from_web_pages() {
    let at = between();
    let ask = |way: &str, host: &str, method: &str, extra: &str| {
        let mut wire = Wire::open(at.house.address());
        wire.send(
            format!(
                "{method} /relay/support/{way}/x HTTP/1.1\r\nhost: {host}\r\n{extra}content-length: 0\r\n\r\n"
            )
            .as_bytes(),
        );
        wire.reply().status
    };
    assert_eq!(ask("in", "bot.example.com", "POST", ""), 200, "the name the platform knows");
    assert_eq!(ask("out", "bot.example.com", "POST", ""), 421, "apps are on this machine");
    assert_eq!(ask("neither", "bot.example.com", "POST", ""), 421);
    assert_eq!(ask("in", "a@b", "POST", ""), 400);
    for way in ["in", "out"] {
        assert_eq!(ask(way, "localhost", "POST", "sec-fetch-site: cross-site\r\n"), 403);
        assert_eq!(ask(way, "localhost", "POST", "sec-fetch-site: same-site\r\n"), 403);
    }
    assert_eq!(
        ask("in", "localhost", "GET", "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n"),
        200,
        "sent back from a sign-in"
    );
    assert_eq!(
        ask("in", "localhost", "GET", "sec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n"),
        403
    );
    assert_eq!(ask("in", "localhost", "POST", "origin: https://evil.example\r\n"), 403);
    assert_eq!(at.arrived(), (2, 0));
}

#[test]
fn ks_10_messages_are_the_relays_agents_and_counted_by_nobody_else() {
    let at = between_with(r#"{"policy":{"rate_limit":{"requests_per_minute":3}}}"#, |settings| {
        settings.relays.get_mut("support").unwrap().agent = "chatty".into();
    });
    for _ in 0..5 {
        assert_eq!(at.post("/relay/support/in/x", "", "{}").text(), "ok");
    }
    // Until the journal has them all, not only the first.
    let found = at.house.find_all(
        5,
        |record| matches!(what(record), Some(EventKind::MessageIn { relay }) if &**relay == "support"),
    );
    assert!(found, "not every message was written down");
    let records = at.house.records();
    let of = records.iter().filter(|record| record.contains("message_in")).collect::<Vec<_>>();
    assert_eq!(of.len(), 5);
    assert!(of.iter().all(|record| record.starts_with("chatty ")));
    assert!(
        !records.iter().any(|record| record.contains("stream_aborted")),
        "a message has no account to settle"
    );
    let chat = &DIALECTS[0];
    assert_eq!(post(at.house.address(), &chat.path("chatty", false), &chat.body("hi", false)).status, 200);
}

#[test]
fn ks_10_a_kill_ends_messages_to_one_platform() {
    let model = FakeModel::start(Default::default()).unwrap();
    let platform = target(model.addr().port(), "");
    let house = House::on(model, "{}", |settings| {
        settings.relays.insert("two".into(), relay("two", None, Some(platform)));
    });
    house.model.always(Said { hold: Some(Hold::Headers), ..Said::default() });
    let ask = r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;
    let mut wires: Vec<Wire> = (0..2).map(|_| Wire::open(house.address())).collect();
    wires.iter_mut().for_each(|wire| wire.post("/relay/two/out/v1/chat/completions", "", ask));
    assert!(house.model.wait_for_requests(2, PATIENCE));
    let stopped = house.engine().kill(Press::new(KillReason::Manual, "test", "test"));
    assert_eq!(stopped.ended.messages, 2);
    for (number, wire) in [1, 2].into_iter().zip(&mut wires) {
        assert!(house.model.wait_for_end(number, PATIENCE).is_some(), "the platform still works");
        assert_eq!(wire.reply().text(), BLOCKED);
    }
}

#[test]
fn ks_10_http_2_comes_in_too() {
    let at = between();
    let mut two = Two::open(at.house.address());
    let head = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "bot.example.com"),
        (":path", "/relay/support/in/x"),
    ];
    two.headers(1, true, &head);
    assert_eq!(two.end_of(1).0, End::Status(200));
    at.kill(Channels::ALL);
    two.headers(3, true, &head);
    assert_eq!(two.end_of(3).0, End::Status(503));
    assert_eq!(at.arrived(), (1, 0));
}

/// A store that has nothing, and does not answer while it hangs.
#[derive(Default)]
struct HangingStore {
    begun: AtomicUsize,
    hangs: Mutex<bool>,
    changed: Condvar,
}

impl States for HangingStore {
    fn fetch(&self, _: &str, _: u64) -> Option<Snapshot> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        drop(self.changed.wait_while(self.hangs.lock().unwrap(), |hangs| *hangs).unwrap());
        None
    }
}

/// Lets the store go on, whatever becomes of the test: the gateway could not end otherwise.
struct LetGo(Arc<HangingStore>);

impl Drop for LetGo {
    fn drop(&mut self) {
        *self.0.hangs.lock().unwrap() = false;
        self.0.changed.notify_all();
    }
}

/// The state of an agent at rest is read on another thread: the only worker serves everybody else meanwhile.
#[test]
fn ks_10_a_relay_whose_agent_is_read_from_a_hanging_disk_holds_up_nobody() {
    let platform = Raw::saying(OK);
    let dialect = &DIALECTS[0];
    for path in ["/relay/support/out/x".to_owned(), dialect.path("support", false)] {
        let store = Arc::new(HangingStore::default());
        let at_rest = BTreeMap::from([("support".into(), Evicted { told: 1, deleted: false })]);
        let states: Arc<dyn States> = Arc::<HangingStore>::clone(&store);
        let remembered =
            RestoredState { evicted: EvictedAgents::new(at_rest, states), ..RestoredState::default() };
        let model = FakeModel::start(Default::default()).unwrap();
        let house = House::remembering(model, "{}", JournalQueue::default(), remembered, |settings| {
            settings.workers = 1;
            let out = target(platform.port(), "/api");
            settings.relays.insert("support".into(), relay("support", None, Some(out)));
        });
        // At the start the agents of relays are read, too.
        let begun = store.begun.load(Ordering::SeqCst);
        let let_go = LetGo(Arc::clone(&store));
        *store.hangs.lock().unwrap() = true;
        let mut waiting = Wire::open(house.address());
        waiting.post(&path, "", &dialect.body("hello", false));
        wait("the store is asked", || (store.begun.load(Ordering::SeqCst) > begun).then_some(()));
        let reply = post(house.address(), &dialect.path("other", false), &dialect.body("hello", false));
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        drop(let_go);
        let refused = waiting.reply();
        assert!(refused.status >= 400, "{path}: whose state cannot be read is not let in: {refused:?}");
        assert_eq!(platform.log().requests.len(), 0, "{path}");
    }
}
