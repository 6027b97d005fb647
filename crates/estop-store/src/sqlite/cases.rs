//! Incidents and escalations in SQLite.

use rusqlite::types::Value;
use rusqlite::{Connection, Params, Row, params};

use super::Sqlite;
use super::convert::Named;
use super::query::{Page, change, one};
use crate::cases::{CaseFilter, CaseStatus, Cases, Escalation, Incident, OpenCases};
use crate::error::StoreError;
use crate::journal::Durability;

const INCIDENTS: &str = "SELECT id, agent, run, seq, kind, opened_at, status, resolution, evidence, summary, version FROM incident";
const ESCALATIONS: &str =
    "SELECT id, agent, run, reason, opened_at, status, owner, notes, resolved_at, resolved_by, version,
    summary, facts FROM escalation";
/// The word stands in it: of a parameter SQLite does not know that the index of open ones fits.
const OPEN_CASES: &str = "SELECT (SELECT count(*) FROM incident WHERE status = 'open'),
    (SELECT count(*) FROM escalation WHERE status = 'open')";

impl Cases for Sqlite {
    fn open_incident(&self, incident: &Incident) -> Result<(), StoreError> {
        let incident = incident.clone();
        self.write(Durability::Process, move |connection| open_incident(connection, &incident))
    }

    fn incident(&self, id: &str) -> Result<Option<Incident>, StoreError> {
        self.read(|connection| one(connection, &format!("{INCIDENTS} WHERE id = ?"), [id], incident))
    }

    fn incidents(&self, filter: &CaseFilter, limit: usize) -> Result<Vec<Incident>, StoreError> {
        self.read(|connection| page(INCIDENTS, filter).read(connection, NEWEST_FIRST, limit, incident))
    }

    fn update_incident(&self, incident: &Incident) -> Result<u64, StoreError> {
        let i = incident.clone();
        self.write(Durability::Process, move |connection| {
            let sql = "UPDATE incident SET status = ?, resolution = ?, summary = ?, version = version + 1
                WHERE id = ? AND version = ?";
            let params = params![i.status.text(), i.resolution, i.summary, i.id, i.version];
            edit(connection, Edited { what: "incident", id: &i.id, version: i.version }, sql, params)
        })
    }

    fn open_cases(&self) -> Result<OpenCases, StoreError> {
        let counts = |row: &Row<'_>| Ok(OpenCases { incidents: row.get(0)?, escalations: row.get(1)? });
        Ok(self.read(|connection| one(connection, OPEN_CASES, [], counts))?.unwrap_or_default())
    }

    fn open_escalation(&self, escalation: &Escalation) -> Result<(), StoreError> {
        let escalation = escalation.clone();
        self.write(Durability::Process, move |connection| open_escalation(connection, &escalation))
    }

    fn escalation(&self, id: &str) -> Result<Option<Escalation>, StoreError> {
        self.read(|connection| one(connection, &format!("{ESCALATIONS} WHERE id = ?"), [id], escalation))
    }

    fn escalations(&self, filter: &CaseFilter, limit: usize) -> Result<Vec<Escalation>, StoreError> {
        self.read(|connection| page(ESCALATIONS, filter).read(connection, NEWEST_FIRST, limit, escalation))
    }

    fn update_escalation(&self, escalation: &Escalation) -> Result<u64, StoreError> {
        let e = escalation.clone();
        self.write(Durability::Process, move |connection| {
            let sql =
                "UPDATE escalation SET status = ?, owner = ?, notes = ?, resolved_at = ?, resolved_by = ?,
                version = version + 1 WHERE id = ? AND version = ?";
            let params =
                params![e.status.text(), e.owner, e.notes, e.resolved_at, e.resolved_by, e.id, e.version];
            edit(connection, Edited { what: "escalation", id: &e.id, version: e.version }, sql, params)
        })
    }
}

pub(super) fn open_incident(connection: &Connection, incident: &Incident) -> Result<(), StoreError> {
    let sql = "INSERT INTO incident (id, agent, run, seq, kind, opened_at, status, resolution, evidence, summary, version)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT (id) DO NOTHING";
    let i = incident;
    let params = params![
        i.id,
        i.agent,
        i.run,
        i.seq,
        i.kind,
        i.opened_at,
        i.status.text(),
        i.resolution,
        i.evidence,
        i.summary
    ];
    change(connection, sql, params)?;
    Ok(())
}

