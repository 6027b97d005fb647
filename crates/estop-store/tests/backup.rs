//! A copy of everything in one file: made while estop writes, read from end to end before it is trusted.

mod contract;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use contract::{JournalFixture, exported, replay};
use estop_journal::SLOT_LEN;
use estop_store::segments::JOURNAL_FOLDER;
use estop_store::{
    AgentRepo, AgentSeen, Backup, Durability, Journal, Meta, Sqlite, SqliteOptions, StoreError, backup,
    check_unpacked, unpack,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn database(&self) -> PathBuf {
        self.path().join("estop.db")
    }

    fn tar(&self) -> PathBuf {
        self.path().join("copy.tar")
    }

    /// A database and a journal: pruned, packed and not packed.
    fn filled() -> (Folder, Sqlite, JournalFixture) {
        let folder = Folder::new();
        let (store, mut fixture) = (open(folder.path()), JournalFixture::open(folder.path()));
        for _ in 0..3 {
            put(&store, &mut fixture);
            fixture.seal(&store);
        }
        fixture.prune(&store);
        put(&store, &mut fixture);
        (folder, store, fixture)
    }
}

fn open(folder: &Path) -> Sqlite {
    Sqlite::open(&folder.join("estop.db"), SqliteOptions::default()).expect("it opens")
}

/// Some records and what follows from them.
fn put(store: &Sqlite, fixture: &mut JournalFixture) {
    fixture.write(&["a", "b", "a", "c", "a"].repeat(10));
    let mut batch = fixture.batch();
    batch.seen.push(AgentSeen { agent: format!("seen at {}", fixture.seq()).into(), at: 1 });
    store.append(Arc::new(batch), Durability::Process).expect("stored");
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").file_name());
    let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn is_corrupt(result: &Result<Backup, StoreError>) -> bool {
    matches!(result, Err(StoreError::Corrupt(_)))
}

#[test]
fn st_1_a_backup_has_everything_and_goes_on_from_there() {
    let (folder, store, fixture) = Folder::filled();
    let made = backup(&folder.database(), &folder.tar()).expect("a copy");
    assert_eq!(made, Backup { last_seq: 200, schema: 1 });
    assert_eq!(
        names(folder.path()),
        ["copy.tar", "estop.db", "estop.db-shm", "estop.db-wal", "estop.db.lock", "journal"],
        "nothing else is left behind"
    );
    let into = folder.path().join("new");
    assert_eq!(unpack(&folder.tar(), &into), Ok(made));
    assert_eq!(check_unpacked(&into), Ok(made));
    assert_eq!(names(&into), ["estop.db", "journal"]);
    let copied = open(&into);
    assert_eq!((copied.cursor(), copied.load_agents()), (store.cursor(), store.load_agents()));
    assert_eq!(exported(&copied), exported(&store));
    assert_eq!(copied.records_of("c", None, 100), store.records_of("c", None, 100));
    assert_eq!(copied.base_state("a"), store.base_state("a"));
    let mut again = JournalFixture::open(&into);
    assert_eq!(again.journal.state, fixture.journal.state);
    put(&copied, &mut again);
    again.seal(&copied);
    assert_eq!((replay(&exported(&copied)), fixture.seq()), (250, 200));
}

#[test]
fn st_1_a_backup_of_a_young_journal_has_no_packed_segments() {
    let folder = Folder::new();
    let (store, mut fixture) = (open(folder.path()), JournalFixture::open(folder.path()));
    let nothing = backup(&folder.database(), &folder.tar()).expect("a copy");
    assert_eq!(nothing.last_seq, 0);
    assert_eq!(unpack(&folder.tar(), &folder.path().join("nothing")), Ok(nothing));
    put(&store, &mut fixture);
    let tar = folder.path().join("young.tar");
    let young = backup(&folder.database(), &tar).expect("a copy");
    let into = folder.path().join("young");
    assert_eq!((young.last_seq, unpack(&tar, &into)), (50, Ok(young)));
    assert_eq!(names(&into.join(JOURNAL_FOLDER)), ["00000001.jsonl", "mark"]);
    drop((store, fixture));
    fs::remove_dir_all(folder.path().join(JOURNAL_FOLDER)).expect("it is there");
    let gone = backup(&folder.database(), &folder.path().join("gone.tar"));
    assert!(is_corrupt(&gone), "{gone:?}");
}

#[test]
fn st_1_a_file_that_is_there_is_not_overwritten() {
    let (folder, _store, _scribe) = Folder::filled();
    for (path, what) in [(folder.tar(), "mine"), (folder.path().join("link.tar"), "another's")] {
        fs::write(&path, what).expect("written");
        let refused = backup(&folder.database(), &path);
        assert!(matches!(refused, Err(StoreError::Exists { .. })), "{refused:?}");
        assert_eq!(fs::read_to_string(&path).expect("read"), what);
    }
    let refused = backup(&folder.database(), &folder.database());
    assert!(matches!(refused, Err(StoreError::Exists { .. })), "{refused:?}");
    let nowhere = backup(&folder.database(), &folder.path().join("none/copy.tar"));
    assert!(matches!(nowhere, Err(StoreError::Io(_))), "{nowhere:?}");
    // One that was cut short by a crash is in nobody's way.
    fs::write(folder.path().join("third.tar.part"), "half").expect("written");
    fs::write(folder.path().join("third.tar.part.db"), "half").expect("written");
    backup(&folder.database(), &folder.path().join("third.tar")).expect("a copy");
    assert!(!names(folder.path()).iter().any(|name| name.contains(".part")));

    fs::create_dir(folder.path().join("taken")).expect("made");
    let refused = unpack(&folder.path().join("third.tar"), &folder.path().join("taken"));
    assert!(matches!(refused, Err(StoreError::Io(_))), "{refused:?}");
}

#[test]
fn st_1_a_backup_is_of_one_moment_while_others_write_pack_and_prune() {
    let (folder, store, mut fixture) = Folder::filled();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                put(&store, &mut fixture);
                store.put_meta("count", &fixture.seq().to_string()).expect("a value");
                if fixture.seq() % 150 == 0 {
                    fixture.seal(&store);
                }
                if fixture.seq() % 2400 == 0 {
                    fixture.prune(&store);
                }
            }
        });
        let mut before = 200;
        for at in 0..12 {
            let (tar, into) = (folder.path().join(format!("{at}.tar")), folder.path().join(format!("{at}")));
            let made = backup(&folder.database(), &tar);
            let unpacked = unpack(&tar, &into);
            if at == 11 || made.is_err() || unpacked.is_err() {
                // Or the writer would go on for ever.
                is_over.store(true, Ordering::Relaxed);
            }
            let made = made.expect("a copy");
            assert_eq!(unpacked, Ok(made));
            let copied = open(&into);
            let cursor = copied.last_seq().expect("a number");
            assert!(made.last_seq >= before && cursor <= made.last_seq, "{made:?}, rows of {cursor}");
            assert_eq!(replay(&exported(&copied)), made.last_seq);
            assert!(copied.agent(&format!("seen at {cursor}")).expect("it can be read").is_some());
            before = made.last_seq;
        }
    });
}

