//! The database as a file: who may open it, what is refused and with which words, backup.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod contract;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use contract::{Scribe, prune, read_from, try_verify};
use estop_store::{
    Agent, AgentRepo, Durability, Journal, JournalBatch, Meta, OpenError, Origin, Pruned, Retention,
    Snapshot, Sqlite, SqliteOptions, StoreError, restore_check,
};
use rusqlite::Connection;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn db(&self) -> PathBuf {
        self.0.path().join("estop.db")
    }

    fn open(&self) -> Result<Sqlite, OpenError> {
        Sqlite::open(&self.db(), SqliteOptions::default())
    }

    /// A closed database with a journal, agents and their states in it.
    fn filled() -> (Folder, Scribe) {
        let folder = Folder::new();
        let store = folder.open().unwrap();
        let mut scribe = Scribe::default();
        for n in 0..20 {
            scribe.write(&store, &["a", "b"].repeat(40));
            store.insert_agent(&Agent::new(&format!("agent-{n}"), Origin::Api, 1)).unwrap();
            let snapshot = Snapshot { agent: format!("agent-{n}").into(), seq: 1, state: vec![n; 2000] };
            let batch = JournalBatch { snapshots: vec![snapshot], ..JournalBatch::default() };
            store.append(Arc::new(batch), Durability::Process).unwrap();
        }
        drop(store);
        (folder, scribe)
    }

    fn sql(&self, sql: &str) {
        Connection::open(self.db()).unwrap().execute_batch(sql).unwrap();
    }
}

#[test]
fn st_1_newer_schema_is_refused() {
    let (folder, _) = Folder::filled();
    folder.sql("PRAGMA user_version = 13");
    let before = fs::read(folder.db()).unwrap();
    let error = folder.open().unwrap_err();
    assert_eq!(error, OpenError::Newer { path: folder.db(), found: 13, known: 12 });
    let text = error.to_string();
    assert!(text.contains("schema 13") && text.contains("up to 12") && text.contains("backup"), "{text}");
    assert_eq!(fs::read(folder.db()).unwrap(), before, "and left as it was");
}

#[test]
fn st_1_a_database_of_another_program_is_refused() {
    let folder = Folder::new();
    folder.sql("CREATE TABLE cookies (value TEXT); PRAGMA application_id = 77");
    assert_eq!(folder.open().unwrap_err(), OpenError::Foreign { path: folder.db(), application_id: 77 });
}

#[test]
fn st_1_a_file_that_is_no_database_is_refused() {
    for content in [Vec::new(), b"hello".to_vec(), vec![b'x'; 5000], b"SQLite format 3\0".to_vec()] {
        let folder = Folder::new();
        fs::write(folder.db(), &content).unwrap();
        let error = folder.open().unwrap_err();
        assert!(matches!(error, OpenError::Corrupt { .. }), "{error:?}");
        assert_eq!(fs::read(folder.db()).unwrap(), content, "and left as it was");
    }
}

#[test]
fn st_1_a_database_that_was_cut_off_is_refused() {
    let (folder, _) = Folder::filled();
    let whole = fs::read(folder.db()).unwrap();
    for part in 0..20 {
        fs::write(folder.db(), &whole[..whole.len() * part / 20]).unwrap();
        let error = folder.open().unwrap_err();
        assert!(matches!(error, OpenError::Corrupt { .. }), "{part}/20: {error:?}");
    }
    fs::write(folder.db(), &whole).unwrap();
    folder.open().unwrap();
}

#[test]
fn st_1_a_database_that_is_gone_while_its_log_is_there_is_refused() {
    let folder = Folder::new();
    fs::write(folder.0.path().join("estop.db-wal"), "left over").unwrap();
    assert!(matches!(folder.open().unwrap_err(), OpenError::Corrupt { .. }));
}

#[test]
fn st_1_a_database_in_use_is_refused() {
    let folder = Folder::new();
    let first = folder.open().unwrap();
    assert_eq!(folder.open().unwrap_err(), OpenError::Locked { path: folder.db() });
    let clone = first.clone();
    drop(first);
    assert_eq!(folder.open().unwrap_err(), OpenError::Locked { path: folder.db() });
    drop(clone);
    folder.open().expect("the last handle closed it");
}

#[test]
fn st_1_a_closed_database_is_one_file() {
    let (folder, _) = Folder::filled();
    let store = folder.open().unwrap();
    store.load_agents().unwrap();
    store.put_meta("a", "b").unwrap();
    drop(store);
    let entries = fs::read_dir(folder.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["estop.db", "estop.db.lock"]);
}

#[test]
fn st_1_pruning_gives_the_room_back() {
    // Less than the write-ahead log may hold, and much more.
    for batches in [4, 30] {
        let folder = Folder::new();
        let mut scribe = Scribe { name_len: 8000, noisy: true, ..Scribe::default() };
        let store = folder.open().unwrap();
        (0..batches).for_each(|_| scribe.write(&store, &["a"; 80]));
        drop(store);
        let bytes = || fs::metadata(folder.db()).unwrap().len();
        let before = bytes();
        let store = folder.open().unwrap();
        let all = Retention { keep_bytes: Some(0), checkpoint: u64::MAX, ..Retention::default() };
        prune(&store, all).unwrap();
        // The next change waits for what is done after the one before.
        store.put_meta("a", "b").unwrap();
        let open = bytes();
        drop(store);
        assert!(before > 2 << 20 && open < before / 2, "{before}, {open}, {}", bytes());
        assert_eq!(bytes(), open, "nothing is left to be given back");
    }
}

