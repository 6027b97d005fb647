//! A configuration that changes while estop runs: taken up whole or not at all, and written down.

use std::io::BufRead;
use std::time::{Duration, Instant};

use crate::house::{Estop, House, PATIENCE};
use estop_store::{EventFilter, Journal};

const STOPS_ALL: &str = "policy: {budget: {tokens_per_day: 1}}";

/// Asks until the answer has this status.
fn until(estop: &Estop, status: u16) {
    let begun = Instant::now();
    while estop.ask("a", "Hello").expect("an answer").0 != status {
        assert!(begun.elapsed() < PATIENCE, "{status} never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn events(house: &House, event_type: &str) -> usize {
    let filter = EventFilter { event_type: Some(event_type.into()), ..EventFilter::default() };
    house.store().events(&filter, 100).expect("events").len()
}

#[test]
fn ui_5_a_changed_file_is_taken_up_by_itself() {
    let house = House::new("");
    let estop = house.start();
    assert_eq!(estop.ask("a", "Hello").expect("an answer").0, 200);
    house.configure(STOPS_ALL);
    until(&estop, 400);
    house.configure("");
    until(&estop, 200);
    estop.end();
    house.verified();
    assert!(events(&house, "configuration_read") >= 2, "both changes are written down");
}

#[test]
fn ui_5_a_file_that_is_gone_is_logged_once() {
    let house = House::new("");
    let (read, write) = std::io::pipe().expect("a pipe");
    let estop = house.start_logging_to(write);
    let file = house.folder.path().join("estop.yaml");
    let text = std::fs::read(&file).expect("it is there");
    std::fs::remove_file(&file).expect("removed");
    let mut lines = std::io::BufReader::new(read).lines().map(|line| line.expect("a line"));
    assert!(lines.any(|line| line.contains("the configuration file is gone")));
    assert_eq!(estop.ask("a", "Hello").expect("an answer").0, 200, "what it said stays in force");
    std::fs::write(&file, text).expect("written");
    let until_there = lines.find(|line| line.contains("file is gone") || line.contains("is there again"));
    assert!(until_there.is_some_and(|line| line.contains("is there again")));
    estop.end();
}

#[test]
fn ui_5_a_wrong_file_changes_nothing() {
    let house = House::new(STOPS_ALL);
    let estop = house.start();
    assert_eq!(estop.ask("a", "Hello").expect("an answer").0, 400);
    let wrong = [
        "policy: {budget: {tokens_per_day: -1}}",
        "policy: {budgets: {}}",
        "limits: {agents: 20}",
        "preset: [",
    ];
    for (count, wrong) in wrong.iter().enumerate() {
        house.configure(wrong);
        estop.signal("-HUP");
        let begun = Instant::now();
        // What the journal says can be read while estop runs.
        while house.run(&["journal", "export", "--data-dir", "data"]).1.matches("\"applied\":false").count()
            <= count
        {
            assert!(begun.elapsed() < PATIENCE, "{wrong} was never looked at");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(estop.ask("a", "Hello").expect("an answer").0, 400, "{wrong}");
    }
    estop.end();
    house.verified();
    assert_eq!(events(&house, "configuration_read"), 0);
}
