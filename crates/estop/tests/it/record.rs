//! `estop record` (LD-7, ID-3): real traffic through the proxy, recorded, and judged again by `estop eval`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use estop_fake_model::ToolCall;
use estop_fake_model::script::{Delay, Reply};
use serde_json::{Value, json};

use crate::house::{Estop, House, PATIENCE, until};
use crate::ran::Ran;

/// Secrets of several kinds; none may be found in the file.
const CANARIES: [&str; 5] = [
    "sk-proj-c4n4ry0123456789",
    "c4n4ry-hunter2",
    "c4n4ry@example.com",
    "eyJc4n4ry0.eyJzdWIiOiIxMjM0.sig",
    "MIIEc4n4ry",
];
/// A word of the prompts, for those who must not keep them.
const WORD: &str = "zanzibar";

fn house() -> House {
    let house = House::new("");
    let at = house.model.addr();
    let config = format!(
        "listen: {{data: 127.0.0.1:0, admin: 127.0.0.1:0}}\npolicy: {{guards: {{loop: shadow}}, evidence: off}}\n\
         providers:\n  openai: {{base_url: \"http://{at}\"}}\n  anthropic: {{base_url: \"http://{at}\"}}\n  \
         gemini: {{base_url: \"http://{at}\"}}\n"
    );
    std::fs::write(house.folder.path().join("estop.yaml"), config).unwrap();
    house
}

fn open(to: SocketAddr, path: &str, body: &Value) -> TcpStream {
    let body = body.to_string();
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "POST /agents/coder{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         authorization: Bearer sk-of-the-client\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    stream
}

fn post(to: SocketAddr, path: &str, body: &Value) {
    let mut answer = String::new();
    open(to, path, body).read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

fn says(text: &str) -> Reply {
    Reply { text: Some(text.to_owned()), ..Reply::default() }
}

fn calls(tool: &str, arguments: Value) -> Reply {
    let call = ToolCall { name: tool.to_owned(), arguments, kind: Default::default(), namespace: None };
    Reply { tool_calls: vec![call], ..Reply::default() }
}

/// One conversation in one protocol. Each step asks, and writes the call with its result into the history.
struct Client<'a> {
    house: &'a House,
    estop: &'a Estop,
    speaks: Speaks,
    stream: bool,
    history: Vec<Value>,
    calls: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Speaks {
    Chat,
    Anthropic,
    Responses,
    Gemini,
}

impl<'a> Client<'a> {
    fn new(house: &'a House, estop: &'a Estop, speaks: Speaks, stream: bool, prompt: &str) -> Client<'a> {
        let mut client = Client { house, estop, speaks, stream, history: Vec::new(), calls: 0 };
        client.person(prompt);
        client
    }

    fn person(&mut self, words: &str) {
        self.history.push(match self.speaks {
            Speaks::Gemini => json!({"role": "user", "parts": [{"text": words}]}),
            Speaks::Chat | Speaks::Anthropic | Speaks::Responses => json!({"role": "user", "content": words}),
        });
    }

    fn request(&self) -> (&'static str, Value) {
        let (history, stream) = (&self.history, self.stream);
        match self.speaks {
            Speaks::Chat => {
                ("/openai/v1/chat/completions", json!({"model": "m", "stream": stream, "messages": history}))
            }
            Speaks::Anthropic => (
                "/anthropic/v1/messages",
                json!({"model": "m", "max_tokens": 99, "stream": stream, "system": "Be brief.", "messages": history}),
            ),
            Speaks::Responses => {
                ("/openai/v1/responses", json!({"model": "m", "stream": stream, "input": history}))
            }
            Speaks::Gemini if stream => {
                ("/gemini/v1beta/models/m:streamGenerateContent?alt=sse", json!({"contents": history}))
            }
            Speaks::Gemini => ("/gemini/v1beta/models/m:generateContent", json!({"contents": history})),
        }
    }

    fn ask(&self, reply: Reply) {
        self.house.model.always(reply);
        let (path, body) = self.request();
        post(self.estop.address, path, &body);
    }

    fn step(&mut self, tool: &str, args: &Value, result: &str, failed: bool) {
        self.ask(calls(tool, args.clone()));
        self.calls += 1;
        let id = format!("call-{}", self.calls);
        let new = match self.speaks {
            Speaks::Chat => [
                json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function",
                    "function": {"name": tool, "arguments": args.to_string()}}]}),
                json!({"role": "tool", "tool_call_id": id, "content": result}),
            ],
            Speaks::Anthropic => [
                json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": tool, "input": args}]}),
                json!({"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": id, "content": result, "is_error": failed}]}),
            ],
            Speaks::Responses => [
                json!({"type": "function_call", "call_id": id, "name": tool, "arguments": args.to_string()}),
                json!({"type": "function_call_output", "call_id": id, "output": result}),
            ],
            Speaks::Gemini => [
                json!({"role": "model", "parts": [{"functionCall": {"name": tool, "args": args}}]}),
                json!({"role": "user", "parts": [{"functionResponse": {"name": tool, "response": {"output": result}}}]}),
            ],
        };
        self.history.extend(new);
    }

    /// An answer in words, and what the person says to it.
    fn talk(&mut self, text: &str, reply: &str) {
        self.ask(says(text));
        self.history.push(match self.speaks {
            Speaks::Gemini => json!({"role": "model", "parts": [{"text": text}]}),
            Speaks::Chat | Speaks::Anthropic | Speaks::Responses => {
                json!({"role": "assistant", "content": text})
            }
        });
        self.person(reply);
    }
}

