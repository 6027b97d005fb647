//! `estop run` (TL-2, ID-7): the real binary around real programs. Whatever they do, nothing survives a kill.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::house::{House, PATIENCE};
use crate::ran::{Ran, write_program};

/// `estop run` in a house, with its output read line by line.
struct Running {
    process: Child,
    out: BufReader<ChildStdout>,
    word: String,
}

fn command(house: &House, args: &[&str]) -> Command {
    // In the background of a script, or under nohup, tests ignore signals, and programs they start would too.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,QUIT,TERM", env!("CARGO_BIN_EXE_estop")]);
    command.args(["run", "--config", "estop.yaml", "--data-dir", "data", "--agent", "a1"]);
    command.args(args).current_dir(house.folder.path()).stdin(Stdio::null());
    for variable in
        ["ESTOP_URL", "ESTOP_TOKEN", "ESTOP_TICKET", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST"]
    {
        command.env_remove(variable);
    }
    command
}

/// Runs it to its end.
fn ran(house: &House, args: &[&str]) -> Ran {
    Ran::of(&command(house, args).output().unwrap())
}

fn fresh() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    format!("estop-run-{}-{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed))
}

impl Running {
    /// Starts a program that says `ready` first.
    fn start(house: &House, options: &[&str], program: &[&str]) -> Running {
        let mut all = options.to_vec();
        all.push("--");
        all.extend(program);
        let mut process = command(house, &all).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        Running { process, out, word: String::new() }
    }

    /// The same for a script in Python; `stay()` and `ready()` are defined, and a word marks its processes.
    fn python(house: &House, script: &str) -> Running {
        let word = fresh();
        let prelude = "import os, signal, sys, time\ndef stay():\n    while True: time.sleep(100)\n\
             def ready():\n    os.write(1, b'ready\\n')\n";
        let script = format!("{prelude}{script}");
        let mut running = Running::start(house, &[], &["python3", "-c", &script, &word]);
        running.word = word;
        assert_eq!(running.line(), "ready");
        running
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.out.read_line(&mut line).unwrap() > 0, "it ended: {}", self.errors());
        line.trim().to_owned()
    }

    fn errors(&mut self) -> String {
        let mut said = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.process.id()).unwrap()), signal).unwrap();
    }

    /// Waits for its end, and sees that nobody with its word is left.
    fn end(mut self) -> (i32, String) {
        let errors = self.errors();
        let status = self.process.wait().unwrap();
        if !self.word.is_empty() {
            assert_eq!(alive(&self.word), 0, "somebody survived: {errors}");
        }
        (status.code().unwrap(), errors)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
    }
}

/// Processes whose command line has the word: a dead one has none.
fn alive(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter(|process| process.file_name() != std::process::id().to_string().as_str());
    let lines = lines.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(word)).count()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Asks a model by a base URL; status and answer.
fn ask(base_url: &str, headers: &str) -> Option<(u16, String)> {
    let rest = base_url.strip_prefix("http://").unwrap();
    let (address, path) = rest.split_once('/').unwrap();
    let address: SocketAddr = address.parse().unwrap();
    let body = r#"{"model":"gpt-4o","messages":[{"role":"user","content":"Hello"}]}"#;
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "POST /{path}/chat/completions HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer))
}

fn press(house: &House) {
    let (fine, said) = house.run(&["kill", "--data-dir", "data"]);
    assert!(fine, "{said}");
}

#[test]
fn tl_2_the_exit_code_is_the_programs() {
    let house = House::new("");
    let _estop = house.start();
    assert_eq!(ran(&house, &["--", "sh", "-c", "exit 7"]).code, 7);
    let quiet = ran(&house, &["--quiet", "--", "true"]);
    assert_eq!((quiet.code, &*quiet.out, &*quiet.err), (0, "", ""));
    assert_eq!(ran(&house, &["--", "sh", "-c", "kill -KILL $$"]).code, 137);
    ran(&house, &["--", "no-such-program-here"]).is(127, "in PATH");
    ran(&house, &["--", "./estop.yaml"]).is(126, "not executable");
    ran(&house, &["--limit", "max_tool_call=5", "--", "true"]).is(2, "max_tool_calls");
    ran(&house, &["--label", "x", "--", "true"]).is(2, "team=core");
    ran(&house, &["true"]).is(2, "--");
}

#[test]
fn tl_2_without_a_daemon_that_can_start_it_ends_with_3() {
    let house = House::new("");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = format!("listen: {{data: {}, admin: 127.0.0.1:0}}\n", taken.local_addr().unwrap());
    std::fs::write(house.folder.path().join("estop.yaml"), config).unwrap();
    ran(&house, &["--", "true"]).is(3, "no daemon could be started");
}

