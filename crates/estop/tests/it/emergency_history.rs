//! Fifty people at the red button at the same time, over the real admin port of the real binary: one order explains what
//! each of them was told (KS-1, KS-5).

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Barrier;
use std::time::Instant;

use crate::history::{Answered, Asked, Done, Standing, State, explained};
use crate::house::{House, PATIENCE};
use serde_json::{Value, json};

const CLIENTS: u64 = 50;
const OPERATIONS: u32 = 30;

/// A person at the admin port.
struct Person {
    connection: BufReader<TcpStream>,
    token: String,
    random: u64,
    /// The newest epoch and state this person was told.
    seen: Option<Standing>,
}

impl Person {
    fn new(admin: &str, token: &str, seed: u64) -> Person {
        let stream = TcpStream::connect(admin).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        // Xorshift never leaves zero.
        let random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        Person { connection: BufReader::new(stream), token: token.to_owned(), random, seen: None }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }

    /// Mostly what makes sense after what was seen, sometimes anything.
    fn choose(&mut self) -> Asked {
        let named = if self.below(5) == 0 { None } else { self.seen.map(|seen| seen.epoch) };
        let sensible = match self.seen.map(|seen| seen.state) {
            Some(State::Shutdown) => Asked::Restart(named),
            Some(State::SafeMode | State::Running) => Asked::Clear(named),
            None => Asked::Status,
        };
        match self.below(20) {
            0 => Asked::Kill,
            1 => Asked::KillLlm,
            2 => Asked::Restart(named),
            3 => Asked::Clear(named),
            4..10 => Asked::Status,
            _ => sensible,
        }
    }

    fn ask(&mut self, asked: Asked, clock: Instant) -> Done {
        let start = clock.elapsed().as_nanos();
        let (status, said) = match asked {
            Asked::Status => self.send("GET", "status", &Value::Null),
            Asked::Kill => self.send("POST", "kill", &json!({})),
            Asked::KillLlm => self.send("POST", "kill", &json!({"channels": ["llm"]})),
            Asked::Restart(epoch) => self.send("POST", "restart", &json!({"epoch": epoch})),
            Asked::Clear(epoch) => self.send("POST", "clear", &json!({"epoch": epoch})),
        };
        let end = clock.elapsed().as_nanos();
        let answered = match (status, said["detail"].as_str().unwrap_or_default()) {
            (200, _) => Answered::Stands(standing(asked, &said)),
            (409, why) if why.contains("newer kill") => Answered::Stale,
            (409, _) => Answered::Illegal,
            _ => panic!("{asked:?}: {status} {said}"),
        };
        if let Answered::Stands(standing) = answered {
            self.seen = Some(standing);
        }
        Done { asked, answered, start, end }
    }

    fn send(&mut self, method: &str, what: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = format!(
            "{method} /api/emergency/{what} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        self.connection.get_mut().write_all(request.as_bytes()).unwrap();
        let mut line = || {
            let mut line = String::new();
            assert!(self.connection.read_line(&mut line).unwrap() > 0, "no answer");
            line
        };
        let status = line().split(' ').nth(1).unwrap().parse().unwrap();
        let mut length = 0;
        loop {
            let header = line().trim().to_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length: ") {
                length = value.parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.connection.read_exact(&mut body).unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }
}

fn standing(asked: Asked, said: &Value) -> Standing {
    let state = if asked == Asked::Status { &said["state"] } else { &said["status"] };
    let state = match state.as_str().unwrap() {
        "running" => State::Running,
        "shutdown" => State::Shutdown,
        "safe_mode" => State::SafeMode,
        other => panic!("{other}: {said}"),
    };
    Standing { epoch: said["epoch"].as_u64().unwrap(), state, llm_enabled: said["llmEnabled"].as_bool() }
}

fn seed() -> u64 {
    let given = std::env::var("ESTOP_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| u64::from(std::process::id()));
    println!("ESTOP_TEST_SEED={seed}");
    seed
}

/// Everything everybody did.
fn record(admin: &str, token: &str, seed: u64) -> Vec<Done> {
    let (clock, together) = (Instant::now(), Barrier::new(usize::try_from(CLIENTS).unwrap()));
    let client = |number: u64| {
        let mut person = Person::new(admin, token, seed ^ number << 32);
        together.wait();
        (0..OPERATIONS)
            .map(|_| {
                let asked = person.choose();
                person.ask(asked, clock)
            })
            .collect::<Vec<Done>>()
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || client(number))).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    })
}

