//! `estop hook` against a daemon that answers well, badly, late or not at all (TL-1).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use crate::ran::Ran;
use estop_core::system::button::Latched;
use estop_core::system::{Channel, Channels, GateView, SystemState};
use estop_store::{LatchFile, latch_path};
use estop_wire::hooks::{HookClient, HookEvent, PAYLOAD_BYTES_MAX};
use serde_json::{Value, json};
use tempfile::TempDir;

const PAYLOAD: &str =
    r#"{"session_id":"s1","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}"#;

/// One `estop hook` in a home of its own, with nothing in its environment but what is set here.
struct Hook {
    home: TempDir,
    env: Vec<(&'static str, String)>,
}

impl Hook {
    fn new() -> Hook {
        Hook { home: TempDir::new().unwrap(), env: Vec::new() }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Hook {
        self.env.push((name, value.into()));
        self
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_estop"));
        command.args(args).env_clear().env("HOME", self.home.path()).current_dir(self.home.path());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &[&str], stdin: &[u8]) -> Ran {
        let mut child = self.command(args).spawn().unwrap();
        let mut to = child.stdin.take().unwrap();
        // It need not read all of it.
        let _ = to.write_all(stdin);
        drop(to);
        Ran::of(&child.wait_with_output().unwrap())
    }

    /// A daemon that answers one request with these bytes, in the usual place; joining it gives the request.
    fn daemon(&self, answer: impl Into<Vec<u8>>) -> JoinHandle<Vec<u8>> {
        let folder = self.home.path().join(".local/state/estop");
        std::fs::create_dir_all(&folder).unwrap();
        daemon_at(&folder.join("estop.sock"), answer)
    }
}

fn daemon_at(socket: &Path, answer: impl Into<Vec<u8>>) -> JoinHandle<Vec<u8>> {
    let listener = UnixListener::bind(socket).unwrap();
    let answer = answer.into();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut piece = [0; 4096];
        while !is_whole(&request) {
            let bytes = stream.read(&mut piece).unwrap();
            assert!(bytes > 0, "the request breaks off: {}", String::from_utf8_lossy(&request));
            request.extend_from_slice(&piece[..bytes]);
        }
        stream.write_all(&answer).unwrap();
        request
    })
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    body.len() >= length.parse::<usize>().unwrap()
}

fn http(status: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A "no" as estop itself writes it.
fn problem(status: u16, code: &str, detail: &str) -> String {
    let kind = format!("/api/docs#{code}");
    let body = json!({"type": kind, "title": "No", "status": status, "code": code, "detail": detail});
    http(&format!("{status} No"), &body).replace("application/json", "application/problem+json")
}

fn good(stdout: &str, stderr: &str, exit_code: u8) -> String {
    http("200 OK", &json!({"stdout": stdout, "stderr": stderr, "exit_code": exit_code}))
}

/// Whether the client would not run the tool, by its contract.
fn refuses(client: HookClient, ran: &Ran) -> bool {
    let said: Value = serde_json::from_str(&ran.out).unwrap_or_default();
    match client {
        HookClient::ClaudeCode | HookClient::Codex | HookClient::Qwen => {
            said["hookSpecificOutput"]["permissionDecision"] == "deny" && ran.code == 2
        }
        HookClient::GeminiCli => said["decision"] == "deny" && ran.code == 2,
        HookClient::Copilot => said["permissionDecision"] == "deny" && ran.code == 2,
        HookClient::Cline => said["cancel"] == true && ran.code == 0,
        HookClient::Cursor => said["permission"] == "deny" && ran.code == 0,
        HookClient::Opencode | HookClient::OpenClaw | HookClient::Generic => {
            said["permission"] == "deny" && ran.code == 2
        }
    }
}

fn before_tool(client: HookClient) -> &'static str {
    client.events().iter().find(|(_, event)| *event == HookEvent::ToolRequested).unwrap().0
}