/// `estop record` in a house, until it is told to end.
struct Recorder {
    process: Child,
    said: BufReader<std::process::ChildStderr>,
}

impl Recorder {
    fn start(house: &House, options: &[&str]) -> Recorder {
        let mut command = Command::new("env");
        command.args([
            "--default-signal=HUP,INT,TERM",
            env!("CARGO_BIN_EXE_estop"),
            "record",
            "--agent",
            "coder",
        ]);
        command.args(["--out", "rec.jsonl", "--data-dir", "data", "--json"]).args(options);
        command.current_dir(house.folder.path()).env_remove("ESTOP_URL").env_remove("ESTOP_TOKEN");
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.starts_with("estop: recording coder into rec.jsonl"), "{line}");
        Recorder { process, said }
    }

    fn end(self, house: &House) -> (Value, Vec<Value>) {
        self.end_by(house, "-INT")
    }

    fn end_by(self, house: &House, signal: &str) -> (Value, Vec<Value>) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        self.ended(house)
    }

    fn ended(mut self, house: &House) -> (Value, Vec<Value>) {
        let mut more = String::new();
        self.said.read_to_string(&mut more).unwrap();
        let ran = Ran::of(&self.process.wait_with_output().unwrap());
        let text = std::fs::read_to_string(house.folder.path().join("rec.jsonl")).unwrap();
        (ran.json(), text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }
}

/// The loop guard's place among the rulings of a record. The others count what all conversations of an agent do together.
const LOOP: usize = 7;

/// What the loop guard saw at each request of each conversation, and whether it would have stopped it.
fn findings(journal: &Path, key: impl Fn(&Value) -> String) -> BTreeMap<String, Vec<Value>> {
    let text = std::fs::read_to_string(journal).unwrap();
    let mut all: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        if record["event"]["type"] != "request_received" {
            continue;
        }
        let seen = &record["decision"]["seen"]["loop"];
        let stretch = &seen["stretch"];
        let shown = json!({
            "score": seen["score"], "prompts": seen["prompts"], "responses": seen["responses"], "calls": seen["calls"],
            "steps": stretch["steps"], "failures": stretch["failures"], "repeats": stretch["repeats"],
            "novelty": stretch["novelty"], "pace": stretch["pace"], "percent": stretch["percent"],
            "ruling": record["decision"]["rulings"].as_str().unwrap().chars().nth(LOOP),
        });
        all.entry(key(&record)).or_default().push(shown);
    }
    all
}

/// The live findings of each recorded trace, and those of `estop eval` over the recording: they are the same.
fn assert_judged_alike(house: &House, traces: &[Value]) {
    let folder = house.folder.path();
    for file in ["live.jsonl", "eval.jsonl"] {
        let _ = std::fs::remove_file(folder.join(file));
    }
    house.estop(&["journal", "export", "--output", "live.jsonl"]).is(0, "");
    let policy = "policy: {guards: {loop: shadow}}\n";
    std::fs::write(folder.join("policy.yaml"), policy).unwrap();
    let judged =
        house.command(&["eval", "rec.jsonl", "--policy", "policy.yaml", "--journal", "eval.jsonl"]).output();
    Ran::of(&judged.unwrap()).is(0, "");
    let conversation =
        |record: &Value| record["event"]["data"]["print"]["conversation"].as_str().unwrap().to_owned();
    let live = findings(&folder.join("live.jsonl"), conversation);
    let again = findings(&folder.join("eval.jsonl"), |record| record["agent"].as_str().unwrap().to_owned());
    // The recording does not say which conversation a trace is, so each is looked for among all.
    assert_eq!(again.len(), live.len());
    let mut left: Vec<&Vec<Value>> = live.values().collect();
    for trace in traces {
        let again = &again[trace["id"].as_str().unwrap()];
        let at = left.iter().position(|live| *live == again);
        assert!(at.is_some(), "judged otherwise: {trace}\n{again:#?}");
        left.remove(at.unwrap());
    }
}

