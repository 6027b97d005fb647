//! Every trigger of the red button, on the real binary: SIGUSR1 at any time, the trigger file, the latch written by
//! somebody else, a missed heartbeat, devices that are missing, the watchdog.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::house;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::house::{Estop, House, PATIENCE, until};
use estop_core::system::button::Latched;
use estop_core::system::{Channels, GateView, KillReason, SystemState};
use estop_store::LatchFile;
use serde_json::Value;

fn status(house: &House) -> Value {
    let (code, said) = house.owner("GET", "/api/emergency/status", "");
    assert_eq!(code, 200, "{said}");
    serde_json::from_str(&said).unwrap()
}

/// Waits until the button is pressed; gives back the status.
fn pressed(house: &House) -> Value {
    until("the button is pressed", || status(house)["state"] == "shutdown");
    status(house)
}

fn unlock(house: &House) {
    assert_eq!(house.owner("POST", "/api/emergency/restart", "{}").0, 200);
    assert_eq!(house.owner("POST", "/api/emergency/clear", "{}").0, 200);
    assert_eq!(status(house)["state"], "running");
}

fn trigger(status: &Value, name: &str) -> Value {
    let all = status["triggers"].as_array().unwrap();
    all.iter().find(|trigger| trigger["name"] == name).cloned().unwrap_or_default()
}

fn assert_shut(estop: &Estop) {
    let (code, said) = estop.ask("a", "Hello").unwrap();
    assert_eq!((code, said.contains("emergency stop is pressed")), (400, true), "{said}");
}

/// How many records of the journal say this, once estop has ended.
fn recorded(house: &House, what: &str) -> usize {
    let journal = house.folder.path().join("journal.jsonl");
    let _ = std::fs::remove_file(&journal);
    assert!(house.run(&["journal", "export", "--data-dir", "data", "--output", "journal.jsonl"]).0);
    std::fs::read_to_string(journal).unwrap().lines().filter(|line| line.contains(what)).count()
}

#[test]
fn ks_5_sigusr1_presses_and_says_who() {
    let house = House::new("");
    let estop = house.start();
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200);
    estop.signal("-USR1");
    let status = pressed(&house);
    assert_eq!((&status["source"], &status["by"]), (&"signal".into(), &"SIGUSR1".into()), "{status}");
    assert!(status["metadata"]["pid"].as_u64().is_some(), "{status}");
    assert_shut(&estop);
    unlock(&house);
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200);
    estop.signal("-USR1");
    pressed(&house);
    estop.end();
    house.verified();
}

/// An estop that was just begun: it may not have read its configuration so far.
fn begun(house: &House) -> Child {
    Command::new(env!("CARGO_BIN_EXE_estop"))
        .args(["serve", "--config", "estop.yaml", "--data-dir", "data"])
        .current_dir(house.folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Whether a process holds SIGUSR1 back: then `main` has begun.
fn holds_back(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).map(str::trim).unwrap_or("0");
    // SIGUSR1 is 10 on every machine this runs on.
    u64::from_str_radix(mask, 16).unwrap_or(0) & (1 << 9) != 0
}

#[test]
fn ks_5_sigusr1_while_estop_starts_is_neither_lost_nor_deadly() {
    let house = House::new("");
    for round in 0..8 {
        let mut process = begun(&house);
        let begun = Instant::now();
        while !holds_back(process.id()) {
            assert!(begun.elapsed() < PATIENCE, "SIGUSR1 is not held back");
            std::hint::spin_loop();
        }
        // At once, and a little later in each round.
        std::thread::sleep(Duration::from_millis(round * 4));
        let pid = process.id().to_string();
        assert!(Command::new("kill").args(["-USR1", &pid]).status().unwrap().success());
        let mut said = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line.trim().rsplit("//").next().unwrap().parse();
        let address = address.unwrap_or_else(|_| panic!("round {round}: ended with {:?}", process.wait()));
        until("the admin plane answers", || house.data().join("estop.sock").exists());
        assert_eq!(pressed(&house)["source"], "signal", "round {round}");
        assert_eq!(house::ask(address, "a", "Hello").unwrap().0, 400, "round {round}");
        unlock(&house);
        process.kill().unwrap();
        process.wait().unwrap();
    }
    house.start().end();
    house.verified();
}

#[test]
fn ks_5_a_sigusr1_held_back_during_the_start_is_pressed_before_anything_passes() {
    let house = House::new("");
    let mut process = begun(&house);
    while !holds_back(process.id()) {
        std::hint::spin_loop();
    }
    assert!(Command::new("kill").args(["-USR1", &process.id().to_string()]).status().unwrap().success());
    let mut said = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let address = line.trim().rsplit("//").next().unwrap().parse().unwrap();
    assert_eq!(house::ask(address, "a", "Hello").unwrap().0, 400);
    assert!(Command::new("kill").args(["-TERM", &process.id().to_string()]).status().unwrap().success());
    assert!(process.wait().unwrap().success());
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    // Pressed before the first request was looked at.
    let journal = house.folder.path().join("journal.jsonl");
    assert!(house.run(&["journal", "export", "--data-dir", "data", "--output", "journal.jsonl"]).0);
    let journal = std::fs::read_to_string(journal).unwrap();
    let at = |what: &str| journal.lines().position(|line| line.contains(what)).unwrap();
    assert!(at("SIGUSR1") < at("request_received"), "{journal}");
}

#[test]
fn ks_5_a_touched_file_presses_with_its_note_and_again_at_the_next_start() {
    let house = House::new("");
    let estop = house.start();
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200);
    let file = house.data().join("KILL");
    std::fs::write(&file, "it deletes mail\n").unwrap();
    let status = pressed(&house);
    assert_eq!((&status["source"], &status["note"]), (&"file".into(), &"it deletes mail".into()), "{status}");
    assert_shut(&estop);
    assert!(file.exists(), "it is left in place");
    unlock(&house);
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200, "a clear is a clear");
    estop.end();

    let estop = house.start();
    assert_shut(&estop);
    let status = pressed(&house);
    assert!(status["by"].as_str().unwrap().contains("there at the start"), "{status}");
    std::fs::remove_file(&file).unwrap();
    unlock(&house);
    assert!(Command::new("touch").arg(&file).status().unwrap().success());
    pressed(&house);
    estop.end();
    house.verified();
}

