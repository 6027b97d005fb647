//! What a run of lines comes to, chain by chain: what the index keeps of a segment.
//!
//! It is added up as lines are stored, so that making a segment of them need not read them again.

use std::collections::HashMap;

use estop_core::ids::Name;
use rusqlite::{Connection, Row, params};

use super::convert::unreadable;
use super::query::{change, one};
use crate::error::StoreError;
use crate::line::{self, LineHead};

/// What lines without a gap come to.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// 0 = there is no line.
    pub(super) first_seq: u64,
    pub(super) last_seq: u64,
    newest_wall: i64,
    pub(super) bytes: u64,
    places: HashMap<Name, usize>,
    /// In the order they were met.
    chains: Vec<OfChain>,
}

/// What they hold of one chain.
#[derive(Debug)]
struct OfChain {
    name: Name,
    /// Records that the index does not count yet.
    new_records: u64,
    first_record: u64,
    last_record: u64,
    /// The end of its last line, with both hashes.
    hashes: Vec<u8>,
    /// Distances from record to record, from the second on.
    seqs: Vec<u8>,
}

impl Tally {
    /// Takes the next line in; up to record `indexed` they are counted already.
    pub(super) fn take(&mut self, head: &LineHead<'_>, line: &[u8], indexed: u64) {
        let LineHead { seq, chain, wall } = head;
        if self.first_seq == 0 {
            (self.first_seq, self.newest_wall) = (*seq, *wall);
        }
        // Clocks are set back at times; a segment is as old as its newest record.
        (self.last_seq, self.newest_wall) = (*seq, self.newest_wall.max(*wall));
        self.bytes += line.len() as u64 + 1;
        let is_new = u64::from(*seq > indexed);
        let hashes = &line[line.len().saturating_sub(line::HASHES_LEN)..];
        if let Some(known) = self.places.get(chain.as_ref()).and_then(|at| self.chains.get_mut(*at)) {
            push_number(&mut known.seqs, seq.saturating_sub(known.last_record));
            known.new_records += is_new;
            known.last_record = *seq;
            known.hashes.clear();
            known.hashes.extend_from_slice(hashes);
            return;
        }
        self.add(OfChain {
            name: chain.as_ref().into(),
            new_records: is_new,
            first_record: *seq,
            last_record: *seq,
            hashes: hashes.to_vec(),
            seqs: Vec::new(),
        });
    }

    fn add(&mut self, chain: OfChain) {
        self.places.insert(chain.name.clone(), self.chains.len());
        self.chains.push(chain);
    }

    /// Takes in what was stored after it. If it is not what comes next, one of the two was not stored: it begins anew.
    pub(super) fn absorb(&mut self, next: Tally) {
        if self.first_seq == 0 || next.first_seq != self.last_seq + 1 {
            *self = next;
            return;
        }
        self.last_seq = next.last_seq;
        self.newest_wall = self.newest_wall.max(next.newest_wall);
        self.bytes += next.bytes;
        for new in next.chains {
            let Some(known) = self.places.get(&new.name).and_then(|at| self.chains.get_mut(*at)) else {
                self.add(new);
                continue;
            };
            push_number(&mut known.seqs, new.first_record.saturating_sub(known.last_record));
            known.seqs.extend_from_slice(&new.seqs);
            known.new_records += new.new_records;
            (known.last_record, known.hashes) = (new.last_record, new.hashes);
        }
    }

    /// Writes it into the index. A segment that grew has its rows already, with the same first record.
    pub(super) fn index(&self, connection: &Connection) -> Result<(), StoreError> {
        let Tally { first_seq, last_seq, newest_wall, bytes, .. } = self;
        let insert =
            "INSERT OR REPLACE INTO segment (first_seq, last_seq, newest_wall, bytes) VALUES (?, ?, ?, ?)";
        change(connection, insert, params![first_seq, last_seq, newest_wall, bytes])?;
        change(connection, "UPDATE journal_mark SET indexed_to = ?", [last_seq])?;
        for chain in &self.chains {
            let (events, decisions) =
                line::digests(&chain.hashes).ok_or_else(|| unreadable("a journal line's hashes"))?;
            let advance = "INSERT INTO chain (name, count, events, decisions) VALUES (?1, ?2, ?3, ?4)
                ON CONFLICT (name) DO UPDATE SET count = count + ?2, events = ?3, decisions = ?4 RETURNING id, count";
            let params = params![chain.name, chain.new_records, events.0, decisions.0];
            let head = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
            let (id, count) = one(connection, advance, params, head)?.ok_or_else(|| unreadable("a chain"))?;
            let mut seqs = Vec::with_capacity(chain.seqs.len() + 4);
            push_number(&mut seqs, chain.first_record.saturating_sub(*first_seq));
            seqs.extend_from_slice(&chain.seqs);
            let index = "INSERT OR REPLACE INTO segment_chain (chain, first_seq, last_record, count, events, decisions, seqs)
                VALUES (?, ?, ?, ?, ?, ?, ?)";
            change(
                connection,
                index,
                params![id, first_seq, chain.last_record, count, events.0, decisions.0, seqs],
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