#[test]
fn ld_7_what_is_recorded_is_judged_as_the_proxy_judged_it() {
    let house = house();
    let estop = house.start();
    let recorder = Recorder::start(&house, &[]);
    let begin = |speaks, stream, prompt: &str| {
        Client::new(&house, &estop, speaks, stream, &format!("{WORD} {prompt}"))
    };
    let mut stuck = begin(Speaks::Chat, false, "fix the tests");
    let mut busy = begin(Speaks::Anthropic, true, "read everything");
    let mut checks = begin(Speaks::Responses, true, "wait for the build");
    let mut polls = begin(Speaks::Gemini, false, "look at the queue");
    for round in 0..12 {
        stuck.step(
            "run_tests",
            &json!({"command": "make test"}),
            "Error: 3 tests failed\nassertion left == right",
            true,
        );
        let args = json!({"path": format!("src/part{round}.rs")});
        busy.step(
            "read",
            &args,
            &format!("fn part{round}() words like number{round} and colour{round}"),
            round == 5,
        );
        checks.step("check", &json!({"job": 7}), "still running", false);
        polls.step("queue", &json!({}), "[]", false);
    }
    stuck.talk("I cannot go on.", "Try the other branch.");
    stuck.step("git", &json!({"command": "git switch other"}), "Switched to branch 'other'", false);
    stuck.ask(says("Done."));
    // Compacted: the client begins anew with a summary.
    let mut compacted = begin(Speaks::Anthropic, true, "summary: all parts were read");
    compacted.step("read", &json!({"path": "src/last.rs"}), "fn last()", false);
    compacted.ask(says("All read."));
    let mut talks = begin(Speaks::Chat, true, "let us talk");
    for _ in 0..4 {
        talks.talk("I will now run the tests.", "Go ahead.");
    }
    let (summary, traces) = recorder.end_by(&house, "-HUP");
    assert_eq!(summary["ended"], "by a signal", "{summary}");
    assert_eq!(traces.len(), 6, "{summary}");
    assert_judged_alike(&house, &traces);
    let listed = house.command(&["eval", "rec.jsonl", "--list", "--json"]).output().unwrap();
    let listed = Ran::of(&listed).json();
    let stopped: Vec<&Value> =
        listed["traces"].as_array().unwrap().iter().filter(|trace| !trace["reason"].is_null()).collect();
    assert!(stopped.iter().any(|trace| trace["id"] == traces[0]["id"]), "the stuck one: {listed}");
    assert!(!stopped.iter().any(|trace| trace["id"] == traces[1]["id"]), "not the busy one: {listed}");
    // It is journaled, and nothing else of it is kept.
    let events = house.owner("GET", "/api/events?type=access_changed", "").1;
    assert!(events.contains("recording of coder began, for at most 3600 s"), "{events}");
    until("the end in the journal", || {
        house.owner("GET", "/api/events?type=access_changed", "").1.contains("recording of coder ended")
    });
    estop.end();
    let found =
        Command::new("grep").args(["-rl", WORD, "data"]).current_dir(house.folder.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "prompts in the data directory");
}

#[test]
fn id_3_secrets_are_not_in_the_file_and_it_is_the_owners_alone() {
    let house = house();
    let estop = house.start();
    let recorder = Recorder::start(&house, &[]);
    let [key, password, mail, jwt, pem] = CANARIES;
    let mut client = Client::new(&house, &estop, Speaks::Chat, true, &format!("use {key}, mail {mail}"));
    let args = json!({"path": ".env", "content": format!("DB_PASSWORD={password}\nOPENAI_API_KEY={key}\n")});
    client.step("write", &args, &format!("wrote .env: token {jwt}"), false);
    let result = format!(
        "-----BEGIN PRIVATE KEY-----\n{pem}\n-----END PRIVATE KEY-----\n{{\"password\": \"{password}\"}}"
    );
    client.step(
        "cat",
        &json!({"command": format!("curl -H 'Authorization: Bearer {jwt}' x")}),
        &result,
        false,
    );
    client.step(
        "cat",
        &json!({"command": "cat big"}),
        &format!("A_KEY={}", "A_KEY=x ".repeat(10 << 17)),
        false,
    );
    client.ask(says(&format!("The password is set: password={password}")));
    let (summary, traces) = recorder.end(&house);
    assert_eq!((&summary["left_out"], traces.len()), (&json!(0), 1), "{summary}");
    let file = house.folder.path().join("rec.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    for canary in CANARIES {
        assert!(!text.contains(canary), "{canary} in {text}");
    }
    assert!(!text.contains("sk-of-the-client"), "nor what its client shows the provider");
    assert!(text.len() < 200_000 && text.contains("[cut: "), "{} bytes", text.len());
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let again = house.estop(&["record", "--agent", "coder", "--out", "rec.jsonl"]);
    again.is(2, "cannot create rec.jsonl");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "nothing is written over");
    estop.end();
}