pub(super) fn open_escalation(connection: &Connection, escalation: &Escalation) -> Result<(), StoreError> {
    let sql = "INSERT INTO escalation (id, agent, run, reason, opened_at, status, owner, notes, resolved_at, resolved_by,
            summary, facts, version)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT (id) DO NOTHING";
    let e = escalation;
    let params = params![
        e.id,
        e.agent,
        e.run,
        e.reason,
        e.opened_at,
        e.status.text(),
        e.owner,
        e.notes,
        e.resolved_at,
        e.resolved_by,
        e.summary,
        e.facts
    ];
    change(connection, sql, params)?;
    Ok(())
}

const NEWEST_FIRST: &str = "opened_at DESC, id DESC";

fn page(select: &str, filter: &CaseFilter) -> Page {
    let page = Page::of(select).equal("agent", filter.agent.as_deref());
    let page = match filter.status {
        Some(CaseStatus::Open) => page.and("status = 'open'", []),
        Some(CaseStatus::Closed) => page.and("status = 'closed'", []),
        None => page,
    };
    match &filter.before {
        Some((opened_at, id)) => {
            page.and("(opened_at, id) < (?, ?)", [Value::from(*opened_at), Value::from(id.to_string())])
        }
        None => page,
    }
}

/// What someone changes, and the version he saw.
#[derive(Clone, Copy)]
struct Edited<'a> {
    what: &'static str,
    id: &'a str,
    version: u64,
}

fn edit(
    connection: &Connection,
    edited: Edited<'_>,
    sql: &str,
    params: impl Params,
) -> Result<u64, StoreError> {
    let Edited { what, id, version } = edited;
    if change(connection, sql, params)? == 1 {
        return Ok(version + 1);
    }
    let current = format!("SELECT version FROM {what} WHERE id = ?");
    let current = one(connection, &current, [id], |row| Ok(row.get(0)?))?;
    Err(current.map_or_else(
        || StoreError::NotFound { what, id: id.to_owned() },
        |current| StoreError::Conflict { current },
    ))
}

fn incident(row: &Row<'_>) -> Result<Incident, StoreError> {
    Ok(Incident {
        id: row.get(0)?,
        agent: row.get(1)?,
        run: row.get(2)?,
        seq: row.get(3)?,
        kind: row.get(4)?,
        opened_at: row.get(5)?,
        status: CaseStatus::parse(&row.get::<_, Box<str>>(6)?)?,
        resolution: row.get(7)?,
        evidence: row.get(8)?,
        summary: row.get(9)?,
        version: row.get(10)?,
    })
}

fn escalation(row: &Row<'_>) -> Result<Escalation, StoreError> {
    Ok(Escalation {
        id: row.get(0)?,
        agent: row.get(1)?,
        run: row.get(2)?,
        reason: row.get(3)?,
        opened_at: row.get(4)?,
        status: CaseStatus::parse(&row.get::<_, Box<str>>(5)?)?,
        owner: row.get(6)?,
        notes: row.get(7)?,
        resolved_at: row.get(8)?,
        resolved_by: row.get(9)?,
        version: row.get(10)?,
        summary: row.get(11)?,
        facts: row.get(12)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::migrate::{MIGRATIONS, migrate};

    #[test]
    fn st_3_open_cases_are_counted_by_an_index_that_has_only_them() -> rusqlite::Result<()> {
        let mut connection = Connection::open_in_memory()?;
        migrate(&mut connection, MIGRATIONS)?;
        let plan = |sql: &str| -> rusqlite::Result<String> {
            let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
            let steps: Vec<String> =
                statement.query_map([], |row| row.get("detail"))?.collect::<Result<_, _>>()?;
            Ok(steps.join("; "))
        };
        let counted = plan(OPEN_CASES)?;
        assert!(counted.contains("SEARCH incident USING COVERING INDEX incident_open"), "{counted}");
        assert!(counted.contains("SEARCH escalation USING COVERING INDEX escalation_open"), "{counted}");
        let listed = plan(&format!("{INCIDENTS} WHERE 1 AND status = 'open' ORDER BY {NEWEST_FIRST}"))?;
        assert!(listed.contains("incident_open") && !listed.contains("TEMP B-TREE"), "{listed}");
        Ok(())
    }
}
