//! Settings in SQLite, read and put as the journal's records have them.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use estop_core::ids::Name;
use estop_core::system::SettingChange;
use estop_journal::Settings;
use rusqlite::{Connection, Row, params};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Sqlite;
use super::query::{all, change, one};
use crate::error::StoreError;
use crate::journal::Durability;
use crate::settings::{RestoredSettings, SettingsJournal, SettingsRepo, changes};

/// Where settings of a kind are. Only what people set: neither when it was last used nor how an agent stands.
struct Table {
    kind: &'static str,
    /// Each with its id, as a JSON object.
    read: &'static str,
    /// Puts `?2` under the id `?1`.
    put: &'static str,
    /// Removes the one with the id `?1`.
    remove: &'static str,
}

const TABLES: [Table; 5] = [
    Table {
        kind: "token",
        read: "SELECT id, json_object('name', name, 'role', role, 'kind', kind, 'hash', lower(hex(hash)),
                'created_at', created_at, 'expires_at', expires_at, 'revoked_at', revoked_at) FROM token",
        put: "INSERT INTO token (id, name, role, kind, hash, created_at, expires_at, revoked_at)
            VALUES (?1, ?2->>'name', ?2->>'role', ?2->>'kind', unhex(?2->>'hash'), ?2->>'created_at',
                ?2->>'expires_at', ?2->>'revoked_at')
            ON CONFLICT (id) DO UPDATE SET name = excluded.name, role = excluded.role, kind = excluded.kind,
                hash = excluded.hash, created_at = excluded.created_at, expires_at = excluded.expires_at,
                revoked_at = excluded.revoked_at",
        remove: "DELETE FROM token WHERE id = ?1",
    },
    Table {
        kind: "agent_key",
        read: "SELECT id, json_object('agent', agent, 'sha256', lower(hex(sha256)), 'prefix', prefix,
                'created_at', created_at, 'revoked_at', revoked_at) FROM agent_key",
        put: "INSERT INTO agent_key (id, agent, sha256, prefix, created_at, revoked_at)
            VALUES (?1, ?2->>'agent', unhex(?2->>'sha256'), ?2->>'prefix', ?2->>'created_at', ?2->>'revoked_at')
            ON CONFLICT (id) DO UPDATE SET agent = excluded.agent, sha256 = excluded.sha256,
                prefix = excluded.prefix, created_at = excluded.created_at, revoked_at = excluded.revoked_at",
        remove: "DELETE FROM agent_key WHERE id = ?1",
    },
    Table {
        kind: "agent",
        read: "SELECT name, json_object('role', role, 'kill_switch_enabled', kill_switch_enabled,
                'kill_switch_window_size', kill_switch_window_size,
                'kill_switch_threshold_tenths', kill_switch_threshold_tenths, 'policy_overrides', policy_overrides,
                'origin', origin, 'created_at', created_at, 'deleted', deleted) FROM agent
            WHERE origin <> 'traffic' OR deleted = 1 OR role IS NOT NULL OR kill_switch_enabled IS NOT NULL
                OR kill_switch_window_size IS NOT NULL OR kill_switch_threshold_tenths IS NOT NULL
                OR policy_overrides IS NOT NULL",
        put: "INSERT INTO agent (name, active, paused, standing_since_mono, role, kill_switch_enabled,
                kill_switch_window_size, kill_switch_threshold_tenths, policy_overrides, origin, version, created_at,
                updated_at, deleted)
            VALUES (?1, 1, 0, 0, ?2->>'role', ?2->>'kill_switch_enabled', ?2->>'kill_switch_window_size',
                ?2->>'kill_switch_threshold_tenths', ?2->>'policy_overrides', ?2->>'origin', 1, ?2->>'created_at',
                ?2->>'created_at', ?2->>'deleted')
            ON CONFLICT (name) DO UPDATE SET role = excluded.role,
                kill_switch_enabled = excluded.kill_switch_enabled,
                kill_switch_window_size = excluded.kill_switch_window_size,
                kill_switch_threshold_tenths = excluded.kill_switch_threshold_tenths,
                policy_overrides = excluded.policy_overrides, origin = excluded.origin, version = version + 1,
                created_at = excluded.created_at, deleted = excluded.deleted",
        remove: "UPDATE agent SET role = NULL, kill_switch_enabled = NULL, kill_switch_window_size = NULL,
                kill_switch_threshold_tenths = NULL, policy_overrides = NULL, origin = 'traffic', deleted = 0,
                version = version + 1 WHERE name = ?1",
    },
    Table {
        kind: "preset",
        read: "SELECT name, json_object('value', value) FROM meta WHERE name = 'preset'",
        put: "INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2->>'value')",
        remove: "DELETE FROM meta WHERE name = ?1",
    },
    Table {
        kind: "alert_rule",
        read: "SELECT id, json_object('rule', rule, 'enabled', enabled) FROM alert_rule",
        put: "INSERT INTO alert_rule (id, rule, enabled, version, updated_at)
            VALUES (?1, ?2->>'rule', ?2->>'enabled', 1, 0)
            ON CONFLICT (id) DO UPDATE SET rule = excluded.rule, enabled = excluded.enabled,
                version = version + 1",
        remove: "DELETE FROM alert_rule WHERE id = ?1",
    },
];

