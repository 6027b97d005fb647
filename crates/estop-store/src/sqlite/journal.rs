//! The journal in SQLite: appending, and reading it back.

use std::collections::BTreeMap;
use std::sync::Arc;

use estop_core::chain::{ChainHead, Digest};
use estop_core::ids::Name;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params};

use super::convert::{capped, unreadable};
use super::one_chain::one_chain;
use super::packed::{self, Stored, lines_of, sound_lines_of};
use super::query::{Page, all, one};
use super::readers::Readers;
use super::{Sqlite, append, compact, retention, tally};
use crate::error::StoreError;
use crate::journal::{
    BaseState, Durability, EachBlock, EventFilter, EventKey, Journal, JournalBatch, Lines, NewEvent,
    Prunable, Pruned, Retention, StoredEvent, TailMark,
};
use crate::line;
use crate::records::Records;

impl Journal for Sqlite {
    fn append(&self, batch: Arc<JournalBatch>, durability: Durability) -> Result<(), StoreError> {
        // On the caller's thread, before anything waits for it.
        let packed = match (&batch.records, &batch.lines) {
            (Some(records), None) => Some(packed::pack(records)?),
            (None, Some(lines)) => Some(packed::pack(&Records::read(lines)?)?),
            (None, None) => None,
            (Some(_), Some(_)) => {
                return Err(StoreError::Invalid("a batch has its records twice".to_owned()));
            }
        };
        let fresh = Arc::clone(&self.shared.fresh);
        self.write(durability, move |connection| {
            append::append(connection, &batch, packed.as_ref())?;
            packed.into_iter().for_each(|packed| fresh.add(packed));
            Ok(())
        })
    }

    fn last_seq(&self) -> Result<u64, StoreError> {
        self.read(append::last_seq)
    }

    fn heads(&self) -> Result<Vec<ChainHead>, StoreError> {
        self.read(|connection| {
            let mut heads = indexed_heads(connection)?;
            for lines in compact::lines_from(connection, compact::indexed_to(connection)? + 1)? {
                line::each(&lines).try_for_each(|line| advance(&mut heads, line))?;
            }
            Ok(heads.into_values().collect())
        })
    }

    fn tail(&self) -> Result<TailMark, StoreError> {
        self.read(tail_mark)
    }

    fn blocks(&self, from_seq: u64, to_seq: u64, each: EachBlock<'_>) -> Result<(), StoreError> {
        blocks(&self.shared.readers, from_seq, to_seq, each)
    }

    fn records_of(
        &self,
        agent: &str,
        before_seq: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut wanted = Wanted { agent, before: before_seq.unwrap_or(u64::MAX), limit, found: Vec::new() };
        self.read(|connection| {
            let indexed = compact::indexed_to(connection)?;
            wanted.search(connection, indexed + 1, u64::MAX, sound_lines_of)?;
            // The newest segment first.
            let sql = "SELECT i.first_seq, s.last_seq, seqs FROM segment_chain AS i JOIN segment AS s ON s.first_seq = i.first_seq
                WHERE i.chain = (SELECT id FROM chain WHERE name = ?1) AND i.first_seq < ?2 ORDER BY i.first_seq DESC";
            let mut statement = connection.prepare_cached(sql)?;
            let mut segments = statement.query(params![agent, capped(wanted.before)])?;
            while wanted.found.len() < limit {
                let Some(segment) = segments.next()? else { break };
                let (first, last): (u64, u64) = (segment.get(0)?, segment.get(1)?);
                match segment.get::<_, Option<Vec<u8>>>(2)? {
                    Some(seqs) => wanted.pick(connection, &tally::seqs(first, &seqs))?,
                    None => wanted.search(connection, first, last, lines_of)?,
                }
            }
            Ok(())
        })?;
        Ok(wanted.found)
    }

    fn events(&self, filter: &EventFilter, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        let mut page = Page::of("SELECT seq, nth, wall, agent, event_type, detail FROM event")
            .equal("agent", filter.agent.as_deref())
            .equal("event_type", filter.event_type.as_deref());
        if let Some(EventKey { seq, nth }) = filter.before {
            page = page.and("(seq, nth) < (?, ?)", [Value::from(capped(seq)), Value::from(nth)]);
        }
        self.read(|connection| page.read(connection, "seq DESC, nth DESC", limit, event))
    }

    fn compact(&self) -> Result<(), StoreError> {
        let fresh = Arc::clone(&self.shared.fresh);
        self.write(Durability::Process, move |connection| compact::compact(connection, &fresh))
    }

