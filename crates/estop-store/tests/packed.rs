//! How lines stand in the database: packed, in blocks that stay where they are; and blocks of before, which are not packed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod contract;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use contract::{Scribe, prune, read_from, verify};
use estop_store::{Durability, Journal, Pruned, Retention, Sqlite, SqliteOptions, StoreError};
use rusqlite::Connection;

const AGENTS: [&str; 5] = ["a", "b", "a", "c", "system two"];

fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("estop.db");
    (folder, path)
}

fn open(path: &Path) -> Sqlite {
    Sqlite::open(path, SqliteOptions::default()).unwrap()
}

/// First record, bytes on the disk and bytes of lines, of each block.
fn blocks(path: &Path) -> Vec<(u64, u64, Option<u64>)> {
    let connection = Connection::open(path).unwrap();
    let mut statement =
        connection.prepare("SELECT first_seq, length(lines), raw_bytes FROM block ORDER BY 1").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Chain, first record of the segment, last record, count, head, and the records' distances.
type Row = (i64, u64, u64, u64, Vec<u8>, Vec<u8>);

fn index(path: &Path) -> Vec<Row> {
    let connection = Connection::open(path).unwrap();
    let sql = "SELECT chain, first_seq, last_record, count, events, seqs FROM segment_chain ORDER BY first_seq, chain";
    let mut statement = connection.prepare(sql).unwrap();
    let row = |row: &rusqlite::Row<'_>| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
    };
    statement.query_map([], row).unwrap().map(Result::unwrap).collect()
}

#[test]
fn st_1_a_large_batch_is_cut_packed_and_never_written_again() {
    let (_folder, path) = place();
    let store = open(&path);
    let mut scribe = Scribe { name_len: 300, ..Scribe::default() };
    for _ in 0..5 {
        scribe.write(&store, &AGENTS.repeat(400));
    }
    let before = blocks(&path);
    let raw: u64 = before.iter().map(|(_, _, raw)| raw.unwrap()).sum();
    assert!(raw > 4 << 20, "enough for a segment: {raw}");
    assert!(before.iter().all(|(_, stored, raw)| raw.unwrap() <= 256 << 10 && *stored < raw.unwrap() / 3));
    store.compact().unwrap();
    assert_eq!(blocks(&path), before);
    assert!(!index(&path).is_empty());
    assert_eq!(store.heads(), Ok(scribe.chains.heads()));
    assert_eq!(verify(&Pruned::default(), &read_from(&store, 1)), scribe.chains.heads());
}

/// The index of what was added up while it was stored is the one that reading it again gives.
#[test]
fn st_1_the_index_is_the_same_whether_lines_were_just_stored_or_are_read_again() {
    let stored = |is_reopened: bool| {
        let (_folder, path) = place();
        let mut store = open(&path);
        let mut scribe = Scribe { name_len: 300, ..Scribe::default() };
        for n in 0..3 {
            // Each part becomes a segment of its own.
            for part in 0..9 {
                scribe.write(&store, &AGENTS[..5 - (n + part) % 3].repeat(200));
                // What is refused counts for nothing.
                let mut ahead = scribe.clone();
                ahead.batch(&["a"]);
                let refused = store.append(Arc::new(ahead.batch(&["a", "late"])), Durability::Process);
                assert!(matches!(refused, Err(StoreError::OutOfOrder { .. })), "{refused:?}");
            }
            if is_reopened {
                drop(store);
                store = open(&path);
            }
            store.compact().unwrap();
        }
        let of_c = store.records_of("c", None, 5000).unwrap();
        assert_eq!(store.heads(), Ok(scribe.chains.heads()));
        (index(&path), of_c)
    };
    assert_eq!(stored(false), stored(true));
}

/// A database of before has its lines as they are; it is read, goes on and is pruned like any other.
#[test]
fn st_1_blocks_of_before_are_read_beside_packed_ones() {
    let (_folder, path) = place();
    let store = open(&path);
    let mut scribe = Scribe { name_len: 300, ..Scribe::default() };
    (0..4).for_each(|_| scribe.write(&store, &AGENTS.repeat(300)));
    let mut plain = Vec::new();
    store
        .blocks(1, u64::MAX, &mut |lines| {
            plain.push(lines.clone());
            true
        })
        .unwrap();
    drop(store);
    let connection = Connection::open(&path).unwrap();
    for lines in &plain {
        let sql = "UPDATE block SET lines = ?, raw_bytes = NULL, digests = NULL WHERE first_seq = ?";
        assert_eq!(connection.execute(sql, rusqlite::params![lines.bytes, lines.first_seq]), Ok(1));
    }
    drop(connection);

    let store = open(&path);
    assert_eq!(store.heads(), Ok(scribe.chains.heads()));
    (0..4).for_each(|_| scribe.write(&store, &AGENTS.repeat(300)));
    for _ in 0..2 {
        assert_eq!(verify(&Pruned::default(), &read_from(&store, 1)), scribe.chains.heads());
        assert_eq!(store.records_of("b", None, 9999).unwrap().len(), 8 * 300);
        store.compact().unwrap();
    }
    let all = Retention { keep_bytes: Some(0), checkpoint: u64::MAX, ..Retention::default() };
    let pruned = prune(&store, all).unwrap();
    assert_eq!(pruned.to_seq, scribe.chains.seq());
}

