//! A full or failing disk: the error says so, nothing is half stored, and the store works again afterwards.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod contract;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use contract::{Scribe, prune, read_from, verify};
use estop_store::{
    AgentRepo, AgentSeen, Durability, Journal, Meta, Pruned, Retention, Sqlite, SqliteOptions, StoreError,
    SystemStateRepo,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};

#[test]
fn st_1_a_full_disk_is_told_and_leaves_nothing_half_stored() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = SqliteOptions { size_max_bytes: Some(12 << 20), ..SqliteOptions::default() };
    let store = Sqlite::open(&folder.path().join("estop.db"), options).expect("it opens");
    let mut scribe = Scribe { name_len: 500, ..Scribe::default() };
    let error = fill(&store, &mut scribe);
    assert_eq!(error, StoreError::Full);
    check(&store, &scribe);
    let all = Retention { keep_bytes: Some(0), checkpoint: u64::MAX, ..Retention::default() };
    let pruned = prune(&store, all).expect("pruning works on a full disk");
    assert!(pruned.to_seq > 0);
    for _ in 0..100 {
        scribe.write(&store, &["a", "b"]);
    }
    assert_eq!(store.heads(), Ok(scribe.chains.heads()));
}

/// Appends until it fails; the scribe stands at the last record that was stored.
fn fill(store: &Sqlite, scribe: &mut Scribe) -> StoreError {
    for _ in 0..10_000 {
        let before = scribe.clone();
        let mut batch = scribe.batch(&["a", "b", "a", "c"].repeat(50));
        batch.seen.push(AgentSeen { agent: format!("seen with {}", before.chains.seq()).into(), at: 1 });
        if let Err(error) = store.append(Arc::new(batch), Durability::Disk) {
            *scribe = before;
            return error;
        }
    }
    panic!("it never filled up");
}

fn check(store: &Sqlite, scribe: &Scribe) {
    assert_eq!(store.last_seq(), Ok(scribe.chains.seq()));
    let heads = verify(&Pruned::default(), &read_from(store, 1));
    assert_eq!(heads, scribe.chains.heads());
    assert_eq!(store.heads(), Ok(heads));
    assert_eq!(store.agent(&format!("seen with {}", scribe.chains.seq())), Ok(None));
    store.check().expect("it is undamaged");
}

/// The system refuses to write beyond a length: SQLite sees it as a failing disk. It holds for a whole process, so
/// a child does it.
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
    let mut scribe = Scribe::default();
    store.put_meta("before", "kept").expect("a value");
    for bytes in [600_000, 1_000_000, 1_500_000] {
        limit(bytes);
        let error = fill(&store, &mut scribe);
        assert!(matches!(error, StoreError::Io(_) | StoreError::Full), "{error:?}");
        assert!(store.put_meta("while", "lost").is_err() || path_len(&path) <= bytes);
        limit(hard);
        check(&store, &scribe);
        scribe.write(&store, &["a", "b"]);
        assert_eq!(store.heads(), Ok(scribe.chains.heads()));
    }
    assert_eq!(store.meta("before"), Ok(Some("kept".to_owned())));
    drop(store);
    let store = Sqlite::open(&path, SqliteOptions::default()).expect("it opens again");
    check(&store, &scribe);
    assert_eq!(store.system(), Ok(None));
}

fn path_len(path: &Path) -> u64 {
    path.metadata().map_or(0, |file| file.len())
}