    fn prunable(&self, retention: Retention) -> Result<Option<Prunable>, StoreError> {
        self.read(|connection| retention::prunable(connection, retention))
    }

    fn prune(&self, to_seq: u64, bases: Vec<BaseState>) -> Result<(), StoreError> {
        retention::prune(self, to_seq, bases)
    }

    fn base_state(&self, chain: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|connection| retention::base_state(connection, chain))
    }

    fn base_digests(&self) -> Result<Vec<(Name, Digest)>, StoreError> {
        self.read(retention::base_digests)
    }

    fn give_back(&self) -> Result<bool, StoreError> {
        self.write(Durability::Process, retention::give_back)
    }

    fn pruned(&self) -> Result<Pruned, StoreError> {
        self.read(|connection| {
            let to_seq = retention::pruned_to(connection)?;
            Ok(Pruned { to_seq, heads: heads_at(connection, to_seq)? })
        })
    }
}

/// How far the write-ahead tail was taken in.
pub(super) fn tail_mark(connection: &Connection) -> Result<TailMark, StoreError> {
    let sql = "SELECT tail_generation, tail_offset FROM journal_mark";
    let mark = |row: &Row<'_>| Ok(TailMark { generation: row.get(0)?, offset: row.get(1)? });
    Ok(one(connection, sql, [], mark)?.unwrap_or_default())
}

/// The heads of all chains after the newest segment.
fn indexed_heads(connection: &Connection) -> Result<BTreeMap<Name, ChainHead>, StoreError> {
    let heads = all(connection, "SELECT name, count, events, decisions FROM chain", [], head)?;
    Ok(heads.into_iter().map(|head| (head.chain.clone(), head)).collect())
}

/// The heads of all chains after the segment that ends with record `seq`, in order of name.
pub(super) fn heads_at(connection: &Connection, seq: u64) -> Result<Vec<ChainHead>, StoreError> {
    let sql = "SELECT name, i.count, i.events, i.decisions FROM chain JOIN segment_chain AS i ON i.chain = id
        AND i.first_seq = (SELECT max(first_seq) FROM segment_chain WHERE chain = id AND first_seq <= ?) ORDER BY name";
    all(connection, sql, [capped(seq)], head)
}

fn head(row: &Row<'_>) -> Result<ChainHead, StoreError> {
    let (events, decisions) = (Digest(row.get(2)?), Digest(row.get(3)?));
    Ok(ChainHead { chain: row.get(0)?, count: row.get(1)?, events, decisions })
}

fn advance(heads: &mut BTreeMap<Name, ChainHead>, line: &[u8]) -> Result<(), StoreError> {
    let (head, hashes) = (line::head(line), line::digests(line));
    let (Some(head), Some((events, decisions))) = (head, hashes) else {
        return Err(unreadable("a line of the journal"));
    };
    match heads.get_mut(head.chain.as_ref()) {
        Some(known) => {
            known.count += 1;
            (known.events, known.decisions) = (events, decisions);
        }
        None => {
            let chain = Name::from(head.chain);
            heads.insert(chain.clone(), ChainHead { chain, count: 1, events, decisions });
        }
    }
    Ok(())
}

/// The block that holds a record, or the first after it.
fn block_with(connection: &Connection, seq: u64) -> Result<Option<Lines>, StoreError> {
    let lines = |row: &Row<'_>| {
        let block = Lines {
            first_seq: row.get(0)?,
            last_seq: row.get(1)?,
            first_wall: row.get(2)?,
            last_wall: row.get(3)?,
            bytes: lines_of(row, 4)?,
        };
        has_all(&block).then_some(block).ok_or_else(packed::damaged)
    };
    // The last block that begins at the record or before it; failing that, the first after it.
    let columns = "SELECT first_seq, last_seq, first_wall, last_wall, lines, raw_bytes, digests FROM block";
    let here = format!("{columns} WHERE first_seq <= ? ORDER BY first_seq DESC LIMIT 1");
    let found = one(connection, &here, [capped(seq)], lines)?.filter(|block| block.last_seq >= seq);
    if found.is_some() {
        return Ok(found);
    }
    let after = format!("{columns} WHERE first_seq > ? ORDER BY first_seq LIMIT 1");
    one(connection, &after, [capped(seq)], lines)
}

/// Whether a block has as many lines as its numbers say.
fn has_all(block: &Lines) -> bool {
    are_all(block.first_seq, block.last_seq, memchr::memchr_iter(b'\n', &block.bytes).count() as u64)
}

/// Whether these are the records from one number to the other.
fn are_all(first_seq: u64, last_seq: u64, count: u64) -> bool {
    last_seq.checked_sub(first_seq).and_then(|more| more.checked_add(1)) == Some(count)
}

