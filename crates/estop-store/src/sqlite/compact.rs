//! Makes segments of the newest blocks: indexes them by chain, and merges them if they are small.
//!
//! A commit of forty records then costs one row, however many agents they belong to; the index is written once for
//! some thousands of records, and a quiet day leaves no multitude of rows.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, Row, params};

use super::convert::unreadable;
use super::query::{all, change, one};
use crate::error::StoreError;
use crate::journal::Lines;
use crate::line::{self, LineHead};

/// A segment: some 7,000 records. Blocks beyond the last one are read through at a start and for each list of records,
/// a few milliseconds. Half doubles the rows of the index in a large fleet, double makes a page of a rare agent's
/// records slower.
const SEGMENT_BYTES: u64 = 4 << 20;
const SEGMENT_BLOCKS: u64 = 1024;

/// Blocks of this size on average stay as they are; smaller ones are merged into large ones.
const SMALL_BYTES: u64 = 8 << 10;
const MERGED_BYTES: usize = 64 << 10;
/// Larger ones are cut: whoever wants one record reads its block.
const LARGE_BYTES: usize = 256 << 10;

/// How much is not indexed yet: a hint. After a failed commit it is off until the next segment.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    blocks: AtomicU64,
    bytes: AtomicU64,
}

impl Fresh {
    pub(super) fn count(connection: &Connection) -> Result<Fresh, StoreError> {
        let sql = "SELECT count(*), ifnull(sum(length(lines)), 0) FROM block
            WHERE first_seq > (SELECT indexed_to FROM journal_mark)";
        let found = one(connection, sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (blocks, bytes) = found.unwrap_or_default();
        Ok(Fresh { blocks: AtomicU64::new(blocks), bytes: AtomicU64::new(bytes) })
    }

    pub(super) fn add(&self, bytes: usize) {
        self.blocks.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn is_due(&self) -> bool {
        self.blocks.load(Ordering::Relaxed) >= SEGMENT_BLOCKS
            || self.bytes.load(Ordering::Relaxed) >= SEGMENT_BYTES
    }

    fn reset(&self) {
        self.blocks.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }
}

/// The last record that is indexed.
pub(super) fn indexed_to(connection: &Connection) -> Result<u64, StoreError> {
    Ok(one(connection, "SELECT indexed_to FROM journal_mark", [], |row| Ok(row.get(0)?))?.unwrap_or(0))
}

/// The lines from one record on, block by block.
pub(super) fn lines_from(connection: &Connection, first_seq: u64) -> Result<Vec<Vec<u8>>, StoreError> {
    let sql = "SELECT lines FROM block WHERE first_seq >= ? ORDER BY first_seq";
    all(connection, sql, [first_seq], |row| Ok(row.get(0)?))
}

/// Makes a segment of all blocks that are in none. The newest segment grows instead, if it is small.
pub(super) fn compact(connection: &Connection, fresh: &Fresh) -> Result<(), StoreError> {
    let indexed = indexed_to(connection)?;
    let newest = "SELECT first_seq, bytes FROM segment ORDER BY first_seq DESC LIMIT 1";
    let newest = one(connection, newest, [], |row| Ok((row.get::<_, u64>(0)?, row.get::<_, u64>(1)?)))?;
    let grows = newest.filter(|(_, bytes)| *bytes < SEGMENT_BYTES / 2).map(|(first, _)| first);
    let blocks = lines_from(connection, grows.unwrap_or(indexed + 1))?;
    let mut segment = Segment { indexed, ..Segment::default() };
    for line in blocks.iter().flat_map(|block| line::each(block)) {
        segment.take(line)?;
    }
    if segment.last_seq > indexed {
        segment.index(connection)?;
    }
    let count = blocks.len() as u64;
    let is_large = blocks.iter().any(|block| block.len() > LARGE_BYTES);
    if is_large || (count > 1 && segment.bytes < count * SMALL_BYTES) {
        merge(connection, segment.first_seq, &blocks)?;
    }
    fresh.reset();
    Ok(())
}

/// What the lines of a segment come to.
#[derive(Default)]
struct Segment<'a> {
    /// Records up to this one are counted in `chain` already.
    indexed: u64,
    first_seq: u64,
    last_seq: u64,
    newest_wall: i64,
    bytes: u64,
    chains: BTreeMap<Box<str>, Tally<'a>>,
}

/// What a segment holds of one chain.
#[derive(Default)]
struct Tally<'a> {
    /// Records that are not counted yet.
    new_records: u64,
    last_record: u64,
    last_line: &'a [u8],
    /// Distances from record to record; the first from the beginning of the segment.
    seqs: Vec<u8>,
}

