//! The system's state in SQLite: one row.

use estop_core::system::{Channels, GateView, KillReason, SystemState};
use rusqlite::{Connection, Row, params};

use super::Sqlite;
use super::convert::{Named, unreadable};
use super::query::{change, one};
use crate::error::StoreError;
use crate::journal::Durability;
use crate::system_state::{StoredSystem, SystemStateRepo};

impl SystemStateRepo for Sqlite {
    fn system(&self) -> Result<Option<StoredSystem>, StoreError> {
        self.read(get)
    }

    fn put_system(&self, system: &StoredSystem) -> Result<(), StoreError> {
        let system = system.clone();
        self.write(Durability::Disk, move |connection| {
            if let Some(stored) = get(connection)? {
                let is_newer = system.gate.epoch > stored.gate.epoch;
                if !is_newer && stored != system {
                    return Err(StoreError::Conflict { current: stored.gate.epoch });
                }
            }
            put(connection, &system)
        })
    }
}

fn put(connection: &Connection, system: &StoredSystem) -> Result<(), StoreError> {
    let sql = "INSERT OR REPLACE INTO system_state (one, state, epoch, shut, reason, note, by, source, since, metadata)
        VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let StoredSystem { gate, reason, note, by, source, since, metadata } = system;
    let (state, reason) = (gate.state.text(), reason.map(Named::text));
    let params = params![state, gate.epoch, u8::from(gate.shut), reason, note, by, source, since, metadata];
    change(connection, sql, params)?;
    Ok(())
}

fn get(connection: &Connection) -> Result<Option<StoredSystem>, StoreError> {
    let sql = "SELECT state, epoch, shut, reason, note, by, source, since, metadata FROM system_state";
    one(connection, sql, [], system)
}

fn system(row: &Row<'_>) -> Result<StoredSystem, StoreError> {
    let reason: Option<Box<str>> = row.get(3)?;
    Ok(StoredSystem {
        gate: GateView {
            state: SystemState::parse(&row.get::<_, Box<str>>(0)?)?,
            epoch: row.get(1)?,
            shut: Channels::try_from(row.get::<_, u8>(2)?)
                .map_err(|_| unreadable("the set of shut channels"))?,
        },
        reason: reason.as_deref().map(KillReason::parse).transpose()?,
        note: row.get(4)?,
        by: row.get(5)?,
        source: row.get(6)?,
        since: row.get(7)?,
        metadata: row.get(8)?,
    })
}