#[test]
fn tl_1_the_payload_goes_as_it_is_and_the_answer_comes_as_it_is() {
    let hook =
        Hook::new().with("ESTOP_AGENT", "coder").with("ESTOP_RUN", "nightly").with("ESTOP_TICKET", "abc");
    let daemon = hook.daemon(good("{\"a\":\"ü\"}", "because", 2));
    let ran = hook.run(&["hook", "claude-code", "PreToolUse", "--installed"], PAYLOAD.as_bytes());
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (2, "{\"a\":\"ü\"}", "because\n"));
    let request = String::from_utf8(daemon.join().unwrap()).unwrap();
    assert!(
        request.starts_with("POST /api/hooks/claude-code/PreToolUse?as=command HTTP/1.1\r\n"),
        "{request}"
    );
    for header in ["x-estop-agent: coder", "x-estop-run: nightly", "x-estop-ticket: abc"] {
        assert!(request.contains(&format!("\r\n{header}\r\n")), "{header}: {request}");
    }
    assert!(request.ends_with(&format!("\r\n\r\n{PAYLOAD}")), "{request}");
}

#[test]
fn tl_1_options_may_stand_before_the_word_hook_and_the_payload_names_the_event() {
    let hook = Hook::new();
    let other = hook.home.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let daemon = daemon_at(&other.join("estop.sock"), good("", "", 0));
    let folder = other.to_str().unwrap();
    let ran = hook.run(&["--agent", "a1", "--data-dir", folder, "hook", "codex"], PAYLOAD.as_bytes());
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
    let request = String::from_utf8(daemon.join().unwrap()).unwrap();
    assert!(request.starts_with("POST /api/hooks/codex/PreToolUse?as=command "), "{request}");
    assert!(request.contains("x-estop-agent: a1\r\n"), "{request}");
}

#[test]
fn tl_1_a_supervisor_goes_before_what_was_installed_and_after_what_a_person_says() {
    for (installed, ticket, expected) in
        [(true, true, "supervised"), (true, false, "named"), (false, true, "named"), (false, false, "named")]
    {
        let mut hook = Hook::new().with("ESTOP_AGENT", "supervised");
        if ticket {
            hook = hook.with("ESTOP_TICKET", "abc");
        }
        let daemon = hook.daemon(good("", "", 0));
        let mut args = vec!["--agent", "named", "hook", "codex", "PreToolUse"];
        args.extend(installed.then_some("--installed"));
        hook.run(&args, PAYLOAD.as_bytes()).is(0, "");
        let request = String::from_utf8(daemon.join().unwrap()).unwrap();
        assert!(request.contains(&format!("x-estop-agent: {expected}\r\n")), "{request}");
    }
}

/// Whoever sets a hook's environment, as a repository's settings can, does not answer in the place of the estop that was
/// written into the command; and what it says of agent, run and ticket is of another estop.
#[test]
fn tl_1_an_installed_hook_asks_the_estop_that_was_written_whatever_the_environment_says() {
    let hook = Hook::new();
    let [written, evil] = ["written", "evil"].map(|name| hook.home.path().join(name));
    for folder in [&written, &evil] {
        std::fs::create_dir(folder).unwrap();
    }
    let evil_socket = evil.join("estop.sock");
    let _evil = UnixListener::bind(&evil_socket).unwrap();
    let hook = hook
        .with("ESTOP_SOCKET", evil_socket.to_str().unwrap())
        .with("ESTOP_URL", "http://127.0.0.1:1")
        .with("ESTOP_TICKET", "of-evil")
        .with("ESTOP_RUN", "of-evil")
        .with("ESTOP_AGENT", "of-evil");
    let folder = written.to_str().unwrap();
    let line = ["--agent", "coder", "--on-unreachable", "deny", "--data-dir", folder];
    let line = [&line[..], &["hook", "claude-code", "PreToolUse", "--installed"]].concat();
    let nobody = hook.run(&line, PAYLOAD.as_bytes());
    assert!(refuses(HookClient::ClaudeCode, &nobody), "{nobody:?}");
    assert!(nobody.out.contains("written/estop.sock"), "{nobody:?}");
    let daemon = daemon_at(&written.join("estop.sock"), good("", "no", 2));
    assert_eq!(hook.run(&line, PAYLOAD.as_bytes()).code, 2);
    let request = String::from_utf8(daemon.join().unwrap()).unwrap();
    assert!(request.contains("x-estop-agent: coder\r\n") && !request.contains("of-evil"), "{request}");
}

