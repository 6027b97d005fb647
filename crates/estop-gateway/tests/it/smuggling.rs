//! Request smuggling (ST-3, row H4): whatever bytes a client writes, one front request is at most one upstream request,
//! and what two readers could understand in two ways reaches no upstream at all.
//!
//! The corpora are data: `smuggling/one.txt` for HTTP/1.1, a table below for HTTP/2. Each case of HTTP/1.1 is played
//! against the fake model, which counts, and against a listener that records every byte and takes only what a
//! strict server takes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common;
use std::net::{Shutdown, SocketAddr};

use crate::common::http::{Reply, Wire};
use crate::common::raw::Raw;
use crate::common::two::{End, Two};
use crate::common::{House, aim};
use estop_fake_model::script::Reply as Said;

/// The path of a request that no client may get upstream unless it asked for it by itself.
const HIDDEN_PATH: &str = "/openai/v1/hidden";
/// Such a request.
const HIDDEN: &str = "GET /openai/v1/hidden HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
/// A body that every path takes.
const BODY: &str = r#"{"messages":[]}"#;
/// An honest request that comes last on a connection: it must be answered next, and arrive upstream next.
const SENTINEL: &str = "GET /openai/v1/sentinel HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

/// One case: what is written, and what must come of it.
#[derive(Clone, Debug)]
struct Case {
    name: String,
    send: Vec<u8>,
    /// The statuses of the answers, in order; 0 = closed without one.
    statuses: Vec<u16>,
    /// The bodies of the requests that arrive upstream, in order.
    upstream: Vec<String>,
    after: After,
}

/// What becomes of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// It is closed, whatever else was written.
    Closed,
    /// It goes on with the next request.
    Open,
    /// The client ends its side in the middle of the request.
    Unfinished,
}

/// Reads a corpus: `== name -> statuses; bodies upstream; after`, then the bytes. Lines end in CR LF, except after `\`.
fn corpus(text: &str, paths: &[&str]) -> Vec<Case> {
    let mut cases = Vec::new();
    for section in text.split("\n== ").skip(1) {
        let (title, bytes) = section.split_once('\n').unwrap();
        let (name, expected) = title.split_once(" -> ").unwrap();
        let mut expected = expected.split(';').map(str::trim);
        let mut next = || expected.next().unwrap_or_default();
        let statuses = next().split(' ').map(|status| status.parse().unwrap()).collect::<Vec<u16>>();
        let upstream: Vec<String> = next().split_whitespace().map(named_body).collect();
        let after = match next() {
            "open" => After::Open,
            "unfinished" => After::Unfinished,
            "" | "closed" => After::Closed,
            other => panic!("{name}: {other}"),
        };
        let takes_path = bytes.contains("{path}");
        for path in if takes_path { paths } else { &paths[..1] } {
            let agent = format!("c{}", cases.len());
            let full = format!("/agents/{agent}{path}");
            let name = if takes_path { format!("{name} ({path})") } else { name.to_owned() };
            let send = bytes_of(bytes, &full);
            cases.push(Case { name, send, statuses: statuses.clone(), upstream: upstream.clone(), after });
        }
    }
    cases
}

fn named_body(name: &str) -> String {
    match name {
        "body" => BODY.to_owned(),
        "empty" => String::new(),
        "hidden" => HIDDEN.to_owned(),
        other => other.to_owned(),
    }
}

/// The bytes a section of the corpus stands for.
fn bytes_of(section: &str, path: &str) -> Vec<u8> {
    let mut text = String::new();
    for (at, line) in section.split('\n').enumerate() {
        if at > 0 && !text.ends_with('\u{1}') {
            text.push_str("\r\n");
        }
        if text.ends_with('\u{1}') {
            text.pop();
        }
        // A line that ends in a backslash ends there, without a line end.
        match line.strip_suffix('\\') {
            Some(line) => {
                text.push_str(line);
                text.push('\u{1}');
            }
            None => text.push_str(line),
        }
    }
    let text = text.trim_end_matches('\u{1}').replace("{path}", path).replace("{hidden}", HIDDEN);
    let text = text.replace("{hidden length}", &HIDDEN.len().to_string());
    expand(&text.replace("{hidden size}", &format!("{:x}", HIDDEN.len())).replace("{body}", BODY))
}

