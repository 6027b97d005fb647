//! Lets old records go: whole segments from the beginning, in steps, so that other writes come in between.

use rusqlite::Connection;

use super::convert::capped;
use super::query::{all, change, one};
use super::{Sqlite, append};
use crate::error::StoreError;
use crate::journal::{Durability, Journal, Retention};

/// Segments that go in one step: 16 MB.
const SEGMENTS_A_STEP: i64 = 16;
/// Events that go in one step.
const EVENTS_A_STEP: i64 = 2000;
/// Chains whose index is swept in one step.
const CHAINS_A_STEP: i64 = 500;
/// Pages given back to the system in one step: 8 MB.
const PAGES_A_STEP: usize = 2000;

/// Deletes what may go and gives the room back.
pub(super) fn prune(store: &Sqlite, retention: Retention) -> Result<(), StoreError> {
    if store.compact() == Err(StoreError::Full) {
        // Merging needs a little room of its own.
        delete_old(store, retention)?;
        store.compact()?;
    }
    delete_old(store, retention)?;
    sweep_index(store)?;
    if let Some(wall) = retention.events_before_wall {
        repeat(store, delete_events, wall)?;
    }
    repeat(store, vacuum, 0)
}

fn delete_old(store: &Sqlite, retention: Retention) -> Result<(), StoreError> {
    let bound = store.read(|connection| bound(connection, retention))?;
    repeat(store, delete_segments, capped(bound))
}

/// Takes a step as long as there is something to do, each in a commit of its own.
fn repeat(
    store: &Sqlite,
    step: fn(&Connection, i64) -> Result<usize, StoreError>,
    at: i64,
) -> Result<(), StoreError> {
    while store.write(Durability::Process, move |connection| step(connection, at))? > 0 {}
    Ok(())
}

/// The last record that was pruned; 0 = none.
pub(super) fn pruned_to(connection: &Connection) -> Result<u64, StoreError> {
    Ok(one(connection, "SELECT pruned_to FROM journal_mark", [], |row| Ok(row.get(0)?))?.unwrap_or(0))
}

/// The last record that may go.
fn bound(connection: &Connection, retention: Retention) -> Result<u64, StoreError> {
    let Retention { before_wall, keep_last, checkpoint, .. } = retention;
    if before_wall.is_none() && keep_last.is_none() {
        return Ok(0);
    }
    let mut bound = checkpoint.min(unneeded(connection)?);
    if let Some(keep) = keep_last {
        bound = bound.min(append::last_seq(connection)?.saturating_sub(keep));
    }
    if let Some(wall) = before_wall {
        // The first segment that is too young keeps all that follow it, whatever their clocks said.
        let sql = "SELECT ifnull(min(first_seq), ?) FROM segment WHERE newest_wall >= ?";
        let first_kept = one(connection, sql, [i64::MAX, wall], |row| Ok(row.get::<_, u64>(0)?))?;
        bound = bound.min(first_kept.unwrap_or(0).saturating_sub(1));
    }
    Ok(bound)
}

/// The last record that no agent's state still needs. An agent needs all its records after its snapshot; without a
/// snapshot, all of them.
fn unneeded(connection: &Connection) -> Result<u64, StoreError> {
    // The first segment an agent needs is the one its snapshot ends in, if a later record of it is there too, or else
    // the next that has any.
    let sql = "SELECT min(coalesce(
            (SELECT first_seq FROM (SELECT first_seq, last_record FROM segment_chain WHERE chain = c.id AND first_seq <= c.seq
                ORDER BY first_seq DESC LIMIT 1) WHERE last_record > c.seq AND first_seq > ?1),
            (SELECT first_seq FROM segment_chain WHERE chain = c.id AND first_seq > max(c.seq, ?1)
                ORDER BY first_seq LIMIT 1)))
        FROM (SELECT chain.id AS id, ifnull(agent_snapshot.seq, 0) AS seq FROM chain
            JOIN agent ON agent.name = chain.name AND agent.deleted = 0
            LEFT JOIN agent_snapshot ON agent_snapshot.agent = agent.name) AS c";
    let needed: Option<Option<u64>> = one(connection, sql, [pruned_to(connection)?], |row| Ok(row.get(0)?))?;
    Ok(needed.flatten().map_or(u64::MAX, |first| first.saturating_sub(1)))
}

/// Deletes some of the segments that end at `bound` or before; how many.
fn delete_segments(connection: &Connection, bound: i64) -> Result<usize, StoreError> {
    let sql = "SELECT last_seq FROM segment WHERE last_seq <= ? ORDER BY first_seq LIMIT ?";
    let ends = all(connection, sql, [bound, SEGMENTS_A_STEP], |row| Ok(row.get::<_, i64>(0)?))?;
    let Some(last) = ends.last() else { return Ok(0) };
    change(connection, "DELETE FROM block WHERE first_seq <= ?", [last])?;
    change(connection, "DELETE FROM segment WHERE first_seq <= ?", [last])?;
    change(connection, "UPDATE journal_mark SET pruned_to = ?", [last])?;
    Ok(ends.len())
}

/// Drops index rows of segments that are gone, but for the newest of each chain: its heads are what the rest
/// verifies from.
fn sweep_index(store: &Sqlite) -> Result<(), StoreError> {
    let mut after = 0;
    loop {
        let swept = store.write(Durability::Process, move |connection| sweep_chains(connection, after))?;
        let Some(last) = swept else { return Ok(()) };
        after = last;
    }
}

/// Sweeps some chains; the last of them.
fn sweep_chains(connection: &Connection, after: i64) -> Result<Option<i64>, StoreError> {
    let to = capped(pruned_to(connection)?);
    let sql = "SELECT id FROM chain WHERE id > ? ORDER BY id LIMIT ?";
    let chains = all(connection, sql, [after, CHAINS_A_STEP], |row| Ok(row.get::<_, i64>(0)?))?;
    for chain in &chains {
        let delete = "DELETE FROM segment_chain WHERE chain = ?1 AND first_seq <
            (SELECT max(first_seq) FROM segment_chain WHERE chain = ?1 AND first_seq <= ?2)";
        change(connection, delete, [*chain, to])?;
    }
    Ok(chains.last().copied())
}

/// Deletes some of the events older than `wall`; how many. Their order is that of their records, so the first that
/// is young enough ends it.
fn delete_events(connection: &Connection, wall: i64) -> Result<usize, StoreError> {
    let sql = "DELETE FROM event WHERE (seq, nth) IN
        (SELECT seq, nth FROM (SELECT seq, nth, wall FROM event ORDER BY seq, nth LIMIT ?) WHERE wall < ?)";
    change(connection, sql, [EVENTS_A_STEP, wall])
}

/// Gives free pages back to the system, down to a quarter of the file: what is to come fits in there, and each page
/// given back costs moving another into its place. How many more are to be given.
fn vacuum(connection: &Connection, _: i64) -> Result<usize, StoreError> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, usize>(0));
    let surplus = || Ok::<_, StoreError>(number("freelist_count")?.saturating_sub(number("page_count")? / 4));
    let before = surplus()?;
    if before == 0 {
        return Ok(0);
    }
    let mut statement =
        connection.prepare(&format!("PRAGMA incremental_vacuum({})", before.min(PAGES_A_STEP)))?;
    let mut pages = statement.query([])?;
    while pages.next()?.is_some() {}
    let after = surplus()?;
    // Without progress there is nothing more to be had.
    Ok(if after < before { after } else { 0 })
}