#[test]
fn tl_1_without_a_daemon_tools_are_refused_inside_a_run_and_run_outside() {
    for client in HookClient::ALL {
        let args = ["hook", client.name(), before_tool(client), "--installed"];
        let outside = Hook::new().run(&args, b"{}");
        assert!(!refuses(client, &outside), "{client:?}: {outside:?}");
        assert_eq!(outside.code, 0, "{client:?}: {outside:?}");
        outside.is(0, "was NOT checked");
        for variable in ["ESTOP_RUN", "ESTOP_TICKET"] {
            let inside = Hook::new().with(variable, "r1").run(&args, b"{}");
            assert!(refuses(client, &inside), "{client:?}: {inside:?}");
            assert!(inside.out.contains("there is no socket"), "{inside:?}");
            assert!(inside.out.contains("estop serve"), "{inside:?}");
        }
        let told = Hook::new().with("ESTOP_ON_UNREACHABLE", "deny").run(&args, b"{}");
        assert!(refuses(client, &told), "{client:?}: {told:?}");
        let by_option = [&["--on-unreachable", "allow"], &args[..]].concat();
        let allowed = Hook::new().with("ESTOP_RUN", "r1").run(&by_option, b"{}");
        assert!(!refuses(client, &allowed), "{client:?}: {allowed:?}");
    }
}

/// Plain text of either stream would be an answer: `decision: "allow"`.
#[test]
fn tl_1_gemini_cli_and_qwen_read_no_permission_out_of_a_notice() {
    for client in [HookClient::GeminiCli, HookClient::Qwen] {
        let ran = Hook::new().run(&["hook", client.name(), before_tool(client)], b"{}");
        assert_eq!(ran.err, "");
        assert!(ran.json()["systemMessage"].is_string() && ran.json()["decision"].is_null(), "{ran:?}");
    }
}

#[test]
fn tl_1_at_other_moments_an_unreachable_estop_disturbs_nobody() {
    for client in HookClient::ALL {
        for (name, event) in client.events() {
            if *event == HookEvent::ToolRequested {
                continue;
            }
            let ran = Hook::new().with("ESTOP_RUN", "r1").run(&["hook", client.name(), name], b"{}");
            assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{client:?} {name}: {ran:?}");
            assert!(!refuses(client, &ran), "{client:?} {name}: {ran:?}");
        }
    }
}

#[test]
fn tl_1_a_strange_answer_counts_as_none_and_never_ends_with_1() {
    let long = format!("HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n{}", "x".repeat(2 << 20));
    let strange: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(),
        vec![0xff; 300],
        b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
        b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{\"stdout\":\"\"".to_vec(),
        b"HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551615\r\n\r\n{}".to_vec(),
        http("200 OK", &json!({"stdout": ""})).into_bytes(),
        http("200 OK", &json!([])).into_bytes(),
        good("", "", 1).into_bytes(),
        good("", "", 127).into_bytes(),
        http("404 Not Found", &json!({"detail": "no such route"})).into_bytes(),
        http("503 Service Unavailable", &json!({"detail": "starting"})).into_bytes(),
        long.into_bytes(),
    ];
    for answer in strange {
        let shown = String::from_utf8_lossy(&answer[..answer.len().min(80)]).into_owned();
        let hook = Hook::new().with("ESTOP_RUN", "r1");
        // It may be gone before all of a long answer was written.
        let _daemon = hook.daemon(answer.clone());
        let ran = hook.run(&["hook", "claude-code", "PreToolUse"], PAYLOAD.as_bytes());
        assert!(refuses(HookClient::ClaudeCode, &ran), "{shown:?}: {ran:?}");
        let hook = Hook::new();
        let _daemon = hook.daemon(answer);
        hook.run(&["hook", "claude-code", "PreToolUse"], PAYLOAD.as_bytes()).is(0, "was NOT checked");
    }
}

#[test]
fn tl_1_an_estop_that_says_no_refuses_also_outside_a_run() {
    for (status, code) in [
        (401, "unauthenticated"),
        (403, "forbidden"),
        (404, "not_found"),
        (409, "conflict"),
        (429, "too_many_attempts"),
        (500, "internal"),
        (503, "unavailable"),
    ] {
        let hook = Hook::new();
        let _daemon = hook.daemon(problem(status, code, "this run is over."));
        let ran = hook.run(&["hook", "claude-code", "PreToolUse"], PAYLOAD.as_bytes());
        assert!(refuses(HookClient::ClaudeCode, &ran), "{status}: {ran:?}");
        ran.is(2, "this run is over");
    }
}