#[test]
fn ks_5_the_trigger_file_may_be_elsewhere_or_nowhere() {
    let house = House::new("triggers: {file: run/STOP}");
    let estop = house.start();
    let lost = trigger(&status(&house), "file");
    assert_eq!(lost["working"], false, "its folder is missing: {lost}");
    std::fs::create_dir(house.folder.path().join("run")).unwrap();
    until("the folder is found", || trigger(&status(&house), "file")["working"] == true);
    std::fs::write(house.data().join("KILL"), "").unwrap();
    std::fs::write(house.folder.path().join("run/STOP"), "").unwrap();
    let metadata = pressed(&house)["metadata"].clone();
    assert_eq!(metadata["path"], "run/STOP");
    estop.end();
    assert_eq!(recorded(&house, "trigger_changed"), 2, "lost, and back");
    std::fs::remove_file(house.folder.path().join("run/STOP")).unwrap();

    let house = House::new("triggers: {file: off}");
    let estop = house.start();
    std::fs::write(house.data().join("KILL"), "").unwrap();
    assert!(trigger(&status(&house), "file").is_null());
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200);
    estop.end();
}

/// As `estop kill` does when no estop answers.
fn write_latch(house: &House, state: SystemState, epoch: u64) {
    let gate = GateView { epoch, state, shut: Channels::ALL };
    let latched = Latched {
        gate,
        reason: Some(KillReason::SecurityIncident),
        note: Some("by hand".to_owned()),
        by: "ann".into(),
        source: "cli".into(),
        since: 1,
        metadata: None,
    };
    LatchFile::of(&house.data(), "cli-test").write(&latched).unwrap();
}

#[test]
fn ks_5_a_latch_written_by_somebody_else_presses() {
    let house = House::new("");
    let estop = house.start();
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200);
    let epoch = status(&house)["epoch"].as_u64().unwrap();
    write_latch(&house, SystemState::Shutdown, epoch + 1);
    let status = pressed(&house);
    assert_eq!(
        [&status["source"], &status["by"], &status["reason"], &status["note"]],
        ["latch", "ann", "security_incident", "by hand"],
        "{status}"
    );
    assert_shut(&estop);
    // One that saw an older epoch is still a kill.
    unlock(&house);
    let epoch = self::status(&house)["epoch"].as_u64().unwrap();
    write_latch(&house, SystemState::Shutdown, epoch - 1);
    assert_eq!(pressed(&house)["source"], "latch");
    // Nobody unlocks in this way.
    unlock(&house);
    let epoch = self::status(&house)["epoch"].as_u64().unwrap();
    write_latch(&house, SystemState::SafeMode, epoch + 5);
    std::fs::write(house.data().join("KILL"), "").unwrap();
    assert_eq!(pressed(&house)["source"], "file");
    estop.end();
}

#[test]
fn ks_5_a_latch_that_is_removed_is_told() {
    let house = House::new("");
    let estop = house.start();
    std::fs::remove_file(house.data().join("estop.latch")).unwrap();
    until("it is told", || trigger(&status(&house), "latch")["working"] == false);
    // A kill from the outside could not be read any more: it is pressed, which makes the latch anew.
    let status = pressed(&house);
    assert_eq!(status["source"], "data_files");
    until("it is there again", || trigger(&self::status(&house), "latch")["working"] == true);
    estop.end();
    assert_eq!(recorded(&house, "trigger_changed"), 2);
}

