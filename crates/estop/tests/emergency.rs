//! The red button from the command line (KS-5, KS-6): with an estop that answers, one that hangs, and none at all.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use estop_core::system::{Channel, SystemState};
use estop_fake_model::FakeModel;
use estop_store::{FoundLatch, LatchFile};

mod house;
mod ran;

use house::PATIENCE;
use ran::Ran;

/// A data directory with estops that come and go.
struct House {
    folder: tempfile::TempDir,
    _model: FakeModel,
}

/// A running estop, killed when dropped.
struct Estop {
    process: Child,
    data: SocketAddr,
    admin: String,
    token: Option<String>,
    _said: BufReader<std::process::ChildStdout>,
}

impl House {
    fn new() -> House {
        let folder = tempfile::tempdir().unwrap();
        let model = FakeModel::start(Default::default()).unwrap();
        let config = format!(
            "listen: {{data: 127.0.0.1:0, admin: 127.0.0.1:0}}\nproviders: {{openai: {{base_url: \"http://{}\"}}}}\n",
            model.addr()
        );
        std::fs::write(folder.path().join("estop.yaml"), config).unwrap();
        House { folder, _model: model }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_estop"));
        command.args(args).current_dir(self.folder.path()).env("USER", "ann");
        for variable in ["ESTOP_URL", "ESTOP_TOKEN", "ESTOP_ADMIN_TOKEN"] {
            command.env_remove(variable);
        }
        command
    }

    fn start(&self) -> Estop {
        let is_first = !self.data().exists();
        let mut process = self
            .command(&["serve", "--config", "estop.yaml", "--data-dir", "data"])
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
            if let Some(url) = line().strip_prefix("Admin API: ") {
                break url.strip_suffix("/api/docs").unwrap().to_owned();
            }
        };
        let token = is_first.then(|| line().rsplit(' ').next().unwrap().to_owned());
        Estop { process, data, admin, token, _said: said }
    }

    /// Through the owner's socket. Its input never ends and never says anything: who asks it waits for ever.
    fn run(&self, args: &[&str]) -> Ran {
        finish(self.command(args).args(["--data-dir", "data"]))
    }

    /// Over the admin port.
    fn run_at(&self, estop: &Estop, args: &[&str]) -> Ran {
        finish(self.command(args).args(["--url", &estop.admin]))
    }

    fn latch(&self) -> estop_core::button::Latched {
        match LatchFile::look(&self.data()) {
            FoundLatch::Said(latched) => latched,
            other @ (FoundLatch::Missing | FoundLatch::Damaged(_)) => panic!("{other:?}"),
        }
    }
}

fn finish(command: &mut Command) -> Ran {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    Ran::of(&output)
}

impl Estop {
    fn ask(&self, agent: &str) -> u16 {
        house::ask(self.data, agent, "hello").unwrap().0
    }

    fn says(&self, agent: &str) -> String {
        house::ask(self.data, agent, "hello").unwrap().1
    }

    fn signal(&self, signal: &str) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    fn end(mut self) {
        self.signal("-TERM");
        self.process.wait().unwrap();
    }
}

impl Drop for Estop {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn ks_6_kill_restart_and_clear_through_the_owners_socket() {
    let house = House::new();
    let estop = house.start();
    assert_eq!(estop.ask("a1"), 200);
    house.run(&["emergency", "status"]).is(0, "RUNNING");
    let killed = house.run(&[
        "emergency",
        "kill",
        "--reason",
        "security_incident",
        "--note",
        "it deletes mail",
        "--json",
    ]);
    let killed = killed.is(0, "").json();
    assert_eq!((&killed["status"], &killed["persisted"]), (&"shutdown".into(), &true.into()));
    assert!(killed["stopped"]["model_calls"].is_u64() && killed["took"]["gate_us"].is_u64(), "{killed}");
    assert_ne!(estop.ask("a1"), 200);
    let status = house.run(&["emergency", "status", "--json"]);
    let status = status.is(1, "").json();
    assert_eq!(
        (&status["reason"], &status["note"]),
        (&"security_incident".into(), &"it deletes mail".into())
    );
    assert_eq!((&status["source"], &status["metadata"]["user"]), (&"cli".into(), &"ann".into()));