/// More than a socket holds: the daemon says no and is gone before all of it is written.
#[test]
fn tl_1_a_no_that_comes_before_the_payload_is_written_is_heard() {
    let hook = Hook::new();
    let folder = hook.home.path().join(".local/state/estop");
    std::fs::create_dir_all(&folder).unwrap();
    let listener = UnixListener::bind(folder.join("estop.sock")).unwrap();
    let daemon = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut piece = [0; 1024];
        assert!(stream.read(&mut piece).unwrap() > 0);
        stream.write_all(problem(401, "unauthenticated", "this ticket is over.").as_bytes()).unwrap();
    });
    let mut payload: Value = serde_json::from_str(PAYLOAD).unwrap();
    payload["tool_input"]["command"] = json!("x".repeat(1_000_000));
    let args = ["hook", "claude-code", "PreToolUse", "--on-unreachable", "allow"];
    let ran = hook.run(&args, payload.to_string().as_bytes());
    assert!(refuses(HookClient::ClaudeCode, &ran), "{ran:?}");
    ran.is(2, "this ticket is over");
    daemon.join().unwrap();
}

#[test]
fn ks_3_a_pressed_button_refuses_tools_though_nobody_answers() {
    let args = ["hook", "claude-code", "PreToolUse", "--on-unreachable", "allow"];
    let ask = |hook: &Hook| hook.run(&args, PAYLOAD.as_bytes());
    let hook = Hook::new();
    let folder = hook.home.path().join(".local/state/estop");
    std::fs::create_dir_all(&folder).unwrap();
    ask(&hook).is(0, "was NOT checked");
    let gate = |state, shut| GateView { epoch: 1, state, shut };
    for (gate, is_refused) in [
        (GateView::OPEN, false),
        (gate(SystemState::Running, Channels::NONE.with(Channel::Tools)), true),
        (gate(SystemState::Shutdown, Channels::ALL), true),
    ] {
        LatchFile::of(&folder, "test").write(&Latched::at_start(gate, 0)).unwrap();
        let ran = ask(&hook);
        assert_eq!(refuses(HookClient::ClaudeCode, &ran), is_refused, "{gate:?}: {ran:?}");
        ran.is(
            if is_refused { 2 } else { 0 },
            if is_refused { "Stopped by estop" } else { "was NOT checked" },
        );
    }
    // At other moments nothing is said, as ever.
    let ended =
        hook.run(&["hook", "claude-code", "Stop"], br#"{"session_id":"s1","hook_event_name":"Stop"}"#);
    assert_eq!(ended.code, 0, "{ended:?}");
    std::fs::write(latch_path(&folder), "rubbish").unwrap();
    ask(&hook).is(2, "counts as pressed");
    std::fs::remove_file(latch_path(&folder)).unwrap();
    ask(&hook).is(0, "was NOT checked");
    std::fs::write(folder.join("estop.db"), "").unwrap();
    ask(&hook).is(2, "the latch file is missing");
}

#[test]
fn tl_1_a_daemon_that_never_answers_does_not_hold_a_client_up() {
    let hook = Hook::new().with("ESTOP_RUN", "r1");
    let folder = hook.home.path().join(".local/state/estop");
    std::fs::create_dir_all(&folder).unwrap();
    let listener = UnixListener::bind(folder.join("estop.sock")).unwrap();
    let ran = hook.run(&["hook", "codex", "PreToolUse"], PAYLOAD.as_bytes());
    assert!(refuses(HookClient::Codex, &ran), "{ran:?}");
    ran.is(2, "no answer within 5 s");
    drop(listener);
}

#[test]
fn tl_1_a_client_that_never_ends_its_payload_is_answered() {
    let hook = Hook::new().with("ESTOP_RUN", "r1");
    let mut child = hook.command(&["hook", "gemini-cli", "BeforeTool"]).spawn().unwrap();
    let open = child.stdin.take().unwrap();
    let ran = Ran::of(&child.wait_with_output().unwrap());
    assert!(refuses(HookClient::GeminiCli, &ran), "{ran:?}");
    drop(open);
}

#[test]
fn tl_1_a_command_line_that_cannot_be_read_refuses_before_a_tool_and_nowhere_else() {
    for client in HookClient::ALL {
        let ran = Hook::new().run(&["hook", client.name(), before_tool(client), "--newer-option"], b"{}");
        assert!(refuses(client, &ran), "{client:?}: {ran:?}");
        assert!(ran.out.contains("--newer-option"), "{ran:?}");
    }
    let ran = Hook::new().run(&["hook", "claude-code", "Stop", "--newer-option"], b"{}");
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "a refusal there would make it go on: {ran:?}");
    let bad_url = Hook::new().run(&["hook", "codex", "PreToolUse", "--url", "https://x"], PAYLOAD.as_bytes());
    assert!(refuses(HookClient::Codex, &bad_url), "{bad_url:?}");
    let bad_name = Hook::new().with("ESTOP_AGENT", "a\r\nx-estop-agent: b");
    let bad_name = bad_name.run(&["hook", "codex", "PreToolUse"], PAYLOAD.as_bytes());
    assert!(refuses(HookClient::Codex, &bad_name), "{bad_name:?}");
}