#[test]
fn se_3_a_program_under_estop_inherits_none_of_its_secrets() {
    let house = House::new(
        "agents: {a1: {}, keyed: {key_env: THE_AGENTS_KEY}}\n\
         relays: {chat: {in: \"http://127.0.0.1:1\", agent: a1, secret_path_env: THE_RELAYS_SECRET}}\n\
         alerts: {channels: {hook: {type: webhook, url_env: THE_HOOKS_URL, secret_env: [THE_HOOKS_SECRET]}}}",
    );
    let config = std::fs::read_to_string(house.folder.path().join("estop.yaml")).unwrap();
    let config =
        config.replace("providers: {openai: {", "providers: {openai: {api_key_env: THE_PROVIDERS_KEY, ");
    std::fs::write(house.folder.path().join("estop.yaml"), config).unwrap();
    let secrets = [
        ("ESTOP_TOKEN", "estop_admin_secret-0123456789"),
        ("ESTOP_ADMIN_TOKEN", "a-secret-of-16-letters"),
        ("ESTOP_KEY_OF_SOMEBODY", "a-secret-of-16-letters"),
        ("THE_AGENTS_KEY", "a-secret-of-16-letters"),
        ("THE_RELAYS_SECRET", "a-secret-of-the-relay-0123456789"),
        ("THE_HOOKS_URL", "https://hooks.example/secret"),
        ("THE_HOOKS_SECRET", "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"),
        ("THE_PROVIDERS_KEY", "sk-secret"),
    ];
    let script = "import os; print(*(f'{k}={v}' for k, v in sorted(os.environ.items())), sep='\\n')";
    let mut command = command(&house, &["--", "python3", "-c", script]);
    let ran = Ran::of(&command.envs(secrets).env("MINE", "stays").output().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    let found = |name: &str| {
        ran.out.lines().find_map(|line| line.strip_prefix(&format!("{name}="))).map(str::to_owned)
    };
    for (name, secret) in secrets {
        let expected = (name == "THE_PROVIDERS_KEY").then_some("estop-injected".to_owned());
        assert_eq!(found(name), expected, "{name}");
        assert!(!ran.out.contains(secret), "{name} is there under another name");
    }
    assert_eq!(found("MINE").as_deref(), Some("stays"));
    assert!(found("ESTOP_TICKET").is_some() && found("OPENAI_BASE_URL").is_some());
    let pid = daemon_in(&ran.err).unwrap_or_else(|| panic!("{ran:?}"));
    kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    wait_until("the daemon ends", || !house.run(&["status", "--data-dir", "data"]).0);
}

#[test]
fn tl_2_two_at_once_start_one_daemon_which_stays() {
    let house = House::new("");
    let start = || command(&house, &["--", "true"]).stderr(Stdio::piped()).spawn().unwrap();
    let both = [start(), start()];
    let said = both.map(|one| Ran::of(&one.wait_with_output().unwrap()));
    assert_eq!(said.each_ref().map(|ran| ran.code), [0, 0], "{said:?}");
    let pids: Vec<i32> = said.iter().filter_map(|ran| daemon_in(&ran.err)).collect();
    assert_eq!(pids.len(), 1, "{said:?}");
    assert!(house.run(&["status", "--data-dir", "data"]).0, "it stays");
    let log = std::fs::read_to_string(house.data().join("serve.log")).unwrap();
    assert!(log.contains("token reset") && !log.contains("shown only once"), "its log stays: {log}");
    let (fine, said) = house.run(&["token", "--data-dir", "data", "reset"]);
    assert!(fine, "{said}");
    kill(Pid::from_raw(pids[0]), Signal::SIGTERM).unwrap();
    wait_until("the daemon ends", || !house.run(&["status", "--data-dir", "data"]).0);
}

/// The daemon that was started, by what was said.
fn daemon_in(said: &str) -> Option<i32> {
    said.split("to end it: kill ").nth(1)?.split('.').next()?.parse().ok()
}

#[test]
fn id_7_a_model_call_by_the_tickets_url_counts_in_the_run() {
    let house = House::new("");
    let _estop = house.start();
    let script = "echo $OPENAI_BASE_URL; echo $ANTHROPIC_BASE_URL; echo $ESTOP_TICKET; echo $ESTOP_RUN $ESTOP_AGENT; read x < go";
    let go = house.folder.path().join("go");
    assert!(Command::new("mkfifo").arg(&go).status().unwrap().success());
    let options = ["--run", "r1", "--issue", "ACME-7", "--label", "team=core", "--summary", "sum.json"];
    let mut running = Running::start(&house, &options, &["sh", "-c", script]);
    let (openai, anthropic, ticket) = (running.line(), running.line(), running.line());
    assert_eq!(running.line(), "r1 a1");
    assert!(openai.ends_with(&format!("/runs/{ticket}/openai/v1")), "{openai}");
    assert!(anthropic.ends_with(&format!("/runs/{ticket}/anthropic")), "{anthropic}");
    assert_eq!(ask(&openai, "").map(|(status, _)| status), Some(200));
    // Another run or agent than the ticket's.
    for headers in ["x-estop-run: r2\r\n", "x-estop-agent: a2\r\n"] {
        let (status, answer) = ask(&openai, headers).unwrap();
        assert_eq!(status, 400, "{answer}");
        assert!(answer.contains("ticket_of_another"), "{answer}");
    }
    let (status, answer) = ask(&openai.replace(&ticket, &"0".repeat(64)), "").unwrap();
    assert_eq!(status, 400, "{answer}");
    assert!(answer.contains("ticket_unknown") && answer.contains("x-should-retry: false"), "{answer}");
    std::fs::write(&go, "go\n").unwrap();
    let (code, said) = running.end();
    assert_eq!(code, 0, "{said}");
    let summary = std::fs::read_to_string(house.folder.path().join("sum.json")).unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["model_calls"], 1, "{summary}");
    let run = &summary["run"];
    assert_eq!((&run["state"], &run["issue"]), (&"COMPLETED".into(), &"ACME-7".into()), "{run}");
    assert_eq!(run["labels"]["team"], "core");
    assert!(!said.contains(&ticket), "the ticket is a secret: {said}");
    let journal = house.run(&["journal", "export", "--data-dir", "data", "--output", "j.jsonl"]);
    assert!(journal.0);
    let journal = std::fs::read_to_string(house.folder.path().join("j.jsonl")).unwrap();
    assert!(journal.contains("\"r1\"") && !journal.contains(&ticket));
}

