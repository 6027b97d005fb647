//! Alert rules, the outbox and its log in SQLite.

use std::collections::BTreeSet;

use estop_core::ids::Name;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params};

use super::Sqlite;
use super::convert::capped;
use super::query::{Page, all, change, one};
use crate::alerts::{
    AlertCommit, AlertMemory, AlertRule, Alerts, Delivery, DeliveryFilter, DeliveryOutcome, DueAlert,
    LoggedDelivery, NewAlert, Waiting,
};
use crate::error::StoreError;
use crate::journal::Durability;

/// Rules there may be. Chosen: each agent of a large team with a few of its own; every event is held against all.
const RULES_MAX: u64 = 1000;
/// Alerts that may wait for one target. Chosen: a storm makes some twenty a minute, so eight hours of one; half would
/// lose alerts of a night, double would only make the pile longer that a person finds in the morning.
const WAITING_MAX: u64 = 10_000;
/// Tries the log has: days of a quiet system, some hours of a dead receiver.
const LOG_MAX: u64 = 10_000;

impl Alerts for Sqlite {
    fn put_rule(&self, rule: &AlertRule) -> Result<u64, StoreError> {
        let rule = rule.clone();
        self.write_settings(move |connection| put_rule(connection, &rule))
    }

    fn rules(&self) -> Result<Vec<AlertRule>, StoreError> {
        let sql = "SELECT id, rule, enabled, version, updated_at FROM alert_rule ORDER BY id";
        self.read(|connection| all(connection, sql, [], rule))
    }

    fn delete_rule(&self, id: &str) -> Result<(), StoreError> {
        let id = id.to_owned();
        self.write_settings(move |connection| {
            match change(connection, "DELETE FROM alert_rule WHERE id = ?", [&id])? {
                0 => Err(StoreError::NotFound { what: "alert rule", id }),
                _ => Ok(()),
            }
        })
    }

    fn commit_alerts(&self, commit: AlertCommit) -> Result<usize, StoreError> {
        self.write(Durability::Disk, move |connection| {
            let AlertCommit { at, alerts, memory } = commit;
            let mut added = 0;
            let mut targets = BTreeSet::new();
            for NewAlert { dedupe, target, payload, created_at, due_at } in alerts {
                let sql = "INSERT INTO outbox (dedupe, target, payload, created_at, due_at, attempts, status)
                    VALUES (?, ?, ?, ?, ?, 0, 'waiting') ON CONFLICT (dedupe) DO NOTHING";
                added += change(connection, sql, params![dedupe, target, payload, created_at, due_at])?;
                targets.insert(target);
            }
            for target in targets {
                drop_surplus(connection, &target, at)?;
            }
            for AlertMemory { name, value } in memory {
                let put = "INSERT OR REPLACE INTO alert_memory (name, value, updated_at) VALUES (?, ?, ?)";
                match value {
                    Some(value) => change(connection, put, params![name, value, at])?,
                    None => change(connection, "DELETE FROM alert_memory WHERE name = ?", [name])?,
                };
            }
            Ok(added)
        })
    }

    fn alert_memory(&self, prefix: &str) -> Result<Vec<(Name, String)>, StoreError> {
        let sql = "SELECT name, value FROM alert_memory WHERE substr(name, 1, length(?1)) = ?1 ORDER BY name";
        self.read(|connection| all(connection, sql, [prefix], |row| Ok((row.get(0)?, row.get(1)?))))
    }

    fn next_alert(&self, target: &str) -> Result<Option<DueAlert>, StoreError> {
        let sql = "SELECT id, dedupe, target, payload, created_at, due_at, attempts FROM outbox
            WHERE status = 'waiting' AND target = ? ORDER BY id LIMIT 1";
        self.read(|connection| one(connection, sql, [target], due))
    }

    fn waiting_alerts(&self) -> Result<Vec<Waiting>, StoreError> {
        let sql = "SELECT target, count(*), min(created_at) FROM outbox
            WHERE status = 'waiting' GROUP BY target ORDER BY target";
        let row =
            |row: &Row<'_>| Ok(Waiting { target: row.get(0)?, count: row.get(1)?, oldest_at: row.get(2)? });
        self.read(|connection| all(connection, sql, [], row))
    }

