//! Budgets of a real estop under races (PO-2): many clients at once, clients that go away, and kill -9 in between. What it
//! says it spent before is what it says after.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::house::{House, PATIENCE, ask};
use estop_fake_model::script::{Abort, AbortAt, AbortHow, Delay, Hold, Match, Reply, Rule};
use serde_json::Value;

/// What the API says of an agent. By the month: no midnight comes between.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Books {
    reserved: Value,
    spent_this_month: Value,
    in_flight: Value,
}

fn books(house: &House, agent: &str) -> Books {
    let (status, said) = house.owner("GET", &format!("/api/agents/{agent}"), "");
    assert_eq!(status, 200, "{said}");
    let mut said: Value = serde_json::from_str(&said).unwrap();
    let mut take = |key: &str| said[key].take();
    Books {
        reserved: take("reserved"),
        spent_this_month: take("spent_this_month"),
        in_flight: take("in_flight"),
    }
}

fn tokens(amount: &Value) -> u64 {
    amount["tokens"].as_u64().unwrap()
}

/// Waits until the books are so.
fn until(house: &House, agent: &str, what: &str, so: impl Fn(&Books) -> bool) -> Books {
    let begun = Instant::now();
    loop {
        let found = books(house, agent);
        if so(&found) {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{agent}: never {what}: {found:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What nobody was told is written a moment later, or before the next answer, whatever that is.
fn let_it_write(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /nowhere HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
}

/// Nothing is under way and nothing is held.
fn is_quiet(books: &Books) -> bool {
    books.in_flight == 0 && tokens(&books.reserved) == 0 && books.reserved["usd"] == 0.0
}

#[test]
fn po_2_512_clients_at_once_spend_no_more_than_the_cap_over_kill_9() {
    const CAP: u64 = 2_000;
    let house =
        House::new(&format!("policy: {{budget: {{tokens_per_month: {CAP}}}}}\nwatchdog: {{scope: off}}"));
    let slow = Delay { headers_ms: 200, ..Delay::default() };
    house.model.always(Reply { delay: slow, ..Reply::default() });
    let estop = house.start();
    let (together, passed) = (Barrier::new(512), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..512 {
            scope.spawn(|| {
                together.wait();
                let (status, said) = estop.ask("racer", "Hello there").unwrap();
                // More than the agent may have under way at once is shed.
                assert!([200, 400, 429, 503].contains(&status), "{status}: {said}");
                passed.fetch_add(u64::from(status == 200), Ordering::Relaxed);
            });
        }
    });
    let before = until(&house, "racer", "quiet", is_quiet);
    let_it_write(estop.address);
    let (spent, passed) = (tokens(&before.spent_this_month), passed.load(Ordering::Relaxed));
    assert!(passed > 0 && house.model.requests() == passed, "{passed} passed");
    // One that named no limit may run alone, and exceed the cap by what it uses itself.
    assert!((1..=CAP + 200).contains(&spent), "{spent} of {CAP}");
    estop.kill_9();
    let estop = house.start();
    assert_eq!(books(&house, "racer"), before);
    estop.end();
    house.verified();
}

/// Answers of every kind, by the model's name.
fn rules() -> Vec<Rule> {
    let delay = Delay { chunk_ms: 1, ..Delay::default() };
    let breaks = Abort { at: AbortAt::MidStream, how: AbortHow::Rst, after_events: 2 };
    let rule = |name: &str, reply| Rule {
        when: Match { model: Some(name.into()), ..Match::default() },
        reply,
        ..Rule::default()
    };
    vec![
        rule("endless", Reply { endless: true, delay, ..Reply::default() }),
        rule("breaks", Reply { abort: Some(breaks), ..Reply::default() }),
        rule("fails", Reply { status: Some(500), ..Reply::default() }),
        rule("holds", Reply { hold: Some(Hold::Headers), ..Reply::default() }),
    ]
}

/// Asks, and goes away after so many bytes of the answer came, or at once.
fn abandon(address: SocketAddr, agent: &str, model: &str, number: u64) {
    let body = format!(
        "{{\"model\":\"{model}\",\"stream\":{},\"max_tokens\":50,\"messages\":[{{\"role\":\"user\",\"content\":\"{number}\"}}]}}",
        number.is_multiple_of(2)
    );
    let head = format!(
        "POST /agents/{agent}/openai/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(address).unwrap();
    // Some answers never come.
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut piece = [0; 128];
    for _ in 0..number % 7 {
        if !stream.read(&mut piece).is_ok_and(|count| count > 0) {
            break;
        }
    }
}

#[test]
fn po_2_thousands_of_broken_requests_leave_nothing_reserved_over_kill_9() {
    const AGENTS: [&str; 3] = ["one", "two", "three"];
    let house = House::new("policy: {budget: {tokens_per_month: 100000000}}\nwatchdog: {scope: off}");
    house.model.script(rules());
    let estop = house.start();
    let address = estop.address;
    std::thread::scope(|scope| {
        for thread in 0..10_u64 {
            let house = &house;
            scope.spawn(move || {
                for number in 0..200 {
                    let number = thread * 200 + number;
                    let model = ["gpt-4o-mini", "endless", "breaks", "fails", "holds"][(number % 5) as usize];
                    let agent = AGENTS[(number / 5 % 3) as usize];
                    abandon(address, agent, model, number);
                    if number % 101 == 0 {
                        house.owner("POST", &format!("/api/agents/{agent}/deactivate"), "");
                        house.owner("POST", &format!("/api/agents/{agent}/activate"), "");
                    }
                }
            });
        }
    });
    let before: Vec<Books> = AGENTS.iter().map(|agent| until(&house, agent, "quiet", is_quiet)).collect();
    assert!(before.iter().all(|books| tokens(&books.spent_this_month) > 0), "{before:?}");
    let_it_write(address);
    estop.kill_9();
    let estop = house.start();
    let after: Vec<Books> = AGENTS.iter().map(|agent| books(&house, agent)).collect();
    assert_eq!(after, before);
    estop.end();
    house.verified();
}

#[test]
fn po_2_what_was_under_way_at_kill_9_is_spent_as_it_was_reserved() {
    let house = House::new("policy: {budget: {tokens_per_month: 100000000}}\nwatchdog: {scope: off}");
    let estop = house.start();
    let address = estop.address;
    for number in 0..5 {
        assert_eq!(estop.ask("busy", &format!("Question {number}")).unwrap().0, 200);
    }
    house.model.always(Reply { hold: Some(Hold::Headers), ..Reply::default() });
    std::thread::scope(|scope| {
        for number in 0..20 {
            scope.spawn(move || assert!(ask(address, "busy", &format!("Never answered {number}")).is_none()));
        }
        let before = until(&house, "busy", "20 under way", |books| books.in_flight == 20);
        // With a budget, no model sees a request before the disk knows what it may cost.
        assert!(house.model.wait_for_requests(25, PATIENCE));
        estop.kill_9();
        house.model.reset();
        let estop = house.start();
        let after = books(&house, "busy");
        assert!(is_quiet(&after), "{after:?}");
        let sum = tokens(&before.spent_this_month) + tokens(&before.reserved);
        assert_eq!(tokens(&after.spent_this_month), sum, "{before:?} {after:?}");
        assert_eq!(estop.ask("busy", "Once more").unwrap().0, 200);
        estop.end();
    });
    house.verified();
}