#[test]
fn tl_2_what_the_person_set_is_not_handed_to_another_provider() {
    let house = House::new("");
    let estop = house.start();
    let address = estop.address;
    let ours = format!("http://{address}/agents/x/anthropic");
    let run = command(
        &house,
        &["--", "sh", "-c", "echo $OPENAI_BASE_URL; echo $OPENAI_API_BASE; echo $ANTHROPIC_BASE_URL"],
    )
    .env("OPENAI_BASE_URL", "https://me:secret-word@models.example/v1")
    .env("OPENAI_API_BASE", "https://openrouter.ai/api/v1")
    .env("ANTHROPIC_BASE_URL", &ours)
    .output()
    .unwrap();
    let ran = Ran::of(&run);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines[0], "https://me:secret-word@models.example/v1");
    assert!(!ran.err.contains("secret-word"), "{ran:?}");
    assert!(lines[1].ends_with("/openrouter/v1") && lines[1].contains("/runs/"), "{ran:?}");
    assert_eq!(lines[2], ours);
    ran.is(0, "do NOT go through it");
}

#[test]
fn tl_2_signals_pass_through() {
    let house = House::new("");
    let _estop = house.start();
    let script = "for s in INT TERM HUP USR1 QUIT; do trap \"echo $s\" $s; done; trap 'exit 9' USR2; echo ready; \
                  while :; do sleep 0.01; done";
    let mut running = Running::start(&house, &["--quiet"], &["sh", "-c", script]);
    assert_eq!(running.line(), "ready");
    let all = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGQUIT];
    for signal in all {
        running.signal(signal);
        assert_eq!(format!("SIG{}", running.line()), signal.as_str());
    }
    running.signal(Signal::SIGUSR2);
    assert_eq!(running.end().0, 9);
}

#[test]
fn tl_2_what_the_program_left_behind_is_ended_and_named() {
    let house = House::new("");
    let _estop = house.start();
    let word = fresh();
    let script =
        format!("import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(1000)\n# {word}");
    let ran = ran(&house, &["--", "python3", "-c", &script]);
    ran.is(0, "left behind: python3 (");
    assert_eq!(alive(&word), 0);
}

fn ends_by_kill(script: &str) {
    let house = House::new("");
    let _estop = house.start();
    let running = Running::python(&house, script);
    press(&house);
    let (code, said) = running.end();
    assert!([143, 137].contains(&code), "{code}: {said}");
    assert!(said.contains("the program was ended"), "{said}");
}

#[test]
fn tl_2_a_kill_ends_the_program() {
    ends_by_kill("ready()\nstay()\n");
}

