//! A full or failing disk: the error says so, nothing is half stored, and the store works again afterwards.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod contract;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use contract::{JournalFixture, MINUTE, exported, replay};
use estop_store::segments::recover;
use estop_store::{
    AgentRepo, AgentSeen, Durability, EventFilter, Evidence, EvidenceRepo, Journal, Meta, NewEvent,
    RetentionCutoffs, Sqlite, SqliteOptions, StoreError, SystemStateRepo, Upkeep,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};

#[test]
fn st_1_a_full_disk_is_told_and_leaves_nothing_half_stored() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = SqliteOptions { size_max_bytes: Some(4 << 20), ..SqliteOptions::default() };
    let store = Sqlite::open(&folder.path().join("estop.db"), options).expect("it opens");
    let mut fixture = JournalFixture::open(folder.path());
    assert_eq!(fill(&store, &mut fixture), StoreError::Full);
    check(&store, &fixture);
    let stored = store.last_seq().expect("a number");
    let old = RetentionCutoffs { events_before: Some(i64::MAX), ..RetentionCutoffs::default() };
    while store.sweep(old).expect("letting go works on a full disk") > 0 {}
    while store.give_back().expect("so does giving back") {}
    assert_eq!(store.events(&EventFilter::default(), 9), Ok(Vec::new()));
    for _ in 0..100 {
        put(&store, &mut fixture).expect("there is room again");
    }
    assert_eq!(store.last_seq(), Ok(fixture.seq()));
    assert!(fixture.seq() > stored && replay(&exported(&store)) == fixture.seq());
}

#[test]
fn ev_1_on_a_full_disk_steps_are_told_to_be_lost_and_others_can_be_deleted() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = SqliteOptions { size_max_bytes: Some(4 << 20), ..SqliteOptions::default() };
    let store = Sqlite::open(&folder.path().join("estop.db"), options).expect("it opens");
    let mut fixture = JournalFixture::open(folder.path());
    store.put_evidence(&steps("before")).expect("there is room");
    assert_eq!(fill(&store, &mut fixture), StoreError::Full);
    assert_eq!(store.put_evidence(&steps("lost")), Err(StoreError::Full));
    assert_eq!(store.evidence("lost"), Ok(None));
    let deleted = store.delete_evidence("before", "ann", 5).expect("deleting works on a full disk");
    assert_eq!(deleted.map(|kept| (kept.steps, kept.deleted)), Some((None, Some(("ann".into(), 5)))));
    check(&store, &fixture);
    store.put_evidence(&steps("after")).expect("its room is free");
}

fn steps(incident: &str) -> Evidence {
    let steps = Some(format!("\"{}\"", "x".repeat(60_000)));
    Evidence { incident: incident.into(), agent: "a".into(), stored_at: 1, steps, deleted: None }
}

/// Writes some records, then what follows from them and from those before them that have no rows yet.
fn put(store: &Sqlite, fixture: &mut JournalFixture) -> Result<(), StoreError> {
    let from = store.last_seq()? + 1;
    for agent in ["a", "b", "a", "c"].repeat(5) {
        fixture.try_write(agent)?;
    }
    let mut batch = fixture.batch();
    batch.seen.push(AgentSeen { agent: format!("seen after {}", from - 1).into(), at: 1 });
    batch.events.extend((from..=fixture.seq()).map(event));
    store.append(Arc::new(batch), Durability::Disk)
}

fn event(seq: u64) -> NewEvent {
    let detail = format!("{{\"why\":\"{}\"}}", "x".repeat(500));
    NewEvent { seq, wall: seq as i64 * MINUTE, agent: None, event_type: "paused".into(), detail }
}

/// Writes until it fails.
fn fill(store: &Sqlite, fixture: &mut JournalFixture) -> StoreError {
    (0..10_000).find_map(|_| put(store, fixture).err()).expect("it fills up")
}

/// Every record of which rows were made has one event, the journal is whole, and nothing is there of what failed.
fn check(store: &Sqlite, fixture: &JournalFixture) {
    let stored = store.last_seq().expect("a number");
    let events = store.events(&EventFilter::default(), usize::MAX >> 1).expect("events");
    let seqs: Vec<u64> = events.iter().rev().map(|stored| stored.event.seq).collect();
    assert_eq!(seqs, Vec::from_iter(1..=stored));
    assert_eq!(store.agent(&format!("seen after {stored}")), Ok(None));
    assert_eq!(replay(&exported(store)), fixture.seq());
    let found = recover(fixture.journal.writer.folder(), "", &mut |_, _| {}).expect("it can be trusted");
    let found = found.expect("there is a journal");
    assert_eq!((&found.state, found.torn), (&fixture.journal.state, 0));
    store.check().expect("it is undamaged");
}

/// The system refuses to write beyond a length: SQLite and the journal see it as a failing disk. It holds for a whole
/// process, so a child does it.
#[test]
fn st_1_a_failing_disk_is_told_and_works_again_when_it_is_mended() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = std::env::current_exe().expect("the test knows its own program");
    let child = Command::new(program)
        .args(["--exact", "the_child_has_a_failing_disk", "--ignored", "--nocapture"])
        .env(PLACE, folder.path().join("estop.db"))
        .output()
        .expect("the child runs");
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
}

const PLACE: &str = "ESTOP_TEST_STORE";

#[test]
#[ignore = "the child of the test above"]
fn the_child_has_a_failing_disk() {
    let Some(path) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let mut blocked = SigSet::empty();
    blocked.add(Signal::SIGXFSZ);
    // Before the store starts its thread, which inherits it: the write fails instead of ending the process.
    blocked.thread_block().expect("a signal can be blocked");
    let (_, hard) = getrlimit(Resource::RLIMIT_FSIZE).expect("a limit");
    let limit = |bytes| setrlimit(Resource::RLIMIT_FSIZE, bytes, hard).expect("a limit can be set");

    let store = Sqlite::open(&path, SqliteOptions::default()).expect("it opens");
    let folder = path.parent().expect("a folder");
    let mut fixture = JournalFixture::open(folder);
    store.put_meta("before", "kept").expect("a value");
    for (bytes, name_len) in [(600_000, 0), (1_000_000, 0), (1_500_000, 0), (1_800_000, 20_000)] {
        // With long names, the journal is what grows too long first.
        fixture.name_len = name_len;
        limit(bytes);
        let error = fill(&store, &mut fixture);
        assert!(matches!(error, StoreError::Io(_) | StoreError::Full), "{error:?}");
        let is_of_journal = error.to_string().contains("File too large");
        assert_eq!(is_of_journal, name_len > 0, "{error}");
        assert!(is_of_journal || store.put_meta("while", "lost").is_err() || path_len(&path) <= bytes);
        let incident = format!("i{bytes}");
        let lost = is_of_journal || store.put_evidence(&steps(&incident)).is_err();
        assert!(lost || path_len(&path) <= bytes);
        limit(hard);
        store.put_evidence(&steps(&incident)).expect("the disk is fixed");
        assert!(store.evidence(&incident).expect("it reads").is_some());
        check(&store, &fixture);
        put(&store, &mut fixture).expect("the disk is fixed");
        assert_eq!(store.last_seq(), Ok(fixture.seq()));
    }
    assert_eq!(store.meta("before"), Ok(Some("kept".to_owned())));
    drop((store, fixture));
    let store = Sqlite::open(&path, SqliteOptions::default()).expect("it opens again");
    check(&store, &JournalFixture::open(folder));
    assert_eq!(store.system(), Ok(None));
}

fn path_len(path: &Path) -> u64 {
    path.metadata().map_or(0, |file| file.len())
}
