//! What the daemon logs (OB-1): one line for each thing that happened, as text or JSON, as the configuration says.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::house::{House, until};
use serde_json::Value;

/// The lines of a daemon that logged JSON.
fn lines(logged: &str) -> Vec<Value> {
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    logged.lines().map(read).collect()
}

fn with<'l>(lines: &'l [Value], message: &str) -> Vec<&'l Value> {
    lines.iter().filter(|line| line["message"] == message).collect()
}

#[test]
fn ob_1_starts_stops_kills_and_reloads_have_a_line_each() {
    let house = House::new("log: {requests: all}\n");
    let (estop, logged) = house.start_heard();
    assert_eq!(estop.ask("coder", "Hello").unwrap().0, 200);
    assert_eq!(house.owner("POST", "/api/agents/coder/deactivate", "{}").0, 200);
    assert_eq!(estop.ask("coder", "Hello").unwrap().0, 400);
    assert_eq!(house.owner("POST", "/api/agents/coder/activate", "{}").0, 200);
    assert_eq!(house.owner("POST", "/api/emergency/kill", r#"{"reason":"manual"}"#).0, 200);
    estop.signal("-HUP");
    until("the file was read again", || {
        house.owner("GET", "/api/events?type=configuration_read", "").1.contains("SIGHUP")
    });
    estop.end();
    let logged = logged.join().unwrap();
    let lines = lines(&logged);
    for line in &lines {
        assert!(
            line["timestamp"].is_string() && line["level"].is_string() && line["target"].is_string(),
            "{line}"
        );
    }
    for message in [
        "estop starts",
        "listening",
        "agent stopped by a person",
        "agent activated",
        "configuration reloaded",
        "estop is stopping",
        "estop ended",
    ] {
        assert_eq!(with(&lines, message).len(), 1, "{message}: {logged}");
    }
    assert_eq!(with(&lines, "agent stopped by a person")[0]["agent"], "coder");
    let requests: Vec<&str> =
        with(&lines, "request").iter().map(|line| line["outcome"].as_str().unwrap()).collect();
    assert_eq!(requests, ["answered", "refused"], "{logged}");
    assert!(logged.contains("EVERYTHING IS STOPPED: manual"), "{logged}");
    assert_eq!(with(&lines, "requests refused")[0]["guard"], "agent", "{logged}");
}

#[test]
fn ob_1_text_levels_and_targets_are_chosen_and_change_while_it_runs() {
    let house = House::new("log: {format: text, level: warn, targets: {agents: off}}\n");
    let (estop, logged) = house.start_heard();
    assert_eq!(estop.ask("coder", "Hello").unwrap().0, 200);
    assert_eq!(house.owner("POST", "/api/agents/coder/deactivate", "{}").0, 200);
    until("it was logged, or left out", || {
        house.owner("GET", "/api/events?type=deactivated", "").1.contains("coder")
    });
    house.configure("log: {format: text, level: info}\n");
    estop.signal("-HUP");
    until("the file was read again", || {
        house.owner("GET", "/api/events?type=configuration_read", "").1.contains("SIGHUP")
    });
    assert_eq!(house.owner("POST", "/api/agents/coder/activate", "{}").0, 200);
    estop.end();
    let logged = logged.join().unwrap();
    assert!(!logged.contains("estop starts"), "information is left out: {logged}");
    assert!(!logged.contains("agent stopped by a person"), "the target is off: {logged}");
    let activated = logged.lines().find(|line| line.contains("agent activated")).unwrap();
    assert!(activated.contains(" INFO agents: agent activated agent=\"coder\""), "{activated}");
    assert!(!logged.contains('\u{1b}'), "colours are for terminals");
}

#[test]
fn ob_1_a_guard_that_only_watches_has_one_line_for_many_requests() {
    let house = House::new("policy: {kill_switch_threshold: 2, loop_score: literal}\n");
    let (estop, logged) = house.start_heard();
    for _ in 0..12 {
        assert_eq!(estop.ask("coder", "The same again").unwrap().0, 200);
    }
    until("a guard would have stopped it", || {
        house.owner("GET", "/api/events?type=would_have_stopped", "").1.contains("coder")
    });
    estop.end();
    let logged = logged.join().unwrap();
    let lines = lines(&logged);
    let watched = with(&lines, "guard only watches: it would have stopped the agent");
    let loops: Vec<_> = watched.iter().filter(|line| line["guard"] == "loop").collect();
    assert_eq!(loops.len(), 1, "{logged}");
    assert_eq!(loops[0]["agent"], "coder", "{logged}");
    assert!(loops[0]["fix"].as_str().unwrap().contains("agents loop-guard coder --on"), "{logged}");
}

#[test]
fn ob_1_a_log_nobody_reads_holds_up_no_kill() {
    let house = House::new("log: {requests: all, level: trace}\n");
    let (mut read, write) = std::io::pipe().unwrap();
    let estop = house.start_logging_to(write);
    // More than the pipe holds.
    for n in 0..600 {
        assert_eq!(estop.ask(&format!("agent-{}", n % 7), &format!("Question {n}")).unwrap().0, 200);
    }
    assert_eq!(house.owner("POST", "/api/emergency/kill", r#"{"reason":"manual"}"#).0, 200);
    assert_eq!(estop.ask("agent-1", "Hello").unwrap().0, 400);
    // Read at the end, so that it can write what is left.
    let reader = std::thread::spawn(move || drop(std::io::Read::read_to_end(&mut read, &mut Vec::new())));
    estop.end();
    reader.join().unwrap();
}

#[test]
fn ob_1_the_service_manager_hears_when_it_is_ready_alive_and_ending() {
    let house = House::new("");
    let path = house.folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let estop = house.start_with(&[("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "200000")]);
    let hear = || {
        let mut text = [0; 200];
        let len = manager.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..len]).into_owned()
    };
    assert!(hear().starts_with("READY=1\nSTATUS=listening on 127.0.0.1:"));
    assert_eq!((hear().as_str(), hear().as_str()), ("WATCHDOG=1", "WATCHDOG=1"));
    estop.end();
    let mut last = hear();
    while last == "WATCHDOG=1" {
        last = hear();
    }
    assert_eq!(last, "STOPPING=1\nSTATUS=stopping");
}