#[test]
fn tl_2_a_kill_ends_those_who_ignore_sigterm() {
    ends_by_kill("signal.signal(signal.SIGTERM, signal.SIG_IGN)\nready()\nstay()\n");
}

#[test]
fn tl_2_a_kill_ends_double_forks_in_sessions_of_their_own() {
    ends_by_kill(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nr, w = os.pipe()\n\
         if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        os.write(w, b'x')\n        stay()\n    os._exit(0)\n\
         os.wait()\nos.read(r, 1)\nready()\nstay()\n",
    );
}

#[test]
fn tl_2_a_kill_ends_stopped_children() {
    ends_by_kill(
        "pid = os.fork()\nif pid == 0:\n    os.kill(os.getpid(), signal.SIGSTOP)\n    stay()\n\
         os.waitpid(pid, os.WUNTRACED)\nready()\nstay()\n",
    );
}

#[test]
fn tl_2_a_kill_ends_a_fork_bomb() {
    // Each that is told to end starts two more, until there were 200: a counter in a file bounds it.
    ends_by_kill(
        "import tempfile\ncounter = tempfile.TemporaryFile()\ndef born():\n    os.lseek(counter.fileno(), 0, 2)\n    \
         os.write(counter.fileno(), b'x')\n    return os.fstat(counter.fileno()).st_size\ndef breed(*_):\n    \
         for _ in range(2):\n        if born() < 200 and os.fork() == 0:\n            return\n\
         signal.signal(signal.SIGTERM, breed)\nbreed()\nbreed()\nbreed()\nready() if os.getpgrp() == os.getpid() or os.getppid() else None\nstay()\n",
    );
}

#[test]
fn ks_5_a_kill_without_a_daemon_ends_the_program_by_the_latch() {
    let house = House::new("");
    let estop = house.start();
    let running = Running::python(&house, "ready()\nstay()\n");
    estop.kill_9();
    assert_eq!(alive(&running.word), 2, "the program goes on");
    press(&house);
    let (code, said) = running.end();
    assert_eq!(code, 143, "{said}");
    assert!(said.contains("emergency stop was pressed"), "{said}");
}

#[test]
fn tl_2_a_daemon_that_is_back_knows_the_run_again() {
    let house = House::new("");
    // None that the kernel gives to whoever asks for any: estop opens it twice, and others run beside.
    let port = (20_000..32_000).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap();
    let config = std::fs::read_to_string(house.folder.path().join("estop.yaml")).unwrap();
    let fixed = config.replacen("data: 127.0.0.1:0", &format!("data: 127.0.0.1:{port}"), 1);
    std::fs::write(house.folder.path().join("estop.yaml"), fixed).unwrap();
    let estop = house.start();
    let mut running =
        Running::start(&house, &["--run", "r1"], &["sh", "-c", "echo $OPENAI_BASE_URL; exec sleep 1000"]);
    let url = running.line();
    assert_eq!(ask(&url, "").map(|(status, _)| status), Some(200));
    estop.kill_9();
    let _estop = house.start();
    wait_until("the ticket is good again", || ask(&url, "").is_some_and(|(status, _)| status == 200));
    let (status, run) = house.owner("GET", "/api/runs/a1:r1", "");
    assert_eq!(status, 200, "{run}");
    assert!(run.contains("\"ACTIVE\""), "{run}");
    press(&house);
    assert_eq!(running.end().0, 143);
}

#[test]
fn ks_2_nothing_begins_while_the_button_is_pressed() {
    let house = House::new("");
    let _estop = house.start();
    press(&house);
    ran(&house, &["--", "true"]).is(1, "estop");
}

#[test]
fn tl_2_an_agent_that_is_switched_off_ends_its_unattended_program() {
    let house = House::new("");
    let _estop = house.start();
    let running = Running::python(&house, "ready()\nstay()\n");
    let (status, said) = house.owner("POST", "/api/agents/a1/deactivate", "");
    assert_eq!(status, 200, "{said}");
    let (code, said) = running.end();
    assert_eq!(code, 143, "{said}");
    ran(&house, &["--", "true"]).is(1, "was deactivated");
}

#[test]
fn tl_2_a_supervisor_that_is_killed_takes_its_program_with_it() {
    let house = House::new("");
    let _estop = house.start();
    let running = Running::python(&house, "ready()\nstay()\n");
    let word = running.word.clone();
    running.signal(Signal::SIGKILL);
    wait_until("the program ends", || alive(&word) == 0);
}

