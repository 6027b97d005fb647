//! Incidents and escalations in SQLite.

use estop_core::ids::Name;
use estop_core::system::CaseStep;
use rusqlite::types::Value;
use rusqlite::{Connection, Params, Row, params};

use super::Sqlite;
use super::convert::Named;
use super::query::{Page, all, change, one};
use crate::cases::{
    CaseEntry, CaseFilter, CaseStatus, CaseTarget, CaseUpdate, Cases, Escalation, Incident, OpenCases,
    StatusFilter,
};
use crate::error::StoreError;
use crate::journal::Durability;

const INCIDENTS: &str =
    "SELECT id, agent, run, seq, kind, opened_at, status, resolution, evidence, summary, version,
    resolved_at, history, earlier, later FROM incident";
const COUNT: &str = "SELECT count(*) FROM incident";
const ESCALATIONS: &str =
    "SELECT id, agent, run, reason, opened_at, status, owner, seq, resolved_at, resolved_by, version,
    summary, facts, history FROM escalation";
/// The word stands in it: of a parameter SQLite does not know that the index of open ones fits.
const OPEN_CASES: &str = "SELECT (SELECT count(*) FROM incident WHERE status <> 'resolved'),
    (SELECT count(*) FROM escalation WHERE status <> 'resolved')";
/// A stop so soon after one of the same kind, or after it was resolved, reopens it.
const REOPENS_WITHIN_MS: i64 = 3_600_000;
/// What is remembered of who did what with a case. Beyond it steps still count, but are in the journal alone.
const HISTORY_MAX: usize = 200;

impl Cases for Sqlite {
    fn open_incident(&self, incident: &Incident) -> Result<(), StoreError> {
        let incident = incident.clone();
        self.write(Durability::Process, move |connection| open_incident(connection, &incident))
    }

    fn incident(&self, id: &str) -> Result<Option<Incident>, StoreError> {
        self.read(|connection| one(connection, &format!("{INCIDENTS} WHERE id = ?"), [id], incident))
    }

    fn count_incidents(&self, filter: &CaseFilter) -> Result<u64, StoreError> {
        let all = CaseFilter { before: None, ..filter.clone() };
        let count = |row: &Row<'_>| Ok(row.get(0)?);
        let counted = self.read(|connection| page(COUNT, &all).read(connection, "1", 1, count))?;
        Ok(counted.first().copied().unwrap_or_default())
    }

    fn incidents(&self, filter: &CaseFilter, limit: usize) -> Result<Vec<Incident>, StoreError> {
        self.read(|connection| page(INCIDENTS, filter).read(connection, NEWEST_FIRST, limit, incident))
    }

    fn update_case(&self, case_update: &CaseUpdate) -> Result<(), StoreError> {
        let case_update = case_update.clone();
        self.write(Durability::Process, move |connection| update(connection, &case_update))
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
}

pub(super) fn open_incident(connection: &Connection, incident: &Incident) -> Result<(), StoreError> {
    let sql =
        "INSERT INTO incident (id, agent, run, seq, kind, opened_at, status, resolution, evidence, summary,
            resolved_at, history, version)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT (id) DO NOTHING";
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
        i.summary,
        i.resolved_at,
        written(&i.history)?
    ];
    if change(connection, sql, params)? == 0 {
        return Ok(());
    }
    let newest_of_kind = "SELECT id, max(opened_at, ifnull(resolved_at, opened_at)) FROM incident
        WHERE agent = ?1 AND kind = ?2 AND id <> ?3 AND seq < ?4 ORDER BY opened_at DESC, id DESC LIMIT 1";
    let before: Option<(Name, i64)> =
        one(connection, newest_of_kind, params![i.agent, i.kind, i.id, i.seq], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    if let Some((earlier, at)) = before
        && at >= i.opened_at.saturating_sub(REOPENS_WITHIN_MS)
    {
        change(connection, "UPDATE incident SET earlier = ?2 WHERE id = ?1", params![i.id, earlier])?;
        change(connection, "UPDATE incident SET later = ?2 WHERE id = ?1", params![earlier, i.id])?;
    }
    Ok(())
}

pub(super) fn open_escalation(connection: &Connection, escalation: &Escalation) -> Result<(), StoreError> {
    let sql = "INSERT INTO escalation (id, agent, run, reason, opened_at, status, owner, seq, resolved_at, resolved_by,
            summary, facts, history, version)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT (id) DO NOTHING";
    let e = escalation;
    let params = params![
        e.id,
        e.agent,
        e.run,
        e.reason,
        e.opened_at,
        e.status.text(),
        e.owner,
        e.seq,
        e.resolved_at,
        e.resolved_by,
        e.summary,
        e.facts,
        written(&e.history)?
    ];
    change(connection, sql, params)?;
    Ok(())
}