    house.run(&["emergency", "clear"]).is(1, "restart into safe mode first");
    house.run(&["emergency", "restart"]).is(0, "SAFE_MODE").is(0, "estop emergency clear");
    assert!(estop.says("a1").contains("safe mode"));
    house.run(&["emergency", "clear", "--reason", "mail restored"]).is(0, "RUNNING");
    assert_eq!(estop.ask("a1"), 200);
    house.run(&["emergency", "restart"]).is(1, "nothing to restart");
}

#[test]
fn ks_5_a_kill_in_between_is_not_cleared_by_who_did_not_see_it() {
    let house = House::new();
    let estop = house.start();
    house.run(&["kill"]).is(0, "SHUTDOWN");
    let seen = house.run(&["emergency", "status", "--json"]).json()["epoch"].to_string();
    house.run(&["kill", "--note", "again"]).is(0, "SHUTDOWN");
    let refused = house.run(&["emergency", "restart", "--epoch", &seen, "--json"]);
    assert_eq!(refused.is(1, "newer kill").json()["status"], 409);
    house.run(&["emergency", "restart"]).is(0, "SAFE_MODE");
    assert!(estop.says("a1").contains("safe mode"));
}

#[test]
fn ks_6_over_the_admin_port_with_a_token() {
    let house = House::new();
    let estop = house.start();
    let token = estop.token.clone().unwrap();
    house.run_at(&estop, &["kill"]).is(1, "ESTOP_TOKEN");
    house.run_at(&estop, &["kill", "--admin-token", "estop_admin_wrong"]).is(1, "");
    assert_eq!(estop.ask("a1"), 200);
    house.run_at(&estop, &["kill", "--channel", "llm", "--admin-token", &token]).is(0, "RUNNING");
    assert_ne!(estop.ask("a1"), 200);
    let mut by_variable = house.command(&["emergency", "clear", "--url", &estop.admin]);
    finish(by_variable.env("ESTOP_ADMIN_TOKEN", &token)).is(0, "RUNNING");
    assert_eq!(estop.ask("a1"), 200);
    house.run_at(&estop, &["kill", "--reason", "no such reason", "--admin-token", &token]).is(0, "SHUTDOWN");
    let status = house.run(&["emergency", "status", "--json"]).json();
    assert_eq!((&status["reason"], &status["note"]), (&"manual".into(), &"no such reason".into()));
    let admin = estop.admin.clone();
    estop.end();
    let mut nobody = house.command(&["kill", "--url", &admin, "--admin-token", &token]);
    finish(&mut nobody).is(3, "NOTHING WAS STOPPED");
}

#[test]
fn ks_5_a_kill_without_an_estop_makes_the_next_one_come_up_stopped() {
    let house = House::new();
    house.run(&["kill"]).is(3, "NOTHING WAS STOPPED");
    assert!(!house.data().exists(), "a wrong name makes no folder");
    let estop = house.start();
    assert_eq!(estop.ask("a1"), 200);
    estop.end();
    let before = house.latch().gate.epoch;
    house.run(&["kill", "--note", "at night"]).is(0, "a start comes up stopped").is(0, "no estop runs");
    let latch = house.latch();
    assert_eq!((latch.gate.state, &*latch.source), (SystemState::Shutdown, "cli"));
    assert!(latch.gate.epoch > before);
    let estop = house.start();
    assert_ne!(estop.ask("a1"), 200);
    let status = house.run(&["emergency", "status", "--json"]).json();
    assert_eq!((&status["state"], &status["note"]), (&"shutdown".into(), &"at night".into()));
    house.run(&["emergency", "restart"]).is(0, "SAFE_MODE");
    house.run(&["emergency", "clear"]).is(0, "RUNNING");
    assert_eq!(estop.ask("a1"), 200);
    estop.end();
    let json = house.run(&["kill", "--channel", "llm", "--json"]);
    assert_eq!(json.is(0, "").json()["daemon"]["state"], "none");
    let latch = house.latch();
    assert_eq!(latch.gate.state, SystemState::Running);
    assert!(latch.gate.shut.contains(Channel::Llm) && !latch.gate.shut.contains(Channel::Tools));
    assert_ne!(house.start().ask("a1"), 200);
}

#[test]
fn ks_5_an_estop_that_hangs_is_named_and_stops_when_it_goes_on() {
    let house = House::new();
    let estop = house.start();
    estop.signal("-STOP");
    let pid = estop.process.id();
    let ran = house.run(&["kill", "--json"]);
    let said = ran.is(3, &format!("kill -9 {pid}")).json();
    assert_eq!((&said["daemon"]["state"], &said["daemon"]["pid"]), (&"may_run".into(), &pid.into()));
    assert_eq!(said["latch"]["written"], true);
    assert_eq!(house.latch().gate.state, SystemState::Shutdown);
    estop.signal("-CONT");
    let begun = Instant::now();
    while house.run(&["emergency", "status", "--json"]).json()["state"] != "shutdown" {
        assert!(begun.elapsed() < PATIENCE, "it does not obey");
    }
    assert_ne!(estop.ask("a1"), 200);
}

#[test]
fn ks_5_an_estop_that_hangs_is_ended_by_force_and_comes_up_stopped() {
    let house = House::new();
    let mut estop = house.start();
    estop.signal("-STOP");
    house.run(&["kill", "--force"]).is(0, "is gone");
    estop.process.wait().unwrap();
    drop(estop);
    let estop = house.start();
    assert_ne!(estop.ask("a1"), 200);
    house.run(&["emergency", "status"]).is(1, "SHUTDOWN");
}

#[test]
fn ks_5_an_estop_whose_socket_is_gone_obeys_the_signal() {
    let house = House::new();
    let estop = house.start();
    std::fs::remove_file(house.data().join("estop.sock")).unwrap();
    house.run(&["kill"]).is(0, "it obeyed");
    assert_ne!(estop.ask("a1"), 200);
}

#[test]
fn ks_5_two_who_kill_an_estop_that_hangs_are_not_taken_for_it() {
    let house = House::new();
    let estop = house.start();
    estop.signal("-STOP");
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                house.run(&["kill"]).is(3, "NOT KNOWN TO BE STOPPED");
            });
        }
    });
    estop.signal("-CONT");
}