#[test]
fn st_1_a_damaged_backup_is_refused() {
    let (folder, _store, _scribe) = Folder::filled();
    backup(&folder.database(), &folder.tar()).expect("a copy");
    let whole = fs::read(folder.tar()).expect("read");
    let (tar, into) = (folder.path().join("damaged.tar"), folder.path().join("into"));
    let unpacked = |bytes: &[u8]| {
        fs::write(&tar, bytes).expect("written");
        let unpacked = unpack(&tar, &into);
        fs::remove_dir_all(&into).expect("it was made");
        unpacked
    };
    assert!(unpacked(&whole).is_ok());
    // Two blocks of nothing end it, and the mark before them is filled up with spaces.
    let end = whole.len() - 1024 - SLOT_LEN;
    for part in 0..40 {
        let cut = unpacked(&whole[..end * part / 40]);
        assert!(cut.is_err(), "{part}/40: {cut:?}");
    }
    for (name, place, len) in names_and_places(&whole).into_iter().filter(|(name, ..)| name != "estop.db") {
        let (start, written) = if name.ends_with("mark") { (SLOT_LEN, 200) } else { (0, len) };
        for at in (0..written).step_by(written / 20 + 1) {
            let mut damaged = whole.clone();
            damaged[place + start + at] ^= 4;
            let found = unpacked(&damaged);
            assert!(is_corrupt(&found), "byte {at} of {name}: {found:?}");
        }
    }
    for other in [&b"no tar"[..], &[0; 4096], &[b'x'; 4096], b""] {
        let found = unpacked(other);
        assert!(found.is_err(), "{found:?}");
    }
    assert!(matches!(unpack(&folder.path().join("none.tar"), &into), Err(StoreError::Io(_))));
}

