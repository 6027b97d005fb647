//! The steps before stops in SQLite.

use estop_core::ids::Name;
use rusqlite::{Connection, Row, params};

use super::Sqlite;
use super::query::{change, one};
use crate::error::StoreError;
use crate::evidence::{Evidence, EvidenceRepo};
use crate::journal::Durability;

const ONE: &str =
    "SELECT incident, agent, stored_at, steps, deleted_by, deleted_at FROM evidence WHERE incident = ?";

impl EvidenceRepo for Sqlite {
    fn put_evidence(&self, evidence: &Evidence) -> Result<(), StoreError> {
        let e = evidence.clone();
        self.write(Durability::Process, move |connection| {
            let sql = "INSERT INTO evidence (incident, agent, stored_at, steps, deleted_by, deleted_at)
                VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (incident) DO NOTHING";
            // To make room, SQLite may move other rows to other pages: nothing of them stays where they were.
            overwritten(connection, |connection| {
                let (by, at) = e.deleted.unzip();
                change(connection, sql, params![e.incident, e.agent, e.stored_at, e.steps, by, at])
            })?;
            Ok(())
        })
    }

    fn evidence(&self, incident: &str) -> Result<Option<Evidence>, StoreError> {
        self.read(|connection| one(connection, ONE, [incident], read))
    }

    fn delete_evidence(&self, incident: &str, by: &str, now: i64) -> Result<Option<Evidence>, StoreError> {
        let (incident, by) = (Name::from(incident), Name::from(by));
        let found = self.write(Durability::Disk, move |connection| {
            let deleted = overwritten(connection, |connection| {
                let sql = "UPDATE evidence SET steps = NULL, deleted_by = ?, deleted_at = ?
                    WHERE incident = ? AND steps IS NOT NULL";
                change(connection, sql, params![by, now, incident])
            });
            deleted?;
            one(connection, ONE, [&incident], read)
        })?;
        if found.is_some() {
            self.shared.writer.clear_log();
        }
        Ok(found)
    }
}

/// What is deleted meanwhile is overwritten with zeros in the file, and not only forgotten.
pub(super) fn overwritten<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let set = |on: bool| connection.pragma_update_and_check(None, "secure_delete", on, |_| Ok(()));
    set(true)?;
    let done = work(connection);
    set(false)?;
    done
}

fn read(row: &Row<'_>) -> Result<Evidence, StoreError> {
    let (by, at): (Option<Name>, Option<i64>) = (row.get(4)?, row.get(5)?);
    Ok(Evidence {
        incident: row.get(0)?,
        agent: row.get(1)?,
        stored_at: row.get(2)?,
        steps: row.get(3)?,
        deleted: by.zip(at),
    })
}
