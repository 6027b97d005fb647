//! `estop alerts …`, and what `status`, `doctor` and the kill switch say of alerts (AL-1, AL-3, UI-2): the real binary
//! against a real daemon and a receiver on this machine.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::house::{House, PATIENCE};
use serde_json::json;

/// A receiver that answers what it is told to.
fn receiver() -> (SocketAddr, Arc<AtomicU16>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, status) = (listener.local_addr().unwrap(), Arc::new(AtomicU16::new(200)));
    let answers = Arc::clone(&status);
    // It ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut length, mut line) = (0, String::new());
            while reader.read_line(&mut line).unwrap_or(0) > 2 {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let _ = reader.read_exact(&mut vec![0; length]);
            let status = answers.load(Ordering::SeqCst);
            let words = if status == 200 { "thanks" } else { "no such team" };
            let (count, end) = (words.len(), "connection: close\r\n\r\n");
            let _ = write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: {count}\r\n{end}{words}");
        }
    });
    (address, status)
}

fn house_with(alerts: &str) -> House {
    House::new(&format!("policy: {{kill_switch_enabled: true}}\n{alerts}"))
}

#[test]
fn al_3_without_a_channel_every_command_says_what_to_add() {
    let house = house_with("");
    let _estop = house.start();
    house.estop(&["alerts", "list"]).is(0, "nobody is notified").is(0, "alerts: {channels:");
    house.estop(&["alerts", "log"]).is(0, "Nothing was sent yet.");
    house.estop(&["alerts", "rules"]).is(0, "every channel receives every alert");
    house.estop(&["alerts", "test", "ops"]).is(1, "There is no channel `ops`");
    house.estop(&["status"]).is(0, "no alert channel is configured: nobody is notified of stops");
    house.estop(&["agents", "add", "coder"]).is(0, "Added");
    let on = house.estop(&["agents", "kill-switch", "coder", "--on"]);
    on.is(0, "nobody would be notified of a stop. `estop doctor` says how to change that.");
    let report = house.estop(&["doctor", "--offline", "--json"]).json();
    let of_alerts = report["findings"].as_array().unwrap().iter().find(|one| one["area"] == "alerts");
    let finding = of_alerts.unwrap();
    assert_eq!(finding["level"], "warning", "{finding}");
    assert!(finding["fix"].as_str().unwrap().contains("alerts: {channels:"), "{finding}");
}

#[test]
fn al_1_a_channel_is_tested_and_one_that_fails_is_named() {
    let (address, status) = receiver();
    let house = house_with(&format!(
        "alerts: {{channels: {{own: {{type: webhook, url: \"http://{address}/x\", allow_loopback: true}}}}}}"
    ));
    let _estop = house.start();
    house.estop(&["alerts", "test", "own"]).is(0, "It arrived");
    house.estop(&["alerts", "list"]).is(0, "webhook").is(0, &address.to_string());
    house.estop(&["status"]).is(0, "1 channel");
    let log = house.estop(&["alerts", "log", "--json"]).json();
    assert_eq!(
        (&log["deliveries"][0]["kind"], &log["deliveries"][0]["outcome"]),
        (&json!("test"), &json!("delivered"))
    );
    house.estop(&["agents", "add", "coder"]).is(0, "Added");
    let on = house.estop(&["agents", "kill-switch", "coder", "--on"]);
    assert!(!on.out.contains("Nobody would be told"), "{}", on.out);

    status.store(404, Ordering::SeqCst);
    house.estop(&["alerts", "test", "own"]).is(1, "It did NOT arrive").is(1, "404");
    house.estop(&["status"]).is(0, "own FAILS").is(0, "404");
    house.estop(&["doctor", "--offline"]).is(1, "the channel own fails").is(1, "alerts test own");
    let shown = house.estop(&["status", "--json"]).json();
    assert_eq!(shown["alerts"]["channels"][0]["working"], false, "{shown}");
}

#[test]
fn al_1_rules_and_mutes_are_set_and_taken_away() {
    let (address, _) = receiver();
    let house = house_with(&format!(
        "alerts:\n  channels: {{own: {{type: webhook, url: \"http://{address}/x\", allow_loopback: true}}}}\n  \
         rules: {{stops: {{types: [kill_switch]}}}}"
    ));
    let _estop = house.start();
    house.estop(&["alerts", "rules"]).is(0, "stops").is(0, "file");
    let set = |rule: &str| house.estop_reading(&["alerts", "rules", "set", "stops", "-"], rule);
    set("{types: [kill_switch, watchdog], channels: [own]}").is(0, "is in force");
    set("{types: [nonsense]}").is(1, "rule.types");
    set("{channels: [opps]}").is(1, "there is no channel `opps`; name one of own");
    set("types: [").is(1, "");
    let rules = house.estop(&["alerts", "rules", "list", "--json"]).json();
    assert_eq!((&rules["rules"][0]["origin"], &rules["rules"][0]["in_force"]), (&json!("api"), &json!(true)));
    assert_eq!(rules["rules"][1]["in_force"], false, "{rules}");
    house.estop(&["alerts", "rules", "off", "stops"]).is(0, "is off");
    let off = house.estop(&["alerts", "rules", "--json"]).json();
    assert_eq!(
        (&off["everything"], &off["rules"][0]["rule"]["types"][1]),
        (&json!(true), &json!("watchdog"))
    );
    house.estop(&["alerts", "rules", "remove", "stops"]).is(0, "is taken away");
    house.estop(&["alerts", "rules", "remove", "stops"]).is(1, "configuration file");
    house.estop(&["alerts", "rules", "off", "none"]).is(1, "none");
    // A rule of something else alone: nobody is told of stops.
    set("{types: [budget]}").is(0, "is in force");
    house.estop(&["status"]).is(0, "no rule sends them stops");
    house.estop(&["doctor", "--offline"]).is(0, "no rule says so");

    let mute = [
        "alerts", "mute", "--for", "2h", "--why", "known", "--type", "budget", "--agent", "coder", "--id",
        "m1",
    ];
    house.estop(&mute).is(0, "alerts unmute m1");
    house.estop(&["alerts", "mute", "--for", "8d", "--why", "x"]).is(1, "seven days");
    house.estop(&["alerts", "mute", "--for", "1h", "--why", "x", "--type", "all"]).is(2, "kill_switch");
    let begun = std::time::Instant::now();
    while !house.estop(&["alerts", "list"]).out.contains("known") {
        assert!(begun.elapsed() < PATIENCE, "the mute is not shown");
    }
    house.estop(&["alerts", "unmute", "m1"]).is(0, "m1 is over");
    house.estop(&["alerts", "unmute", "none"]).is(1, "There is no mute `none`");
    let events = house.estop(&["journal", "events", "--json"]);
    assert!(events.out.contains("alerts muted until"), "who muted is in the journal: {}", events.out);
}
