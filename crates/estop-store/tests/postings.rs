//! Where agents have records in sealed segments is noted, so that few frames are read for a page of them.

mod contract;

use std::fs;
use std::path::Path;

use contract::{JournalFixture, seq};
use estop_journal::SYSTEM;
use estop_journal::records;
use estop_store::segments::sealed_path;
use estop_store::{Journal, Sqlite, SqliteOptions, StoreError};
use rusqlite::Connection;

fn open(folder: &Path) -> Sqlite {
    Sqlite::open(&folder.join("estop.db"), SqliteOptions::default()).expect("it opens")
}

/// Whose records are noted, in which segment.
fn noted(store: &Sqlite) -> Vec<(String, u64)> {
    let connection = Connection::open(store.path()).expect("opened");
    let mut found =
        connection.prepare("SELECT agent, segment FROM posting ORDER BY segment, agent").expect("SQL");
    let rows = found.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows");
    rows.map(|row| row.expect("a row")).collect()
}

/// The newest segment that is noted.
fn noted_to(store: &Sqlite) -> u64 {
    let connection = Connection::open(store.path()).expect("opened");
    connection.query_row("SELECT indexed_segment FROM journal_cursor", [], |row| row.get(0)).expect("a row")
}

fn of(segment: u64, agents: &[&str]) -> Vec<(String, u64)> {
    agents.iter().map(|agent| ((*agent).to_owned(), segment)).collect()
}

#[test]
fn st_1_packed_segments_are_noted_once_and_forgotten_when_they_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, mut fixture) = (open(folder.path()), JournalFixture::open(folder.path()));
    store.index_segments().expect("nothing is there");
    fixture.write(&["a", "b", SYSTEM]);
    fixture.store(&store);
    store.index_segments().expect("nothing is sealed");
    assert_eq!((noted(&store), noted_to(&store)), (Vec::new(), 0));
    fixture.journal.seal();
    fixture.write(&["a", "größe"]);
    fixture.journal.seal();
    // One without records.
    fixture.journal.seal();
    fixture.write(&["b"]);
    store.index_segments().expect("indexed");
    let both = [of(1, &["a", "b", SYSTEM]), of(2, &["a", "größe"])].concat();
    assert_eq!((noted(&store), noted_to(&store)), (both.clone(), 3));
    store.index_segments().expect("nothing is new");
    assert_eq!(noted(&store), both);
    drop(store);

    let store = open(folder.path());
    assert_eq!((noted(&store), noted_to(&store)), (both, 3));
    assert_eq!(fixture.prune(&store), 3);
    assert_eq!((noted(&store), noted_to(&store)), (of(2, &["a", "größe"]), 3));
    fixture.seal(&store);
    assert_eq!((noted(&store), noted_to(&store)), ([of(2, &["a", "größe"]), of(4, &["b"])].concat(), 4));
    let page = store.records_of("b", None, 9).expect("a page");
    assert_eq!(page.iter().map(|line| seq(line)).collect::<Vec<_>>(), [6]);
}

#[test]
fn st_1_segments_that_were_pruned_before_they_were_noted_are_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, mut fixture) = (open(folder.path()), JournalFixture::open(folder.path()));
    for agent in ["a", "b", "c"] {
        fixture.write(&[agent]);
        fixture.journal.seal();
    }
    assert_eq!(fixture.prune(&store), 1);
    // Before anything is known of the journal, the notes are made but not trusted.
    store.index_segments().expect("indexed");
    assert_eq!(store.records_of("c", None, 9).map(|page| page.len()), Ok(1));
    fixture.seal(&store);
    assert_eq!((noted(&store), noted_to(&store)), ([of(2, &["b"]), of(3, &["c"])].concat(), 4));
    let found = ["a", "b", "c"].map(|agent| store.records_of(agent, None, 9).map(|page| page.len()));
    assert_eq!(found, [Ok(0), Ok(1), Ok(1)]);
}

#[test]
fn st_1_only_frames_with_an_agents_records_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, mut fixture) = (open(folder.path()), JournalFixture::open(folder.path()));
    // Each of these fills a frame: more of them than a distance of one byte reaches.
    fixture.write(&["rare"]);
    fixture.name_len = 66_000;
    fixture.write(&["often"; 150]);
    fixture.name_len = 0;
    fixture.write(&["rare", "often"]);
    fixture.seal(&store);
    let whole = ["rare", "often"].map(|agent| store.records_of(agent, None, 200).expect("a page"));
    assert_eq!([whole[0].len(), whole[1].len()], [2, 151]);

    let segment = store.journal().open(1).expect("opened");
    assert!(segment.frames() > 140, "{}", segment.frames());
    let is_without = |frame: &usize| {
        let lines = segment.frame(*frame).expect("a frame");
        records(&lines).all(|(_, head)| head.agent != "rare")
    };
    let without: Vec<usize> = (0..segment.frames()).filter(is_without).collect();
    assert_eq!(without.len(), segment.frames() - 2);
    drop(segment);
    // Frames that nobody needs are damaged: who reads them says so.
    let path = sealed_path(store.journal().folder(), 1);
    let mut sealed = fs::read(&path).expect("a file");
    let middle = sealed.len() / 2;
    sealed[middle..middle + 1000].fill(0);
    fs::write(&path, &sealed).expect("written");
    assert_eq!(store.records_of("rare", None, 200).as_ref(), Ok(&whole[0]));
    assert_eq!(store.records_of("nobody", None, 200), Ok(Vec::new()));
    let damaged = store.records_of("often", None, 200);
    assert!(matches!(damaged, Err(StoreError::Corrupt(_))), "{damaged:?}");
    // Nor is a page that ends before it in any way touched.
    assert_eq!(store.records_of("often", None, 9).as_deref(), Ok(&whole[1][..9]));
}
