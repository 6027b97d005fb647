//! A data directory with a real estop and a fake model, for tests that start, kill and look, or do what a person does.

#![allow(dead_code, unreachable_pub, reason = "every test file takes what it needs")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use estop_fake_model::FakeModel;
use estop_store::{OpenError, Sqlite, SqliteOptions};

pub mod person;
pub(crate) use crate::ran;

/// No answer takes this long; whoever waits longer waits for ever.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What `look` finds, once it does.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{what} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until it is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, || is_so().then_some(()));
}

/// A data directory with estops that come and go.
pub struct House {
    pub folder: tempfile::TempDir,
    pub model: FakeModel,
}

/// A running estop, killed when dropped.
pub struct Estop {
    pub process: Child,
    pub address: SocketAddr,
    /// Where it was started.
    folder: PathBuf,
    said: Mutex<BufReader<std::process::ChildStdout>>,
    admin: OnceLock<String>,
}

impl House {
    pub fn new(policy: &str) -> House {
        let house = House {
            folder: tempfile::tempdir().unwrap(),
            model: FakeModel::start(Default::default()).unwrap(),
        };
        house.configure(policy);
        house
    }

    /// Writes the configuration.
    pub fn configure(&self, policy: &str) {
        let config = format!(
            "listen: {{data: 127.0.0.1:0, admin: 127.0.0.1:0}}\nproviders: {{openai: {{base_url: \"http://{}\"}}}}\n{policy}\n",
            self.model.addr()
        );
        std::fs::write(self.folder.path().join("estop.yaml"), config).unwrap();
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub fn start(&self) -> Estop {
        self.start_with(&[])
    }

    /// The same with variables of the environment.
    pub fn start_with(&self, variables: &[(&str, &str)]) -> Estop {
        let mut command = Command::new(env!("CARGO_BIN_EXE_estop"));
        command.envs(variables.iter().copied());
        self.start_by(command, Stdio::inherit()).0
    }

    /// The same with so many open files at most.
    pub fn start_with_files(&self, limit: u64) -> Estop {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={limit}:{limit}")).arg(env!("CARGO_BIN_EXE_estop"));
        self.start_by(command, Stdio::inherit()).0
    }

    /// The same as [`House::start`], and what it says on its standard error until it ends.
    pub fn start_heard(&self) -> (Estop, std::thread::JoinHandle<String>) {
        let (estop, heard) = self.start_by(Command::new(env!("CARGO_BIN_EXE_estop")), Stdio::piped());
        let mut heard = heard.unwrap();
        let read = move || {
            let mut said = String::new();
            heard.read_to_string(&mut said).unwrap();
            said
        };
        (estop, std::thread::spawn(read))
    }

    /// The same as [`House::start`], with its standard error going into a pipe.
    pub fn start_logging_to(&self, pipe: std::io::PipeWriter) -> Estop {
        self.start_by(Command::new(env!("CARGO_BIN_EXE_estop")), pipe.into()).0
    }

    /// The same with variables of the environment.
    pub fn start_logging_with(&self, pipe: std::io::PipeWriter, variables: &[(&str, &str)]) -> Estop {
        let mut command = Command::new(env!("CARGO_BIN_EXE_estop"));
        command.envs(variables.iter().copied());
        self.start_by(command, pipe.into()).0
    }

    fn start_by(&self, mut command: Command, stderr: Stdio) -> (Estop, Option<std::process::ChildStderr>) {
        let mut process = command
            .args(["serve", "--config", "estop.yaml", "--data-dir", "data"])
            .current_dir(self.folder.path())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let heard = process.stderr.take();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line.trim().rsplit("//").next().unwrap().parse().unwrap();
        let folder = self.folder.path().to_owned();
        (Estop { process, address, folder, said: Mutex::new(said), admin: OnceLock::new() }, heard)
    }

    /// The store, once no estop has it.
    pub fn store(&self) -> Sqlite {
        let path = self.data().join("estop.db");
        let begun = Instant::now();
        loop {
            match Sqlite::open(&path, SqliteOptions::default()) {
                // A child that another test has just forked holds the lock of this process until it becomes its program.
                Err(OpenError::Locked { .. }) if begun.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                opened => return opened.unwrap(),
            }
        }
    }

    pub fn run(&self, args: &[&str]) -> (bool, String) {
        let ran = Command::new(env!("CARGO_BIN_EXE_estop"))
            .args(args)
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        (ran.status.success(), String::from_utf8_lossy(&ran.stdout).into_owned())
    }

    /// The admin's token, as a first start without a terminal writes it.
    pub fn admin_token(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.data().join("admin-token")).ok()?;
        Some(text.trim().to_owned())
    }