/// Changes cases as a record says; what is gone by now stays so.
pub(super) fn update(connection: &Connection, update: &CaseUpdate) -> Result<(), StoreError> {
    let CaseUpdate { target, entry } = update;
    let (table, found) = match target {
        CaseTarget::Incident(id) => ("incident", history_of(connection, INCIDENT_BY_ID, params![id])?),
        CaseTarget::Escalation(id) => ("escalation", history_of(connection, ESCALATION_BY_ID, params![id])?),
        CaseTarget::IncidentsOf(agent) => {
            ("incident", history_of(connection, INCIDENTS_OF, params![agent, entry.seq])?)
        }
        CaseTarget::EscalationsOf { agent, run } => {
            ("escalation", history_of(connection, ESCALATIONS_OF, params![agent, entry.seq, run])?)
        }
    };
    found.into_iter().try_for_each(|(id, history)| add_step(connection, table, &id, history, entry))
}

const INCIDENT_BY_ID: &str = "SELECT id, history FROM incident WHERE id = ?1";
const ESCALATION_BY_ID: &str = "SELECT id, history FROM escalation WHERE id = ?1";
/// What was opened after an answer is not answered by it.
const INCIDENTS_OF: &str =
    "SELECT id, history FROM incident WHERE status <> 'resolved' AND agent = ?1 AND seq < ?2";
const ESCALATIONS_OF: &str =
    "SELECT id, history FROM escalation WHERE status <> 'resolved' AND agent = ?1 AND seq < ?2 AND run IS ?3";

fn history_of(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<Vec<(Name, Vec<CaseEntry>)>, StoreError> {
    all(connection, sql, params, |row| Ok((row.get(0)?, read_history(row, 1)?)))
}

fn add_step(
    connection: &Connection,
    table: &str,
    id: &Name,
    mut history: Vec<CaseEntry>,
    entry: &CaseEntry,
) -> Result<(), StoreError> {
    if history.len() < HISTORY_MAX {
        history.push(entry.clone());
    }
    let set = |columns: &str| {
        format!("UPDATE {table} SET history = ?2, version = version + 1{columns} WHERE id = ?1")
    };
    let is_incident = table == "incident";
    let status = match entry.step {
        CaseStep::Acknowledged => Some((CaseStatus::Acknowledged, None)),
        CaseStep::Resolved => Some((CaseStatus::Resolved, Some(entry.at))),
        CaseStep::Reopened => Some((CaseStatus::Open, None)),
        CaseStep::Assigned | CaseStep::Noted => None,
    };
    let history = written(&history)?;
    if let Some((status, resolved_at)) = status {
        // Of an escalation it is kept who resolved it, of an incident what was found out.
        let (column, value) = if is_incident {
            ("resolution", resolved_at.and(entry.note.as_deref()))
        } else {
            ("resolved_by", resolved_at.map(|_| &*entry.by))
        };
        let sql = set(&format!(", status = ?3, resolved_at = ?4, {column} = ?5"));
        change(connection, &sql, params![id, history, status.text(), resolved_at, value])?;
    } else if entry.step == CaseStep::Assigned && !is_incident {
        change(connection, &set(", owner = ?3"), params![id, history, entry.owner])?;
    } else {
        change(connection, &set(""), params![id, history])?;
    }
    Ok(())
}

fn written(history: &[CaseEntry]) -> Result<String, StoreError> {
    serde_json::to_string(history).map_err(|error| StoreError::Invalid(error.to_string()))
}

fn read_history(row: &Row<'_>, column: usize) -> Result<Vec<CaseEntry>, StoreError> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|error| StoreError::Corrupt(error.to_string()))
}

const NEWEST_FIRST: &str = "opened_at DESC, id DESC";

fn page(select: &str, filter: &CaseFilter) -> Page {
    let page = Page::of(select).equal("agent", filter.agent.as_deref());
    let page = match filter.status {
        Some(StatusFilter::Is(status)) => {
            let page = page.and("status = ?", [Value::from(status.text().to_owned())]);
            // The words let SQLite see that the index of those fits.
            if status == CaseStatus::Resolved { page } else { page.and("status <> 'resolved'", []) }
        }
        Some(StatusFilter::Unresolved) => page.and("status <> 'resolved'", []),
        None => page,
    };
    match &filter.before {
        Some((opened_at, id)) => {
            page.and("(opened_at, id) < (?, ?)", [Value::from(*opened_at), Value::from(id.to_string())])
        }
        None => page,
    }
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
        resolved_at: row.get(11)?,
        history: read_history(row, 12)?,
        earlier: row.get(13)?,
        later: row.get(14)?,
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
        seq: row.get(7)?,
        resolved_at: row.get(8)?,
        resolved_by: row.get(9)?,
        version: row.get(10)?,
        summary: row.get(11)?,
        facts: row.get(12)?,
        history: read_history(row, 13)?,
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
        assert!(counted.contains("SCAN incident USING COVERING INDEX incident_open"), "{counted}");
        assert!(counted.contains("SCAN escalation USING COVERING INDEX escalation_open"), "{counted}");
        let listed = plan(&format!("{INCIDENTS} WHERE 1 AND status <> 'resolved' ORDER BY {NEWEST_FIRST}"))?;
        assert!(listed.contains("incident_open") && !listed.contains("TEMP B-TREE"), "{listed}");
        Ok(())
    }
}