#[test]
fn ks_5_a_heart_that_stops_presses_and_one_that_beats_does_not() {
    let house = House::new("triggers: {heartbeat: {within_s: 2}}");
    let estop = house.start();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) {
        assert_eq!(house.owner("POST", "/api/emergency/heartbeat", "").0, 204);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(status(&house)["state"], "running", "it beats");
    let status = pressed(&house);
    assert_eq!(
        (&status["source"], &status["reason"]),
        (&"heartbeat".into(), &"emergency".into()),
        "{status}"
    );
    assert_shut(&estop);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(self::status(&house)["epoch"], status["epoch"], "once a silence");
    unlock(&house);
    assert_eq!(pressed(&house)["source"], "heartbeat", "who cleared is silent too");
    estop.end();
    assert_eq!(recorded(&house, "heartbeat missed"), 2);
    house.verified();
}

#[test]
fn ks_5_a_clear_that_clears_nothing_is_no_heartbeat() {
    let house = House::new("triggers: {heartbeat: {within_s: 2}}");
    let estop = house.start();
    until("the button is pressed all the same", || {
        for body in ["{}", "{\"epoch\": 0}"] {
            house.owner("POST", "/api/emergency/clear", body);
        }
        status(&house)["state"] == "shutdown"
    });
    assert_eq!(status(&house)["source"], "heartbeat");
    estop.end();
}

#[test]
fn ks_5_without_a_dead_mans_switch_a_heartbeat_is_refused() {
    let house = House::new("");
    let estop = house.start();
    let (code, said) = house.owner("POST", "/api/emergency/heartbeat", "");
    assert_eq!((code, said.contains("triggers.heartbeat")), (409, true), "{said}");
    estop.end();
}

#[test]
fn ks_7_a_missing_device_is_an_alarm_or_a_kill() {
    let house = House::new(
        "triggers: {gpio: {chip: /dev/no-such-chip}, button: {device: /dev/input/no-such-button, key: KEY_STOP}}",
    );
    let estop = house.start();
    let seen = status(&house);
    assert_eq!(seen["state"], "running");
    for name in ["gpio", "button"] {
        let lost = trigger(&seen, name);
        assert_eq!(lost["working"], false, "{lost}");
        assert!(lost["what"].as_str().unwrap().contains("No such file"), "{lost}");
    }
    assert_eq!(trigger(&seen, "signal")["working"], true);
    let (_, said) = house.run(&["status", "--data-dir", "data"]);
    assert!(said.contains("gpio") && said.contains("DOES NOT WORK"), "{said}");
    estop.end();
    assert_eq!(recorded(&house, "trigger_changed"), 2);

    for (name, config) in [
        ("gpio", "{gpio: {chip: /dev/no-such-chip, on_lost: kill}}"),
        ("button", "{button: {name: No Such Button, key: any, on_lost: kill}}"),
    ] {
        let house = House::new(&format!("triggers: {config}"));
        let estop = house.start();
        let status = pressed(&house);
        assert_eq!((&status["source"], &status["reason"]), (&name.into(), &"emergency".into()), "{status}");
        assert_shut(&estop);
        // Without the device it does not run: that is what `kill` means.
        assert_eq!(house.owner("POST", "/api/emergency/restart", "{}").0, 200);
        assert_eq!(house.owner("POST", "/api/emergency/clear", "{}").0, 200);
        pressed(&house);
        estop.end();
    }
}

/// Forwarded generation calls until one is refused: at most `most`.
fn ask_until_refused(estop: &Estop, agent: &str, most: usize) -> usize {
    (0..most)
        .find(|number| estop.ask(agent, &format!("Question {number} of {agent}")).unwrap().0 != 200)
        .unwrap_or(most)
}

#[test]
fn ks_8_the_watchdog_presses_once_an_episode_or_stops_one_agent() {
    let house = House::new("watchdog: {scope: system}");
    let estop = house.start();
    assert_eq!(ask_until_refused(&estop, "runaway", 120), 100, "more than 100 in a minute");
    let status = pressed(&house);
    assert_eq!(
        (&status["source"], &status["reason"]),
        (&"watchdog".into(), &"runaway_agent".into()),
        "{status}"
    );
    assert!(status["by"].as_str().unwrap().contains("runaway"), "{status}");
    for _ in 0..5 {
        assert_eq!(estop.ask("runaway", "And now?").unwrap().0, 400);
        assert_eq!(estop.ask("other", "Hello").unwrap().0, 400);
    }
    estop.end();
    assert_eq!(recorded(&house, "kill_requested"), 1, "once an episode");
    house.verified();

    let house = House::new("watchdog: {scope: agent}");
    let estop = house.start();
    assert_eq!(ask_until_refused(&estop, "runaway", 120), 100);
    assert_eq!(self::status(&house)["state"], "running");
    assert_eq!(estop.ask("runaway", "And now?").unwrap().0, 400);
    assert_eq!(estop.ask("other", "Hello").unwrap().0, 200);
    estop.end();
    house.verified();
}
