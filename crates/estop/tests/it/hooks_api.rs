//! Hooks against the real binary: over the owner's socket, and over the admin port with tokens and keys (TL-1, CB-2, ID-2).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::house::{House, PATIENCE, ask_with};

/// A running estop whose admin port is known, killed when dropped.
struct Estop {
    process: Child,
    data: SocketAddr,
    admin: SocketAddr,
    token: String,
    _said: BufReader<std::process::ChildStdout>,
}

impl Estop {
    fn start(house: &House) -> Estop {
        let mut process = Command::new(env!("CARGO_BIN_EXE_estop"))
            .args(["serve", "--config", "estop.yaml", "--data-dir", "data"])
            .current_dir(house.folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        let mut line = || {
            let mut line = String::new();
            assert!(said.read_line(&mut line).unwrap() > 0, "estop ended");
            line.trim().to_owned()
        };
        let data = line().rsplit("//").next().unwrap().parse().unwrap();
        let admin = loop {
            if let Some(url) = line().strip_prefix("Admin API: http://") {
                break url.strip_suffix("/api/docs").unwrap().parse().unwrap();
            }
        };
        let token = house.admin_token().unwrap();
        Estop { process, data, admin, token, _said: said }
    }

    /// Status and document of an answer on the admin port; `headers` end in CR LF each.
    fn post(&self, path: &str, headers: &str, body: &Value) -> (u16, Value) {
        let body = body.to_string();
        let mut stream = TcpStream::connect(self.admin).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             {headers}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap())
    }