/// Expands `<hex>` to a byte and `<text*count>` to a repetition.
fn expand(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        bytes.extend_from_slice(before.as_bytes());
        let (inside, after) = after.split_once('>').unwrap();
        match inside.rsplit_once('*') {
            Some((text, count)) => bytes.extend(text.repeat(count.parse().unwrap()).bytes()),
            None => bytes.push(u8::from_str_radix(inside, 16).unwrap()),
        }
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// Writes a case and reads what comes: the statuses, and whether the connection was closed.
fn play(address: SocketAddr, case: &Case) -> (Vec<u16>, bool) {
    let mut wire = Wire::open(address);
    wire.send(&case.send);
    if case.after == After::Unfinished {
        let _ = wire.socket.shutdown(Shutdown::Write);
    }
    let mut statuses = Vec::new();
    let next = |wire: &mut Wire| loop {
        let reply = final_reply(wire);
        if reply.status != 100 {
            return reply.status;
        }
    };
    for _ in &case.statuses {
        statuses.push(next(&mut wire));
    }
    match case.after {
        After::Open => {
            wire.send(SENTINEL.as_bytes());
            let answered = next(&mut wire);
            (statuses, answered != 200)
        }
        After::Closed | After::Unfinished => {
            let closed = statuses.last() == Some(&0) || wire.is_closed();
            (statuses, closed)
        }
    }
}

/// The next answer; interim ones have no body.
fn final_reply(wire: &mut Wire) -> Reply {
    match wire.head() {
        None => Reply::default(),
        Some(head) if head.status < 200 => Reply { status: head.status, ..Reply::default() },
        Some(head) => wire.body_of(head),
    }
}

/// What arrived upstream: method and path with the body, of requests that came whole.
type Arrived = Vec<(String, String)>;

fn judge(case: &Case, played: &(Vec<u16>, bool), mut arrived: Arrived) -> Result<(), String> {
    let (statuses, closed) = played;
    let fail = |what: &str| Err(format!("{}: {what}; {played:?}, upstream {arrived:?}", case.name));
    if statuses != &case.statuses {
        return fail("other answers than expected");
    }
    if *closed != (case.after != After::Open) {
        return fail("the connection did not end as expected");
    }
    let asked_openly = case.name.starts_with("pipelined");
    if !asked_openly && arrived.iter().any(|(path, _)| path.contains("hidden")) {
        return fail("the hidden request arrived");
    }
    if case.after == After::Open {
        match arrived.pop() {
            Some((path, _)) if path.ends_with("/v1/sentinel") => {}
            other => return Err(format!("{}: not the sentinel came last but {other:?}", case.name)),
        }
    }
    let bodies: Vec<&str> = arrived.iter().map(|(_, body)| body.as_str()).collect();
    if bodies != case.upstream {
        return Err(format!("{}: upstream got {arrived:?}; {played:?}", case.name));
    }
    Ok(())
}

/// All cases must pass; all that do not are shown.
fn all(results: Vec<Result<(), String>>) {
    let count = results.len();
    let failed: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    assert!(failed.is_empty(), "{} of {count} cases failed:\n{}", failed.len(), failed.join("\n"));
    println!("{count} cases");
}

fn cases_of_one() -> Vec<Case> {
    let cases =
        corpus(include_str!("smuggling/one.txt"), &["/openai/v1/files", "/openai/v1/chat/completions"]);
    assert!(cases.len() >= 60, "{} cases are too few", cases.len());
    // Some servers skip a line end before a request, and others refuse it: both ways are tried.
    let after_line_end = |case: &Case| Case {
        name: format!("{} (behind a line end)", case.name),
        send: [b"\r\n", &*case.send].concat(),
        ..case.clone()
    };
    let others: Vec<Case> = cases.iter().map(after_line_end).collect();
    cases.into_iter().chain(others).collect()
}

#[test]
fn st_3_h4_one_front_request_is_at_most_one_upstream_request() {
    let house = House::new();
    let cases = cases_of_one();
    let results = cases.iter().map(|case| {
        house.model.reset();
        house.model.always(Said { body: Some("ok".into()), ..Said::default() });
        let played = play(house.address(), case);
        let whole = house.model.seen().into_iter().filter(|seen| seen.body_read);
        let arrived = whole.map(|seen| (seen.path, seen.body)).collect();
        judge(case, &played, arrived)
    });
    all(results.collect());
}

#[test]
fn st_3_h4_a_strict_upstream_is_sent_nothing_it_could_misread() {
    let raw = Raw::saying("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let house = House::build("{}", |settings| aim(settings, raw.port()));
    let cases = cases_of_one();
    let results = cases.iter().map(|case| {
        raw.reset();
        let played = play(house.address(), case);
        let log = raw.log();
        if !log.faults.is_empty() {
            return Err(format!("{}: {:?}", case.name, log.faults));
        }
        let path = |line: &str| line.split(' ').nth(1).unwrap_or_default().to_owned();
        let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
        let arrived = log.requests.iter().map(|r| (path(r.line()), text(&r.body))).collect();
        for request in &log.requests {
            let never =
                ["transfer-encoding", "connection", "upgrade", "te", "trailer", "expect", "keep-alive"];
            let sent: Vec<&&str> = never
                .iter()
                .filter(|name| !request.values(name).is_empty())
                .filter(|name| **name != "transfer-encoding" || request.values(name) != ["chunked"])
                .collect();
            if !sent.is_empty() || request.values("host") != [format!("127.0.0.1:{}", raw.port())] {
                return Err(format!("{}: {sent:?} sent upstream: {}", case.name, request.head));
            }
        }
        judge(case, &played, arrived)
    });
    all(results.collect());
}

#[test]
fn st_3_h4_hop_by_hop_tricks_cannot_change_how_a_body_is_framed() {
    let raw = Raw::saying("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let house = House::build("{}", |settings| aim(settings, raw.port()));
    let named = "content-length, transfer-encoding, host, content-type, x-estop-agent";
    for path in ["/openai/v1/files", "/openai/v1/chat/completions"] {
        let mut wire = Wire::open(house.address());
        wire.post(path, &format!("connection: {named}\r\nx-secret: kept\r\n"), BODY);
        assert_eq!(wire.reply().status, 200, "{path}");
        let request = raw.log().requests.pop().unwrap();
        assert_eq!(request.body, BODY.as_bytes(), "{path}");
        assert_eq!(request.values("content-length"), ["15"], "{path}: {}", request.head);
        assert_eq!(request.values("x-secret"), ["kept"], "{path}");
    }
    assert_eq!(raw.log().faults, Vec::<String>::new());
}

/// An upstream that says more than it was asked must not answer the next client's request with it.
#[test]
fn st_3_h4_bytes_after_an_answer_are_never_the_next_clients_answer() {
    let evil = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil";
    for announced in ["content-length: 2\r\n\r\nok", "transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"]
    {
        for extra in [evil, "rubbish", "\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n"] {
            let raw = Raw::saying(format!("HTTP/1.1 200 OK\r\n{announced}{extra}"));
            let house = House::build("{}", |settings| {
                settings.workers = 1;
                aim(settings, raw.port());
            });
            for at in 0..20 {
                let reply = common::http::post(house.address(), "/openai/v1/files", BODY);
                assert_eq!((reply.status, reply.text().as_str()), (200, "ok"), "{extra:?}, request {at}");
            }
        }
    }
}

/// What a client of HTTP/2 writes: header fields, body, and what must come of it.
struct Framed {
    name: &'static str,
    fields: Vec<(&'static str, &'static str)>,
    body: Option<&'static str>,
    expect: Want,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    /// Answered by the model, once.
    Once,
    /// Refused with this status; nothing upstream.
    Refused(u16),
    /// Refused with 400, or reset, or the connection is given up; nothing upstream.
    Not,
}

const METHOD: (&str, &str) = (":method", "POST");
const SCHEME: (&str, &str) = (":scheme", "http");
const PATH: (&str, &str) = (":path", "/openai/v1/files");
const AUTHORITY: (&str, &str) = (":authority", "127.0.0.1");

/// The usual four, then these.
fn with(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    [&[METHOD, SCHEME, PATH, AUTHORITY], more].concat()
}

/// The usual four with one in place of the one of its name.
fn but(other: (&'static str, &'static str)) -> Vec<(&'static str, &'static str)> {
    with(&[]).into_iter().map(|field| if field.0 == other.0 { other } else { field }).collect()
}

/// The usual four without one.
fn without(name: &str) -> Vec<(&'static str, &'static str)> {
    with(&[]).into_iter().filter(|field| field.0 != name).collect()
}

fn cases_of_two() -> Vec<Framed> {
    use Want::{Not, Once, Refused};
    let case = |name, fields, body, expect| Framed { name, fields, body, expect };
    let body = Some(BODY);
    vec![
        case("honest", with(&[]), body, Once),
        case("honest, with its length", with(&[("content-length", "15")]), body, Once),
        case("no body", with(&[]), None, Once),
        case("te: trailers", with(&[("te", "trailers")]), body, Once),
        case("host alone", [without(":authority"), vec![("host", "127.0.0.1")]].concat(), body, Once),
        case("host and authority agree", with(&[("host", "127.0.0.1")]), body, Once),
        case("host and authority differ", with(&[("host", "localhost")]), body, Refused(400)),
        case("a foreign host behind a good authority", with(&[("host", "evil.example")]), body, Refused(400)),
        case("two hosts", with(&[("host", "127.0.0.1"), ("host", "127.0.0.1")]), body, Refused(400)),
        case("no host at all", without(":authority"), body, Refused(400)),
        case("foreign authority", but((":authority", "evil.example")), body, Refused(421)),
        case("authority with a user", but((":authority", "u@127.0.0.1")), body, Not),
        case("authority with a path", but((":authority", "127.0.0.1/x?#")), body, Not),
        case("empty authority", but((":authority", "")), body, Not),
        case("two authorities", with(&[(":authority", "127.0.0.1")]), body, Not),
        case("no path", without(":path"), body, Not),
        case("empty path", but((":path", "")), body, Not),
        case("path without slash", but((":path", "openai/v1/files")), body, Not),
        case("path is a URL", but((":path", "http://evil.example/openai/v1/files")), body, Not),
        case("path is a star", but((":path", "*")), body, Not),
        case("path with a space", but((":path", "/openai/v1/files HTTP/1.1")), body, Not),
        case("path with line ends", but((":path", "/openai/v1/files\r\nx: y\r\n\r\n")), body, Not),
        case("path with dot segments", but((":path", "/openai/v1/../../x")), body, Refused(400)),
        case("two paths", with(&[(":path", "/openai/v1/hidden")]), body, Not),
        case("no method", without(":method"), body, Not),
        case("method with a space", but((":method", "GET /openai/v1/hidden HTTP/1.1")), body, Not),
        case("method with line ends", but((":method", "GET / HTTP/1.1\r\nHost: x\r\n\r\nPOST")), body, Not),
        case("CONNECT", vec![(":method", "CONNECT"), (":authority", "evil.example:443")], None, Not),
        case("CONNECT with a path", but((":method", "CONNECT")), None, Not),
        case("CONNECT for a WebSocket", connect_websocket(), None, Not),
        case("TRACE", but((":method", "TRACE")), None, Refused(405)),
        case("no scheme", without(":scheme"), body, Not),
        case("scheme with a URL", but((":scheme", "http://evil.example/?")), body, Not),
        case("unknown pseudo-header", with(&[(":evil", "x")]), body, Not),
        case("status in a request", with(&[(":status", "200")]), body, Not),
        case("pseudo-header after a header", [vec![("x", "y")], with(&[])].concat(), body, Not),
        case("transfer-encoding", with(&[("transfer-encoding", "chunked")]), body, Not),
        case("connection", with(&[("connection", "close")]), body, Not),
        case("keep-alive", with(&[("keep-alive", "timeout=5")]), body, Not),
        case("proxy-connection", with(&[("proxy-connection", "keep-alive")]), body, Not),
        case("upgrade", with(&[("upgrade", "websocket")]), body, Not),
        case("te: gzip", with(&[("te", "gzip")]), body, Not),
        case("upper case", with(&[("X-Evil", "x")]), body, Not),
        case("name with a space", with(&[("x evil", "x")]), body, Not),
        case("name with a colon", with(&[("x:evil", "x")]), body, Not),
        case("name with line ends", with(&[("x\r\nhost", "x")]), body, Not),
        case("empty name", with(&[("", "x")]), body, Not),
        case("value with line ends", with(&[("x", "a\r\nhost: evil")]), body, Not),
        case("value with a line feed", with(&[("x", "a\nhost: evil")]), body, Not),
        case("value with NUL", with(&[("x", "a\0b")]), body, Not),
        case("shorter than announced", with(&[("content-length", "16")]), body, Not),
        case("longer than announced", with(&[("content-length", "14")]), body, Not),
        case("announced empty", with(&[("content-length", "0")]), body, Not),
        case("announced and not sent", with(&[("content-length", "15")]), None, Not),
        case("length with a plus", with(&[("content-length", "+15")]), body, Not),
        case("length twice in one", with(&[("content-length", "15,15")]), body, Not),
        case("two lengths", with(&[("content-length", "15"), ("content-length", "1")]), body, Not),
        case("length of 2^63", with(&[("content-length", "9223372036854775808")]), body, Not),
        case("length of 2^64", with(&[("content-length", "18446744073709551616")]), body, Not),
    ]
}

fn connect_websocket() -> Vec<(&'static str, &'static str)> {
    [but((":method", "CONNECT")), vec![(":protocol", "websocket")]].concat()
}

#[test]
fn st_3_h4_http_2_cannot_smuggle_into_http_1() {
    let raw = Raw::saying("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let house = House::build("{}", |settings| aim(settings, raw.port()));
    let mut results = Vec::new();
    for path in ["/openai/v1/files", "/openai/v1/chat/completions"] {
        for case in cases_of_two() {
            raw.reset();
            let usual =
                |field: (&'static str, &'static str)| if field == PATH { (":path", path) } else { field };
            let fields: Vec<_> = case.fields.iter().copied().map(usual).collect();
            let mut two = Two::open(house.address());
            two.headers(1, case.body.is_none(), &fields);
            if let Some(body) = case.body {
                two.data(1, true, body.as_bytes());
            }
            let (end, _) = two.end_of(1);
            let log = raw.log();
            let got = |count: usize| log.requests.len() == count && log.faults.is_empty();
            // A chat without a body is refused, an unknown path needs none.
            let needs_body = case.body.is_none() && path.ends_with("completions");
            let fine = match case.expect {
                Want::Once if needs_body => end == End::Status(400) && got(0),
                Want::Once => end == End::Status(200) && got(1),
                Want::Refused(status) => end == End::Status(status) && got(0),
                Want::Not => !matches!(end, End::Status(status) if status < 400) && got(0),
            };
            let say = || format!("{} ({path}): {end:?}, {:?}, {:?}", case.name, log.requests, log.faults);
            results.push(if fine { Ok(()) } else { Err(say()) });
        }
    }
    all(results);
}

/// Frames that no client writes; the connection may go, the others must not notice.
#[test]
fn st_3_h4_broken_frames_end_their_own_connection_only() {
    use common::two::{CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, WINDOW_UPDATE, block};
    let house = House::new();
    house.model.always(Said { body: Some("ok".into()), ..Said::default() });
    let head = block(&with(&[]));
    let most = 0x7fff_ffff_u32.to_be_bytes();
    type Script<'a> = Vec<(u8, u8, u32, &'a [u8])>;
    let scripts: Vec<(&str, Script<'_>)> = vec![
        ("data for no stream", vec![(DATA, 0, 0, b"x")]),
        ("data for a stream that was never opened", vec![(DATA, 0, 5, b"x")]),
        ("a head on a stream of the server's", vec![(HEADERS, END_HEADERS | END_STREAM, 2, &head)]),
        ("a head on stream 0", vec![(HEADERS, END_HEADERS | END_STREAM, 0, &head)]),
        ("a continuation of nothing", vec![(CONTINUATION, END_HEADERS, 1, &head)]),
        ("data within a head", vec![(HEADERS, 0, 1, &head), (DATA, END_STREAM, 1, b"x")]),
        ("a head within a head", vec![(HEADERS, 0, 1, &head), (HEADERS, END_HEADERS, 3, &head)]),
        ("a head that is not HPACK", vec![(HEADERS, END_HEADERS | END_STREAM, 1, &[0xff; 64])]),
        ("a window that overflows", vec![(WINDOW_UPDATE, 0, 0, &most), (WINDOW_UPDATE, 0, 0, &most)]),
        ("a window of nothing", vec![(WINDOW_UPDATE, 0, 0, &[0; 4])]),
        ("a short frame", vec![(WINDOW_UPDATE, 0, 0, &[0; 3])]),
        ("a frame that is too long", vec![(DATA, 0, 1, &[0; 20_000])]),
    ];
    for (name, frames) in scripts {
        let mut two = Two::open(house.address());
        for (kind, flags, stream, payload) in frames {
            two.frame(kind, flags, stream, payload);
        }
        let (end, _) = two.end_of(1);
        assert!(!matches!(end, End::Status(_)), "{name}: {end:?}");
        assert_eq!(house.model.requests(), 0, "{name}");
    }
    assert_eq!(common::http::post(house.address(), "/openai/v1/files", BODY).status, 200);
}

#[test]
fn st_3_h4_the_hidden_request_would_be_seen() {
    // The check itself: asked for openly, the hidden path does arrive.
    let house = House::new();
    house.model.always(Said { body: Some("ok".into()), ..Said::default() });
    let mut wire = Wire::open(house.address());
    wire.send(HIDDEN.as_bytes());
    assert_eq!(wire.reply().status, 200);
    assert_eq!(house.model.seen()[0].path, HIDDEN_PATH.trim_start_matches("/openai"));
}