/// How a hash in a record begins that is not the token's own. A password's hash can be guessed at, so that only its SHA-256
/// is recorded: enough to see that it is still the one that was set.
const OF_HASH: &str = "sha256:";

/// What is known to be recorded, and where more goes.
#[derive(Default)]
pub(super) struct RecordedSettings {
    known: Settings,
    journal: Option<Arc<dyn SettingsJournal>>,
}

impl std::fmt::Debug for RecordedSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordedSettings").finish_non_exhaustive()
    }
}

impl SettingsRepo for Sqlite {
    fn restore_settings(&self, wanted: &Settings) -> Result<RestoredSettings, StoreError> {
        let mut recorded = self.recorded();
        let todo = changes(&self.read(settings)?, wanted);
        let mut restored = RestoredSettings { changed: todo.len(), ..RestoredSettings::default() };
        if !todo.is_empty() {
            restored.lost_passwords =
                self.write(Durability::Disk, move |connection| put_all(connection, todo))?;
        }
        recorded.known = wanted.clone();
        Ok(restored)
    }

    fn record_settings(&self, journal: Arc<dyn SettingsJournal>) -> Result<(), StoreError> {
        let mut recorded = self.recorded();
        recorded.journal = Some(journal);
        self.record_changes(&mut recorded)
    }
}

impl Sqlite {
    /// Changes settings: when this returns, the disk has them, and the journal the records. A change that was not recorded
    /// is undone by the next start.
    pub(super) fn write_settings<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        // Held until it is recorded: records are in the order of the changes.
        let mut recorded = self.recorded();
        let done = self.write(Durability::Disk, work)?;
        self.record_changes(&mut recorded)?;
        Ok(done)
    }

    fn record_changes(&self, recorded: &mut RecordedSettings) -> Result<(), StoreError> {
        let Some(journal) = &recorded.journal else { return Ok(()) };
        let now = self.read(settings)?;
        let changed = changes(&recorded.known, &now);
        if !changed.is_empty() {
            journal.record(changed)?;
            recorded.known = now;
        }
        Ok(())
    }

    fn recorded(&self) -> MutexGuard<'_, RecordedSettings> {
        self.shared.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All settings.
fn settings(connection: &Connection) -> Result<Settings, StoreError> {
    let mut settings = Settings::new();
    for table in &TABLES {
        let values: BTreeMap<Name, Value> = all(connection, table.read, [], setting)?.into_iter().collect();
        if !values.is_empty() {
            settings.insert(table.kind.into(), values);
        }
    }
    Ok(settings)
}

fn setting(row: &Row<'_>) -> Result<(Name, Value), StoreError> {
    let (id, text): (Name, String) = (row.get(0)?, row.get(1)?);
    let unreadable = |error: serde_json::Error| StoreError::Corrupt(error.to_string());
    let mut value: Value = serde_json::from_str(&text).map_err(unreadable)?;
    if value["kind"] == "argon2" {
        let hash = value["hash"].as_str().unwrap_or_default();
        value["hash"] = hash_of(hash).into();
    }
    Ok((id, value))
}

fn hash_of(hash: &str) -> String {
    let digest = Sha256::digest(hash);
    digest.iter().fold(OF_HASH.to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// Puts settings; the names of tokens whose passwords are not there any more.
fn put_all(connection: &Connection, todo: Vec<SettingChange>) -> Result<Vec<Name>, StoreError> {
    let mut lost = Vec::new();
    // What is gone makes room: a key's hash is there once.
    let (puts, removes): (Vec<_>, Vec<_>) = todo.into_iter().partition(|change| change.value.is_some());
    for SettingChange { kind, id, value } in removes.into_iter().chain(puts) {
        let Some(table) = TABLES.iter().find(|table| *table.kind == *kind) else {
            return Err(StoreError::Invalid(format!(
                "the journal has a setting of the unknown kind `{kind}`"
            )));
        };
        let Some(mut value) = value else {
            change(connection, table.remove, [&id])?;
            continue;
        };
        if let Some(wanted) = value["hash"].as_str().filter(|hash| hash.starts_with(OF_HASH)) {
            match password(connection, &id)?.filter(|hash| hash_of(hash) == wanted) {
                Some(hash) => value["hash"] = hash.into(),
                None => {
                    lost.push(value["name"].as_str().unwrap_or_default().into());
                    change(connection, table.remove, [&id])?;
                    continue;
                }
            }
        }
        change(connection, table.put, params![id, value.to_string()])?;
    }
    change(connection, "DELETE FROM session", [])?;
    Ok(lost)
}

/// A token's hash, as hex digits.
fn password(connection: &Connection, id: &str) -> Result<Option<String>, StoreError> {
    one(connection, "SELECT lower(hex(hash)) FROM token WHERE id = ?", [id], |row| Ok(row.get(0)?))
}
