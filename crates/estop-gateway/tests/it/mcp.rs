//! The gate before MCP servers by streamable HTTP (TL-3): byte for byte both ways, calls judged first, and cut in the
//! middle when they are stopped.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::http::{Reply, Wire, post_with};
use crate::common::raw::{Raw, RawRequest};
use crate::common::{House, wait};
use estop_core::event::EventKind;
use estop_core::system::button::Press;
use estop_core::system::{Channel, Channels, KillReason};
use estop_fake_model::FakeModel;
use estop_gateway::settings::{AgentKey, Auth, McpServer, Provider, Settings, UnknownAgents};
use estop_gateway::{JournalFile, JournalQueue};
use estop_journal::State;
use estop_wire::protocol::Family;
use serde_json::{Value, json};

const RESULT: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"3"}]}}"#;
const CALL: &str =
    r#"{"jsonrpc":"2.0", "id":7,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const ACCEPT: &str = "accept: application/json, text/event-stream\r\n";

fn json_answer(body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: s1\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

fn house(server: &Raw, policy: &str, change: impl FnOnce(&mut Settings)) -> House {
    House::build(policy, |settings| {
        settings.mcp.insert("fs".into(), files(server));
        change(settings);
    })
}

fn keeping(server: &Raw, policy: &str, queue: JournalQueue, change: impl FnOnce(&mut Settings)) -> House {
    House::keeping(FakeModel::start(Default::default()).unwrap(), policy, queue, |settings| {
        settings.mcp.insert("fs".into(), files(server));
        change(settings);
    })
}

fn files(server: &Raw) -> McpServer {
    let target = Provider {
        family: Family::OpenAi,
        tls: false,
        host: "127.0.0.1".into(),
        port: server.port(),
        base_path: "/base/mcp".into(),
        auth: Auth::None,
        key: None,
        ca: None,
    };
    McpServer { agent: Some("files".into()), target, ends_with_slash: false }
}

fn post(house: &House, path: &str, extra: &str, body: &str) -> Reply {
    post_with(house.address(), path, &format!("{ACCEPT}{extra}"), body)
}

fn said(reply: &Reply) -> Value {
    serde_json::from_str(&reply.text()).unwrap_or_else(|_| panic!("no JSON: {}", reply.text()))
}

fn kill(house: &House, channels: Channels) -> usize {
    let press = Press::new(KillReason::Manual, "test", "test");
    house.engine().kill(Press { channels, ..press }).ended.tools
}

#[test]
fn tl_3_everything_passes_byte_for_byte_and_calls_are_told() {
    let server = Raw::saying(json_answer(RESULT));
    let house = house(&server, "{}", |_| {});
    let extra = "mcp-session-id: s1\r\nmcp-protocol-version: 2025-11-25\r\nauthorization: Bearer theirs\r\nlast-event-id: 4\r\n";
    for body in [
        PING,
        CALL,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        " [ {\"id\":1,\"method\":\"x/y\"} ] ",
    ] {
        let reply = post(&house, "/mcp/fs?x=%20y", extra, body);
        assert_eq!((reply.status, reply.text().as_str()), (200, RESULT), "{body}");
        assert_eq!(reply.header("mcp-session-id"), Some("s1"));
        let log = server.log();
        let seen = log.requests.last().unwrap();
        assert_eq!(seen.line(), "POST /base/mcp?x=%20y HTTP/1.1");
        assert_eq!(seen.body, body.as_bytes());
        for (name, value) in [
            ("mcp-session-id", "s1"),
            ("mcp-protocol-version", "2025-11-25"),
            ("authorization", "Bearer theirs"),
            ("last-event-id", "4"),
        ] {
            assert_eq!(seen.values(name), [value], "{name}");
        }
    }
    wait("the end of the call", || (told(&house).1 == 1).then_some(()));
    assert_eq!(told(&house).0, ["mcp__fs__add mcp"]);
}

/// The tools the core was asked about, with who saw them, and how many ends it was told.
fn told(house: &House) -> (Vec<String>, usize) {
    let records = house.records();
    let asked = records.iter().filter_map(|record| {
        let json: Value = serde_json::from_str(record.split_once(' ')?.1).ok()?;
        let what = json.get("event")?;
        let asked = what.get("data").filter(|_| what["type"] == "tool_requested")?.clone();
        let gate = asked.get("gate").and_then(Value::as_str).unwrap_or("hook");
        Some(format!("{} {gate}", asked.get("tool")?.as_str()?))
    });
    let ended = records.iter().filter(|record| record.contains("tool_finished")).count();
    (asked.collect(), ended)
}

#[test]
fn tl_3_a_denied_call_is_a_tool_error_and_never_reaches_the_server() {
    let server = Raw::saying(json_answer(RESULT));
    let house = house(&server, r#"{"preset":"strict","policy":{"limits":{"max_tool_calls":1}}}"#, |_| {});
    let reply = post(&house, "/mcp/fs", "", CALL);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let answer = said(&reply);
    assert_eq!(answer["id"], 7);
    assert_eq!(answer["result"]["isError"], true);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("max tool calls"), "{text}");
    assert_eq!(server.log().requests.len(), 0);
    // Everything else passes: nothing is hidden.
    assert_eq!(post(&house, "/mcp/fs", "", PING).text(), RESULT);
    // A batch with a denied call in it stays out whole, and everybody in it is answered.
    let reply = post(&house, "/mcp/fs", "", &format!("[{PING},{CALL}]"));
    let answers = said(&reply);
    assert_eq!(answers.as_array().map(Vec::len), Some(2), "{answers}");
    assert_eq!(server.log().requests.len(), 1);
}

#[test]
fn tl_3_no_side_door_leads_to_a_server() {
    let server = Raw::saying(json_answer(RESULT));
    let house = house(&server, "{}", |_| {});
    let twice = CALL.replace(r#""method""#, r#""method":"ping","method""#);
    let utf7 = CALL.replace("tools/call", "tools+AC8-call");
    let zero = CALL.replace("tools/call", "tools/call\\u0000");
    let cases = [
        ("/mcp/fs", "", twice.as_str(), 400),
        ("/mcp/fs", "", r#"{"method":"tools/call","params":{"name":"a"}}"#, 400),
        ("/mcp/fs", "content-encoding: gzip\r\n", CALL, 415),
        ("/mcp/fs", "content-type: application/json; charset=utf-7\r\n", utf7.as_str(), 415),
        ("/mcp/fs", "", zero.as_str(), 400),
        ("/mcp/fs", "mcp-method: ping\r\n", CALL, 400),
        ("/mcp/fs", "mcp-method: tools/call\r\n", PING, 400),
        ("/mcp/fs", "mcp-method: tools/call\r\nmcp-name: other\r\n", CALL, 400),
        ("/mcp/fs", "sec-fetch-site: cross-site\r\n", CALL, 403),
        ("/mcp/fs", "origin: https://evil.example\r\n", CALL, 403),
        ("/mcp/other", "", CALL, 404),
        ("/mcp/fs/deeper", "", CALL, 404),
        ("/mcp", "", CALL, 404),
        ("/runs/guess/mcp/fs", "", CALL, 403),
    ];
    for (path, extra, body, status) in cases {
        let reply = post(&house, path, extra, body);
        assert_eq!(reply.status, status, "{path} {extra} {body}: {}", reply.text());
        assert!(said(&reply).get("error").is_some(), "{}", reply.text());
    }
    let mut wire = Wire::open(house.address());
    wire.send(
        b"GET /mcp/fs HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
    );
    assert_eq!(wire.reply().status, 426);
    let mut wire = Wire::open(house.address());
    wire.send(b"PUT /mcp/fs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n");
    assert_eq!(wire.reply().status, 405);
    assert_eq!(server.log().requests.len(), 0);
    assert_eq!(post(&house, "/mcp/fs", "mcp-method: tools/call\r\nmcp-name: add\r\n", CALL).status, 200);
}

#[test]
fn tl_3_a_redirect_does_not_lead_around_the_gate() {
    let server = Raw::saying(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/mcp\r\ncontent-length: 0\r\n\r\n",
    );
    let house = house(&server, "{}", |_| {});
    let reply = post(&house, "/mcp/fs", "", PING);
    assert_eq!(reply.status, 502);
    assert!(reply.text().contains("mcp.servers.fs.url"), "{}", reply.text());
    assert_eq!(reply.header("location"), None);
}

#[test]
fn tl_3_who_calls_is_the_path_the_key_or_the_configuration() {
    let server = Raw::saying(json_answer(RESULT));
    let house = house(&server, "{}", |settings| {
        settings.keys = vec![AgentKey { agent: "a1".into(), key: "key-of-a1".to_owned().into() }];
        settings.unknown_agents = UnknownAgents::Allow;
    });
    let agents = |house: &House| -> Vec<String> {
        let of = |record: &String| {
            record.contains("tool_requested").then(|| record.split(' ').next().unwrap().to_owned())
        };
        house.records().iter().filter_map(of).collect()
    };
    for (path, extra) in [
        ("/mcp/fs", ""),
        ("/agents/a2/mcp/fs", ""),
        ("/mcp/fs", "x-estop-agent: a3\r\n"),
        ("/mcp/fs", "x-estop-key: key-of-a1\r\n"),
    ] {
        assert_eq!(post(&house, path, extra, CALL).status, 200, "{path} {extra}");
    }
    wait("all four are written down", || (agents(&house).len() == 4).then_some(()));
    assert_eq!(agents(&house), ["files", "a2", "a3", "a1"]);
    assert_eq!(post(&house, "/agents/a2/mcp/fs", "x-estop-key: key-of-a1\r\n", CALL).status, 403);
    assert!(server.log().requests.iter().all(|request| request.values("x-estop-key").is_empty()));
}

/// A server whose calls begin a stream and do not end; counts the cancellations it gets and the streams that close.
struct Streaming {
    server: Raw,
    closed: Arc<AtomicUsize>,
}

const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const PROGRESS: &str = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":7,\"progress\":1}}\n\n";

fn streaming() -> Streaming {
    let closed: Arc<AtomicUsize> = Arc::default();
    let counted = Arc::clone(&closed);
    let server = Raw::start(move |socket: &mut TcpStream, request: &RawRequest, _| {
        let is_stream = request.line().starts_with("GET") || request.body.starts_with(CALL.as_bytes());
        if !is_stream {
            let _ = socket.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n");
            return;
        }
        let chunk = format!("{STREAM}{:x}\r\n{PROGRESS}\r\n", PROGRESS.len());
        let _ = socket.write_all(chunk.as_bytes());
        let mut more = [0; 1];
        while matches!(socket.read(&mut more), Ok(1)) {}
        counted.fetch_add(1, Ordering::SeqCst);
    });
    Streaming { server, closed }
}

impl Streaming {
    fn cancelled(&self) -> Vec<Value> {
        let log = self.server.log();
        let bodies = log.requests.iter().filter_map(|r| serde_json::from_slice::<Value>(&r.body).ok());
        bodies.filter(|body| body["method"] == "notifications/cancelled").collect()
    }
}

#[test]
fn tl_3_a_kill_cuts_a_call_tells_client_and_server_and_lets_nothing_through() {
    let streaming = streaming();
    let house = house(&streaming.server, "{}", |_| {});
    let mut wire = Wire::open(house.address());
    wire.post("/mcp/fs", "mcp-session-id: s1\r\n", CALL);
    wire.until("notifications/progress");
    assert_eq!(kill(&house, Channels::NONE.with(Channel::Tools)), 1);
    let rest = wire.until("isError");
    assert!(rest.contains("data: {\"jsonrpc\":\"2.0\",\"id\":7,"), "{rest}");
    wait("the server's stream closes", || (streaming.closed.load(Ordering::SeqCst) == 1).then_some(()));
    let told = wait("the server is told", || streaming.cancelled().pop());
    assert_eq!(told["params"]["requestId"], 7);
    let seen = streaming.server.log();
    assert_eq!(seen.requests.last().unwrap().values("mcp-session-id"), ["s1"]);
    let before = seen.requests.len();
    for body in [CALL, PING] {
        let reply = post(&house, "/mcp/fs", "", body);
        assert_eq!(reply.status, 200);
        let answer = said(&reply);
        assert!(answer["result"]["isError"] == true || answer["error"]["code"] == -32001, "{answer}");
    }
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(post(&house, "/mcp/fs", "", notice).status, 403);
    assert_eq!(streaming.server.log().requests.len(), before, "nothing is forwarded after the kill");
}

/// A disk that stands still while somebody holds it.
#[derive(Clone, Debug, Default)]
struct Disk {
    held: Arc<Mutex<()>>,
    asked: Arc<AtomicUsize>,
}

impl JournalFile for Disk {
    fn write(&self, _: &[u8], _: u64) -> std::io::Result<()> {
        Ok(())
    }
    fn sync(&self) -> std::io::Result<()> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        drop(self.held.lock());
        Ok(())
    }
}

#[test]
fn tl_3_an_answer_that_switches_its_agent_off_holds_up_nobody_on_a_slow_disk() {
    let (disk, server) = (Disk::default(), Raw::saying(json_answer(RESULT)));
    let queue = JournalQueue::with_file(Box::new(disk.clone()), State::default());
    let loops = r#"{"policy": {"kill_switch_enabled": true}}"#;
    let house = keeping(&server, loops, queue, |settings| settings.workers = 1);
    let held = disk.held.lock().unwrap();
    let before = disk.asked.load(Ordering::SeqCst);
    for _ in 0..5 {
        assert_eq!(post(&house, "/mcp/fs", "", CALL).text(), RESULT);
    }
    wait("the stop goes to the disk", || (disk.asked.load(Ordering::SeqCst) > before).then_some(()));
    assert_eq!(post(&house, "/agents/a2/mcp/fs", "", CALL).text(), RESULT, "another works on");
    assert_eq!(said(&post(&house, "/mcp/fs", "", CALL))["result"]["isError"], true, "it is off");
    drop(held);
}

#[test]
fn tl_3_all_calls_of_a_batch_are_taken_back_together() {
    // It takes everything and answers nothing: whoever waits for one answer after the other never tells of the last.
    let server = Raw::start(|socket: &mut TcpStream, _: &RawRequest, _| {
        let mut more = [0; 1];
        while matches!(socket.read(&mut more), Ok(1)) {}
    });
    let house = house(&server, "{}", |_| {});
    let call = |id| {
        let params = json!({"name": format!("tool{id}"), "arguments": {"a": id}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let batch: Vec<Value> = (0..16).map(call).collect();
    let mut wire = Wire::open(house.address());
    wire.post("/mcp/fs", "", &json!(batch).to_string());
    wait("the batch arrives", || (server.log().requests.len() == 1).then_some(()));
    kill(&house, Channels::NONE.with(Channel::Tools));
    assert_eq!(said(&wire.reply()).as_array().map(Vec::len), Some(16));
    let streaming = Streaming { server, closed: Arc::default() };
    wait("the server is told of all", || (streaming.cancelled().len() == 16).then_some(()));
}

#[test]
fn tl_3_a_stopped_agent_loses_its_calls_and_its_stream() {
    let streaming = streaming();
    let house = house(&streaming.server, "{}", |_| {});
    let mut call = Wire::open(house.address());
    call.post("/agents/a1/mcp/fs", "", CALL);
    call.until("notifications/progress");
    let mut stream = Wire::open(house.address());
    stream.send(b"GET /agents/a1/mcp/fs HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n");
    stream.until("notifications/progress");
    let agent = house.engine().agent("a1").unwrap();
    house.engine().apply(&agent, None, EventKind::AgentDeactivated { by: "test".into() });
    call.until("isError");
    wait("both close", || (streaming.closed.load(Ordering::SeqCst) == 2).then_some(()));
    let mut again = Wire::open(house.address());
    again.send(b"GET /agents/a1/mcp/fs HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n");
    assert_eq!(again.reply().status, 403);
    // Another agent works on.
    assert_eq!(post(&house, "/agents/a2/mcp/fs", "", PING).status, 202);
}

/// The words and the code of a JSON-RPC error.
fn error_of(reply: &Reply) -> (i64, String) {
    let said = said(reply);
    (said["error"]["code"].as_i64().unwrap(), said["error"]["message"].as_str().unwrap().to_owned())
}

#[test]
fn tl_3_a_stopped_agent_lists_and_reads_nothing() {
    let server = Raw::saying(json_answer(RESULT));
    let house = house(&server, "{}", |_| {});
    let path = "/agents/a1/mcp/fs";
    let request = |method: &str| format!(r#"{{"jsonrpc":"2.0","id":5,"method":"{method}"}}"#);
    assert_eq!(post(&house, path, "", &request("resources/read")).text(), RESULT, "while it works, it reads");
    let agent = house.engine().agent("a1").unwrap();
    house.engine().apply(&agent, None, EventKind::AgentDeactivated { by: "test".into() });
    server.reset();
    for method in [
        "resources/read",
        "resources/subscribe",
        "prompts/get",
        "tasks/get",
        "tasks/result",
        "tasks/cancel",
        "completion/complete",
        "logging/setLevel",
        "subscriptions/listen",
        "anything/new",
        "Ping",
        " tools/list",
    ] {
        let reply = post(&house, path, "", &request(method));
        assert_eq!((reply.status, reply.header("x-estop-reason")), (200, Some("denied")), "{method}");
        let (code, words) = error_of(&reply);
        assert!(code == -32001 && words.contains("a1 was deactivated"), "{method}: {words}");
    }
    // Answers to a server, a batch with a read in it, and what nobody can read.
    for body in [
        r#"{"jsonrpc":"2.0","id":"s1","result":{"role":"assistant","content":{"type":"text","text":"x"}}}"#,
        r#"{"jsonrpc":"2.0","id":"s1","result":{"action":"accept","content":{}}}"#,
        r#"{"jsonrpc":"2.0","id":"s1","error":{"code":1,"message":"x"}}"#,
        "garbage that is no call",
    ] {
        assert_eq!(post(&house, path, "", body).status, 403, "{body}");
    }
    let batch = post(&house, path, "", &format!("[{PING},{}]", request("resources/read")));
    assert_eq!(said(&batch).as_array().map(Vec::len), Some(2), "{}", batch.text());
    assert_eq!(server.log().requests.len(), 0, "nothing reached the server");
    for method in [
        "ping",
        "initialize",
        "server/discover",
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "prompts/list",
    ] {
        assert_eq!(post(&house, path, "", &request(method)).text(), RESULT, "{method}");
    }
    for body in [
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
        r#"{"jsonrpc":"2.0","id":"s1","result":{}}"#,
    ] {
        assert_eq!(post(&house, path, "", body).text(), RESULT, "{body}");
    }
    assert_eq!(
        post(&house, "/agents/a2/mcp/fs", "", &request("resources/read")).text(),
        RESULT,
        "another agent"
    );
}

#[test]
fn tl_3_a_stopped_run_reads_nothing_and_a_shut_channel_passes_nothing() {
    let server = Raw::saying(json_answer(RESULT));
    let policy = r#"{"preset":"strict","policy":{"limits":{"max_tool_calls":1}}}"#;
    let house = house(&server, policy, |_| {});
    let agent = house.engine().agent("files").unwrap();
    let (call, action) = (estop_core::ids::CallId(1), estop_core::ids::Hash64(1));
    let gate = estop_core::event::ToolGate::Hook;
    for tool in ["Bash", "report_blocked"] {
        let tool = tool.into();
        let asked = estop_core::event::ToolRequested { call, tool, action, test_run: false, gate };
        house.engine().apply(&agent, Some("r1".into()), EventKind::ToolRequested(asked));
    }
    let ended = estop_core::event::Ended::Ok;
    let done = estop_core::event::ToolFinished {
        call,
        result: action,
        ended,
        reports: true,
        words: Default::default(),
    };
    house.engine().apply(&agent, Some("r1".into()), EventKind::ToolFinished(done));
    let read = r#"{"jsonrpc":"2.0","id":5,"method":"resources/read","params":{"uri":"file:///x"}}"#;
    let refused = post(&house, "/mcp/fs", "x-estop-run: r1\r\n", read);
    assert!(error_of(&refused).1.contains("run r1 reached a limit"), "{}", refused.text());
    assert_eq!(server.log().requests.len(), 0);
    assert_eq!(post(&house, "/mcp/fs", "x-estop-run: r2\r\n", read).text(), RESULT, "another run");
    server.reset();
    kill(&house, Channels::NONE.with(Channel::Tools));
    let reply = post(&house, "/agents/a1/mcp/fs", "", read);
    assert_eq!((reply.status, reply.header("x-estop-reason")), (200, Some("system")));
    assert!(error_of(&reply).1.contains("estop"));
    assert_eq!(server.log().requests.len(), 0);
}

#[test]
fn tl_3_a_server_that_answers_late_with_json_is_cut_with_a_tool_error() {
    let closed: Arc<AtomicUsize> = Arc::default();
    let counted = Arc::clone(&closed);
    let server = Raw::start(move |socket: &mut TcpStream, request: &RawRequest, _| {
        if request.body != CALL.as_bytes() {
            let _ = socket.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n");
            return;
        }
        let mut more = [0; 1];
        while matches!(socket.read(&mut more), Ok(1)) {}
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let house = house(&server, "{}", |_| {});
    let mut wire = Wire::open(house.address());
    wire.post("/mcp/fs", "", CALL);
    wait("the call arrives", || (server.log().requests.len() == 1).then_some(()));
    kill(&house, Channels::ALL);
    let reply = wire.reply();
    assert_eq!(reply.status, 200);
    assert_eq!(said(&reply)["result"]["isError"], json!(true));
    wait("its connection closes", || (closed.load(Ordering::SeqCst) == 1).then_some(()));
}

#[test]
fn tl_3_a_body_has_a_limit() {
    let server = Raw::saying(json_answer(RESULT));
    let house = house(&server, "{}", |settings| settings.limits.body_bytes = 1000);
    let large = CALL.replace("\"a\":1", &format!("\"a\":\"{}\"", "x".repeat(2000)));
    assert_eq!(post(&house, "/mcp/fs", "", &large).status, 413);
    assert_eq!(server.log().requests.len(), 0);
}

#[test]
fn cb_6_an_escalated_run_loses_its_calls() {
    let streaming = streaming();
    let policy = r#"{"preset":"strict","policy":{"limits":{"max_tool_calls":2}}}"#;
    let house = house(&streaming.server, policy, |_| {});
    let mut call = Wire::open(house.address());
    call.post("/mcp/fs", "x-estop-run: r1\r\n", CALL);
    call.until("notifications/progress");
    let mut other = Wire::open(house.address());
    other.post("/mcp/fs", "x-estop-run: r2\r\n", CALL);
    other.until("notifications/progress");
    let second = CALL.replace("\"id\":7", "\"id\":8");
    let denied = said(&post(&house, "/mcp/fs", "x-estop-run: r1\r\n", &second));
    assert_eq!(denied["result"]["isError"], true, "{denied}");
    let agent = house.engine().agent("files").unwrap();
    let run = Some("r1".into());
    let call_id = estop_core::ids::CallId(99);
    let tool = "report_blocked".into();
    let action = estop_core::ids::Hash64(1);
    let gate = estop_core::event::ToolGate::Hook;
    let asked = estop_core::event::ToolRequested { call: call_id, tool, action, test_run: false, gate };
    house.engine().apply(&agent, run.clone(), EventKind::ToolRequested(asked));
    let ended = estop_core::event::Ended::Ok;
    let done = estop_core::event::ToolFinished {
        call: call_id,
        result: action,
        ended,
        reports: true,
        words: Default::default(),
    };
    house.engine().apply(&agent, run, EventKind::ToolFinished(done));
    call.until("isError");
    wait("the server's stream closes", || (streaming.closed.load(Ordering::SeqCst) == 1).then_some(()));
    wait("the server is told", || streaming.cancelled().pop());
    assert_eq!(streaming.closed.load(Ordering::SeqCst), 1, "the other run's call goes on");
}

const READ: &str = r#"{"jsonrpc":"2.0","id":5,"method":"resources/read","params":{"uri":"file:///x"}}"#;

/// A server that takes requests and says nothing.
fn silent() -> Raw {
    Raw::start(|socket: &mut TcpStream, _: &RawRequest, _| {
        let mut more = [0; 1];
        while matches!(socket.read(&mut more), Ok(1)) {}
    })
}

#[test]
fn tl_3_a_request_that_is_stopped_under_way_is_answered_under_its_id() {
    let server = silent();
    let house = house(&server, "{}", |_| {});
    let batch = format!("[{CALL}]");
    let mut wires: Vec<Wire> = [READ, &batch]
        .map(|body| {
            let mut wire = Wire::open(house.address());
            wire.post("/mcp/fs", "", body);
            wire
        })
        .into();
    wait("both arrive", || (server.log().requests.len() == 2).then_some(()));
    kill(&house, Channels::NONE.with(Channel::Tools));
    let read = wires[0].reply();
    assert_eq!((read.status, read.header("x-estop-reason")), (200, Some("system")), "{}", read.text());
    assert_eq!((said(&read)["id"].as_i64(), error_of(&read).0), (Some(5), -32001));
    let batch = said(&wires[1].reply());
    assert_eq!(batch[0]["result"]["isError"], true, "a batch is answered by a batch: {batch}");
}

#[test]
fn tl_3_a_server_that_is_late_is_named_as_such() {
    let server = silent();
    let limits = |settings: &mut Settings| {
        settings.limits.first_byte_timeout = std::time::Duration::from_millis(50);
    };
    let house = house(&server, "{}", limits);
    for body in [READ, CALL] {
        let reply = post(&house, "/mcp/fs", "", body);
        assert_eq!((reply.status, reply.header("x-estop-reason")), (200, Some("upstream_timeout")));
        assert!(reply.text().contains("The MCP server did not begin to answer"), "{}", reply.text());
    }
    let mut wire = Wire::open(house.address());
    wire.send(b"DELETE /mcp/fs HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let reply = wire.reply();
    assert_eq!((reply.status, reply.header("x-estop-reason")), (504, Some("upstream_timeout")));
}

#[test]
fn tl_3_a_message_that_does_not_arrive_is_the_clients_fault() {
    let server = silent();
    let limits = |settings: &mut Settings| {
        settings.limits.body_idle_timeout = std::time::Duration::from_millis(50);
    };
    let house = house(&server, "{}", limits);
    let mut wire = Wire::open(house.address());
    wire.send(b"POST /mcp/fs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{");
    let reply = wire.reply();
    assert_eq!((reply.status, reply.header("x-estop-reason")), (408, Some("body_timeout")));
}

#[test]
fn tl_3_a_stream_is_refused_for_the_same_reason_as_a_message() {
    let server = silent();
    let house = house(&server, "{}", |_| {});
    let listen = || {
        let mut wire = Wire::open(house.address());
        wire.send(b"GET /agents/a1/mcp/fs HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let reply = wire.reply();
        (reply.status, reply.header("x-estop-reason").map(str::to_owned))
    };
    let agent = house.engine().agent("a1").unwrap();
    house.engine().apply(&agent, None, EventKind::AgentDeactivated { by: "test".into() });
    assert_eq!(listen(), (403, Some("denied".to_owned())));
    kill(&house, Channels::NONE.with(Channel::Tools));
    assert_eq!(listen(), (403, Some("system".to_owned())));
    assert_eq!(server.log().requests.len(), 0);
}

#[test]
fn st_1_without_its_journal_no_message_reaches_a_server() {
    let server = Raw::saying(json_answer(RESULT));
    let house = house(&server, "{}", |_| {});
    house.queue.fail();
    let reply = post(&house, "/mcp/fs", "", READ);
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")), "{}", reply.text());
    assert_eq!(server.log().requests.len(), 0);
}
