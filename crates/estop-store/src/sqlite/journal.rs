//! What follows from the journal, in SQLite; and the journal's own records, from its files.

use std::collections::BTreeMap;
use std::sync::Arc;

use estop_core::ids::Name;
use estop_journal::{Head, records};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params};

use super::convert::capped;
use super::query::{Page, change, one};
use super::{Sqlite, append};
use crate::error::StoreError;
use crate::journal::{
    Cursor, Durability, EachBlock, EventFilter, EventKey, Journal, JournalBatch, NewEvent, StoredEvent,
    types_of,
};
use crate::segments::{JournalReader, base_states};

impl Journal for Sqlite {
    fn journal(&self) -> &JournalReader {
        &self.shared.journal
    }

    fn append(&self, batch: Arc<JournalBatch>, durability: Durability) -> Result<(), StoreError> {
        self.write(durability, move |connection| append::append(connection, &batch))
    }

    fn cursor(&self) -> Result<Option<Cursor>, StoreError> {
        self.read(append::cursor)
    }

    fn begins_after(&self) -> Result<u64, StoreError> {
        Ok(self.journal().begins_after()?)
    }

    fn blocks(&self, from_seq: u64, to_seq: u64, each: EachBlock<'_>) -> Result<(), StoreError> {
        Ok(self.journal().records(from_seq, to_seq, each)?)
    }

    fn lines(&self, each: EachBlock<'_>) -> Result<(), StoreError> {
        Ok(self.journal().lines(each)?)
    }

    fn export(&self, each: EachBlock<'_>) -> Result<(), StoreError> {
        Ok(self.journal().export(each)?)
    }

    fn sync_rows(&self) -> Result<(), StoreError> {
        // A commit that changes nothing would not reach the disk.
        self.write(Durability::Disk, |connection| {
            change(connection, "UPDATE journal_cursor SET seq = seq", [])?;
            Ok(())
        })
    }

    fn export_agent(&self, agent: &str, each: EachBlock<'_>) -> Result<(), StoreError> {
        Ok(self.journal().export_agent(agent, self.frames_with(agent)?, each)?)
    }

    fn records_of(
        &self,
        agent: &str,
        before_seq: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        let (before, mut found) = (before_seq.unwrap_or(u64::MAX), Vec::new());
        if limit == 0 {
            return Ok(found);
        }
        self.journal().back(before, self.frames_with(agent)?, &mut |line: &[u8], head: &Head<'_>| {
            if head.agent == agent {
                found.push(line.to_vec());
            }
            found.len() < limit
        })?;
        Ok(found)
    }

    fn events(&self, filter: &EventFilter, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        let mut page = Page::of("SELECT seq, nth, wall, agent, event_type, detail FROM event")
            .equal("agent", filter.agent.as_deref())
            .equal("event_type", filter.event_type.as_deref());
        if let Some(EventKey { seq, nth }) = filter.before {
            page = page.and("(seq, nth) < (?, ?)", [Value::from(capped(seq)), Value::from(nth)]);
        }
        if let Some(EventKey { seq, nth }) = filter.after {
            page = page.and("(seq, nth) > (?, ?)", [Value::from(capped(seq)), Value::from(nth)]);
        }
        if let Some(guard) = filter.guard {
            let types = types_of(guard);
            let places = vec!["?"; types.len()].join(", ");
            let named = [guard.name(); 2].into_iter().chain(types.iter().copied());
            let condition =
                format!("(detail ->> 'guard' = ? OR detail ->> 'cause' = ? OR event_type IN ({places}))");
            page = page.and(&condition, named.map(|name| Value::from(name.to_owned())));
        }
        let order = if filter.oldest_first { "seq, nth" } else { "seq DESC, nth DESC" };
        self.read(|connection| page.read(connection, order, limit, event))
    }

    fn index_segments(&self) -> Result<(), StoreError> {
        let (last, indexed) = (self.journal().manifest()?.last_segment(), self.read(indexed_segment)?);
        let is_kept = |segment: &u64| *segment > indexed && *segment <= last;
        for segment in self.journal().segments()?.into_iter().filter(is_kept).collect::<Vec<_>>() {
            let postings = self.postings(segment)?;
            self.write(Durability::Process, move |connection| put_postings(connection, segment, &postings))?;
        }
        Ok(())
    }

    fn forget_segments(&self, to_segment: u64) -> Result<(), StoreError> {
        self.write(Durability::Process, move |connection| {
            change(connection, "DELETE FROM posting WHERE segment <= ?", [capped(to_segment)])?;
            Ok(())
        })
    }

    fn base_state(&self, agent: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let journal = self.journal();
        Ok(base_states(journal.folder(), &journal.manifest()?)?.remove(agent))
    }
}