    /// What the API answers the owner of the data directory: status and body. Unlocking the button shows the admin's token.
    pub fn owner(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let unlocks = ["/api/emergency/restart", "/api/emergency/clear"].contains(&path);
        let token = if unlocks { self.admin_token() } else { None };
        self.owner_with(token.as_deref(), method, path, body)
    }

    /// The same with this token, or none.
    pub fn owner_with(&self, token: Option<&str>, method: &str, path: &str, body: &str) -> (u16, String) {
        let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        let mut stream = std::os::unix::net::UnixStream::connect(self.data().join("estop.sock")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             {token}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    }

    /// Waits until the button is pressed and estop says that it is on the disk: agents are refused before (KS-2).
    pub fn until_pressed(&self) {
        until("a pressed button on the disk", || {
            let (_, said) = self.owner("GET", "/api/emergency/status", "");
            said.contains("\"state\":\"shutdown\"") && said.contains("\"persisted\":true")
        });
    }

    pub fn verified(&self) {
        let journal = self.folder.path().join("journal.jsonl");
        let _ = std::fs::remove_file(&journal);
        assert!(self.run(&["journal", "export", "--data-dir", "data", "--output", "journal.jsonl"]).0);
        for check in ["verify", "replay"] {
            let (fine, said) = self.run(&[check, "journal.jsonl"]);
            assert!(fine, "{check}: {said}");
        }
    }
}

impl Estop {
    /// Where the admin API is, as estop said.
    pub fn admin(&self) -> &str {
        self.admin.get_or_init(|| {
            let url = self.told("Admin API: ");
            url.strip_suffix("/api/docs").unwrap().to_owned()
        })
    }

    /// The admin's token. A first start says where it wrote it.
    pub fn token(&self) -> String {
        self.admin();
        let told = self.told("The admin token is in ");
        let file = told.split(", which").next().unwrap();
        std::fs::read_to_string(self.folder.join(file)).unwrap().trim().to_owned()
    }

    /// The rest of the next line that begins so.
    pub fn told(&self, beginning: &str) -> String {
        let mut said = self.said.lock().unwrap();
        loop {
            let mut line = String::new();
            assert!(said.read_line(&mut line).unwrap() > 0, "estop said nothing like `{beginning}`");
            if let Some(rest) = line.trim().strip_prefix(beginning) {
                return rest.to_owned();
            }
        }
    }

    /// Status and body of an answer; `None` if none came.
    pub fn ask(&self, agent: &str, prompt: &str) -> Option<(u16, String)> {
        ask(self.address, agent, prompt)
    }

    pub fn kill_9(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub fn signal(&self, signal: &str) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Freezes it. A thread that runs when the signal comes goes on for a moment.
    pub fn freeze(&self) {
        self.signal("-STOP");
        let tasks = format!("/proc/{}/task", self.process.id());
        let is_frozen = |task: std::io::Result<std::fs::DirEntry>| {
            let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
        };
        while !std::fs::read_dir(&tasks).unwrap().all(is_frozen) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn end(mut self) {
        self.signal("-TERM");
        assert!(self.process.wait().unwrap().success());
        let mut rest = String::new();
        self.said.lock().unwrap().read_to_string(&mut rest).unwrap();
    }
}

impl Drop for Estop {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub fn ask(address: SocketAddr, agent: &str, prompt: &str) -> Option<(u16, String)> {
    ask_with(address, agent, prompt, "")
}

/// The same with a header line of its own, ended by CR LF.
pub fn ask_with(address: SocketAddr, agent: &str, prompt: &str, header: &str) -> Option<(u16, String)> {
    let body = format!(
        "{{\"model\":\"gpt-4o-mini\",\"max_tokens\":50,\"messages\":[{{\"role\":\"user\",\"content\":\"{prompt}\"}}]}}"
    );
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let head = format!(
        "POST /agents/{agent}/openai/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\n{header}content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let length: usize = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
    (body.len() == length).then(|| (status, body.to_owned()))
}
