//! `estop mcp` between a client and a server that speaks by its standard streams, with a real estop (TL-3, KS-2).

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::house::{House, PATIENCE};

/// Writes down every line it gets. `slow` is never answered; `fork` starts a process that outlives its parent; `odd` says
/// things that are no answer before it answers.
const SERVER: &str = r#"
import json, os, subprocess, sys
log = open(sys.argv[1], "ab", buffering=0)
out = sys.stdout.buffer
def say(raw):
    out.write(raw + b"\n"); out.flush()
print("server is up", file=sys.stderr, flush=True)
for line in sys.stdin.buffer:
    log.write(line)
    try: m = json.loads(line)
    except ValueError: continue
    for m in m if isinstance(m, list) else [m]:
        name = m.get("params", {}).get("name") if m.get("method") == "tools/call" else None
        if name == "slow": continue
        if name == "exit": sys.exit(7)
        if name == "fork":
            child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, start_new_session=True)
            say(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": {"content": [{"type": "text", "text": str(child.pid)}]}}).encode())
            continue
        if name == "odd":
            say(b'{"jsonrpc":"2.0",  "method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}')
            say(b'{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{"text":"\\u00fc \xc3\xbc"}}')
            say(b'not json at all')
        if "id" in m and "method" in m:
            say(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": {"content": [{"type": "text", "text": "ok"}]}}).encode())
log.write(b"EOF\n")
"#;

struct Gate {
    process: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    log: PathBuf,
}

impl Gate {
    fn start(house: &House, options: &[&str], env: &[(&str, &str)]) -> Gate {
        let (script, log) = (house.folder.path().join("server.py"), house.folder.path().join("server.log"));
        std::fs::write(&script, SERVER).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_estop"));
        command.args(["mcp", "--server", "fs", "--data-dir"]).arg(house.data()).args(options);
        command.arg("--").arg("python3").arg(&script).arg(&log);
        for name in
            ["ESTOP_SOCKET", "ESTOP_URL", "ESTOP_AGENT", "ESTOP_RUN", "ESTOP_TICKET", "ESTOP_ON_UNREACHABLE"]
        {
            command.env_remove(name);
        }
        command.envs(env.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        let input = process.stdin.take();
        Gate { process, input, lines, log }
    }

    fn say(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
        input.flush().unwrap();
    }

    fn call(&mut self, id: u32, tool: &str) {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {}}});
        self.say(&call.to_string());
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line in time")
    }

    fn answer(&self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line}"))
    }

    /// The text of a tool error under this id.
    fn error(&self, id: u32) -> String {
        let answer = self.answer();
        assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(id), &json!(true)), "{answer}");
        answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    }

    fn seen(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn until_seen(&self, text: &str) {
        wait(text, || self.seen().contains(text).then_some(()));
    }

    fn exit(mut self) -> Option<i32> {
        drop(self.input.take());
        wait("the gate ends", || self.process.try_wait().unwrap()).code()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn wait<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn kill(house: &House, body: &str) {
    let (status, said) = house.owner("POST", "/api/emergency/kill", body);
    assert_eq!(status, 200, "{said}");
}

/// The gate's line to estop is open: whoever is stopped from here on is told.
fn until_watched(gate: &mut Gate) {
    // It is opened beside the first call; a second one comes after it.
    for id in [900, 901] {
        gate.call(id, "add");
        assert_eq!(gate.answer()["id"], id);
        std::thread::sleep(Duration::from_millis(300));
    }
}

#[test]
fn tl_3_messages_pass_byte_for_byte_and_the_server_s_end_is_the_gate_s() {
    let house = House::new("");
    let estop = house.start();
    let mut gate = Gate::start(&house, &["--agent", "a1"], &[]);
    let lines = [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{ "protocolVersion":"2025-11-25","x":"é ü" }}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":"s1","result":{"role":"assistant","content":"tools/call"}}"#,
        "",
        "garbage that is no call",
        r#"[{"jsonrpc":"2.0","id":2,"method":"resources/list"}]"#,
    ];
    lines.iter().for_each(|line| gate.say(line));
    assert_eq!(gate.answer()["id"], 1);
    assert_eq!(gate.answer()["id"], 2);
    gate.until_seen("resources/list");
    assert_eq!(gate.seen(), format!("{}\n", lines.join("\n")));
    gate.call(3, "odd");
    let odd: Vec<String> = (0..3).map(|_| gate.line()).collect();
    assert_eq!(
        odd[0],
        r#"{"jsonrpc":"2.0",  "method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}"#
    );
    assert_eq!(
        odd[1],
        "{\"jsonrpc\":\"2.0\",\"id\":\"s1\",\"method\":\"sampling/createMessage\",\"params\":{\"text\":\"\\u00fc ü\"}}"
    );
    assert_eq!(odd[2], "not json at all");
    assert_eq!(gate.answer()["id"], 3);
    gate.call(4, "exit");
    assert_eq!(gate.exit(), Some(7));
    let mut gate = Gate::start(&house, &["--agent", "a1"], &[]);
    gate.say(lines[0]);
    gate.answer();
    let log = gate.log.clone();
    assert_eq!(gate.exit(), Some(0), "the client closes its side, the server ends");
    assert!(std::fs::read_to_string(log).unwrap().ends_with("EOF\n"));
    let (_, runs) = house.owner("GET", "/api/runs?agent=a1", "");
    assert!(runs.contains(r#""tool_calls":2"#), "{runs}");
    estop.end();
    house.verified();
}

#[test]
fn tl_3_a_denied_call_is_a_tool_error_that_the_server_never_sees() {
    let house = House::new("preset: strict\npolicy: {limits: {max_tool_calls: 3}}");
    let _estop = house.start();
    let mut gate = Gate::start(&house, &["--agent", "a1"], &[]);
    gate.call(1, "add");
    gate.call(2, "add");
    let mut ids = [gate.answer()["id"].as_u64(), gate.answer()["id"].as_u64()];
    ids.sort_unstable();
    assert_eq!(ids, [Some(1), Some(2)]);
    gate.call(3, "forbidden");
    assert!(gate.error(3).contains("max tool calls"));
    // What another reader could take for a call does not pass either.
    gate.say(r#"{"id":5,"method":"ping","method":"tools/call","params":{"name":"forbidden"}}"#);
    assert_eq!(gate.answer()["error"]["code"], -32600);
    gate.say(r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"forbidden"}}"#);
    assert_eq!(gate.answer()["error"]["code"], -32600);
    // A batch with a call stays out whole; everybody in it is answered.
    gate.say(r#"[{"id":8,"method":"ping"},{"id":9,"method":"tools/call","params":{"name":"forbidden"}}]"#);
    let batch = gate.answer();
    assert_eq!(batch[0]["result"]["isError"], true, "{batch}");
    assert_eq!((&batch[1]["id"], &batch[1]["error"]["code"]), (&json!(8), &json!(-32001)), "{batch}");
    gate.say(r#"{"jsonrpc":"2.0","id":10,"method":"tools/list"}"#);
    assert_eq!(gate.answer()["id"], 10, "nothing else is hidden");
    assert!(!gate.seen().contains("forbidden"));
}

#[test]
fn tl_3_a_stopped_agent_s_calls_are_cancelled_and_answered_at_once() {
    let house = House::new("");
    let _estop = house.start();
    let mut gate = Gate::start(&house, &["--agent", "a1"], &[]);
    until_watched(&mut gate);
    gate.call(1, "slow");
    gate.until_seen("slow");
    let (status, said) = house.owner("POST", "/api/agents/a1/deactivate", "");
    assert_eq!(status, 200, "{said}");
    assert!(gate.error(1).contains("estop"));
    gate.until_seen(r#""method":"notifications/cancelled","params":{"requestId":1,"#);
    gate.call(2, "never");
    gate.error(2);
    assert!(!gate.seen().contains("never"));
    // The server lives, and the agent goes on once a person says so.
    let (status, said) = house.owner("POST", "/api/agents/a1/activate", "");
    assert_eq!(status, 200, "{said}");
    gate.call(3, "add");
    assert_eq!(gate.answer()["id"], 3);
}

#[test]
fn tl_3_a_stopped_agent_lists_and_reads_nothing_by_standard_streams() {
    let house = House::new("");
    let _estop = house.start();
    let mut gate = Gate::start(&house, &["--agent", "a1"], &[]);
    until_watched(&mut gate);
    let request = |id: u32, method: &str| json!({"jsonrpc": "2.0", "id": id, "method": method}).to_string();
    gate.say(&request(1, "resources/read"));
    assert_eq!(gate.answer()["result"]["content"][0]["text"], "ok", "while it works, it reads");
    let (status, said) = house.owner("POST", "/api/agents/a1/deactivate", "");
    assert_eq!(status, 200, "{said}");
    for (id, method) in
        [(2, "prompts/get"), (3, "tasks/result"), (4, "completion/complete"), (5, "Tools/List")]
    {
        gate.say(&request(id, method));
        let answer = gate.answer();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32001)), "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("was deactivated"), "{answer}");
    }
    for (id, method) in [(6, "ping"), (7, "tools/list"), (8, "resources/templates/list"), (9, "initialize")] {
        gate.say(&request(id, method));
        assert_eq!(gate.answer()["result"]["content"][0]["text"], "ok", "{method} passes");
    }
    // An answer to a sampling request stays here; its server is told that there is none.
    gate.say(r#"{"jsonrpc":"2.0","id":"s1","result":{"role":"assistant","content":"private words"}}"#);
    gate.say(r#"{"jsonrpc":"2.0","id":"s2","result":{}}"#);
    gate.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    gate.until_seen("notifications/initialized");
    let seen = gate.seen();
    assert!(!seen.contains("private words") && !seen.contains("prompts/get"), "{seen}");
    assert!(seen.contains(r#""id":"s1","error":"#) && seen.contains(r#""id":"s2","result":{}"#), "{seen}");
    let (status, said) = house.owner("POST", "/api/agents/a1/activate", "");
    assert_eq!(status, 200, "{said}");
    gate.say(&request(10, "resources/read"));
    assert_eq!(gate.answer()["id"], 10);
}

#[test]
fn ks_2_the_button_cancels_calls_and_ends_the_server_with_all_it_started() {
    let house = House::new("");
    let _estop = house.start();
    let mut gate = Gate::start(&house, &["--agent", "a1"], &[]);
    until_watched(&mut gate);
    gate.call(1, "fork");
    let pid = gate.answer()["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    gate.call(2, "slow");
    gate.until_seen("slow");
    kill(&house, r#"{"reason":"manual"}"#);
    gate.error(2);
    let code = wait("the gate ends", || gate.process.try_wait().unwrap()).code();
    assert_eq!(code, Some(128 + 15));
    // Gone, or dead and not buried by whoever adopted it.
    let is_gone = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.is_empty() || stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
    };
    wait("what it started is gone", || is_gone().then_some(()));
    let gate = Gate::start(&house, &["--agent", "a1"], &[]);
    assert_eq!(gate.exit(), Some(1), "no server starts while the button is pressed");
}

#[test]
fn ks_3_the_button_counts_though_no_estop_answers() {
    let house = House::new("");
    house.start().end();
    let mut gate = Gate::start(&house, &["--agent", "a1", "--on-unreachable", "allow"], &[]);
    gate.call(1, "add");
    assert_eq!(gate.answer()["id"], 1);
    gate.call(2, "slow");
    gate.until_seen("slow");
    house.run(&["kill", "--data-dir", "data"]);
    gate.error(2);
    assert_eq!(wait("the gate ends", || gate.process.try_wait().unwrap()).code(), Some(128 + 15));
}

#[test]
fn tl_3_without_estop_calls_run_outside_of_a_run_and_not_inside() {
    let house = House::new("");
    let mut outside = Gate::start(&house, &[], &[]);
    outside.call(1, "add");
    assert_eq!(outside.answer()["result"]["isError"], Value::Null);
    for variable in ["ESTOP_RUN", "ESTOP_TICKET"] {
        let mut inside = Gate::start(&house, &[], &[(variable, "r1")]);
        inside.call(1, "inside");
        assert!(inside.error(1).contains("estop serve"));
        assert!(!inside.seen().contains("inside"));
        inside.say(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
        assert_eq!(inside.answer()["id"], 2);
    }
}

#[test]
fn tl_3_a_call_taken_back_before_it_was_decided_about_is_no_reason_to_wait() {
    let house = House::new("");
    let _estop = house.start();
    let mut gate = Gate::start(&house, &["--agent", "a1"], &[]);
    gate.call(1, "slow");
    gate.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    gate.call(2, "add");
    assert_eq!(gate.answer()["id"], 2, "nobody answers what was taken back");
    // A signal to the gate ends its server.
    let pid = gate.process.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(wait("the gate ends", || gate.process.try_wait().unwrap()).code(), Some(128 + 15));
}

#[test]
fn tl_3_install_mcp_puts_servers_behind_the_gate_and_uninstall_takes_them_back() {
    let house = House::new("");
    let home = house.folder.path();
    let before = "{\n  \"mcpServers\": {\n    \"fs\": {\"command\": \"cat\", \"args\": [\"-u\"]},\n    \"web\": {\"type\": \"http\", \"url\": \"https://x.example/mcp\"}\n  }\n}\n";
    let file = home.join(".claude.json");
    std::fs::write(&file, before).unwrap();
    let estop = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_estop"));
        command.args(args).env("HOME", home).env_remove("CLAUDE_CONFIG_DIR").current_dir(home);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let text = || std::fs::read_to_string(&file).unwrap();
    let (_, said) = estop(&["install", "mcp", "--client", "claude-code", "--dry-run"]);
    assert!(said.contains("--installed") && text() == before, "{said}");
    let (code, said) = estop(&["install", "mcp", "--client", "claude-code", "--agent", "a1"]);
    assert_eq!(code, Some(1), "one of them is not behind it: {said}");
    assert!(said.contains("mcp: {servers: {web: {url: \"https://x.example/mcp\"}}}"), "{said}");
    let after: Value = serde_json::from_str(&text()).unwrap();
    let fs = &after["mcpServers"]["fs"];
    let folder = home.join(".local/state/estop");
    let folder = folder.to_str().unwrap();
    let gate = ["mcp", "--agent", "a1", "--on-unreachable", "deny", "--data-dir", folder];
    let words = [&gate[..], &["--server", "fs", "--installed", "--", "cat", "-u"]].concat();
    assert_eq!(fs["args"], json!(words), "{said}");
    assert!(fs["command"].as_str().unwrap().ends_with("/estop"));
    let (_, again) = estop(&["install", "mcp", "--client", "claude-code", "--agent", "a1"]);
    assert!(again.contains("nothing to change"), "{again}");
    // What was written there works.
    let mut gate = Command::new(fs["command"].as_str().unwrap())
        .args(fs["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()))
        .env("HOME", home)
        .env_remove("ESTOP_RUN")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    gate.stdin.take().unwrap().write_all(b"{\"id\":1,\"method\":\"ping\"}\n").unwrap();
    let output = gate.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"{\"id\":1,\"method\":\"ping\"}\n");
    let (code, said) = estop(&["uninstall", "mcp", "--client", "claude-code"]);
    assert_eq!((code, text().as_str()), (Some(0), before), "{said}");
    assert!(!home.join(".claude.json.estop-backup").exists());
}
