//! What a run of lines comes to, chain by chain: what the index keeps of a segment.
//!
//! It is added up as records are stored, so that making a segment of them need not read them again.

use std::collections::HashMap;

use estop_core::ids::Name;
use estop_core::journal::HASHES_LEN;
use estop_core::time::Now;
use rusqlite::{Connection, Row, params};

use super::convert::unreadable;
use super::query::{change, one};
use crate::error::StoreError;
use crate::line::{self, LineHead};
use crate::records::{DIGESTS_LEN, Records};

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
    /// Both hashes of its last record.
    digests: [u8; DIGESTS_LEN],
    /// Distances from record to record, from the second on.
    seqs: Vec<u8>,
}

impl Tally {
    /// What new records come to.
    pub(super) fn of(records: &Records) -> Tally {
        let mut tally = Tally {
            first_seq: records.first_seq(),
            newest_wall: records.places().first().map_or(0, |place| place.now.wall),
            bytes: (records.texts().len() + records.len() * HASHES_LEN) as u64,
            ..Tally::default()
        };
        let mut met: Vec<Option<usize>> = vec![None; records.chains().len()];
        let each = records.places().iter().zip(records.digests());
        for (seq, (place, digests)) in (records.first_seq()..).zip(each) {
            tally.newest_wall = tally.newest_wall.max(place.now.wall);
            tally.last_seq = seq;
            let at = place.chain.index();
            match met[at].and_then(|at| tally.chains.get_mut(at)) {
                Some(known) => known.take(seq, *digests, 1),
                None => {
                    met[at] = Some(tally.chains.len());
                    tally.add(OfChain::new(&records.chains()[at], seq, *digests, 1));
                }
            }
        }
        tally
    }

    /// Takes the next line in; up to record `indexed` they are counted already.
    pub(super) fn take(&mut self, head: &LineHead<'_>, line: &[u8], indexed: u64) -> Result<(), StoreError> {
        let LineHead { seq, chain, now: Now { wall, .. } } = head;
        if self.first_seq == 0 {
            (self.first_seq, self.newest_wall) = (*seq, *wall);
        }
        // Clocks are set back at times; a segment is as old as its newest record.
        (self.last_seq, self.newest_wall) = (*seq, self.newest_wall.max(*wall));
        self.bytes += line.len() as u64 + 1;
        let is_new = u64::from(*seq > indexed);
        let (events, decisions) = line::digests(line).ok_or_else(|| unreadable("a journal line's hashes"))?;
        let mut digests = [0; DIGESTS_LEN];
        digests[..32].copy_from_slice(&events.0);
        digests[32..].copy_from_slice(&decisions.0);
        match self.places.get(chain.as_ref()).and_then(|at| self.chains.get_mut(*at)) {
            Some(known) => known.take(*seq, digests, is_new),
            None => self.add(OfChain::new(chain, *seq, digests, is_new)),
        }
        Ok(())
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
            (known.last_record, known.digests) = (new.last_record, new.digests);
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
            let (events, decisions) = chain.digests.split_at(DIGESTS_LEN / 2);
            let advance = "INSERT INTO chain (name, count, events, decisions) VALUES (?1, ?2, ?3, ?4)
                ON CONFLICT (name) DO UPDATE SET count = count + ?2, events = ?3, decisions = ?4 RETURNING id, count";
            let params = params![chain.name, chain.new_records, events, decisions];
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
                params![id, first_seq, chain.last_record, count, events, decisions, seqs],
            )?;
        }
        Ok(())
    }
}

impl OfChain {
    fn new(name: &str, seq: u64, digests: [u8; DIGESTS_LEN], new_records: u64) -> OfChain {
        OfChain {
            name: name.into(),
            new_records,
            first_record: seq,
            last_record: seq,
            digests,
            seqs: Vec::new(),
        }
    }

    fn take(&mut self, seq: u64, digests: [u8; DIGESTS_LEN], is_new: u64) {
        push_number(&mut self.seqs, seq.saturating_sub(self.last_record));
        self.new_records += is_new;
        (self.last_record, self.digests) = (seq, digests);
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
