//! Alert rules and the outbox in SQLite.

use rusqlite::{Connection, Row, params};

use super::Sqlite;
use super::query::{all, change, one};
use crate::alerts::{AlertRule, Alerts, Delivery, DeliveryOutcome, DueAlert, NewAlert};
use crate::error::StoreError;
use crate::journal::Durability;

/// Rules there may be. Chosen: each agent of a large team with a few of its own; every event is held against all.
const RULES_MAX: u64 = 1000;

impl Alerts for Sqlite {
    fn put_rule(&self, rule: &AlertRule) -> Result<u64, StoreError> {
        let rule = rule.clone();
        self.write(Durability::Disk, move |connection| put_rule(connection, &rule))
    }

    fn rules(&self) -> Result<Vec<AlertRule>, StoreError> {
        let sql = "SELECT id, rule, enabled, version, updated_at FROM alert_rule ORDER BY id";
        self.read(|connection| all(connection, sql, [], rule))
    }

    fn delete_rule(&self, id: &str) -> Result<(), StoreError> {
        let id = id.to_owned();
        self.write(Durability::Disk, move |connection| {
            match change(connection, "DELETE FROM alert_rule WHERE id = ?", [&id])? {
                0 => Err(StoreError::NotFound { what: "alert rule", id }),
                _ => Ok(()),
            }
        })
    }

    fn push_alerts(&self, alerts: Vec<NewAlert>) -> Result<usize, StoreError> {
        self.write(Durability::Process, move |connection| {
            let sql = "INSERT INTO outbox (dedupe, target, payload, created_at, due_at, attempts, status)
                VALUES (?, ?, ?, ?, ?, 0, 'waiting') ON CONFLICT (dedupe) DO NOTHING";
            let mut added = 0;
            for NewAlert { dedupe, target, payload, created_at, due_at } in alerts {
                added += change(connection, sql, params![dedupe, target, payload, created_at, due_at])?;
            }
            Ok(added)
        })
    }

    fn due_alerts(&self, now: i64, limit: usize) -> Result<Vec<DueAlert>, StoreError> {
        let sql = "SELECT id, dedupe, target, payload, created_at, due_at, attempts FROM outbox
            WHERE status = 'waiting' AND due_at <= ? ORDER BY due_at, id LIMIT ?";
        self.read(|connection| all(connection, sql, params![now, limit], due))
    }

    fn mark_alert(&self, id: u64, delivery: &Delivery) -> Result<(), StoreError> {
        let delivery = delivery.clone();
        self.write(Durability::Process, move |connection| mark(connection, id, &delivery))
    }

    fn sweep_alerts(&self, before: i64) -> Result<usize, StoreError> {
        self.write(Durability::Process, move |connection| {
            change(connection, "DELETE FROM outbox WHERE status <> 'waiting' AND created_at < ?", [before])
        })
    }
}

fn put_rule(connection: &Connection, rule: &AlertRule) -> Result<u64, StoreError> {
    let AlertRule { id, rule, enabled, version, updated_at } = rule;
    let current = "SELECT version FROM alert_rule WHERE id = ?";
    let current = one(connection, current, [id], |row| Ok(row.get::<_, u64>(0)?))?;
    match current {
        None if *version > 0 => return Err(StoreError::NotFound { what: "alert rule", id: id.to_string() }),
        Some(current) if current != *version => return Err(StoreError::Conflict { current }),
        None if count(connection)? >= RULES_MAX => {
            return Err(StoreError::Invalid(format!(
                "there may be {RULES_MAX} alert rules: delete some first"
            )));
        }
        None | Some(_) => {}
    }
    let sql =
        "INSERT OR REPLACE INTO alert_rule (id, rule, enabled, version, updated_at) VALUES (?, ?, ?, ?, ?)";
    change(connection, sql, params![id, rule, enabled, version + 1, updated_at])?;
    Ok(version + 1)
}

fn count(connection: &Connection) -> Result<u64, StoreError> {
    let rules = one(connection, "SELECT count(*) FROM alert_rule", [], |row| Ok(row.get(0)?))?;
    Ok(rules.unwrap_or(0))
}

fn mark(connection: &Connection, id: u64, delivery: &Delivery) -> Result<(), StoreError> {
    let Delivery { at, outcome, detail } = delivery;
    let (status, due_at) = match outcome {
        DeliveryOutcome::Delivered => ("delivered", None),
        DeliveryOutcome::RetryAt(due_at) => ("waiting", Some(due_at)),
        DeliveryOutcome::GivenUp => ("given_up", None),
    };
    let update =
        "UPDATE outbox SET status = ?, due_at = ifnull(?, due_at), attempts = attempts + 1 WHERE id = ?";
    if change(connection, update, params![status, due_at, id])? == 0 {
        return Err(StoreError::NotFound { what: "alert", id: id.to_string() });
    }
    let insert = "INSERT INTO delivery (outbox, attempt, at, is_success, detail)
        SELECT id, attempts, ?, ?, ? FROM outbox WHERE id = ?";
    change(connection, insert, params![at, *outcome == DeliveryOutcome::Delivered, detail, id])?;
    Ok(())
}

fn rule(row: &Row<'_>) -> Result<AlertRule, StoreError> {
    Ok(AlertRule {
        id: row.get(0)?,
        rule: row.get(1)?,
        enabled: row.get(2)?,
        version: row.get(3)?,
        updated_at: row.get(4)?,
    })
}

fn due(row: &Row<'_>) -> Result<DueAlert, StoreError> {
    let alert = NewAlert {
        dedupe: row.get(1)?,
        target: row.get(2)?,
        payload: row.get(3)?,
        created_at: row.get(4)?,
        due_at: row.get(5)?,
    };
    Ok(DueAlert { id: row.get(0)?, alert, attempts: row.get(6)? })
}
