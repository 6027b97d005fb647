//! A process that is killed in the middle of its writes has lost nothing it acknowledged (ST-1).
//!
//! The test runs itself as a child that writes and prints what was acknowledged, and kills it at a random moment, many
//! times over the same database.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod contract;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use contract::{Scribe, prune, read_from, verify};
use estop_core::agent::standing::{DeactivatedBy, Standing};
use estop_core::time::Millis;
use estop_store::{
    Agent, AgentRepo, Durability, Journal, Meta, Origin, Retention, Sqlite, SqliteOptions, StandingChange,
};

const PLACE: &str = "ESTOP_TEST_STORE";
const ROUNDS: u64 = 25;
/// Records in each batch, so that half a batch would be noticed.
const BATCH: u64 = 5;

#[test]
fn st_1_nothing_acknowledged_is_lost_by_kill_9() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("estop.db");
    let mut random = Random::new();
    let mut acked = Acked::default();
    for round in 0..ROUNDS {
        acked = run_and_kill(&path, acked, random.below(150));
        check(&path, &acked, round);
    }
    assert!(acked.seq > 500, "the child came to write: {acked:?}");
}

/// What the child said is stored.
#[derive(Clone, Copy, Debug, Default)]
struct Acked {
    seq: u64,
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

fn check(path: &Path, acked: &Acked, round: u64) {
    let store = Sqlite::open(path, SqliteOptions::default()).expect("it opens after a kill");
    store.check().expect("it is undamaged");
    let last = store.last_seq().expect("a number");
    assert!(last >= acked.seq, "round {round}: record {} was acknowledged, {last} is there", acked.seq);
    assert_eq!(last % BATCH, 0, "round {round}: a batch is there whole or not at all");
    let pruned = store.pruned().expect("how far it was pruned");
    let heads = verify(&pruned, &read_from(&store, pruned.to_seq + 1));
    assert_eq!(store.heads(), Ok(heads), "round {round}: the chains verify");
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
    let Some(path) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let store = Sqlite::open(&path, SqliteOptions::default()).expect("it opens");
    // Ignored if it is there already.
    let _ = store.insert_agent(&Agent::new("a", Origin::Config, 1));
    let other = store.clone();
    std::thread::spawn(move || write_values(&other));
    write_batches(&store);
}

/// The journal is the same in every round, so it can be written on from any record.
fn write_batches(store: &Sqlite) {
    let mut scribe = Scribe::default();
    let last = store.last_seq().expect("a number");
    for round in 1.. {
        let mut batch = scribe.batch(&["a", "b", "a", "c", if round % 9 == 0 { "rare" } else { "a" }]);
        if scribe.chains.seq() <= last {
            continue;
        }
        let is_urgent = round % 4 == 0;
        if is_urgent {
            let standing = Standing::Inactive { by: DeactivatedBy::Manual, since: Millis(round) };
            batch.standings.push(StandingChange { agent: "a".into(), standing, at: 1 });
        }
        let seq = scribe.chains.seq();
        batch.snapshots.push(estop_store::Snapshot { agent: "a".into(), seq, state: vec![7; 300] });
        let durability = if is_urgent { Durability::Disk } else { Durability::Process };
        store.append(Arc::new(batch), durability).expect("a batch is stored");
        println!("seq {seq}");
        if is_urgent {
            println!("deactivated {round}");
        }
        if round % 31 == 0 {
            store.compact().expect("blocks merge");
        }
        if round % 47 == 0 {
            let keep = Retention { keep_bytes: Some(40_000), checkpoint: u64::MAX, ..Retention::default() };
            prune(store, keep).expect("it prunes");
        }
    }
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
