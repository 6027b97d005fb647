//! Makes segments of the newest blocks: indexes them by chain, and merges them if they are small.
//!
//! A commit of forty records then costs one row, however many agents they belong to; the index is written once for
//! some thousands of records, and a quiet day leaves no multitude of rows.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;

use super::append::last_seq;
use super::convert::unreadable;
use super::packed::{self, BYTES, Packed, sound_lines_of};
use super::query::{all, change, one};
use super::tally::Tally;
use crate::error::StoreError;
use crate::journal::Lines;
use crate::line;
use crate::records::Records;

/// A segment: some 7,000 records. Blocks beyond the last one are read through at a start and for each list of records,
/// a few milliseconds. Half doubles the rows of the index in a large fleet, double makes a page of a rare agent's
/// records slower.
const SEGMENT_BYTES: u64 = 4 << 20;
const SEGMENT_BLOCKS: u64 = 1024;

/// Blocks of this size on average stay as they are; smaller ones are merged into large ones.
const SMALL_BYTES: u64 = 8 << 10;
const MERGED_BYTES: usize = 64 << 10;

/// How much is not indexed yet: a hint. After a failed commit it is off until the next segment.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    blocks: AtomicU64,
    bytes: AtomicU64,
    /// What was stored last comes to; of use if it is all that is not indexed.
    tally: Mutex<Tally>,
}

impl Fresh {
    pub(super) fn count(connection: &Connection) -> Result<Fresh, StoreError> {
        let sql = format!(
            "SELECT count(*), ifnull(sum({BYTES}), 0) FROM block
            WHERE first_seq > (SELECT indexed_to FROM journal_mark)"
        );
        let found = one(connection, &sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (blocks, bytes) = found.unwrap_or_default();
        Ok(Fresh { blocks: AtomicU64::new(blocks), bytes: AtomicU64::new(bytes), tally: Mutex::default() })
    }

    /// Lines were stored.
    pub(super) fn add(&self, packed: Packed) {
        self.blocks.fetch_add(packed.blocks.len() as u64, Ordering::Relaxed);
        self.bytes.fetch_add(packed.tally.bytes, Ordering::Relaxed);
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).absorb(packed.tally);
    }

    pub(super) fn is_due(&self) -> bool {
        self.blocks.load(Ordering::Relaxed) >= SEGMENT_BLOCKS
            || self.bytes.load(Ordering::Relaxed) >= SEGMENT_BYTES
    }

    fn reset(&self) {
        self.blocks.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        self.take_tally();
    }

    fn take_tally(&self) -> Tally {
        std::mem::take(&mut *self.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The last record that is indexed.
pub(super) fn indexed_to(connection: &Connection) -> Result<u64, StoreError> {
    Ok(one(connection, "SELECT indexed_to FROM journal_mark", [], |row| Ok(row.get(0)?))?.unwrap_or(0))
}

/// The lines from one record on, block by block.
pub(super) fn lines_from(connection: &Connection, first_seq: u64) -> Result<Vec<Vec<u8>>, StoreError> {
    let sql = "SELECT lines, raw_bytes, digests FROM block WHERE first_seq >= ? ORDER BY first_seq";
    all(connection, sql, [first_seq], |row| sound_lines_of(row, 0))
}

/// Makes a segment of all blocks that are in none. The newest segment grows instead, if it is small.
pub(super) fn compact(connection: &Connection, fresh: &Fresh) -> Result<(), StoreError> {
    let indexed = indexed_to(connection)?;
    let newest = "SELECT first_seq, bytes FROM segment ORDER BY first_seq DESC LIMIT 1";
    let newest = one(connection, newest, [], |row| Ok((row.get::<_, u64>(0)?, row.get::<_, u64>(1)?)))?;
    let grows = newest.filter(|(_, bytes)| *bytes < SEGMENT_BYTES / 2).map(|(first, _)| first);
    if grows.is_none() && index_known(connection, fresh, indexed)? {
        return Ok(());
    }
    let blocks = lines_from(connection, grows.unwrap_or(indexed + 1))?;
    let mut tally = Tally::default();
    for line in blocks.iter().flat_map(|block| line::each(block)) {
        let head = line::head(line).ok_or_else(|| unreadable("a journal line"))?;
        tally.take(&head, line, indexed)?;
    }
    if tally.last_seq > indexed {
        tally.index(connection)?;
    }
    let is_large = blocks.iter().any(|block| packed::is_large(block));
    if is_large || are_small(blocks.len() as u64, tally.bytes) {
        merge(connection, tally.first_seq, &blocks)?;
    }
    fresh.reset();
    Ok(())
}

fn are_small(blocks: u64, bytes: u64) -> bool {
    blocks > 1 && bytes < blocks * SMALL_BYTES
}

/// Indexes what is known to be all that is in no segment, without reading it again; whether it did. Not if it must be
/// merged too.
fn index_known(connection: &Connection, fresh: &Fresh, indexed: u64) -> Result<bool, StoreError> {
    if are_small(fresh.blocks.load(Ordering::Relaxed), fresh.bytes.load(Ordering::Relaxed)) {
        return Ok(false);
    }
    let tally = fresh.take_tally();
    if tally.first_seq != indexed + 1 || tally.last_seq != last_seq(connection)? {
        return Ok(false);
    }
    tally.index(connection)?;
    fresh.reset();
    Ok(true)
}

/// Writes the lines again in large blocks. The small ones go first, so that a full database has room.
fn merge(connection: &Connection, first_seq: u64, blocks: &[Vec<u8>]) -> Result<(), StoreError> {
    change(connection, "DELETE FROM block WHERE first_seq >= ?", [first_seq])?;
    let mut merged = Lines { first_seq, ..Lines::default() };
    for line in blocks.iter().flat_map(|block| line::each(block)) {
        merged.bytes.extend_from_slice(line);
        merged.bytes.push(b'\n');
        merged.last_seq = line::head(line).ok_or_else(|| unreadable("a journal line"))?.seq;
        if merged.bytes.len() >= MERGED_BYTES {
            insert(connection, &merged)?;
            merged.first_seq = merged.last_seq + 1;
            merged.bytes.clear();
        }
    }
    if merged.bytes.is_empty() { Ok(()) } else { insert(connection, &merged) }
}

fn insert(connection: &Connection, lines: &Lines) -> Result<(), StoreError> {
    let Packed { blocks, .. } = packed::pack(&Records::read(lines)?)?;
    blocks.iter().try_for_each(|block| packed::insert(connection, block))
}