impl<'a> Segment<'a> {
    fn take(&mut self, line: &'a [u8]) -> Result<(), StoreError> {
        let LineHead { seq, chain, wall } = line::head(line).ok_or_else(|| unreadable("a journal line"))?;
        if self.bytes == 0 {
            (self.first_seq, self.newest_wall) = (seq, wall);
        }
        // Clocks are set back at times; a segment is as old as its newest record.
        (self.last_seq, self.newest_wall) = (seq, self.newest_wall.max(wall));
        self.bytes += line.len() as u64 + 1;
        if !self.chains.contains_key(chain.as_ref()) {
            self.chains.insert(chain.as_ref().into(), Tally::default());
        }
        if let Some(tally) = self.chains.get_mut(chain.as_ref()) {
            let before = if tally.last_record == 0 { self.first_seq } else { tally.last_record };
            push_number(&mut tally.seqs, seq - before);
            tally.new_records += u64::from(seq > self.indexed);
            (tally.last_record, tally.last_line) = (seq, line);
        }
        Ok(())
    }

    /// A segment that grew has its rows already, with the same first record.
    fn index(&self, connection: &Connection) -> Result<(), StoreError> {
        let Segment { first_seq, last_seq, newest_wall, bytes, .. } = self;
        let insert =
            "INSERT OR REPLACE INTO segment (first_seq, last_seq, newest_wall, bytes) VALUES (?, ?, ?, ?)";
        change(connection, insert, params![first_seq, last_seq, newest_wall, bytes])?;
        change(connection, "UPDATE journal_mark SET indexed_to = ?", [last_seq])?;
        for (chain, tally) in &self.chains {
            let (events, decisions) =
                line::digests(tally.last_line).ok_or_else(|| unreadable("a journal line's hashes"))?;
            let advance = "INSERT INTO chain (name, count, events, decisions) VALUES (?1, ?2, ?3, ?4)
                ON CONFLICT (name) DO UPDATE SET count = count + ?2, events = ?3, decisions = ?4 RETURNING id, count";
            let params = params![chain, tally.new_records, events.0, decisions.0];
            let head = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
            let (id, count) = one(connection, advance, params, head)?.ok_or_else(|| unreadable("a chain"))?;
            let index = "INSERT OR REPLACE INTO segment_chain (chain, first_seq, last_record, count, events, decisions, seqs)
                VALUES (?, ?, ?, ?, ?, ?, ?)";
            change(
                connection,
                index,
                params![id, first_seq, tally.last_record, count, events.0, decisions.0, tally.seqs],
            )?;
        }
        Ok(())
    }
}

/// Seven bits a byte, the lowest first; all but the last have the highest bit set.
fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The records of a chain in a segment, oldest first.
pub(super) fn seqs(first_seq: u64, bytes: &[u8]) -> Vec<u64> {
    let (mut seqs, mut at, mut number, mut shift) = (Vec::new(), first_seq, 0_u64, 0);
    for byte in bytes {
        number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        shift += 7;
        if byte & 0x80 == 0 {
            at = at.saturating_add(number);
            seqs.push(at);
            (number, shift) = (0, 0);
        }
    }
    seqs
}

/// Writes the lines again in large blocks. The small ones go first, so that a full database has room.
fn merge(connection: &Connection, first_seq: u64, blocks: &[Vec<u8>]) -> Result<(), StoreError> {
    change(connection, "DELETE FROM block WHERE first_seq >= ?", [first_seq])?;
    let mut merged = Lines::default();
    for line in blocks.iter().flat_map(|block| line::each(block)) {
        let head = line::head(line).ok_or_else(|| unreadable("a journal line"))?;
        if merged.bytes.is_empty() {
            (merged.first_seq, merged.first_wall) = (head.seq, head.wall);
        }
        (merged.last_seq, merged.last_wall) = (head.seq, head.wall);
        merged.bytes.extend_from_slice(line);
        merged.bytes.push(b'\n');
        if merged.bytes.len() >= MERGED_BYTES {
            insert_block(connection, &merged)?;
            merged.bytes.clear();
        }
    }
    if merged.bytes.is_empty() { Ok(()) } else { insert_block(connection, &merged) }
}

/// Adds a block.
pub(super) fn insert_block(connection: &Connection, lines: &Lines) -> Result<(), StoreError> {
    let Lines { first_seq, last_seq, first_wall, last_wall, bytes } = lines;
    let sql = "INSERT INTO block (first_seq, last_seq, first_wall, last_wall, lines) VALUES (?, ?, ?, ?, ?)";
    change(connection, sql, params![first_seq, last_seq, first_wall, last_wall, bytes])?;
    Ok(())
}