#[test]
fn tl_2_connections_of_others_take_no_place_from_the_line() {
    let house = House::new("");
    let _estop = house.start();
    let options = ["--summary", "sum.json"];
    let mut running = Running::start(&house, &options, &["sh", "-c", "echo ready; exec sleep 1000"]);
    assert_eq!(running.line(), "ready");
    let socket = house.data().join("estop.sock");
    let others: Vec<_> =
        (0..300).map(|_| std::os::unix::net::UnixStream::connect(&socket).unwrap()).collect();
    assert_eq!(house.owner("GET", "/api/runs?agent=a1", "").0, 200, "a person still comes in");
    press(&house);
    assert_eq!(running.end().0, 143);
    drop(others);
    let summary = std::fs::read_to_string(house.folder.path().join("sum.json")).unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["daemon_lost"], 0, "{summary}");
}

#[test]
fn tl_2_a_run_inside_a_run_is_refused() {
    let house = House::new("");
    let run = command(&house, &["--", "true"]).env("ESTOP_TICKET", "0").output().unwrap();
    Ran::of(&run).is(1, "inside a run already");
    assert!(!house.data().join("serve.log").exists(), "no daemon was started");
}

#[test]
fn tl_2_who_ignores_ends_of_children_still_hears_how_the_program_ended() {
    let house = House::new("");
    let _estop = house.start();
    let ignore = "import os, signal, sys\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nos.execv(sys.argv[1], sys.argv[1:])";
    let estop = env!("CARGO_BIN_EXE_estop");
    let mut python = Command::new("python3");
    python.args([
        "-c",
        ignore,
        estop,
        "run",
        "--data-dir",
        "data",
        "--agent",
        "a1",
        "--",
        "sh",
        "-c",
        "exit 7",
    ]);
    let run = python.env_remove("ESTOP_TICKET").current_dir(house.folder.path()).output().unwrap();
    let ran = Ran::of(&run);
    assert_eq!(ran.code, 7, "{ran:?}");
}

/// A client that gets ready while the button is pressed: `codex app-server` is asked before Codex is started.
#[test]
fn ks_2_a_program_does_not_start_after_a_press_while_it_was_made_ready() {
    let house = House::new("");
    let _estop = house.start();
    let estop = env!("CARGO_BIN_EXE_estop");
    let script =
        format!("#!/bin/sh\n[ \"$1\" = app-server ] && exec {estop} kill --data-dir data\necho started\n");
    let codex = house.folder.path().join("codex");
    write_program(&codex, &script);
    let mut run = command(&house, &["--", "./codex"]);
    let run = run.env("HOME", house.folder.path()).env_remove("CODEX_HOME").output().unwrap();
    let ran = Ran::of(&run);
    ran.is(1, "was not started");
    assert!(!ran.out.contains("started"), "{ran:?}");
}

#[test]
fn tl_2_a_program_whose_supervisor_is_gone_does_not_start() {
    let estop = Command::new(env!("CARGO_BIN_EXE_estop"));
    let lone = |pid: u32| {
        let mut lone = Command::new(estop.get_program());
        lone.args(["enter-cgroup", "--leash", &pid.to_string(), "-", "--", "echo", "begun"]);
        Ran::of(&lone.output().unwrap())
    };
    assert_eq!(lone(std::process::id()).out, "begun\n");
    // Nobody's child is the first process's here.
    let gone = lone(1);
    gone.is(127, "is gone");
    assert_eq!(gone.out, "");
}

#[test]
fn ks_2_a_stopped_supervisor_is_woken_by_the_button() {
    let house = House::new("");
    let _estop = house.start();
    let running = Running::python(&house, "ready()\nstay()\n");
    let word = running.word.clone();
    running.signal(Signal::SIGSTOP);
    press(&house);
    wait_until("the program ends", || alive(&word) == 0);
}

#[test]
fn tl_2_who_forks_twice_and_ends_at_once_leaves_nobody() {
    let house = House::new("");
    let _estop = house.start();
    let word = fresh();
    let script = "import os, sys\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        \
        os.execve('/bin/sleep', [sys.argv[1], '300'], {})\n    os._exit(0)\nos._exit(5)\n";
    for _ in 0..20 {
        ran(&house, &["--quiet", "--", "python3", "-c", script, &word]);
    }
    assert_eq!(alive(&word), 0);
}

#[test]
fn tl_2_a_summary_that_cannot_be_written_does_not_hide_how_the_program_ended() {
    let house = House::new("");
    let _estop = house.start();
    let run = ran(&house, &["--summary", "no/such/folder/sum.json", "--", "sh", "-c", "exit 7"]);
    run.is(7, "the summary cannot be written to no/such/folder/sum.json");
}
