//! Lets old records go: one segment at a time from the beginning, so that other writes come in between.

use std::collections::BTreeSet;

use estop_core::chain::Digest;
use estop_core::ids::Name;
use estop_core::journal::Base;
use rusqlite::{Connection, Row, params};

use super::convert::{capped, unreadable};
use super::journal::heads_at;
use super::packed::{BYTES, lines_of};
use super::query::{all, change, one};
use super::{Sqlite, compact};
use crate::error::StoreError;
use crate::journal::{BaseState, Durability, Prunable, Retention};
use crate::line;

/// Pages given back to the system in one step: 2 MB.
const PAGES_A_STEP: usize = 500;

/// The last record that was pruned; 0 = none.
pub(super) fn pruned_to(connection: &Connection) -> Result<u64, StoreError> {
    Ok(one(connection, "SELECT pruned_to FROM journal_mark", [], |row| Ok(row.get(0)?))?.unwrap_or(0))
}

/// The oldest segment, if it may go.
pub(super) fn prunable(
    connection: &Connection,
    retention: Retention,
) -> Result<Option<Prunable>, StoreError> {
    let oldest = "SELECT first_seq, last_seq FROM segment ORDER BY first_seq LIMIT 1";
    let oldest = one(connection, oldest, [], |row| Ok((row.get::<_, u64>(0)?, row.get::<_, u64>(1)?)))?;
    let Some((from_seq, to_seq)) = oldest else { return Ok(None) };
    if to_seq > bound(connection, retention)? {
        return Ok(None);
    }
    Ok(Some(Prunable { from_seq, to_seq, heads: heads_at(connection, to_seq)? }))
}

/// The last record that may go.
fn bound(connection: &Connection, retention: Retention) -> Result<u64, StoreError> {
    let Retention { before_wall, keep_bytes, checkpoint } = retention;
    let too_old = before_wall.map_or(Ok(0), |wall| {
        // The first segment that is too young keeps all that follow it, whatever their clocks said.
        let sql = "SELECT ifnull(min(first_seq), ?) FROM segment WHERE newest_wall >= ?";
        let first_kept = one(connection, sql, [i64::MAX, wall], |row| Ok(row.get::<_, u64>(0)?))?;
        Ok::<_, StoreError>(first_kept.unwrap_or(0).saturating_sub(1))
    })?;
    let too_much = keep_bytes.map_or(Ok(0), |keep| beyond(connection, keep))?;
    Ok(too_old.max(too_much).min(checkpoint))
}

/// The last record of the newest segment that does not fit into so many bytes any more.
fn beyond(connection: &Connection, keep: u64) -> Result<u64, StoreError> {
    let sql = format!("SELECT ifnull(sum({BYTES}), 0) FROM block WHERE first_seq > ?");
    let fresh = one(connection, &sql, [compact::indexed_to(connection)?], |row| Ok(row.get::<_, u64>(0)?))?;
    let mut bytes = fresh.unwrap_or(0);
    let mut statement =
        connection.prepare_cached("SELECT last_seq, bytes FROM segment ORDER BY first_seq DESC")?;
    let mut segments = statement.query([])?;
    while let Some(segment) = segments.next()? {
        bytes = bytes.saturating_add(segment.get(1)?);
        if bytes > keep {
            return Ok(segment.get(0)?);
        }
    }
    Ok(0)
}