#[test]
fn ks_1_one_order_explains_what_fifty_people_were_told_at_the_same_time() {
    let house = House::new("");
    let estop = house.start();
    let (admin, token) = (estop.admin().trim_start_matches("http://").to_owned(), estop.token());
    let first = Person::new(&admin, &token, 1).ask(Asked::Status, Instant::now());
    let Answered::Stands(first) = first.answered else { panic!("{first:?}") };
    let history = record(&admin, &token, seed());
    explained(first.epoch, &history).unwrap_or_else(|why| panic!("{why}"));

    let count = |is_so: fn(&Done) -> bool| history.iter().filter(|done| is_so(done)).count();
    let told = |asked: fn(Asked) -> bool| {
        history
            .iter()
            .filter(|done| asked(done.asked) && matches!(done.answered, Answered::Stands(_)))
            .count()
    };
    let restarts = told(|asked| matches!(asked, Asked::Restart(_)));
    let clears = told(|asked| matches!(asked, Asked::Clear(_)));
    let stale = count(|done| done.answered == Answered::Stale);
    let illegal = count(|done| done.answered == Answered::Illegal);
    println!(
        "{} answers: {} kills, {restarts} restarts, {clears} clears, {stale} stale, {illegal} illegal",
        history.len(),
        told(|asked| matches!(asked, Asked::Kill | Asked::KillLlm)),
    );
    assert!(restarts > 0 && clears > 0 && stale > 0 && illegal > 0, "too little happened to say anything");

    // What was told last is what the next process finds (KS-3).
    let last = Person::new(&admin, &token, 1).ask(Asked::Status, Instant::now());
    estop.kill_9();
    let estop = house.start();
    let admin = estop.admin().trim_start_matches("http://").to_owned();
    let found = Person::new(&admin, &token, 1).ask(Asked::Status, Instant::now());
    assert_eq!(found.answered, last.answered);
    estop.end();
    house.verified();
}

fn stands(epoch: u64, state: State) -> Answered {
    Answered::Stands(Standing { epoch, state, llm_enabled: None })
}

/// Each begins when the one before is over.
fn one_by_one(answers: &[(Asked, Answered)]) -> Vec<Done> {
    let done = |(number, &(asked, answered)): (u128, &(Asked, Answered))| Done {
        asked,
        answered,
        start: 10 * number,
        end: 10 * number + 5,
    };
    (0..).zip(answers).map(done).collect()
}

#[track_caller]
fn refuted(answers: &[(Asked, Answered)], why: &str) {
    let said = explained(1, &one_by_one(answers)).unwrap_err();
    assert!(said.contains(why), "{said}");
}

#[test]
fn ks_1_a_history_that_no_order_explains_is_found_out() {
    use State::{Running, SafeMode, Shutdown};
    let kill = (Asked::Kill, stands(2, Shutdown));
    let restart = (Asked::Restart(Some(2)), stands(3, SafeMode));
    let clear = (Asked::Clear(Some(3)), stands(4, Running));
    let look = |epoch, state| (Asked::Status, stands(epoch, state));
    assert_eq!(
        explained(1, &one_by_one(&[look(1, Running), kill, restart, clear, look(4, Running)])),
        Ok(())
    );
    refuted(&[kill, look(1, Running)], "something later was over before it began");
    refuted(&[look(2, Shutdown), kill], "something later was over before it began");
    refuted(&[kill, look(2, Running)], "at this epoch it was");
    refuted(&[kill, (Asked::Kill, stands(2, Shutdown))], "two changes have the epoch 2");
    refuted(&[kill, (Asked::Kill, stands(4, Shutdown))], "after the epoch 2 comes 4");
    refuted(&[kill, (Asked::Kill, stands(3, Running))], "at this epoch it was");
    refuted(&[kill, (Asked::Clear(None), stands(3, Running))], "must be refused (Illegal)");
    refuted(&[kill, (Asked::Restart(Some(2)), Answered::Illegal)], "never right");
    refuted(&[kill, (Asked::Restart(None), Answered::Stale)], "never right");
    refuted(&[look(9, Running)], "no change led to it");
    let dark = Answered::Stands(Standing { epoch: 1, state: Running, llm_enabled: Some(false) });
    refuted(&[(Asked::Status, dark)], "at this epoch it was");
}

#[test]
fn ks_5_a_clear_that_saw_less_than_there_was_is_found_out() {
    use State::{Running, SafeMode, Shutdown};
    let kill = (Asked::Kill, stands(2, Shutdown));
    let restart = (Asked::Restart(Some(2)), stands(3, SafeMode));
    let llm = (Asked::KillLlm, stands(4, SafeMode));
    let blind = Asked::Clear(Some(3));
    assert_eq!(explained(1, &one_by_one(&[kill, restart, llm, (blind, Answered::Stale)])), Ok(()));
    refuted(&[kill, restart, llm, (blind, stands(5, Running))], "must be refused (Stale)");
    refuted(&[kill, restart, (blind, Answered::Stale)], "never right");
    // At the same time, either may be first.
    let mut history = one_by_one(&[kill, restart, llm, (blind, Answered::Stale)]);
    history[3].start = history[2].start;
    assert_eq!(explained(1, &history), Ok(()));
}