/// The part of a block from one record to another; `None` if it has fewer lines than it should.
fn cut(mut block: Lines, from: u64, to: u64) -> Option<Lines> {
    if block.last_seq > to {
        let keep = usize::try_from(to.checked_sub(block.first_seq)?).ok()? + 1;
        let end = memchr::memchr_iter(b'\n', &block.bytes).nth(keep - 1)?;
        block.bytes.truncate(end + 1);
        block.last_seq = to;
    }
    if block.first_seq < from {
        let skip = usize::try_from(from - block.first_seq).ok()?;
        let start = memchr::memchr_iter(b'\n', &block.bytes).nth(skip - 1)? + 1;
        block.bytes.drain(..start);
        block.first_seq = from;
    }
    Some(block)
}

fn event(row: &Row<'_>) -> Result<StoredEvent, StoreError> {
    let key = EventKey { seq: row.get(0)?, nth: row.get(1)? };
    let event = NewEvent {
        seq: key.seq,
        wall: row.get(2)?,
        agent: row.get(3)?,
        event_type: row.get(4)?,
        detail: row.get(5)?,
    };
    Ok(StoredEvent { key, event })
}

/// Lines of one agent that were asked for, the newest first.
struct Wanted<'a> {
    agent: &'a str,
    before: u64,
    limit: usize,
    found: Vec<Vec<u8>>,
}

impl Wanted<'_> {
    /// Takes records whose numbers are known, from the blocks they stand in.
    fn pick(&mut self, connection: &Connection, seqs: &[u64]) -> Result<(), StoreError> {
        let before = self.before;
        let mut newest_first = seqs.iter().rev().filter(|seq| **seq < before).peekable();
        let sql = "SELECT first_seq, last_seq, lines, raw_bytes, digests FROM block WHERE first_seq <= ?
            ORDER BY first_seq DESC LIMIT 1";
        let mut statement = connection.prepare_cached(sql)?;
        while self.found.len() < self.limit {
            let Some(seq) = newest_first.peek() else { break };
            let mut blocks = statement.query([capped(**seq)])?;
            let block = blocks.next()?.ok_or_else(packed::damaged)?;
            let (first, last): (u64, u64) = (block.get(0)?, block.get(1)?);
            let found = one_chain(&Stored::of(block, 2)?, self.agent)
                .filter(|found| last >= **seq && are_all(first, last, found.count))
                .ok_or_else(packed::damaged)?;
            self.look_through(&found.lines);
            while newest_first.next_if(|seq| **seq >= first).is_some() {}
        }
        Ok(())
    }

    /// Looks through all blocks that begin between two records, the newest first.
    fn search(
        &mut self,
        connection: &Connection,
        first: u64,
        last: u64,
        read: impl Fn(&Row<'_>, usize) -> Result<Vec<u8>, StoreError>,
    ) -> Result<(), StoreError> {
        let sql =
            "SELECT lines, raw_bytes, digests FROM block WHERE first_seq BETWEEN ? AND ? AND first_seq < ?
            ORDER BY first_seq DESC";
        let mut statement = connection.prepare_cached(sql)?;
        let mut blocks = statement.query([first, last, self.before].map(capped))?;
        while self.found.len() < self.limit {
            let Some(block) = blocks.next()? else { break };
            self.look_through(&read(block, 0)?);
        }
        Ok(())
    }

    fn look_through(&mut self, block: &[u8]) {
        let is_wanted = |line: &&[u8]| {
            line::head(line).is_some_and(|head| head.chain == self.agent && head.seq < self.before)
        };
        let lines: Vec<&[u8]> = line::each(block).filter(is_wanted).collect();
        let room = self.limit - self.found.len();
        self.found.extend(lines.into_iter().rev().take(room).map(<[u8]>::to_vec));
    }
}

/// One block is read at a time, so that a slow reader holds nothing back. Blocks may be merged in between; the next is
/// therefore looked up by the record that must come next.
pub(super) fn blocks(
    readers: &Readers,
    from_seq: u64,
    to_seq: u64,
    each: EachBlock<'_>,
) -> Result<(), StoreError> {
    let mut next = from_seq;
    while next <= to_seq {
        let Some(block) = readers.read(|connection| block_with(connection, next))? else { return Ok(()) };
        let lines = cut(block, next, to_seq).ok_or_else(packed::damaged)?;
        next = lines.last_seq + 1;
        if !each(&lines) {
            return Ok(());
        }
    }
    Ok(())
}
