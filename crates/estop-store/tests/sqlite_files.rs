//! The database as a file: who may open it, what is refused and with which words.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod contract;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use contract::JournalFixture;
use contract::journal::event;
use estop_store::{
    Agent, AgentRepo, Durability, Evidence, EvidenceRepo, Journal, JournalBatch, Meta, OpenError, Origin,
    RetentionCutoffs, Snapshot, Sqlite, SqliteOptions, Upkeep, backup,
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

    /// A closed database with agents and their states in it.
    fn filled() -> Folder {
        let folder = Folder::new();
        let store = folder.open().unwrap();
        for n in 0..20 {
            store.insert_agent(&Agent::new(&format!("agent-{n}"), Origin::Api, 1)).unwrap();
            let snapshot = Snapshot { agent: format!("agent-{n}").into(), seq: 1, state: vec![n; 2000] };
            let events = (0..40).map(|_| event(n.into(), "a", "paused", "{}")).collect();
            let batch = JournalBatch { snapshots: vec![snapshot], events, ..JournalBatch::default() };
            store.append(Arc::new(batch), Durability::Process).unwrap();
        }
        drop(store);
        folder
    }

    fn sql(&self, sql: &str) {
        Connection::open(self.db()).unwrap().execute_batch(sql).unwrap();
    }
}

#[test]
fn st_1_newer_schema_is_refused() {
    let folder = Folder::filled();
    folder.sql("PRAGMA user_version = 2");
    let before = fs::read(folder.db()).unwrap();
    let error = folder.open().unwrap_err();
    assert_eq!(error, OpenError::Newer { path: folder.db(), found: 2, known: 1 });
    let text = error.to_string();
    assert!(text.contains("schema 2") && text.contains("up to 1") && text.contains("backup"), "{text}");
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
    let folder = Folder::filled();
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
    let folder = Folder::filled();
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
fn st_1_letting_old_rows_go_gives_the_room_back() {
    // Less than the write-ahead log may hold, and much more.
    for batches in [4, 30] {
        let folder = Folder::new();
        let store = folder.open().unwrap();
        let detail = format!("{{\"why\":\"{}\"}}", "x".repeat(8000));
        for at in 0..batches {
            let events = (1..=80).map(|n| event(at * 80 + n, "a", "paused", &detail)).collect();
            let batch = JournalBatch { events, ..JournalBatch::default() };
            store.append(Arc::new(batch), Durability::Process).unwrap();
        }
        drop(store);
        let bytes = || fs::metadata(folder.db()).unwrap().len();
        let before = bytes();
        let store = folder.open().unwrap();
        let old = RetentionCutoffs { events_before: Some(i64::MAX), ..RetentionCutoffs::default() };
        while store.sweep(old).unwrap() > 0 {}
        while store.give_back().unwrap() {}
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
    let mut fixture = JournalFixture::open(folder.0.path());
    for _ in 0..2 {
        fixture.write(&["a"]);
        fixture.seal(&store);
    }
    fixture.prune(&store);
    backup(&folder.db(), &folder.0.path().join("copy.tar")).unwrap();
    let modes = |place: &Path| {
        let mut found = Vec::new();
        for entry in fs::read_dir(place).unwrap().map(Result::unwrap) {
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            found.push((entry.file_name().into_string().unwrap(), mode));
        }
        found.sort();
        found
    };
    let expected = |names: &[&str]| {
        let mode = |name: &str| if name == "journal" { 0o700 } else { 0o600 };
        Vec::from_iter(names.iter().map(|name| ((*name).to_owned(), mode(name))))
    };
    let names = ["copy.tar", "estop.db", "estop.db-shm", "estop.db-wal", "estop.db.lock", "journal"];
    assert_eq!(modes(folder.0.path()), expected(&names));
    let names = ["00000002.jsonl.zst", "00000003.jsonl", "base-00000001.jsonl.zst", "manifest.jsonl", "mark"];
    assert_eq!(modes(&folder.0.path().join("journal")), expected(&names));
}

/// Bits flipped anywhere: it does not open, or reading says what is wrong, or what it gives is the truth. Nothing panics.
#[test]
fn st_1_flipped_bits_are_never_taken_for_the_truth() {
    let folder = Folder::filled();
    let agents = folder.open().unwrap().load_agents().unwrap();
    let whole = fs::read(folder.db()).unwrap();
    let whole_of = |name: &str| agents.iter().find(|stored| &*stored.agent.name == name);
    let mut refused = 0;
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
                }
            }
        }
        let _ = fs::remove_file(folder.0.path().join("estop.db-wal"));
        let _ = fs::remove_file(folder.0.path().join("estop.db-shm"));
    }
    assert!(refused > 10, "{refused} of 300 were refused");
}

/// What stands in the database or in its log.
fn holds(folder: &Folder, text: &str) -> bool {
    ["estop.db", "estop.db-wal"].iter().any(|file| {
        let bytes = fs::read(folder.0.path().join(file)).unwrap_or_default();
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    })
}

fn steps_of(incident: &str, text: &str) -> Evidence {
    let steps = Some(format!("{{\"steps\":[\"{}\"]}}", text.repeat(1_000)));
    Evidence { incident: incident.into(), agent: "a".into(), stored_at: 1, steps, deleted: None }
}

#[test]
fn ev_1_steps_that_are_deleted_while_somebody_reads_hold_up_no_write_and_are_gone_soon_after() {
    const CANARY: &str = "canary-steps-7f1c";
    let folder = Folder::new();
    let store = folder.open().unwrap();
    store.put_evidence(&steps_of("i1", CANARY)).unwrap();
    let reader = Connection::open(folder.db()).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM evidence").unwrap();
    reader.query_row("SELECT count(*) FROM evidence", [], |_| Ok(())).unwrap();
    let begun = Instant::now();
    store.delete_evidence("i1", "ann", 5).unwrap().unwrap();
    for n in 0..20 {
        store.put_meta("writes", &n.to_string()).unwrap();
    }
    // SQLite would have waited two seconds for the reader, after each of them.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(holds(&folder, CANARY), "the reader still sees it");
    drop(reader);
    // Nothing more is written: the writer looks by itself.
    let end = Instant::now() + Duration::from_secs(30);
    while holds(&folder, CANARY) {
        assert!(Instant::now() < end, "the steps are still in the files");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(store.lost_file(), None, "the log got shorter by the writer's own hand");
}

#[test]
fn ev_1_steps_that_retention_deletes_are_overwritten() {
    const CANARY: &str = "canary-steps-91ab";
    let folder = Folder::new();
    let store = folder.open().unwrap();
    for n in 0..20 {
        store.put_evidence(&steps_of(&format!("i{n}"), CANARY)).unwrap();
    }
    assert!(holds(&folder, CANARY));
    let old = RetentionCutoffs { evidence_before: Some(2), ..RetentionCutoffs::default() };
    while store.sweep(old).unwrap() > 0 {}
    assert!(!holds(&folder, CANARY), "the steps are still in the files");
    assert_eq!(store.lost_file(), None);
}