#[test]
fn tl_1_an_unknown_client_ends_with_2_and_the_known_ones() {
    let ran = Hook::new().run(&["hook", "claud"], b"{}");
    ran.is(2, "claude-code, codex, gemini-cli");
    Hook::new().run(&["hook"], b"{}").is(2, "CLIENT");
    Hook::new().run(&["hook", "--help"], b"").is(0, "on-unreachable");
}

#[test]
fn tl_1_what_cannot_be_read_and_names_no_event_is_refused() {
    for payload in ["", "{", "[]", "{\"tool_name\": 1}"] {
        let ran = Hook::new().run(&["hook", "codex"], payload.as_bytes());
        assert!(refuses(HookClient::Codex, &ran), "{payload}: {ran:?}");
    }
}

#[test]
fn tl_1_a_payload_beyond_the_limit_is_refused_without_asking() {
    let hook = Hook::new();
    let mut payload = PAYLOAD.as_bytes().to_vec();
    payload.resize(PAYLOAD_BYTES_MAX + 5, b' ');
    let ran = hook.run(&["hook", "claude-code", "PreToolUse"], &payload);
    assert!(refuses(HookClient::ClaudeCode, &ran), "{ran:?}");
    ran.is(2, "at most");
}

#[test]
fn cb_8_the_branch_is_told_from_repositories_worktrees_and_bare_commits() {
    let commit = "0123456789abcdef0123456789abcdef01234567";
    for (head, is_worktree, expected) in [
        ("ref: refs/heads/fix/login\n", false, Some("fix/login")),
        ("ref: refs/heads/main\n", true, Some("main")),
        (commit, false, Some("0123456789ab")),
        ("nonsense", false, None),
        ("ref: refs/heads/a\r\nx-estop-agent: b", false, None),
    ] {
        let hook = Hook::new();
        let (project, git) = (hook.home.path().join("p"), hook.home.path().join("p/.git"));
        let inside = project.join("src/deep");
        std::fs::create_dir_all(&inside).unwrap();
        if is_worktree {
            let real = hook.home.path().join("elsewhere");
            std::fs::create_dir(&real).unwrap();
            std::fs::write(&git, format!("gitdir: {}\n", real.display())).unwrap();
            std::fs::write(real.join("HEAD"), head).unwrap();
        } else {
            std::fs::create_dir(&git).unwrap();
            std::fs::write(git.join("HEAD"), head).unwrap();
        }
        let daemon = hook.daemon(good("", "", 0));
        let mut payload: Value = serde_json::from_str(PAYLOAD).unwrap();
        payload["cwd"] = json!(inside);
        hook.run(&["hook", "claude-code", "PreToolUse"], payload.to_string().as_bytes()).is(0, "");
        let request = String::from_utf8(daemon.join().unwrap()).unwrap();
        let branch = request.lines().find_map(|line| line.strip_prefix("x-estop-branch: "));
        assert_eq!(branch, expected, "{head:?}: {request}");
    }
}