#[test]
fn st_1_a_folder_that_is_not_there_is_told() {
    let path = Path::new("/nowhere/at/all/estop.db");
    assert!(matches!(Sqlite::open(path, SqliteOptions::default()), Err(OpenError::Io { .. })));
}

#[test]
fn st_1_only_the_owner_can_read_the_files() {
    let folder = Folder::new();
    let store = folder.open().unwrap();
    store.put_meta("a", "b").unwrap();
    store.backup(&folder.0.path().join("copy.db")).unwrap();
    let mut names = Vec::new();
    for entry in fs::read_dir(folder.0.path()).unwrap().map(Result::unwrap) {
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.file_name());
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(names, ["copy.db", "estop.db", "estop.db-shm", "estop.db-wal", "estop.db.lock"]);
}

/// Bits flipped anywhere: it does not open, or reading says what is wrong, or the chains show it, or what it gives is
/// the truth. Nothing panics.
#[test]
fn st_1_flipped_bits_are_never_taken_for_the_truth() {
    let (folder, scribe) = Folder::filled();
    let agents = folder.open().unwrap().load_agents().unwrap();
    let whole = fs::read(folder.db()).unwrap();
    let whole_of = |name: &str| agents.iter().find(|stored| &*stored.agent.name == name);
    let (mut refused, mut noticed, mut lost) = (0, 0, 0);
    for n in 0..300_usize {
        let mut damaged = whole.clone();
        // Anywhere, and in turn at the beginning of a page, where its structure is.
        let at = n * 7919 * 131 % whole.len();
        let at = if n % 2 == 0 { at } else { at / 4096 * 4096 + n % 16 };
        damaged[at] ^= 1 << (n % 8);
        fs::write(folder.db(), &damaged).unwrap();
        match folder.open() {
            Err(error) => {
                let is_io = matches!(error, OpenError::Io { .. } | OpenError::Locked { .. });
                assert!(!is_io, "byte {at}: {error:?}");
                refused += 1;
            }
            Ok(store) => {
                let mut lines = Vec::new();
                let mut each = |block: &estop_store::Lines| {
                    lines.extend_from_slice(&block.bytes);
                    true
                };
                let read = store.blocks(1, u64::MAX, &mut each);
                let heads = read.is_ok().then(|| try_verify(&Pruned::default(), &lines));
                let is_whole = heads == Some(Ok(scribe.chains.heads()));
                noticed += usize::from(!is_whole);
                // A name or a time of an agent has no checksum; its state has. One that is not found any more is made
                // anew from the journal, so it must be seen to be missing.
                if let Ok(loaded) = store.load_agents() {
                    let states: Vec<_> = loaded.iter().filter(|stored| !stored.snapshot.is_empty()).collect();
                    for stored in &states {
                        let by_name = whole_of(&stored.agent.name).map(|whole| &whole.snapshot);
                        let is_renamed = by_name.is_none();
                        let is_known = || agents.iter().any(|whole| whole.snapshot == stored.snapshot);
                        let is_same = by_name == Some(&stored.snapshot) || (is_renamed && is_known());
                        assert!(is_same, "byte {at}: a damaged state of {} was loaded", stored.agent.name);
                    }
                    lost += usize::from(states.len() < agents.len());
                }
            }
        }
        let _ = fs::remove_file(folder.0.path().join("estop.db-wal"));
        let _ = fs::remove_file(folder.0.path().join("estop.db-shm"));
    }
    // Most of the file is not the journal.
    assert!(refused > 10 && noticed > 10, "{refused} refused, {noticed} noticed in the journal");
    assert!(
        lost < 15,
        "{lost} of 300 lost a state without a word: fewer are to be made anew from the journal"
    );
}

#[test]
fn st_1_a_backup_is_a_whole_database() {
    let (folder, mut scribe) = Folder::filled();
    let copy = folder.0.path().join("copy.db");
    let store = folder.open().unwrap();
    // Others go on writing meanwhile.
    let writing = store.clone();
    let writer = std::thread::spawn(move || {
        (0..200).for_each(|n| writing.put_meta("count", &n.to_string()).unwrap());
    });
    store.backup(&copy).unwrap();
    writer.join().unwrap();
    assert!(matches!(store.backup(&copy), Err(StoreError::Exists { .. })), "nothing is overwritten");
    assert!(matches!(store.backup(&folder.db()), Err(StoreError::Exists { .. })));
    scribe.write(&store, &["a"]);

    let found = restore_check(&copy).unwrap();
    assert_eq!((found.schema, found.last_seq), (12, 1600));
    let restored = Folder::new();
    fs::rename(&copy, restored.db()).unwrap();
    let restored = restored.open().unwrap();
    let lines = read_from(&store, 1);
    assert!(lines.starts_with(&read_from(&restored, 1)));
    assert_eq!(restored.load_agents(), store.load_agents());
}

#[test]
fn st_1_a_damaged_backup_is_not_restored() {
    let (folder, _) = Folder::filled();
    let copy = folder.0.path().join("copy.db");
    folder.open().unwrap().backup(&copy).unwrap();
    let whole = fs::read(&copy).unwrap();
    fs::write(&copy, &whole[..whole.len() / 2]).unwrap();
    assert!(matches!(restore_check(&copy), Err(OpenError::Corrupt { .. })));
    fs::write(&copy, "no database").unwrap();
    assert!(matches!(restore_check(&copy), Err(OpenError::Corrupt { .. })));
    assert!(matches!(restore_check(Path::new("/nowhere/copy.db")), Err(OpenError::Io { .. })));
}
