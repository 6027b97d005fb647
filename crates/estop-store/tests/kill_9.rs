//! A process that is killed in the middle of its writes has lost nothing it acknowledged (ST-1).
//!
//! The test runs itself as a child that writes and prints what was acknowledged, and kills it at a random moment, many
//! times over the same journal and database.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod contract;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use contract::{JournalFixture, exported, replay};
use estop_core::agent::standing::{DeactivatedBy, Standing};
use estop_core::time::Millis;
use estop_store::segments::{JournalReader, Listing};
use estop_store::{
    Agent, AgentRepo, Durability, EventFilter, Journal, Meta, NewEvent, Origin, Sqlite, SqliteOptions,
    StandingChange,
};

const PLACE: &str = "ESTOP_TEST_STORE";
const ROUNDS: u64 = 25;

#[test]
fn st_1_nothing_acknowledged_is_lost_by_kill_9() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let mut random = Random::new();
    let mut acked = Acked::default();
    for round in 0..ROUNDS {
        acked = run_and_kill(path, acked, random.below(150));
        check(path, &acked, round);
    }
    assert!(acked.seq > 500 && acked.cursor > 500, "the child came to write: {acked:?}");
}

/// What the child said is stored.
#[derive(Clone, Copy, Debug, Default)]
struct Acked {
    seq: u64,
    cursor: u64,
    meta: u64,
    deactivated: u64,
}

/// Lets the child write until it has acknowledged some more, kills it, and reads what else it said before.
fn run_and_kill(path: &Path, mut acked: Acked, more: u64) -> Acked {
    let program = std::env::current_exe().expect("the test knows its own program");
    let mut child = Command::new(program)
        .args(["--exact", "the_child_writes_until_it_is_killed", "--ignored", "--nocapture"])
        .env(PLACE, path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the child starts");
    let said = BufReader::new(child.stdout.take().expect("its output is read"));
    let mut left = more;
    for line in said.lines().map_while(Result::ok) {
        let Some((kind, number)) = line.split_once(' ') else { continue };
        let Ok(number) = number.parse::<u64>() else { continue };
        match kind {
            "seq" => acked.seq = number,
            "cursor" => acked.cursor = number,
            "meta" => acked.meta = number,
            "deactivated" => acked.deactivated = number,
            _ => continue,
        }
        if left == 0 {
            // SIGKILL. What is still in the pipe was said before, and is read on.
            let _ = child.kill();
        }
        left = left.saturating_sub(1);
    }
    child.wait().expect("the child ends");
    acked
}

fn check(folder: &Path, acked: &Acked, round: u64) {
    // What a crash left is removed where the journal is opened.
    let fixture = JournalFixture::open(folder);
    let reader = JournalReader::new(fixture.journal.writer.folder());
    let (manifest, found) =
        (reader.manifest().expect("a manifest"), Listing::of(reader.folder()).expect("files"));
    let bases: Vec<u64> = manifest.pruned.iter().map(|(segment, _)| *segment).collect();
    let sealed: Vec<u64> = manifest.sealed.iter().map(|sealed| sealed.segment).collect();
    assert!(found.raw.iter().all(|segment| *segment > manifest.last_segment()), "round {round}: {found:?}");
    // One that was not listed yet is sealed again.
    let listed: Vec<u64> = found.sealed.difference(&found.raw).copied().collect();
    assert_eq!((Vec::from_iter(found.bases), listed), (bases, sealed), "round {round}");

    let store = open(folder);
    store.check().expect("it is undamaged");
    let (last, cursor) = (fixture.seq(), store.last_seq().expect("a number"));
    assert!(last >= acked.seq, "round {round}: record {} was acknowledged, {last} is there", acked.seq);
    assert!(cursor >= acked.cursor, "round {round}: {acked:?}, {cursor} is there");
    assert!(cursor <= last, "round {round}: rows of {cursor}, records up to {last}");
    assert_eq!(replay(&exported(&store)), last, "round {round}: every decision is the same again");
    // Each record has one event: a batch is there whole or not at all, and once.
    let events = store.events(&EventFilter::default(), usize::MAX >> 1).expect("events");
    let seqs: Vec<u64> = events.iter().rev().map(|stored| stored.event.seq).collect();
    assert_eq!(seqs, Vec::from_iter(1..=cursor), "round {round}");
    let meta: u64 = store.meta("count").expect("a value").unwrap_or_default().parse().unwrap_or(0);
    assert!(meta >= acked.meta, "round {round}: {} was acknowledged, {meta} is there", acked.meta);
    let agent = store.agent("a").expect("an agent");
    let since = agent.map_or(0, |agent| match agent.standing {
        Standing::Inactive { since, .. } => since.0,
        Standing::Active | Standing::Paused { .. } => 0,
    });
    assert!(since >= acked.deactivated, "round {round}: {acked:?}, {since} is there");
}

#[test]
#[ignore = "the child of the test above"]
fn the_child_writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let store = open(&folder);
    // Ignored if it is there already.
    let _ = store.insert_agent(&Agent::new("a", Origin::Config, 1));
    let other = store.clone();
    std::thread::spawn(move || write_values(&other));
    write_batches(&store, &mut JournalFixture::open(&folder));
}

fn open(folder: &Path) -> Sqlite {
    Sqlite::open(&folder.join("estop.db"), SqliteOptions::default()).expect("it opens")
}

/// As estop does it: first the rows of records that were written before it was killed, then records and their rows.
fn write_batches(store: &Sqlite, fixture: &mut JournalFixture) {
    for round in fixture.seq() + 1.. {
        let from = store.last_seq().expect("a number") + 1;
        for agent in ["a", "b", "a", "c", if round % 9 == 0 { "rare" } else { "a" }] {
            println!("seq {}", fixture.try_write(agent).expect("written"));
        }
        let (mut batch, seq) = (fixture.batch(), fixture.seq());
        batch.events.extend((from..=seq).map(event));
        let is_urgent = round % 4 == 0;
        if is_urgent {
            let standing = Standing::Inactive { by: DeactivatedBy::Manual, since: Millis(round) };
            batch.standings.push(StandingChange { agent: "a".into(), standing, at: 1 });
        }
        batch.snapshots.push(estop_store::Snapshot { agent: "a".into(), seq, state: vec![7; 300] });
        let durability = if is_urgent { Durability::Disk } else { Durability::Process };
        store.append(Arc::new(batch), durability).expect("a batch is stored");
        println!("cursor {seq}");
        if is_urgent {
            println!("deactivated {round}");
        }
        if round % 5 == 0 {
            fixture.seal(store);
        }
        if round % 7 == 0 {
            fixture.prune(store);
        }
    }
}

fn event(seq: u64) -> NewEvent {
    let (event_type, detail) = ("paused".into(), "{}".to_owned());
    NewEvent { seq, wall: 1, agent: Some("a".into()), event_type, detail }
}

fn write_values(store: &Sqlite) {
    let before = store.meta("count").expect("a value").unwrap_or_default().parse().unwrap_or(0_u64);
    for count in before + 1.. {
        store.put_meta("count", &count.to_string()).expect("a value is stored");
        println!("meta {count}");
    }
}

/// Small and seeded: the seed is printed, and `ESTOP_TEST_SEED` gives it back.
struct Random(u64);

impl Random {
    fn new() -> Random {
        let given = std::env::var("ESTOP_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| u64::from(std::process::id()) * 2 + 1);
        println!("ESTOP_TEST_SEED={seed}");
        Random(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}
