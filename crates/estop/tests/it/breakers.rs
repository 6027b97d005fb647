//! Circuit breakers over the real binary: a limit, the time to sum up, the escalation a person finds, and going on
//! (CB-1..8, ID-7, PO-5).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::house::{Estop, House, PATIENCE, ask_with, wait_for};
use estop_fake_model::script::Reply;
use serde_json::{Value, json};

fn get(house: &House, path: &str) -> Value {
    let (status, body) = house.owner("GET", path, "");
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

fn post(house: &House, path: &str, body: &Value) -> Value {
    let (status, said) = house.owner("POST", path, &body.to_string());
    assert!((200..300).contains(&status), "{path}: {status} {said}");
    serde_json::from_str(&said).unwrap_or_default()
}

/// Asks by hook whether a tool may run.
fn tool(house: &House, run: &str, call: &str, tool: &str, args: &Value) -> Value {
    let asked = json!({"agent": "coder", "run": run, "call": call, "tool": tool, "args": args});
    post(house, "/api/hooks/pre-tool-use", &asked)
}

/// A house with the agent `coder`.
fn house(policy: &str) -> House {
    House::new(&format!("agents: {{coder: {{}}}}\n{policy}"))
}

fn run(house: &House, name: &str) -> Value {
    get(house, &format!("/api/runs/coder:{name}"))
}

fn escalation(house: &House) -> Value {
    wait_for("the escalation", || get(house, "/api/escalations")["escalations"].as_array()?.first().cloned())
}

fn says(text: &str) -> Reply {
    Reply { text: Some(text.to_owned()), ..Reply::default() }
}

/// A request of a run to the model; the status.
fn ask(estop: &Estop, run: &str, prompt: &str) -> u16 {
    ask_with(estop.address, "coder", prompt, &format!("x-estop-run: {run}\r\n")).unwrap().0
}

#[test]
fn cb_6_a_tripped_run_sums_up_and_a_person_finds_all_of_it() {
    let house = house("");
    let estop = house.start();
    let new = json!({
        "agent": "coder", "run": "issue-7", "role": "feat-dev", "issue": "7", "branch": "feat/parser",
        "session": "01a1dc9c", "limits": {"max_tool_calls": 2},
    });
    post(&house, "/api/runs", &new);
    assert_eq!(tool(&house, "issue-7", "c1", "bash", &json!({"command": "ls"}))["permission"], "allow");
    let denied = tool(&house, "issue-7", "c2", "bash", &json!({"command": "ls"}));
    assert_eq!(denied["permission"], "deny");
    let seed = "CIRCUIT BREAKER: max tool calls (2/2). Summarize your progress and call report_complete or report_blocked.";
    assert!(denied["reason"].as_str().unwrap().contains(seed), "{denied}");

    // The model stays open to sum up; then the report passes, and is the end.
    house.model.always(says("I wrote the PARSER, the tests are still red."));
    assert_eq!(ask(&estop, "issue-7", "go on"), 200);
    let report = json!({"status": "partial"});
    let allowed = tool(&house, "issue-7", "c3", "mcp__squad__report_complete", &report);
    assert_eq!(allowed["permission"], "allow", "{allowed}");
    let done = json!({"agent": "coder", "run": "issue-7", "call": "c3", "tool": "mcp__squad__report_complete",
        "args": report, "result": "noted", "exit_code": 0});
    post(&house, "/api/hooks/post-tool-use", &done);
    assert_eq!(run(&house, "issue-7")["state"], "ESCALATED");
    assert_eq!(ask(&estop, "issue-7", "one more thing"), 400);

    let found = escalation(&house);
    assert_eq!(found["reason"], "max tool calls (2/2)");
    assert_eq!(found["summary"], "I wrote the PARSER, the tests are still red.");
    let kept = ["role", "issue", "branch", "session"].map(|key| found[key].as_str().unwrap().to_owned());
    assert_eq!(kept, ["feat-dev", "7", "feat/parser", "01a1dc9c"]);
    assert_eq!(found["used"]["limit"], json!({"limit": "tool_calls", "current": 2, "max": 2}));
    assert_eq!(found["used"]["turns"], 0, "summing up is no turn: {found}");
    let shown =
        wait_for("the run's row", || Some(run(&house, "issue-7")).filter(|row| !row["summary"].is_null()));
    assert_eq!((&shown["summary"], &shown["branch"]), (&found["summary"], &found["branch"]));

    let listed = house.estop(&["escalations", "list"]);
    for part in ["feat/parser", "01a1dc9c", "estop runs extend coder issue-7"] {
        assert!(listed.out.contains(part), "{part}: {}", listed.out);
    }
    // However its name is spelled.
    assert_eq!(house.estop(&["runs", "extend", "CODER", "issue-7"]).code, 0);
    assert_eq!(tool(&house, "issue-7", "c4", "bash", &json!({"command": "ls"}))["permission"], "allow");
    assert_eq!(ask(&estop, "issue-7", "go on"), 200);
    estop.end();
    house.verified();
    let journal = std::fs::read_to_string(house.folder.path().join("journal.jsonl")).unwrap();
    assert!(!journal.contains("PARSER"), "what an agent says is not in the journal");
}

#[test]
fn cb_6_an_attended_run_that_tripped_is_extended() {
    let house = house("circuit_breakers: {defaults: {max_tool_calls: 2}}");
    let estop = house.start();
    post(&house, "/api/runs", &json!({"agent": "coder", "run": "r1", "attended": true}));
    let permission = |call: &str| tool(&house, "r1", call, "bash", &json!({"n": call}))["permission"].clone();
    assert_eq!(permission("c1"), "allow");
    assert_eq!(permission("c2"), "deny");
    assert_eq!(run(&house, "r1")["tripped"], true);
    assert_eq!(house.estop(&["runs", "extend", "coder", "r1"]).code, 0);
    assert_eq!((permission("c3"), permission("c4")), ("allow".into(), "allow".into()));
    assert_eq!(permission("c5"), "deny");
    // A person ends it instead: what tripped needs a person.
    post(&house, "/api/runs/coder:r1/complete", &json!({}));
    assert_eq!(run(&house, "r1")["state"], "ESCALATED");
    assert_eq!(escalation(&house)["summary"], Value::Null);
    assert_eq!(house.estop(&["runs", "extend", "coder", "r1"]).code, 0);
    assert_eq!(permission("c6"), "allow");
    estop.end();
    house.verified();
}

#[test]
fn po_5_watch_stops_unattended_runs_and_only_warns_where_a_person_sits() {
    let house = house("");
    let estop = house.start();
    let last = |whose: Value| {
        let call = |n: u32| {
            let mut asked =
                json!({"agent": "coder", "call": n.to_string(), "tool": "bash", "args": {"n": n}});
            asked.as_object_mut().unwrap().extend(whose.as_object().unwrap().clone());
            post(&house, "/api/hooks/pre-tool-use", &asked)
        };
        (1..=200).map(call).fold(Value::Null, |_, answer| answer)
    };
    post(&house, "/api/runs", &json!({"agent": "coder", "run": "seen", "attended": true}));
    // A client's session is begun by its first hook: a person sits there.
    for attended in [json!({"run": "seen"}), json!({"session": "s1"}), json!({})] {
        let answer = last(attended.clone());
        assert_eq!(answer["permission"], "allow", "{attended}: {answer}");
        let shadow = "⚠️ Limit reached: max tool calls at 200/200 (100%). An enforced circuit breaker would have stopped this run. \
                      Wrap up now.";
        assert_eq!(answer["context"], shadow, "{attended}");
    }
    let answer = last(json!({"run": "job"}));
    assert_eq!(answer["permission"], "deny", "{answer}");
    drop(estop);
}

#[test]
fn cb_5_active_time_trips_by_timer_though_nothing_is_called() {
    let house = house("");
    let estop = house.start();
    let new = json!({"agent": "coder", "run": "idle", "limits": {"max_active_duration": 1}});
    post(&house, "/api/runs", &new);
    wait_for("the trip", || (run(&house, "idle")["tripped"] == true).then_some(()));
    let denied = tool(&house, "idle", "c1", "bash", &json!({}));
    let seed = "TIME LIMIT REACHED. You must stop working now. Please summarize what you accomplished and what remains, \
                then call report_complete or report_blocked.";
    assert_eq!(denied["context"], seed);
    assert_eq!(denied["reason"], format!("{seed} Reached: max active duration (1s)."));
    let done =
        json!({"agent": "coder", "run": "idle", "call": "c0", "tool": "bash", "args": {}, "result": "x"});
    assert_eq!(
        post(&house, "/api/hooks/post-tool-use", &done)["context"],
        seed,
        "it need not ask to be told"
    );
    estop.end();
    // A sleeper's clock runs while estop is away.
    let estop = house.start();
    let new = json!({"agent": "coder", "run": "asleep", "limits": {"max_sleep_duration": 1}});
    post(&house, "/api/runs", &new);
    post(&house, "/api/runs/coder:asleep/sleep", &json!({}));
    estop.kill_9();
    let estop = house.start();
    let state = || run(&house, "asleep")["state"].clone();
    wait_for("the end of the sleeper", || (state() == "ESCALATED").then_some(()));
    let all = wait_for("its escalation", || {
        let all = get(&house, "/api/escalations?agent=coder")["escalations"].clone();
        all.as_array()?.iter().any(|found| found["run"] == "asleep").then_some(all)
    });
    assert!(all.to_string().contains("max sleep duration exceeded (1s)"), "{all}");
    estop.end();
    house.verified();
}

/// What Codex posts: by hook before and after a command without an exit code, then a request with the result.
struct Codex<'a> {
    house: &'a House,
    estop: &'a Estop,
    run: &'a str,
}

