//! Runs in SQLite.

use estop_core::money::NanoUsd;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params};

use super::Sqlite;
use super::convert::capped;
use super::query::{Page, change, one};
use crate::error::StoreError;
use crate::journal::Durability;
use crate::runs::{Run, RunFilter, RunRepo};

const SELECT: &str =
    "SELECT id, agent, name, state, attended, role, issue, branch, session, labels, started_at, ended_at,
    counters, spent_nano, tokens, summary FROM run";

impl RunRepo for Sqlite {
    fn put_run(&self, run: &Run) -> Result<(), StoreError> {
        let run = run.clone();
        self.write(Durability::Process, move |connection| put(connection, &run))
    }

    fn set_run_state(&self, id: &str, state: &str, ended_at: Option<i64>) -> Result<(), StoreError> {
        let (id, state) = (id.to_owned(), state.to_owned());
        self.write(Durability::Process, move |connection| {
            let update = "UPDATE run SET state = ?, ended_at = ? WHERE id = ?";
            change(connection, update, params![state, ended_at, id])?;
            Ok(())
        })
    }

    fn run(&self, id: &str) -> Result<Option<Run>, StoreError> {
        self.read(|connection| one(connection, &format!("{SELECT} WHERE id = ?"), [id], run))
    }

    fn runs(&self, filter: &RunFilter, limit: usize) -> Result<Vec<Run>, StoreError> {
        let mut page =
            Page::of(SELECT).equal("agent", filter.agent.as_deref()).equal("state", filter.state.as_deref());
        if let Some((started_at, id)) = &filter.before {
            let values = [Value::from(*started_at), Value::from(id.to_string())];
            page = page.and("(started_at, id) < (?, ?)", values);
        }
        self.read(|connection| page.read(connection, "started_at DESC, id DESC", limit, run))
    }
}

pub(super) fn put(connection: &Connection, run: &Run) -> Result<(), StoreError> {
    let sql =
        "INSERT OR REPLACE INTO run (id, agent, name, state, attended, role, issue, branch, session, labels,
            started_at, ended_at, counters, spent_nano, tokens, summary)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let r = run;
    let params = params![
        r.id,
        r.agent,
        r.name,
        r.state,
        r.attended,
        r.role,
        r.issue,
        r.branch,
        r.session,
        r.labels,
        r.started_at,
        r.ended_at,
        r.counters,
        capped(r.spent.0),
        capped(r.tokens),
        r.summary,
    ];
    change(connection, sql, params)?;
    Ok(())
}

fn run(row: &Row<'_>) -> Result<Run, StoreError> {
    Ok(Run {
        id: row.get(0)?,
        agent: row.get(1)?,
        name: row.get(2)?,
        state: row.get(3)?,
        attended: row.get(4)?,
        role: row.get(5)?,
        issue: row.get(6)?,
        branch: row.get(7)?,
        session: row.get(8)?,
        labels: row.get(9)?,
        started_at: row.get(10)?,
        ended_at: row.get(11)?,
        counters: row.get(12)?,
        spent: NanoUsd(row.get(13)?),
        tokens: row.get(14)?,
        summary: row.get(15)?,
    })
}
