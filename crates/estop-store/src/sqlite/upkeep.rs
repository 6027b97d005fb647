//! Lets old rows go, some at a time.

use rusqlite::Connection;

use super::Sqlite;
use super::evidence::overwritten;
use super::query::change;
use crate::error::StoreError;
use crate::journal::Durability;
use crate::upkeep::{RetentionCutoffs, Upkeep};

/// Rows of a table that go in one step: a few milliseconds.
const ROWS_A_STEP: i64 = 500;
/// Pages given back to the system in one step: 2 MB.
const PAGES_A_STEP: usize = 500;

/// Incidents, and as many escalations. Beyond it the oldest go, resolved ones first: whoever opens a hundred thousand
/// cases is no person.
const CASES_MAX: i64 = 100_000;
/// Incidents whose steps are kept, some 60 KB each at most. Beyond it the oldest go.
const EVIDENCE_MAX: i64 = 10_000;
/// Runs. Beyond it the oldest that ended go.
const RUNS_MAX: i64 = 1_000_000;

impl Upkeep for Sqlite {
    fn sweep(&self, old: RetentionCutoffs) -> Result<usize, StoreError> {
        let (steps, others) = self.write_settings(move |connection| {
            // Texts of agents are gone for good; of the rest nobody minds what is left in free pages.
            let steps = overwritten(connection, |connection| sweep_evidence(connection, old))?;
            Ok((steps, sweep(connection, old)?))
        })?;
        if steps > 0 {
            self.shared.writer.clear_log();
        }
        Ok(steps + others)
    }

    fn give_back(&self) -> Result<bool, StoreError> {
        self.write(Durability::Process, give_back)
    }

    fn lost_file(&self) -> Option<String> {
        self.shared.files.lost()
    }
}

fn sweep(connection: &Connection, old: RetentionCutoffs) -> Result<usize, StoreError> {
    let some = |sql: &str, before: i64| change(connection, sql, [before, ROWS_A_STEP]);
    let mut gone = 0;
    gone += some(
        "DELETE FROM session WHERE sha256 IN (SELECT sha256 FROM session WHERE expires_at <= ? LIMIT ?)",
        old.now,
    )?;
    if let Some(before) = old.events_before {
        // Their order is that of their records, so the first that is young enough ends it.
        let sql = "DELETE FROM event WHERE (seq, nth) IN
            (SELECT seq, nth FROM (SELECT seq, nth, wall FROM event ORDER BY seq, nth LIMIT ?2) WHERE wall < ?1)";
        gone += some(sql, before)?;
    }
    if let Some(before) = old.cases_before {
        let sql = "DELETE FROM incident WHERE id IN
            (SELECT id FROM incident WHERE opened_at < ?1 AND ifnull(resolved_at, opened_at) < ?1 AND status = 'resolved'
                ORDER BY opened_at LIMIT ?2)";
        gone += some(sql, before)?;
        let sql = "DELETE FROM escalation WHERE id IN
            (SELECT id FROM escalation WHERE opened_at < ?1 AND ifnull(resolved_at, opened_at) < ?1 AND status = 'resolved'
                ORDER BY opened_at LIMIT ?2)";
        gone += some(sql, before)?;
    }
    if let Some(before) = old.runs_before {
        let sql = "DELETE FROM run WHERE id IN
            (SELECT id FROM run WHERE started_at < ? AND ended_at IS NOT NULL ORDER BY started_at LIMIT ?)";
        gone += some(sql, before)?;
    }
    if let Some(day) = old.spend_before_day {
        let sql = "DELETE FROM spend WHERE (day, agent, run, model, role, issue, labels) IN
            (SELECT day, agent, run, model, role, issue, labels FROM spend WHERE day < ? ORDER BY day LIMIT ?)";
        gone += some(sql, day.into())?;
    }
    if let Some(before) = old.alerts_before {
        let sql = "DELETE FROM outbox WHERE id IN
            (SELECT id FROM outbox WHERE status <> 'waiting' AND created_at < ? LIMIT ?)";
        gone += some(sql, before)?;
    }
    if let Some(before) = old.access_before {
        let sql = "DELETE FROM token WHERE id IN
            (SELECT id FROM token WHERE min(ifnull(revoked_at, expires_at), ifnull(expires_at, revoked_at)) < ? LIMIT ?)";
        gone += some(sql, before)?;
        let sql = "DELETE FROM agent_key WHERE id IN (SELECT id FROM agent_key WHERE revoked_at < ? LIMIT ?)";
        gone += some(sql, before)?;
    }
    Ok(gone + beyond(connection)?)
}

/// Steps of incidents that are too old, or beyond what there may be of them.
fn sweep_evidence(connection: &Connection, old: RetentionCutoffs) -> Result<usize, StoreError> {
    let mut gone = 0;
    if let Some(before) = old.evidence_before {
        let sql = "DELETE FROM evidence WHERE incident IN
            (SELECT incident FROM evidence WHERE stored_at < ? ORDER BY stored_at LIMIT ?)";
        gone += change(connection, sql, [before, ROWS_A_STEP])?;
    }
    let watched = "evidence WHERE NOT EXISTS (SELECT 1 FROM incident WHERE id = evidence.incident)";
    let limit = surplus(watched, WATCHED_MAX);
    let sql = format!(
        "DELETE FROM evidence WHERE incident IN (SELECT incident FROM {watched} ORDER BY stored_at LIMIT {limit})"
    );
    gone += change(connection, &sql, [])?;
    let limit = surplus("evidence", EVIDENCE_MAX);
    let sql = format!(
        "DELETE FROM evidence WHERE incident IN (SELECT incident FROM evidence ORDER BY stored_at LIMIT {limit})"
    );
    Ok(gone + change(connection, &sql, [])?)
}

/// Steps of what was only watched, beyond which the oldest go: they must not push out those of incidents.
const WATCHED_MAX: i64 = 1_000;

/// How many rows of a table are beyond what there may be, as SQL.
fn surplus(table: &str, max: i64) -> String {
    format!("min({ROWS_A_STEP}, max(0, (SELECT count(*) FROM {table}) - {max}))")
}

/// Rows beyond what there may be of them.
fn beyond(connection: &Connection) -> Result<usize, StoreError> {
    let mut gone = 0;
    for table in ["incident", "escalation"] {
        let limit = surplus(table, CASES_MAX);
        let sql = format!(
            "DELETE FROM {table} WHERE id IN
                (SELECT id FROM {table} ORDER BY status <> 'resolved', opened_at, id LIMIT {limit})"
        );
        gone += change(connection, &sql, [])?;
    }
    let limit = surplus("run", RUNS_MAX);
    let sql = format!(
        "DELETE FROM run WHERE id IN
            (SELECT id FROM run ORDER BY ended_at IS NULL, started_at, id LIMIT {limit})"
    );
    Ok(gone + change(connection, &sql, [])?)
}

/// Gives free pages back to the system, down to a quarter of the file: what is to come fits in there, and each page
/// given back costs moving another into its place. Whether more are to be given.
fn give_back(connection: &Connection) -> Result<bool, StoreError> {
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
