//! A real estop whose every word is kept: what it prints, what it answers, what its commands say.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "used by one test file, which fails by panicking"
)]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::search::Wanted;
use crate::house::{House, PATIENCE};

/// Everything that was said, and the secrets it must not hold.
pub struct Stage {
    pub house: House,
    pub heard: Vec<(String, String)>,
    pub wanted: Vec<Wanted>,
    variables: Vec<(&'static str, String)>,
    starts: usize,
}

/// A running estop.
pub struct Daemon {
    process: Child,
    pub data: SocketAddr,
    pub admin: SocketAddr,
    /// What it said at its start.
    pub welcome: String,
}

impl Stage {
    pub fn new() -> Stage {
        let house = House::new("");
        Stage { house, heard: Vec::new(), wanted: Vec::new(), variables: Vec::new(), starts: 0 }
    }

    /// A secret from now on; gives it back.
    pub fn secret(&mut self, name: &str, secret: &str) -> String {
        self.wanted.push(Wanted::new(name, secret));
        secret.to_owned()
    }

    /// The same, told to estop in a variable.
    pub fn variable(&mut self, name: &'static str, secret: &str) {
        let secret = self.secret(name, secret);
        self.variables.push((name, secret));
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.house.folder.path().join(name), text).unwrap();
    }

    pub fn start(&mut self) -> Daemon {
        self.starts += 1;
        let folder = self.house.folder.path().join("said");
        std::fs::create_dir_all(&folder).unwrap();
        let out = folder.join(format!("out-{}", self.starts));
        let process = Command::new(env!("CARGO_BIN_EXE_estop"))
            .args(["serve", "--config", "estop.yaml", "--data-dir", "data"])
            .current_dir(self.house.folder.path())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .env("RUST_LOG", "trace")
            .env("RUST_BACKTRACE", "full")
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(folder.join(format!("err-{}", self.starts))).unwrap())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        let welcome = loop {
            let said = std::fs::read_to_string(&out).unwrap();
            // All of it is said in one go, and ends with a line.
            if said.contains("Admin API: ") && said.ends_with('\n') {
                break said;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not start: {said}");
            std::thread::sleep(Duration::from_millis(10));
        };
        let address = |after: &str| {
            let rest = welcome.split(after).nth(1).unwrap().split("//").nth(1).unwrap();
            rest.split(|c: char| c == '/' || c.is_whitespace()).next().unwrap().parse().unwrap()
        };
        let (data, admin) = (address("listening on "), address("Admin API: "));
        let daemon = Daemon { process, data, admin, welcome };
        self.look_at_arguments(&daemon);
        daemon
    }

    /// What everybody on the machine can see of a process.
    pub fn look_at_arguments(&mut self, daemon: &Daemon) {
        let arguments = std::fs::read(format!("/proc/{}/cmdline", daemon.process.id())).unwrap();
        self.heard.push(("its arguments".into(), String::from_utf8_lossy(&arguments).into_owned()));
    }

    /// What is answered; nothing of it may hold a secret.
    pub fn ask(&mut self, address: SocketAddr, head: &str, body: &str) -> String {
        let answer = told(address, head, body);
        self.heard
            .push((format!("the answer to {}", head.lines().next().unwrap_or_default()), answer.clone()));
        answer
    }

    /// The value after `before` in an answer that shows a secret, which it does once: it is a secret from now on.
    pub fn shown_once(&mut self, name: &str, answer: &str, before: &str) -> String {
        let Some((_, rest)) = answer.split_once(before) else { panic!("{name}: {answer}") };
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        let secret = rest.split(|c| !is_part(c)).next().unwrap().to_owned();
        self.heard.push((format!("beside {name}"), answer.replacen(&secret, "(shown)", 1)));
        self.secret(name, &secret)
    }

    /// What a command says; nothing of it may hold a secret.
    pub fn command(&mut self, args: &[&str], variables: &[(&str, &str)]) -> String {
        let said = self.command_told(args, variables);
        self.heard.push((format!("estop {}", args.join(" ")), said.clone()));
        said
    }

    /// What a command says.
    pub fn command_told(&self, args: &[&str], variables: &[(&str, &str)]) -> String {
        let ran = Command::new(env!("CARGO_BIN_EXE_estop"))
            .args(args)
            .current_dir(self.house.folder.path())
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
    }

    pub fn signal(&self, daemon: &Daemon, signal: &str) {
        let pid = daemon.process.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Waits until its newest errors say this.
    pub fn until_said(&self, words: &str) {
        let file = self.house.folder.path().join(format!("said/err-{}", self.starts));
        let begun = Instant::now();
        while !std::fs::read_to_string(&file).unwrap().contains(words) {
            assert!(begun.elapsed() < PATIENCE, "never said: {words}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Daemon {
    pub fn kill_9(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub fn end(mut self, stage: &Stage) {
        stage.signal(&self, "-TERM");
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Everything that comes back, head and body. `head` is the request line and header lines.
pub fn told(address: SocketAddr, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let lines: String = head.lines().skip(1).map(|line| format!("{}\r\n", line.trim())).collect();
    let first = head.lines().next().unwrap();
    let request = format!(
        "{first} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n{lines}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    // It may be refused before it is sent whole.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}