#[test]
fn ks_5_a_channel_killed_in_safe_mode_without_an_estop_stays_shut_when_it_is_cleared() {
    let house = House::new();
    let estop = house.start();
    house.run(&["kill"]).is(0, "SHUTDOWN");
    house.run(&["emergency", "restart"]).is(0, "SAFE_MODE");
    estop.end();
    house.run(&["kill", "--channel", "llm"]).is(0, "no estop runs");
    let estop = house.start();
    house.run(&["emergency", "clear"]).is(0, "RUNNING");
    assert_ne!(estop.ask("a1"), 200);
}

#[test]
fn ks_2_a_standard_error_that_is_gone_keeps_no_kill_from_the_disk() {
    let house = House::new();
    house.start().end();
    let mut process = house
        .command(&["serve", "--config", "estop.yaml", "--data-dir", "data"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(process.stderr.take());
    let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().starts_with("Admin API")));
    let latch = house.data().join("estop.latch");
    std::fs::remove_file(&latch).unwrap();
    std::fs::create_dir(&latch).unwrap();
    let killed = house.run(&["kill", "--json"]);
    assert_eq!(killed.is(0, "").json()["persisted"], false);
    std::fs::remove_dir(&latch).unwrap();
    let begun = Instant::now();
    while !matches!(LatchFile::look(&house.data()), FoundLatch::Said(found) if found.gate.state == SystemState::Shutdown)
    {
        assert!(begun.elapsed() < PATIENCE, "it is not written");
        std::thread::sleep(Duration::from_millis(20));
    }
    process.kill().unwrap();
    process.wait().unwrap();
}