/// Lets the segments go that end at `to_seq` or before, and keeps the states of their chains.
pub(super) fn prune(store: &Sqlite, to_seq: u64, bases: Vec<BaseState>) -> Result<(), StoreError> {
    let (first, chains) = store.read(|connection| {
        let sql = "SELECT first_seq FROM segment WHERE last_seq = ?";
        let first = one(connection, sql, [capped(to_seq)], |row| Ok(row.get::<_, u64>(0)?))?;
        let first =
            first.ok_or_else(|| StoreError::Invalid(format!("no segment ends with record {to_seq}")))?;
        Ok((first, chains(connection, to_seq)?))
    })?;
    let bases: Vec<(BaseState, [u8; 32])> = bases
        .into_iter()
        .map(|base| {
            let sha256 = Base::state_digest(&base.state).0;
            (base, sha256)
        })
        .collect();
    store.write(Durability::Process, move |connection| {
        // What goes leaves room for what comes: it works on a full disk too.
        change(connection, "DELETE FROM block WHERE first_seq <= ?", [capped(to_seq)])?;
        change(connection, "DELETE FROM segment WHERE first_seq <= ?", [capped(to_seq)])?;
        change(connection, "UPDATE journal_mark SET pruned_to = ?", [capped(to_seq)])?;
        for chain in &chains {
            // The newest of these rows stays: its heads are what the rest verifies from.
            let delete = "DELETE FROM segment_chain WHERE chain = (SELECT id FROM chain WHERE name = ?1) AND first_seq <
                (SELECT max(first_seq) FROM segment_chain WHERE chain = (SELECT id FROM chain WHERE name = ?1)
                    AND first_seq <= ?2)";
            change(connection, delete, params![chain, capped(first)])?;
            let forget = "UPDATE segment_chain SET seqs = NULL
                WHERE chain = (SELECT id FROM chain WHERE name = ?) AND first_seq = ?";
            change(connection, forget, params![chain, capped(first)])?;
        }
        for (BaseState { chain, state }, sha256) in &bases {
            let put = "INSERT OR REPLACE INTO base_state (chain, sha256, state) VALUES (?, ?, ?)";
            change(connection, put, params![chain, sha256, state])?;
        }
        Ok(())
    })
}

/// The chains that have records up to this one.
fn chains(connection: &Connection, to_seq: u64) -> Result<BTreeSet<Box<str>>, StoreError> {
    let mut chains = BTreeSet::new();
    let mut statement =
        connection.prepare_cached("SELECT lines, raw_bytes, digests FROM block WHERE first_seq <= ?")?;
    let mut blocks = statement.query([capped(to_seq)])?;
    while let Some(block) = blocks.next()? {
        for line in line::each(&lines_of(block, 0)?) {
            let head = line::head(line).ok_or_else(|| unreadable("a journal line"))?;
            if !chains.contains(head.chain.as_ref()) {
                chains.insert(head.chain.as_ref().into());
            }
        }
    }
    Ok(chains)
}

pub(super) fn base_state(connection: &Connection, chain: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let sql = "SELECT sha256, state FROM base_state WHERE chain = ?";
    let row = |row: &Row<'_>| Ok((row.get::<_, [u8; 32]>(0)?, row.get::<_, Vec<u8>>(1)?));
    let Some((sha256, state)) = one(connection, sql, [chain], row)? else { return Ok(None) };
    if Base::state_digest(&state).0 != sha256 {
        return Err(unreadable(&format!("the state of chain `{chain}` after what was pruned")));
    }
    Ok(Some(state))
}

pub(super) fn base_digests(connection: &Connection) -> Result<Vec<(Name, Digest)>, StoreError> {
    let sql = "SELECT chain, sha256 FROM base_state ORDER BY chain";
    all(connection, sql, [], |row| Ok((row.get(0)?, Digest(row.get(1)?))))
}

/// Gives free pages back to the system, down to a quarter of the file: what is to come fits in there, and each page
/// given back costs moving another into its place. Whether more are to be given.
pub(super) fn give_back(connection: &Connection) -> Result<bool, StoreError> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, usize>(0));
    let surplus = || Ok::<_, StoreError>(number("freelist_count")?.saturating_sub(number("page_count")? / 4));
    let before = surplus()?;
    if before == 0 {
        return Ok(false);
    }
    let mut statement =
        connection.prepare(&format!("PRAGMA incremental_vacuum({})", before.min(PAGES_A_STEP)))?;
    let mut pages = statement.query([])?;
    while pages.next()?.is_some() {}
    let after = surplus()?;
    // Without progress there is nothing more to be had.
    Ok(after > 0 && after < before)
}
