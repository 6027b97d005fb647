//! Stores a batch of the journal: one row for the lines, and a row for each thing that changed.

use rusqlite::{Connection, params};

use super::convert::{Named, StandingColumns, checksum};
use super::packed::{self, Packed};
use super::query::{change, one};
use super::{cases, ledger, meta, runs};
use crate::agents::Origin;
use crate::error::StoreError;
use crate::journal::{AgentSeen, JournalBatch, NewEvent, Snapshot, StandingChange, TailMark};

/// Stores a batch.
pub(super) fn append(
    connection: &Connection,
    batch: &JournalBatch,
    packed: Option<&Packed>,
) -> Result<(), StoreError> {
    if let Some(packed) = packed {
        append_lines(connection, packed)?;
    }
    append_events(connection, &batch.events)?;
    batch.seen.iter().try_for_each(|seen| see(connection, seen))?;
    batch.standings.iter().try_for_each(|change| set_standing(connection, change))?;
    batch.snapshots.iter().try_for_each(|snapshot| put_snapshot(connection, snapshot))?;
    batch.runs.iter().try_for_each(|run| runs::put(connection, run))?;
    batch.spend.iter().try_for_each(|spend| ledger::add(connection, spend))?;
    batch.fleet.iter().try_for_each(|account| meta::put(connection, crate::FLEET_ACCOUNT, account))?;
    batch.incidents.iter().try_for_each(|incident| cases::open_incident(connection, incident))?;
    batch.escalations.iter().try_for_each(|escalation| cases::open_escalation(connection, escalation))?;
    batch.tail.iter().try_for_each(|tail| set_tail(connection, tail))
}

/// The newest record; 0 if there is none.
pub(super) fn last_seq(connection: &Connection) -> Result<u64, StoreError> {
    let sql = "SELECT coalesce((SELECT last_seq FROM block ORDER BY first_seq DESC LIMIT 1),
        (SELECT pruned_to FROM journal_mark), 0)";
    Ok(one(connection, sql, [], |row| Ok(row.get(0)?))?.unwrap_or(0))
}

fn append_lines(connection: &Connection, packed: &Packed) -> Result<(), StoreError> {
    let (expected, found) = (last_seq(connection)? + 1, packed.tally.first_seq);
    if found != expected {
        return Err(StoreError::OutOfOrder { expected, found });
    }
    packed.blocks.iter().try_for_each(|block| packed::insert(connection, block))
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

fn set_tail(connection: &Connection, tail: &TailMark) -> Result<(), StoreError> {
    let update = "UPDATE journal_mark SET tail_generation = ?, tail_offset = ?";
    change(connection, update, params![tail.generation, tail.offset])?;
    Ok(())
}