impl Sqlite {
    /// In which frames of a segment an agent has records; `None` = nobody knows.
    fn frames_with(&self, agent: &str) -> Result<impl FnMut(u64) -> Option<Vec<usize>>, StoreError> {
        let indexed = self.read(indexed_segment)?;
        Ok(move |segment| {
            let frames = || self.read(|connection| frames_of(connection, agent, segment)).ok();
            (segment <= indexed).then(frames).flatten()
        })
    }

    /// In which frames of a segment each agent has records.
    fn postings(&self, segment: u64) -> Result<BTreeMap<Name, Vec<u8>>, StoreError> {
        let open = self.journal().open(segment)?;
        let mut agents: BTreeMap<Name, (usize, Vec<u8>)> = BTreeMap::new();
        for frame in 0..open.frames() {
            for (_, head) in records(&open.frame(frame)?) {
                match agents.get_mut(head.agent) {
                    // Counted from 1, so that the first frame is a distance too.
                    Some((last, _)) if *last == frame + 1 => {}
                    Some((last, frames)) => {
                        put_distance(frames, frame + 1 - *last);
                        *last = frame + 1;
                    }
                    None => {
                        let mut frames = Vec::new();
                        put_distance(&mut frames, frame + 1);
                        agents.insert(head.agent.into(), (frame + 1, frames));
                    }
                }
            }
        }
        Ok(agents.into_iter().map(|(agent, (_, frames))| (agent, frames)).collect())
    }
}

fn put_distance(out: &mut Vec<u8>, mut distance: usize) {
    while distance >= 0x80 {
        out.push((distance & 0x7f) as u8 | 0x80);
        distance >>= 7;
    }
    out.push(distance as u8);
}

fn frames(distances: &[u8]) -> Vec<usize> {
    let (mut found, mut at, mut distance, mut shift) = (Vec::new(), 0_usize, 0_usize, 0_u32);
    for byte in distances {
        distance |= usize::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        shift += 7;
        if byte & 0x80 == 0 {
            at = at.saturating_add(distance);
            found.push(at.saturating_sub(1));
            (distance, shift) = (0, 0);
        }
    }
    found
}

fn indexed_segment(connection: &Connection) -> Result<u64, StoreError> {
    let sql = "SELECT indexed_segment FROM journal_cursor";
    Ok(one(connection, sql, [], |row| Ok(row.get(0)?))?.unwrap_or(0))
}

fn frames_of(connection: &Connection, agent: &str, segment: u64) -> Result<Vec<usize>, StoreError> {
    let sql = "SELECT frames FROM posting WHERE agent = ? AND segment = ?";
    let row = |row: &Row<'_>| Ok(row.get::<_, Vec<u8>>(0)?);
    Ok(one(connection, sql, params![agent, capped(segment)], row)?.map_or_else(Vec::new, |row| frames(&row)))
}

fn put_postings(
    connection: &Connection,
    segment: u64,
    postings: &BTreeMap<Name, Vec<u8>>,
) -> Result<(), StoreError> {
    for (agent, frames) in postings {
        let put = "INSERT OR REPLACE INTO posting (agent, segment, frames) VALUES (?, ?, ?)";
        change(connection, put, params![agent, capped(segment), frames])?;
    }
    let update = "UPDATE journal_cursor SET indexed_segment = ?1 WHERE indexed_segment < ?1";
    change(connection, update, [capped(segment)])?;
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn st_1_frames_are_read_as_they_were_noted() {
        for noted in [
            vec![],
            vec![0],
            vec![0, 1, 2],
            vec![126, 127, 128, 129],
            vec![0, 127, 255, 256, 16_382, 16_383, 16_384, 2_000_000, u32::MAX as usize],
        ] {
            let (mut distances, mut last) = (Vec::new(), 0);
            for frame in &noted {
                put_distance(&mut distances, frame + 1 - last);
                last = frame + 1;
            }
            assert_eq!(frames(&distances), noted);
        }
        // Whatever a damaged row says is no reason to panic.
        assert_eq!(frames(&[0xff; 40]), Vec::<usize>::new());
        assert_eq!(frames(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).len(), 1);
    }
}