#[test]
fn st_1_a_packed_block_that_was_damaged_is_told() {
    for damage in [
        "lines = substr(lines, 1, length(lines) - 3)",
        "raw_bytes = raw_bytes + 1",
        "raw_bytes = NULL",
        "digests = NULL",
        "digests = CAST(x'00' || substr(digests, 2) AS BLOB)",
        "digests = CAST(substr(digests, 65) AS BLOB)",
        "digests = x''",
    ] {
        let (_folder, path) = place();
        let store = open(&path);
        let mut scribe = Scribe { name_len: 300, ..Scribe::default() };
        scribe.write(&store, &AGENTS.repeat(20));
        drop(store);
        Connection::open(&path).unwrap().execute(&format!("UPDATE block SET {damage}"), []).unwrap();
        let store = open(&path);
        let read = store.blocks(1, u64::MAX, &mut |lines| lines.bytes.starts_with(b"{\"record\":"));
        let heads = store.heads();
        assert!(matches!(heads, Err(StoreError::Corrupt(_))), "{damage}: {read:?} {heads:?}");
    }
}

#[test]
fn st_1_a_block_with_more_or_fewer_records_than_it_says_is_told() {
    for wrong in ["last_seq - 1", "last_seq + 1", "first_seq - 1", "-1", "last_seq + 1000000"] {
        let (_folder, path) = place();
        let store = open(&path);
        let mut scribe = Scribe::default();
        scribe.write(&store, &AGENTS.repeat(20));
        drop(store);
        let connection = Connection::open(&path).unwrap();
        connection.execute(&format!("UPDATE block SET last_seq = {wrong}"), []).unwrap();
        drop(connection);
        let read = open(&path).blocks(1, u64::MAX, &mut |_| true);
        assert!(matches!(read, Err(StoreError::Corrupt(_) | StoreError::Database(_))), "{wrong}: {read:?}");
    }
}

#[test]
fn st_1_an_agents_records_are_those_of_the_whole_journal_or_the_damage_is_told() {
    let (_folder, path) = place();
    let store = open(&path);
    let mut scribe = Scribe { name_len: 300, ..Scribe::default() };
    (0..5).for_each(|_| scribe.write(&store, &AGENTS.repeat(400)));
    store.compact().unwrap();
    // These are in no segment yet.
    scribe.write(&store, &AGENTS.repeat(20));
    let all = read_from(&store, 1);
    for agent in AGENTS {
        let own = format!(",\"chain\":\"{agent}\",\"mono\":");
        let lines = all.split(|byte| *byte == b'\n');
        let mut lines: Vec<_> =
            lines.filter(|line| std::str::from_utf8(line).unwrap().contains(&own)).collect();
        lines.reverse();
        assert!(lines.len() >= 2020 && store.records_of(agent, None, 9999).unwrap() == lines, "{agent}");
    }
    drop(store);
    let second = "WHERE first_seq = (SELECT first_seq FROM block ORDER BY 1 LIMIT 1 OFFSET 1)";
    for damage in [
        format!("UPDATE block SET lines = CAST(substr(lines, 1, length(lines) - 3) AS BLOB) {second}"),
        format!("UPDATE block SET last_seq = last_seq - 1 {second}"),
        format!("DELETE FROM block {second}"),
        "DELETE FROM block WHERE first_seq = 1".to_owned(),
    ] {
        let (_folder, copy) = place();
        std::fs::copy(&path, &copy).unwrap();
        assert_eq!(open(&copy).records_of("b", None, 9999).unwrap().len(), 2020, "it is whole");
        assert_eq!(Connection::open(&copy).unwrap().execute(&damage, []), Ok(1));
        let found = open(&copy).records_of("b", None, 9999).map(|lines| lines.len());
        assert!(matches!(found, Err(StoreError::Corrupt(_))), "{damage}: {found:?}");
    }
}
