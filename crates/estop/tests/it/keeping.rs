//! How long things are kept, and who has a place: the real binary lets old records go while it works, is killed meanwhile,
//! and its journal still verifies and replays; agents that rest or are deleted give their places to others.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::house::{Estop, House, PATIENCE, until};
use crate::written_journal::WrittenJournal;
use estop_core::engine::Snapshot;
use estop_core::event::{Event, EventKind};
use estop_core::policy::Policy;
use estop_core::time::{Millis, Now};
use estop_store::segments::{JournalReader, recover};
use estop_store::{EventFilter, Journal, Sqlite, SqliteOptions};

const SMALL: &str = "retention: {journal_bytes: 16MiB}";
const JOURNAL_BYTES: u64 = 16 << 20;
/// As an estop that may keep so much cuts it.
const SEGMENT_BYTES: u64 = JOURNAL_BYTES / 8;

/// A record that is longer than a segment.
const LONG: u64 = 700;

/// Appends records of some kilobytes each, as an estop would have written them: of one agent that works, and of one that
/// a person stopped at the beginning. Nothing but the journal knows of them, and no segment is sealed yet.
fn fill(house: &House, records: u64) {
    fill_aged(house, records, |_| 0);
}

/// The same with records that are so many days old, by their number.
fn fill_aged(house: &House, records: u64, days: impl Fn(u64) -> i64) {
    let folder = house.data().join("journal");
    let last = recover(&folder, "", &mut |_, _| {}).unwrap().unwrap().last;
    let mut journal = WrittenJournal::open(&house.data());
    let mut now = Now { mono: Millis(last.mono.0 + 1), wall: last.wall };
    let mut agents = [("busy", Snapshot::default()), ("stopped", Snapshot::default())];
    let mut random = 1_u64;
    for number in 0..records {
        let (name, agent) = &mut agents[usize::from(number == 1 || number == 3)];
        let what = match number {
            0 | 1 => {
                EventKind::PolicyChanged { by: "configuration".into(), policy: Box::new(Policy::default()) }
            }
            3 => EventKind::AgentDeactivated { by: "somebody".into() },
            LONG => EventKind::AgentActivated { by: unpackable(3 << 20, &mut random).into() },
            _ => EventKind::AgentActivated { by: unpackable(7200, &mut random).into() },
        };
        now = Now { mono: Millis(now.mono.0 + 1), wall: last.wall - days(number) * 86_400_000 };
        let event = Event::open(what);
        let decision = agent.tell(now, &event);
        journal.agent(name, now, &event, &decision);
        if journal.writer.position().bytes >= SEGMENT_BYTES {
            journal.writer.begin_segment(&journal.state).unwrap();
        }
    }
    journal.writer.sync().unwrap();
}

/// Text that hardly gets shorter when it is compressed.
fn unpackable(len: usize, random: &mut u64) -> String {
    let next = |_| {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'0' + (*random >> 58) as u8)
    };
    (0..len).map(next).map(|c| if c == '\\' { '~' } else { c }).collect()
}

/// How far the journal was pruned, by `estop journal verify`, beside a running estop.
fn pruned_to(house: &House) -> u64 {
    let (fine, said) = house.run(&["journal", "verify", "--data-dir", "data", "--json"]);
    assert!(fine, "{said}");
    serde_json::from_str::<serde_json::Value>(&said).unwrap()["pruned_to"].as_u64().unwrap()
}

/// Bytes of all files of the journal.
fn journal_bytes(house: &House) -> u64 {
    let files = std::fs::read_dir(house.data().join("journal")).unwrap();
    // One may be sealed or pruned meanwhile.
    files.filter_map(|file| file.unwrap().metadata().ok()).map(|about| about.len()).sum()
}