#[test]
fn ld_7_clients_that_leave_and_providers_that_fail_are_recorded_as_such() {
    let house = house();
    let estop = house.start();
    let recorder = Recorder::start(&house, &[]);
    let mut client = Client::new(&house, &estop, Speaks::Chat, true, "go on and on");
    client.step("ls", &json!({}), "a b c", false);
    // It leaves in the middle of an answer, and asks again.
    let delay = Delay { chunk_ms: 20, ..Delay::default() };
    house.model.always(Reply { endless: true, text: Some("more ".to_owned()), delay, ..Reply::default() });
    let (path, body) = client.request();
    let mut stream = open(estop.address, path, &body);
    stream.read_exact(&mut [0; 400]).unwrap();
    drop(stream);
    let in_flight = || house.owner("GET", "/api/stats", "").1.contains("\"in_flight\":0");
    until("the end of what its client left", in_flight);
    // The provider fails, and the client asks once more.
    house.model.always(Reply { status: Some(500), ..Reply::default() });
    let mut failed = String::new();
    open(estop.address, path, &body).read_to_string(&mut failed).unwrap();
    assert!(failed.starts_with("HTTP/1.1 500"), "{failed}");
    client.step("ls", &json!({"path": "a"}), "d e f", false);
    client.ask(says("Done."));
    let (_, traces) = recorder.end(&house);
    assert_eq!(traces.len(), 1);
    assert_eq!(traces[0]["meta"]["retried"], 1, "{}", traces[0]);
    let ended: Vec<&Value> =
        traces[0]["messages"].as_array().unwrap().iter().map(|message| &message["ended"]).collect();
    assert_eq!(ended.iter().filter(|ended| **ended == "aborted").count(), 1, "{}", traces[0]);
    assert_eq!(
        traces[0]["meta"]["at"].as_array().unwrap().len(),
        4,
        "asked four times, the failed one aside"
    );
    estop.end();
}

#[test]
fn se_4_only_an_admin_records_one_at_a_time_and_a_refusal_leaves_no_file() {
    let house = house();
    let estop = house.start();
    let operator = house.estop(&["token", "create", "--role", "operator", "--name", "op", "--json"]).json();
    let token = operator["token"].as_str().unwrap();
    let ask = ["record", "--agent", "coder", "--out", "rec.jsonl"];
    house.estop_as(&estop, token, &ask).is(1, "role admin");
    house.estop_at(&estop, &ask).is(1, "");
    let (status, said) = house.owner("POST", "/api/agents/coder/recording", r#"{"for_s":0,"max_mb":1}"#);
    assert_eq!(status, 400, "{said}");
    assert!(!house.folder.path().join("rec.jsonl").exists());
    let recorder = Recorder::start(&house, &[]);
    let second = house.estop(&["record", "--agent", "coder", "--out", "other.jsonl"]);
    second.is(1, "There is a recording of coder already, by owner");
    house.estop(&["status"]).is(0, "coder, by owner");
    recorder.end(&house);
    until("no recording", || !house.estop(&["status"]).out.contains("coder, by"));
    estop.end();
}

#[test]
fn ld_7_a_recording_ends_by_its_size_and_with_estop() {
    let house = house();
    let estop = house.start();
    let recorder = Recorder::start(&house, &["--max-mb", "1"]);
    let mut client = Client::new(&house, &estop, Speaks::Chat, false, "much");
    for round in 0..40 {
        client.step("cat", &json!({"n": round}), &format!("{round} {}", "words ".repeat(10_000)), false);
    }
    let (summary, traces) = recorder.ended(&house);
    assert_eq!(summary["ended"], "the size is reached", "{summary}");
    assert_eq!(traces.len(), 1);
    std::fs::remove_file(house.folder.path().join("rec.jsonl")).unwrap();
    let recorder = Recorder::start(&house, &[]);
    client.ask(says("x"));
    estop.end();
    let (summary, _) = recorder.ended(&house);
    assert_eq!(summary["ended"], "estop is gone", "{summary}");
}
