//! What storing costs. Not checked, only printed: `cargo test -p estop-store --test figures -- --ignored --nocapture`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod contract;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use contract::prune;
use estop_core::event::{Event, EventKind};
use estop_core::journal::{Chains, Happened};
use estop_core::time::{Millis, Now};
use estop_store::{
    AgentRepo, AgentSeen, Durability, Journal, JournalBatch, Lines, Retention, Snapshot, Sqlite,
    SqliteOptions,
};
use nix::sys::resource::{UsageWho, getrusage};

fn cpu() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    let time = |t: nix::sys::time::TimeVal| {
        Duration::from_secs(t.tv_sec() as u64) + Duration::from_micros(t.tv_usec() as u64)
    };
    time(usage.user_time()) + time(usage.system_time())
}

/// Lines of about 600 bytes, forty to a batch.
fn batch(chains: &mut Chains, agents: u64) -> JournalBatch {
    let mut lines = Lines { first_seq: chains.seq() + 1, ..Lines::default() };
    for _ in 0..40 {
        let seq = chains.seq() + 1;
        let now = Now { mono: Millis(seq), wall: seq as i64 };
        let event = Event::open(EventKind::AgentPaused { by: format!("{seq:0>280}").into() });
        // Spread over the agents, but not in turn.
        let agent = format!("agent-{:05}", seq.wrapping_mul(2_654_435_761) % agents);
        chains.append(&agent, now, Happened::Agent(&event), &"noted", &mut lines.bytes);
    }
    lines.last_seq = chains.seq();
    (lines.first_wall, lines.last_wall) = (lines.first_seq as i64, lines.last_seq as i64);
    JournalBatch { lines: Some(lines), ..JournalBatch::default() }
}

fn size(folder: &Path) -> u64 {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[test]
#[ignore = "prints figures"]
fn an_append_of_forty_records() {
    for agents in [1, 10, 100, 1000, 10_000] {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(&folder.path().join("estop.db"), SqliteOptions::default()).unwrap();
        let mut chains = Chains::default();
        let batches: Vec<_> = (0..2500).map(|_| Arc::new(batch(&mut chains, agents))).collect();
        let bytes: usize = batches.iter().map(|batch| batch.lines.as_ref().unwrap().bytes.len()).sum();
        let (start, cpu_start) = (Instant::now(), cpu());
        for batch in batches {
            store.append(batch, Durability::Process).unwrap();
        }
        let (wall, used) = (start.elapsed(), cpu() - cpu_start);
        drop(store);
        println!(
            "{agents:>6} agents: {:.2} µs wall, {:.2} µs cpu a record of {} B; {:.0} B on disk",
            wall.as_secs_f64() * 10.0,
            used.as_secs_f64() * 10.0,
            bytes / 100_000,
            size(folder.path()) as f64 / 100_000.0,
        );
    }
}

#[test]
#[ignore = "prints figures"]
fn a_start_with_a_million_records_and_ten_thousand_agents() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("estop.db");
    let store = Sqlite::open(&path, SqliteOptions::default()).unwrap();
    let mut chains = Chains::default();
    for _ in 0..25_000 {
        store.append(Arc::new(batch(&mut chains, 10_000)), Durability::Process).unwrap();
    }
    for n in 0..10_000 {
        let agent: Box<str> = format!("agent-{n:05}").into();
        let seen = vec![AgentSeen { agent: agent.clone(), at: 1 }];
        let snapshots = vec![Snapshot { agent, seq: 900_000, state: vec![7; 2048] }];
        let batch = JournalBatch { seen, snapshots, ..JournalBatch::default() };
        store.append(Arc::new(batch), Durability::Process).unwrap();
    }
    drop(store);
    println!("{} MB on disk", size(folder.path()) >> 20);
    let time = |what: &str, start: Instant| println!("{what}: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);

    let start = Instant::now();
    let store = Sqlite::open(&path, SqliteOptions::default()).unwrap();
    time("open", start);
    let start = Instant::now();
    assert_eq!(store.load_agents().unwrap().len(), 10_000);
    time("load 10,000 agents with 2 kB each", start);
    let start = Instant::now();
    assert_eq!(store.heads().unwrap(), chains.heads());
    time("heads of 10,000 chains", start);
    let start = Instant::now();
    assert_eq!(store.records_of("agent-00007", None, 50).unwrap().len(), 50);
    time("50 records of one of 10,000 agents", start);
    rusqlite::Connection::open(&path).unwrap().execute("UPDATE segment_chain SET seqs = NULL", []).unwrap();
    let start = Instant::now();
    assert_eq!(store.records_of("agent-00007", None, 50).unwrap().len(), 50);
    time("the same without the index of records", start);
    let start = Instant::now();
    let mut bytes = 0;
    let mut each = |lines: &Lines| {
        bytes += lines.bytes.len();
        true
    };
    store.blocks(1, u64::MAX, &mut each).unwrap();
    time("read all", start);
    let start = Instant::now();
    let retention = Retention { keep_bytes: Some(300 << 20), checkpoint: u64::MAX, ..Retention::default() };
    println!("pruned to {}", prune(&store, retention).unwrap().to_seq);
    time("prune half", start);
    drop(store);
    println!("{} MB on disk", size(folder.path()) >> 20);
}