#[test]
fn st_1_old_records_go_and_the_rest_verifies_and_replays() {
    let house = House::new(SMALL);
    house.start().end();
    fill(&house, 5000);
    let before = journal_bytes(&house);
    assert!(before > 2 * JOURNAL_BYTES, "{before}");
    let estop = house.start();
    until("pruning", || pruned_to(&house) > 1500);
    assert_eq!(estop.ask("busy", "Hello").unwrap().0, 200);
    assert_eq!(estop.ask("stopped", "Hello").unwrap().0, 400);
    // Beside the records there are the states they begin with, the list of segments and the mark.
    until("giving room back", || journal_bytes(&house) < JOURNAL_BYTES + (1 << 20));
    let (fine, said) = house.run(&["backup", "--data-dir", "data", "copy.tar"]);
    assert!(fine, "{said}");
    estop.end();
    house.verified();
    let (fine, said) = house.run(&["replay", "journal.jsonl", "--json"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert!(fine && said["begins_after"].as_u64().unwrap() > 1500, "{said}");
    let store = house.store();
    let filter = EventFilter { event_type: Some("pruned".into()), ..EventFilter::default() };
    let events = store.events(&filter, 100).unwrap();
    assert!(!events.is_empty() && events.iter().all(|event| event.event.detail.contains("retention")));
    assert_eq!(store.records_of("stopped", None, 10).unwrap().len(), 1, "only its refusal is left");
}

#[test]
fn st_1_records_that_are_too_old_go_and_no_others() {
    let house = House::new("retention: {journal_days: 5}");
    house.start().end();
    fill_aged(&house, 1200, |number| if number < 600 { 10 } else { 3 });
    let estop = house.start();
    until("pruning", || pruned_to(&house) > 300);
    assert_eq!(estop.ask("busy", "Hello").unwrap().0, 200);
    assert_eq!(estop.ask("stopped", "Hello").unwrap().0, 400);
    estop.end();
    house.verified();
    // A few were there before.
    assert!(house.store().begins_after().unwrap() < 620, "younger ones are gone");
}

#[test]
fn st_1_what_was_pruned_is_remembered_without_any_other_state() {
    let house = House::new(SMALL);
    house.start().end();
    fill(&house, 5000);
    let estop = house.start();
    until("pruning", || pruned_to(&house) > 1500);
    estop.signal("-USR1");
    house.until_pressed();
    estop.kill_9();
    // As if another version had written the states: the journal must do.
    let folder = house.data().join("estop.db");
    drop(Sqlite::open(&folder, SqliteOptions::default()).unwrap());
    let status = std::process::Command::new("python3")
        .args(["-c", "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1])\ndb.execute('DELETE FROM agent_snapshot')\ndb.commit()"])
        .arg(&folder)
        .status();
    assert!(status.unwrap().success());
    let estop = house.start();
    let (status, said) = house.owner("GET", "/api/agents/stopped", "");
    assert!(status == 200 || status == 404, "{said}");
    assert_eq!(house.owner("POST", "/api/emergency/restart", "{}").0, 200);
    assert_eq!(house.owner("POST", "/api/emergency/clear", "{}").0, 200);
    assert_eq!(estop.ask("stopped", "Hello").unwrap().0, 400, "it works again");
    assert_eq!(estop.ask("busy", "Hello").unwrap().0, 200);
    estop.end();
    house.verified();
}

#[test]
fn st_1_kill_9_while_records_go_leaves_a_journal_that_verifies_and_replays() {
    let house = House::new(SMALL);
    house.start().end();
    fill(&house, 9000);
    for pause_ms in [0, 7, 30, 90, 200] {
        let estop = house.start();
        let before = pruned_to(&house);
        let begun = Instant::now();
        while pruned_to(&house) == before && begun.elapsed() < Duration::from_secs(6) {}
        std::thread::sleep(Duration::from_millis(pause_ms));
        assert_eq!(estop.ask("stopped", "Hello").unwrap().0, 400);
        estop.kill_9();
    }
    house.start().end();
    house.verified();
    assert!(house.store().begins_after().unwrap() > 1500);
}

#[test]
fn st_1_a_backup_of_a_running_estop_has_what_was_just_answered() {
    let house = House::new("");
    let estop = house.start();
    for round in 1..=5_u64 {
        assert_eq!(estop.ask("a", &format!("Number {round}")).unwrap().0, 200);
        let copy = format!("copy-{round}.tar");
        let (fine, said) = house.run(&["backup", "--data-dir", "data", &copy]);
        assert!(fine, "{said}");
        let folder = house.folder.path().join(format!("copy-{round}"));
        estop_store::unpack(&house.folder.path().join(&copy), &folder).unwrap();
        let mut kept = 0;
        let mut count = |lines: &[u8]| {
            kept += String::from_utf8_lossy(lines).matches("\"type\":\"response_completed\"").count() as u64;
            true
        };
        JournalReader::new(&folder.join("journal")).records(1, u64::MAX, &mut count).unwrap();
        assert_eq!(kept, round, "the copy lacks the last answer");
    }
    estop.end();
}

/// A request that names an agent and says nothing that could be judged: 400 if the agent has a place, 503 if not.
fn knock(estop: &Estop, agent: &str) -> u16 {
    let mut stream = TcpStream::connect(estop.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "POST /agents/{agent}/openai/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: 1\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn st_3_made_up_names_cannot_use_up_the_places_for_good() {
    let house = House::new("policy: {kill_switch_enabled: true}\nlimits: {agents: 8, agent_idle_s: 0.2}");
    let estop = house.start();
    assert_eq!(estop.ask("live", "Hello").unwrap().0, 200);
    for number in 0..30 {
        let name = format!("made-up-{number}");
        until("a free place", || knock(&estop, &name) == 400);
    }
    // Those that rest are taken up again, with everything that was theirs.
    until("a place for one that rests", || knock(&estop, "made-up-0") == 400);
    assert_eq!(estop.ask("live", "What else?").unwrap().0, 200);
    estop.kill_9();
    let estop = house.start();
    until("a place after a start", || knock(&estop, "made-up-1") == 400);
    estop.end();
    house.verified();
    let (_, said) = house.run(&["verify", "journal.jsonl", "--json"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert!(said["agents"].as_object().unwrap().len() > 30, "{said}");
}

#[test]
fn st_3_names_have_a_limit_too() {
    let house = House::new("limits: {agents: 4, agent_names: 10, agent_idle_s: 0.2}");
    let estop = house.start();
    // The default agent has one of the names.
    for number in 0..9 {
        until("a free place", || knock(&estop, &format!("made-up-{number}")) == 400);
    }
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(knock(&estop, "one-too-many"), 503);
    until("a known name", || knock(&estop, "made-up-3") == 400);
    estop.end();
}

#[test]
fn st_3_a_deleted_agent_gives_its_place_back_and_stays_stopped() {
    let house = House::new("limits: {agents: 3}");
    let estop = house.start();
    for name in ["a", "b"] {
        assert_eq!(estop.ask(name, "Hello").unwrap().0, 200);
    }
    assert_eq!(knock(&estop, "c"), 503);
    let (fine, said) = house.run(&["agents", "remove", "a", "--data-dir", "data"]);
    assert!(fine, "{said}");
    until("its place", || knock(&estop, "c") == 400);
    assert_eq!(knock(&estop, "d"), 503);
    estop.kill_9();
    let estop = house.start();
    let (_, list) = house.owner("GET", "/api/agents", "");
    assert!(!list.contains("\"id\":\"a\""), "{list}");
    let (fine, said) = house.run(&["agents", "remove", "b", "--data-dir", "data"]);
    assert!(fine, "{said}");
    // It calls again: it is who it was, stopped.
    until("a place to be refused in", || estop.ask("a", "Hello").unwrap().0 == 400);
    let (_, said) = estop.ask("a", "Hello").unwrap();
    assert!(said.contains("deactivated"), "{said}");
    assert_eq!(house.model.requests(), 2);
    estop.end();
    house.verified();
}