impl Codex<'_> {
    fn hook(&self, event: &str, call: &str, response: Option<&str>) -> Value {
        let mut body = json!({
            "session_id": "s1", "hook_event_name": event, "tool_name": "Bash", "tool_use_id": call,
            "tool_input": {"command": "./ci.sh && cargo test"},
        });
        if let Some(response) = response {
            body["tool_response"] = json!(response);
        }
        let path = format!("/api/hooks/codex/{event}?as=command");
        let (status, said) = self.owner(&path, &body.to_string());
        assert_eq!(status, 200, "{said}");
        serde_json::from_str(&said).unwrap()
    }

    fn owner(&self, path: &str, body: &str) -> (u16, String) {
        let stream = std::os::unix::net::UnixStream::connect(self.house.data().join("estop.sock")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             x-estop-agent: coder\r\nx-estop-run: {}\r\ncontent-length: {}\r\n\r\n",
            self.run,
            body.len()
        );
        answer(stream, &head, body)
    }

    fn tell_model(&self, call: &str, code: i32) {
        let output =
            format!("Chunk ID: 2a\nWall time: 0.2 seconds\nProcess exited with code {code}\nOutput:\n{call}");
        let body = json!({"model": "gpt-5.4", "stream": false, "instructions": "You are Codex.", "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "fix it"}]},
            {"type": "function_call", "call_id": call, "name": "exec_command",
                "arguments": json!({"cmd": "./ci.sh && cargo test"}).to_string()},
            {"type": "function_call_output", "call_id": call, "output": output},
        ]})
        .to_string();
        let head = format!(
            "POST /agents/coder/openai/v1/responses HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-type: application/json\r\nx-estop-run: {}\r\ncontent-length: {}\r\n\r\n",
            self.run,
            body.len()
        );
        let (status, said) = answer(TcpStream::connect(self.estop.address).unwrap(), &head, &body);
        assert_eq!(status, 200, "{said}");
    }

    /// Runs the tests once; whether they were let run.
    fn test(&self, n: usize, code: i32) -> bool {
        let call = format!("call_{n}");
        let asked = self.hook("PreToolUse", &call, None);
        if asked["exit_code"] == 2 {
            return false;
        }
        self.hook("PostToolUse", &call, Some(&format!("output {n}")));
        self.tell_model(&call, code);
        true
    }
}

fn answer(mut stream: impl Read + Write, head: &str, body: &str) -> (u16, String) {
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

#[test]
fn cb_4_test_runs_of_codex_end_as_its_next_request_says() {
    let house = house("");
    let estop = house.start();
    let codex = |run| Codex { house: &house, estop: &estop, run };
    let passing: Vec<bool> = (1..=7).map(|n| codex("green").test(n, 0)).collect();
    assert_eq!(passing, [true; 7]);
    let failing: Vec<bool> = (1..=5).map(|n| codex("red").test(n, 101)).collect();
    assert_eq!(failing, [true, true, true, true, false]);
    estop.end();
    house.verified();
}
