//! Stores what follows from some records: a row for each thing that changed, and how far that goes.

use estop_core::ids::Hash64;
use rusqlite::{Connection, params};

use super::convert::{Named, StandingColumns, capped, checksum};
use super::query::{change, one};
use super::{cases, ledger, meta, runs};
use crate::agents::Origin;
use crate::error::StoreError;
use crate::journal::{AgentSeen, Cursor, JournalBatch, NewEvent, Snapshot, StandingChange};

/// Stores a batch.
pub(super) fn append(connection: &Connection, batch: &JournalBatch) -> Result<(), StoreError> {
    batch.cursor.iter().try_for_each(|cursor| set_cursor(connection, cursor))?;
    append_events(connection, &batch.events)?;
    batch.seen.iter().try_for_each(|seen| see(connection, seen))?;
    batch.standings.iter().try_for_each(|change| set_standing(connection, change))?;
    batch.snapshots.iter().try_for_each(|snapshot| put_snapshot(connection, snapshot))?;
    batch.runs.iter().try_for_each(|run| runs::put(connection, run))?;
    batch.spend.iter().try_for_each(|spend| ledger::add(connection, spend))?;
    batch.fleet.iter().try_for_each(|account| meta::put(connection, crate::FLEET_ACCOUNT, account))?;
    batch.escalations.iter().try_for_each(|escalation| cases::open_escalation(connection, escalation))?;
    // In the order of their records, so that rows are the same however these were gathered.
    let mut updates = batch.case_updates.iter().peekable();
    for incident in &batch.incidents {
        while let Some(update) = updates.next_if(|update| update.entry.seq <= incident.seq) {
            cases::update(connection, update)?;
        }
        cases::open_incident(connection, incident)?;
    }
    updates.try_for_each(|update| cases::update(connection, update))
}

/// Up to which record rows were made; `None` in a new database.
pub(super) fn cursor(connection: &Connection) -> Result<Option<Cursor>, StoreError> {
    let sql = "SELECT journal, seq FROM journal_cursor";
    one(connection, sql, [], |row| {
        let journal = Hash64(row.get::<_, i64>(0)?.cast_unsigned());
        Ok(Cursor { journal, seq: row.get(1)? })
    })
}

/// Rows are never made twice: they sum up.
fn set_cursor(connection: &Connection, new: &Cursor) -> Result<(), StoreError> {
    let known = cursor(connection)?;
    if let Some(known) = known.filter(|known| known.seq > new.seq) {
        return Err(StoreError::OutOfOrder { expected: known.seq + 1, found: new.seq });
    }
    let upsert = "INSERT INTO journal_cursor (one, journal, seq, indexed_segment) VALUES (1, ?1, ?2, 0)
        ON CONFLICT (one) DO UPDATE SET journal = ?1, seq = ?2";
    let journal = new.journal.0.cast_signed();
    change(connection, upsert, params![journal, capped(new.seq)])?;
    Ok(())
}

fn append_events(connection: &Connection, events: &[NewEvent]) -> Result<(), StoreError> {
    for NewEvent { seq, wall, agent, event_type, detail } in events {
        let insert = "INSERT INTO event (seq, nth, wall, agent, event_type, detail)
            VALUES (?1, (SELECT ifnull(max(nth) + 1, 0) FROM event WHERE seq = ?1), ?2, ?3, ?4, ?5)";
        change(connection, insert, params![seq, wall, agent, event_type, detail])?;
    }
    Ok(())
}

/// A deleted agent that calls stays deleted: whoever lets it in again inserts it again.
fn see(connection: &Connection, seen: &AgentSeen) -> Result<(), StoreError> {
    let upsert = "INSERT INTO agent (name, active, paused, standing_since_mono, origin, version, created_at, updated_at,
            last_seen_at, deleted)
        VALUES (?1, 1, 0, 0, ?2, 1, ?3, ?3, ?3, 0)
        ON CONFLICT (name) DO UPDATE SET last_seen_at = max(ifnull(last_seen_at, ?3), ?3)";
    change(connection, upsert, params![seen.agent, Origin::Traffic.text(), seen.at])?;
    Ok(())
}

fn set_standing(connection: &Connection, new: &StandingChange) -> Result<(), StoreError> {
    let s = StandingColumns::from(new.standing);
    let upsert = "INSERT INTO agent (name, active, deactivated_by, deactivation_cause, paused, pause_cause,
            standing_since_mono, origin, version, created_at, updated_at, deleted)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, ?9, ?9, 0)
        ON CONFLICT (name) DO UPDATE SET active = ?2, deactivated_by = ?3, deactivation_cause = ?4, paused = ?5,
            pause_cause = ?6, standing_since_mono = ?7, version = version + 1, updated_at = ?9";
    let params = params![
        new.agent,
        s.active,
        s.deactivated_by,
        s.deactivation_cause,
        s.paused,
        s.pause_cause,
        s.since_mono,
        Origin::Traffic.text(),
        new.at,
    ];
    change(connection, upsert, params)?;
    Ok(())
}

/// A snapshot never goes back: of two, the one that covers more stays.
fn put_snapshot(connection: &Connection, snapshot: &Snapshot) -> Result<(), StoreError> {
    let upsert = "INSERT INTO agent_snapshot (agent, seq, state, xxh3) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (agent) DO UPDATE SET seq = ?2, state = ?3, xxh3 = ?4 WHERE seq <= ?2";
    let Snapshot { agent, seq, state } = snapshot;
    change(connection, upsert, params![agent, seq, state, checksum(state)])?;
    Ok(())
}