    fn end(mut self) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Estop {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn owner(house: &House, path: &str, body: &Value) -> (u16, Value) {
    let (status, said) = house.owner("POST", path, &body.to_string());
    (status, serde_json::from_str(&said).unwrap_or_else(|_| unreachable!("{status} {said}")))
}

/// A tool call in our own form, by the owner.
fn tool(house: &House, agent: &str, run: &str) -> Value {
    let (status, answer) = owner(
        house,
        "/api/hooks/pre-tool-use",
        &json!({"agent": agent, "run": run, "tool": "bash", "args": {}}),
    );
    assert_eq!(status, 200, "{answer}");
    answer
}

#[test]
fn cb_2_limits_hold_by_http_and_a_looping_model_is_stopped_before_the_model() {
    let house = House::new("");
    let estop = Estop::start(&house);
    for n in 1..=199 {
        let answer = tool(&house, "a", "r");
        assert_eq!(answer["permission"], "allow", "{n}: {answer}");
        if n == 160 {
            let warning = "⚠️ Approaching limit: max tool calls at 160/200 (80%). Plan to wrap up soon.";
            assert_eq!(answer["context"], warning);
        }
    }
    let denied = tool(&house, "a", "r");
    assert_eq!(denied["permission"], "deny");
    assert!(denied["reason"].as_str().unwrap().contains("max tool calls (200/200)"), "{denied}");

    let ask = |n: usize| ask_with(estop.data, "a", &format!("step {n}"), "x-estop-run: r\r\n").unwrap();
    let stopped = (0..9).find(|n| {
        assert_eq!(tool(&house, "a", "r")["permission"], "deny");
        let (status, body) = ask(*n);
        assert!(status == 200 || body.contains("circuit_breaker"), "{status} {body}");
        status != 200
    });
    assert_eq!(stopped, Some(3), "three requests to sum up");

    assert_eq!(owner(&house, "/api/agents/a/deactivate", &json!({})).0, 200);
    let refused = tool(&house, "a", "fresh");
    assert_eq!((&refused["permission"], &refused["end"]), (&json!("deny"), &json!(true)));
    assert_eq!(owner(&house, "/api/emergency/kill", &json!({"channels": ["tools"]})).0, 200);
    assert_eq!(tool(&house, "b", "r")["end"], json!(true), "the button");
    assert_eq!(owner(&house, "/api/hooks/prompt-submit", &json!({"agent": "b"})).1["permission"], "allow");
    estop.end();
    house.verified();
}

#[test]
fn id_2_keys_act_for_their_agent_alone() {
    let house = House::new("agents: {a: {}, b: {}}");
    let estop = Estop::start(&house);
    let (status, made) = owner(&house, "/api/agents/a/keys", &json!({}));
    assert_eq!(status, 201, "{made}");
    let key = format!("authorization: Bearer {}\r\n", made["key"].as_str().unwrap());
    let call = |agent: &str| json!({"agent": agent, "run": "r", "tool": "bash"});
    let ask = |headers: &str, body: &Value| estop.post("/api/hooks/pre-tool-use", headers, body);

    assert_eq!(ask("", &call("a")).0, 401);
    assert_eq!(ask(&key, &call("a")).1["permission"], "allow");
    assert_eq!(ask(&key, &json!({"run": "r", "tool": "bash"})).1["permission"], "allow", "it says who it is");
    let (status, refused) = ask(&key, &call("b"));
    assert_eq!((status, &refused["code"]), (403, &json!("forbidden")), "{refused}");
    assert_eq!(ask(&format!("{key}x-estop-agent: b\r\n"), &call("a")).0, 403);
    assert_eq!(estop.post("/api/runs", &key, &json!({"agent": "a", "run": "mine"})).0, 201);
    assert_eq!(estop.post("/api/runs", &key, &json!({"agent": "b", "run": "yours"})).0, 403);
    assert_eq!(estop.post("/api/runs/a:mine/sleep", &key, &json!({})).0, 200);
    assert_eq!(estop.post("/api/runs/b:yours/sleep", &key, &json!({})).0, 403);
    assert_eq!(estop.post("/api/agents/a/activate", &key, &json!({})).0, 401);

    let person = format!("authorization: Bearer {}\r\n", estop.token);
    assert_eq!(ask(&person, &call("b")).1["permission"], "allow");
    let (status, problem) = ask(&person, &json!({"agent": "b", "tool": ["bash"]}));
    assert_eq!((status, &problem["errors"][0]["field"]), (400, &json!("tool")), "{problem}");
    for headers in [person.clone(), format!("{person}x-estop-agent: b\r\n")] {
        let (status, problem) = ask(&headers, &json!({"agent": "estop-canary", "tool": "bash"}));
        assert_eq!((status, &problem["errors"][0]["field"]), (400, &json!("agent")), "{problem}");
    }
    estop.end();
    house.verified();
}

#[test]
fn tl_1_clients_that_post_their_hooks_are_answered_in_their_own_words() {
    let house = House::new("");
    let estop = Estop::start(&house);
    let said = json!({"session_id": "s1", "hook_event_name": "PreToolUse", "tool_name": "Bash",
        "tool_input": {"command": "ls"}, "tool_use_id": "t1"});
    let own = "/api/hooks/claude-code/PreToolUse";
    assert_eq!(owner(&house, own, &said), (200, json!({})), "no objection is not a permission");
    let (_, views) = house.owner("GET", "/api/runs/default:claude-code-s1", "");
    assert!(views.contains("\"ACTIVE\""), "{views}");
    let (status, unread) = owner(&house, own, &json!({"session_id": "s1"}));
    assert_eq!(
        (status, &unread["hookSpecificOutput"]["permissionDecision"]),
        (200, &json!("deny")),
        "{unread}"
    );
    assert_eq!(owner(&house, "/api/hooks/no-such-client/PreToolUse", &said).0, 404);

    assert_eq!(owner(&house, "/api/agents/default/deactivate", &json!({})).0, 200);
    let (_, refused) = owner(&house, own, &said);
    assert_eq!(refused["hookSpecificOutput"]["permissionDecision"], "deny");
    assert_eq!(refused["continue"], json!(false));
    let (_, command) = owner(&house, &format!("{own}?as=command"), &said);
    assert_eq!(command["exit_code"], json!(2));
    assert!(command["stderr"].as_str().unwrap().contains("deactivated"), "{command}");
    estop.end();
    house.verified();
}

/// SHA-256 of the ticket `abab…`, 64 digits.
const TICKET_SHA256: &str = "271a413bd339c5709fdceaec41f14f11e9fbfb5042d72d331c65f32b284cd09a";

#[test]
fn id_7_a_ticket_opens_hooks_of_its_run_alone() {
    let house = House::new("");
    let estop = Estop::start(&house);
    let ticket = format!("x-estop-ticket: {}\r\n", "ab".repeat(32));
    let call = json!({"session": "s", "tool": "bash"});
    let ask = |headers: &str| estop.post("/api/hooks/pre-tool-use", headers, &call);
    assert_eq!(ask(&ticket).0, 401, "nobody knows it yet");

    let watch = json!({"agent": "a", "run": "task", "kind": "program", "begin": true, "ticket_sha256": TICKET_SHA256});
    let body = watch.to_string();
    let mut line = std::os::unix::net::UnixStream::connect(house.data().join("estop.sock")).unwrap();
    line.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "POST /api/runs/watch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    line.write_all(request.as_bytes()).unwrap();
    let mut said = BufReader::new(&line).lines();
    assert!(said.any(|line| line.unwrap().contains("watching")), "it watches");

    assert_eq!(ask(&ticket).1["permission"], "allow");
    assert_eq!(ask(&format!("{ticket}x-estop-run: other\r\n")).0, 403);
    assert_eq!(ask(&format!("{ticket}x-estop-agent: other\r\n")).0, 403);
    assert_eq!(estop.post("/api/hooks/session-end", &ticket, &call).0, 200);
    let (_, run) = house.owner("GET", "/api/runs/a:task", "");
    assert!(run.contains("\"ACTIVE\"") && run.contains("\"tool_calls\":1"), "{run}");
    assert_eq!(
        estop.post("/api/runs/a:task/complete", &ticket, &json!({})).0,
        403,
        "the supervisor's to say"
    );
    drop(said);
    drop(line);
    estop.end();
    house.verified();
}
