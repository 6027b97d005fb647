//! A configuration that changes while estop runs: taken up whole or not at all, and written down.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::house::{Estop, House, PATIENCE};
use estop_fake_model::FakeModel;
use estop_fake_model::script::{Delay, Reply};
use estop_store::{EventFilter, Journal};

const STOPS_ALL: &str = "policy: {budget: {tokens_per_day: 1}}";

/// Asks until the answer has this status.
fn until(estop: &Estop, status: u16) {
    let begun = Instant::now();
    loop {
        let (found, body) = estop.ask("a", "Hello").expect("an answer");
        if found == status {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{status} never came, but {found}: {body}");
        // The watchdog stops whoever asks more than a hundred times a minute.
        std::thread::sleep(Duration::from_millis(100));
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

/// Everything but listeners is taken up, each way and back.
#[test]
fn ob_3_providers_limits_prices_and_keys_change_while_it_runs() {
    let house = House::new("");
    let estop = house.start_with(&[("KEY_OF_A", "a-key-of-sixteen-characters")]);
    assert_eq!(estop.ask("a", "Hello").expect("an answer").0, 200);
    for (changed, status) in [
        ("limits: {body_bytes: 10}", 413),
        ("budget: {usd_per_day: 1}\nprices: {models: {gpt-4o-mini: {input: 100000, output: 100000}}}", 400),
        ("agents: {b: {key_env: KEY_OF_A}}\nrequire_keys: true", 401),
        ("agents: {b: {}}\nunknown_agents: deny", 403),
    ] {
        house.configure(changed);
        estop.signal("-HUP");
        until(&estop, status);
        house.configure("");
        estop.signal("-HUP");
        until(&estop, 200);
    }
    estop.end();
    house.verified();
}

/// A request goes on with what it began with; the next one, on the same connection too, goes where the file says now.
#[test]
fn ob_3_a_changed_provider_is_asked_from_the_next_request_on() {
    let house = House::new("");
    let (estop, log) = house.start_heard();
    let slow = Delay { headers_ms: 3_000, ..Delay::default() };
    house.model.always(Reply { delay: slow, ..Reply::default() });
    let mut connection = BufReader::new(TcpStream::connect(estop.address).expect("it listens"));
    connection.get_ref().set_read_timeout(Some(PATIENCE)).expect("set");
    send(&connection);
    assert!(house.model.wait_for_requests(1, PATIENCE));

    let other = FakeModel::start(Default::default()).expect("it starts");
    let file = house.folder.path().join("estop.yaml");
    let text = std::fs::read_to_string(&file).expect("it is there");
    let moved = text.replace(&house.model.url(), &other.url());
    assert_ne!(moved, text, "the file names the provider");
    std::fs::write(file, moved).expect("written");
    estop.signal("-HUP");
    let begun = Instant::now();
    while other.requests() == 0 {
        assert!(begun.elapsed() < PATIENCE, "the other provider was never asked");
        assert_eq!(estop.ask("b", "Hello").expect("an answer").0, 200);
    }
    assert_eq!(answer(&mut connection), "HTTP/1.1 200 OK", "the request that was under way");

    let before = other.requests();
    send(&connection);
    assert_eq!(answer(&mut connection), "HTTP/1.1 200 OK");
    assert_eq!(other.requests(), before + 1, "the same connection, the other provider");
    drop(connection);
    estop.end();
    let log = log.join().expect("the log");
    assert!(!log.contains("reload failed"), "{log}");
    house.verified();
}

/// Sends a request on a connection that stays open.
fn send(connection: &BufReader<TcpStream>) {
    let body = r#"{"model":"gpt-4o-mini","messages":[{"role":"user","content":"Hi"}]}"#;
    let head = format!(
        "POST /agents/a/openai/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    connection.get_ref().write_all(format!("{head}{body}").as_bytes()).expect("sent");
}

/// Reads a whole answer; its first line.
fn answer(connection: &mut BufReader<TcpStream>) -> String {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        connection.read_line(&mut line).expect("a line");
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.expect("a length")];
    connection.read_exact(&mut body).expect("a body");
    lines.swap_remove(0)
}

#[test]
fn ui_5_a_file_that_is_gone_is_logged_once() {
    let house = House::new("");
    let (read, write) = std::io::pipe().expect("a pipe");
    let estop = house.start_logging_to(write);
    let file = house.folder.path().join("estop.yaml");
    let text = std::fs::read(&file).expect("it is there");
    std::fs::remove_file(&file).expect("removed");
    let mut lines = BufReader::new(read).lines().map(|line| line.expect("a line"));
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
        "triggers: {heartbeat: {within_s: 60}}",
        "limits: {body_bytes: 0}",
        "relays: {chat: {out: \"http://203.0.113.7/\"}}",
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