    fn mark_alert(&self, id: u64, delivery: &Delivery) -> Result<(), StoreError> {
        let delivery = delivery.clone();
        self.write(Durability::Process, move |connection| mark(connection, id, &delivery))
    }

    fn deliveries(&self, filter: &DeliveryFilter, limit: usize) -> Result<Vec<LoggedDelivery>, StoreError> {
        let sql = "SELECT id, dedupe, target, attempt, at, outcome, detail,
            (SELECT payload FROM outbox WHERE outbox.dedupe = delivery_log.dedupe) FROM delivery_log";
        let page = Page::of(sql).equal("target", filter.target.as_deref());
        let page = match filter.before {
            Some(before) => page.and("id < ?", [Value::from(capped(before))]),
            None => page,
        };
        self.read(|connection| page.read(connection, "id DESC", limit, logged))
    }

    fn sweep_alerts(&self, before: i64, prefix: &str) -> Result<usize, StoreError> {
        let prefix = prefix.to_owned();
        self.write(Durability::Process, move |connection| {
            let done = "DELETE FROM outbox WHERE status <> 'waiting' AND created_at < ?";
            let old = "DELETE FROM alert_memory WHERE updated_at < ?1 AND substr(name, 1, length(?2)) = ?2";
            Ok(change(connection, done, [before])? + change(connection, old, params![before, prefix])?)
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
    let (status, logged, due_at) = match outcome {
        DeliveryOutcome::Delivered => ("delivered", "delivered", None),
        DeliveryOutcome::RetryAt(due_at) => ("waiting", "retry", Some(due_at)),
        DeliveryOutcome::GivenUp => ("given_up", "given_up", None),
    };
    let update =
        "UPDATE outbox SET status = ?, due_at = ifnull(?, due_at), attempts = attempts + 1 WHERE id = ?";
    if change(connection, update, params![status, due_at, id])? == 0 {
        return Err(StoreError::NotFound { what: "alert", id: id.to_string() });
    }
    log(connection, id, *at, logged, detail)
}

/// Adds a line to the log, and lets those go that are too many.
fn log(connection: &Connection, id: u64, at: i64, outcome: &str, detail: &str) -> Result<(), StoreError> {
    let insert = "INSERT INTO delivery_log (outbox, dedupe, target, attempt, at, outcome, detail)
        SELECT id, dedupe, target, attempts, ?, ?, ? FROM outbox WHERE id = ?";
    change(connection, insert, params![at, outcome, detail, id])?;
    let bound = "DELETE FROM delivery_log WHERE id <= (SELECT max(id) FROM delivery_log) - ?";
    change(connection, bound, [LOG_MAX])?;
    Ok(())
}

/// Gives up the oldest alerts of a target for which too many wait.
fn drop_surplus(connection: &Connection, target: &str, at: i64) -> Result<(), StoreError> {
    let sql = "SELECT id FROM outbox WHERE target = ?1 AND status = 'waiting' ORDER BY id
        LIMIT max(0, (SELECT count(*) FROM outbox WHERE target = ?1 AND status = 'waiting') - ?2)";
    let surplus = all(connection, sql, params![target, WAITING_MAX], |row| Ok(row.get::<_, u64>(0)?))?;
    for id in surplus {
        change(connection, "UPDATE outbox SET status = 'given_up' WHERE id = ?", [id])?;
        log(connection, id, at, "given_up", "too many alerts wait for this channel")?;
    }
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

fn logged(row: &Row<'_>) -> Result<LoggedDelivery, StoreError> {
    Ok(LoggedDelivery {
        id: row.get(0)?,
        dedupe: row.get(1)?,
        target: row.get(2)?,
        attempt: row.get(3)?,
        at: row.get(4)?,
        outcome: row.get(5)?,
        detail: row.get(6)?,
        payload: row.get(7)?,
    })
}