/// Of each file in a tar its name, where it begins and how long it is.
fn names_and_places(tar: &[u8]) -> Vec<(String, usize, usize)> {
    let mut archive = tar::Archive::new(tar);
    let entries = archive.entries().expect("a tar").map(|entry| entry.expect("an entry"));
    entries
        .map(|entry| {
            let name = entry.path().expect("a name").to_string_lossy().into_owned();
            (name, entry.raw_file_position() as usize, entry.size() as usize)
        })
        .collect()
}

/// A tar with one more file than a copy has, of any name and kind.
fn with_foreign(whole: &Path, to: &Path, name: &str, kind: tar::EntryType) {
    let mut out = tar::Builder::new(File::create(to).expect("made"));
    let mut header = tar::Header::new_gnu();
    header.set_size(if kind.is_file() { 4 } else { 0 });
    header.set_mode(0o600);
    header.set_entry_type(kind);
    // Not by `set_path`, which refuses what we want to try.
    let place = &mut header.as_gnu_mut().expect("of this kind").name;
    place[..name.len()].copy_from_slice(name.as_bytes());
    if !kind.is_file() {
        header.set_link_name("/etc/passwd").expect("a link");
    }
    header.set_cksum();
    out.append(&header, if kind.is_file() { &b"evil"[..] } else { &[][..] }).expect("written");
    let mut whole = tar::Archive::new(File::open(whole).expect("opened"));
    for entry in whole.entries().expect("a tar") {
        let mut entry = entry.expect("an entry");
        let header = entry.header().clone();
        out.append(&header, &mut entry).expect("written");
    }
    out.into_inner().expect("written");
}

#[test]
fn st_1_nothing_is_unpacked_outside_of_its_folder() {
    let (folder, _store, _scribe) = Folder::filled();
    backup(&folder.database(), &folder.tar()).expect("a copy");
    let tar = folder.path().join("foreign.tar");
    let outside = folder.path().join("x");
    let absolute = outside.display().to_string();
    let file = tar::EntryType::Regular;
    for (name, kind) in [
        ("../x", file),
        ("journal/../../x", file),
        ("journal/../x", file),
        (absolute.as_str(), file),
        ("x", file),
        ("journal", file),
        ("journal/deep/x", file),
        ("./estop.db", file),
        ("estop.db", tar::EntryType::Symlink),
        ("journal/00000009.jsonl", tar::EntryType::Link),
        ("journal/x", tar::EntryType::Directory),
    ] {
        with_foreign(&folder.tar(), &tar, name, kind);
        let into = folder.path().join("into");
        let refused = unpack(&tar, &into);
        assert!(is_corrupt(&refused), "{name}: {refused:?}");
        assert!(refused.is_err_and(|error| error.to_string().contains("no copy made by `estop backup`")));
        assert!(!outside.exists(), "{name}");
        assert_eq!(names(&into), ["journal"], "{name}");
        fs::remove_dir_all(&into).expect("it was made");
    }
}

const PLACE: &str = "ESTOP_TEST_STORE";

/// How many files may be open holds for a whole process, so a child does it.
#[test]
fn st_1_a_backup_of_more_segments_than_files_may_be_open_works() {
    let folder = Folder::new();
    let program = std::env::current_exe().expect("the test knows its own program");
    let child = Command::new(program)
        .args(["--exact", "the_child_may_open_few_files", "--ignored", "--nocapture"])
        .env(PLACE, folder.path())
        .output()
        .expect("the child runs");
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
}

#[test]
#[ignore = "the child of the test above"]
fn the_child_may_open_few_files() {
    let Some(folder) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let (store, mut fixture) = (open(&folder), JournalFixture::open(&folder));
    for _ in 0..60 {
        put(&store, &mut fixture);
        fixture.seal(&store);
    }
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    setrlimit(Resource::RLIMIT_NOFILE, 40, hard).expect("a limit can be set");
    let made = backup(&folder.join("estop.db"), &folder.join("copy.tar")).expect("a copy");
    assert_eq!(made.last_seq, 3000);
    assert_eq!(unpack(&folder.join("copy.tar"), &folder.join("into")), Ok(made));
}
