//! Agents in SQLite.

use estop_core::ids::Name;
use rusqlite::{Connection, Row, params};

use super::Sqlite;
use super::convert::{Named, StandingColumns, checksum, standing};
use super::query::{all, change, one};
use crate::agents::{Agent, AgentRepo, AgentSnapshot, Origin, StoredAgent};
use crate::error::StoreError;

const COLUMNS: &str = "name, active, deactivated_by, deactivation_cause, paused, pause_cause, standing_since_mono, role,
    kill_switch_enabled, kill_switch_window_size, kill_switch_threshold_tenths, policy_overrides, origin, version,
    created_at, updated_at, last_seen_at, deleted";

impl AgentRepo for Sqlite {
    fn agents(&self, after: Option<&str>, limit: usize) -> Result<Vec<Agent>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM agent WHERE name > ? AND deleted = 0 ORDER BY name LIMIT ?");
        self.read(|connection| all(connection, &sql, params![after.unwrap_or(""), limit], agent))
    }

    fn agent(&self, name: &str) -> Result<Option<Agent>, StoreError> {
        self.read(|connection| get(connection, name))
    }

    fn insert_agent(&self, agent: &Agent) -> Result<Agent, StoreError> {
        let agent = agent.clone();
        self.write_settings(move |connection| insert(connection, &agent))
    }

    fn update_agent(&self, agent: &Agent) -> Result<Agent, StoreError> {
        let agent = agent.clone();
        self.write_settings(move |connection| update(connection, &agent))
    }

    fn delete_agent(&self, name: &str, version: u64, at: i64) -> Result<(), StoreError> {
        let name = name.to_owned();
        self.write_settings(move |connection| {
            let mark = "UPDATE agent SET deleted = 1, version = version + 1, updated_at = ?
                WHERE name = ? AND version = ? AND deleted = 0";
            if change(connection, mark, params![at, name, version])? == 0 {
                return Err(missed(connection, &name)?);
            }
            let revoke = "UPDATE agent_key SET revoked_at = ? WHERE agent = ? AND revoked_at IS NULL";
            change(connection, revoke, params![at, name])?;
            Ok(())
        })
    }

    fn states(&self) -> Result<Vec<AgentSnapshot>, StoreError> {
        self.kept_states(None)
    }

    fn state(&self, agent: &str) -> Result<Option<AgentSnapshot>, StoreError> {
        Ok(self.kept_states(Some(agent))?.pop())
    }

    fn load_agents(&self) -> Result<Vec<StoredAgent>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS}, ifnull(seq, 0), state, xxh3 FROM agent
                LEFT JOIN agent_snapshot ON agent = name WHERE deleted = 0 ORDER BY name"
        );
        self.read(|connection| all(connection, &sql, [], stored))
    }
}

impl Sqlite {
    fn kept_states(&self, name: Option<&str>) -> Result<Vec<AgentSnapshot>, StoreError> {
        let columns = "SELECT s.agent, state, xxh3, last_seen_at FROM agent_snapshot AS s
            LEFT JOIN agent ON name = s.agent";
        self.read(|connection| match name {
            Some(name) => all(connection, &format!("{columns} WHERE s.agent = ?"), [name], kept_state),
            None => all(connection, &format!("{columns} ORDER BY s.agent"), [], kept_state),
        })
    }
}

fn kept_state(row: &Row<'_>) -> Result<AgentSnapshot, StoreError> {
    let (agent, mut state): (Name, Vec<u8>) = (row.get(0)?, row.get(1)?);
    if row.get::<_, i64>(2)? != checksum(&state) {
        // It can be computed from the records.
        state.clear();
    }
    Ok(AgentSnapshot { agent, state, last_seen_at: row.get(3)? })
}

fn get(connection: &Connection, name: &str) -> Result<Option<Agent>, StoreError> {
    one(connection, &format!("SELECT {COLUMNS} FROM agent WHERE name = ?"), [name], agent)
}

/// A deleted agent of that name comes back with a higher version, so that an old edit cannot hit the new one.
fn insert(connection: &Connection, agent: &Agent) -> Result<Agent, StoreError> {
    let sql = "INSERT INTO agent (name, active, deactivated_by, deactivation_cause, paused, pause_cause,
            standing_since_mono, role, kill_switch_enabled, kill_switch_window_size, kill_switch_threshold_tenths,
            policy_overrides, updated_at, origin, version, created_at, last_seen_at, deleted)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, 1, ?15, ?16, 0)
        ON CONFLICT (name) DO UPDATE SET active = ?2, deactivated_by = ?3, deactivation_cause = ?4, paused = ?5,
            pause_cause = ?6, standing_since_mono = ?7, role = ?8, kill_switch_enabled = ?9,
            kill_switch_window_size = ?10, kill_switch_threshold_tenths = ?11, policy_overrides = ?12,
            updated_at = ?13, origin = ?14, version = version + 1, created_at = ?15, last_seen_at = ?16, deleted = 0
        WHERE deleted = 1";
    let s = StandingColumns::from(agent.standing);
    let a = agent;
    let params = params![
        a.name,
        s.active,
        s.deactivated_by,
        s.deactivation_cause,
        s.paused,
        s.pause_cause,
        s.since_mono,
        a.role,
        a.kill_switch_enabled,
        a.kill_switch_window_size,
        a.kill_switch_threshold_tenths,
        a.policy_overrides,
        a.updated_at,
        a.origin.text(),
        a.created_at,
        a.last_seen_at,
    ];
    if change(connection, sql, params)? == 0 {
        return Err(StoreError::Exists { what: "agent", id: agent.name.to_string() });
    }
    get(connection, &agent.name)?.ok_or_else(|| not_found(&agent.name))
}

fn update(connection: &Connection, agent: &Agent) -> Result<Agent, StoreError> {
    let sql = "UPDATE agent SET active = ?2, deactivated_by = ?3, deactivation_cause = ?4, paused = ?5,
            pause_cause = ?6, standing_since_mono = ?7, role = ?8, kill_switch_enabled = ?9,
            kill_switch_window_size = ?10, kill_switch_threshold_tenths = ?11, policy_overrides = ?12,
            updated_at = ?13, version = version + 1
        WHERE name = ?1 AND version = ?14 AND deleted = 0";
    let s = StandingColumns::from(agent.standing);
    let a = agent;
    let params = params![
        a.name,
        s.active,
        s.deactivated_by,
        s.deactivation_cause,
        s.paused,
        s.pause_cause,
        s.since_mono,
        a.role,
        a.kill_switch_enabled,
        a.kill_switch_window_size,
        a.kill_switch_threshold_tenths,
        a.policy_overrides,
        a.updated_at,
        a.version,
    ];
    if change(connection, sql, params)? == 0 {
        return Err(missed(connection, &agent.name)?);
    }
    get(connection, &agent.name)?.ok_or_else(|| not_found(&agent.name))
}

/// Why a change hit nothing: the agent is not there, or has another version.
fn missed(connection: &Connection, name: &str) -> Result<StoreError, StoreError> {
    let current = get(connection, name)?.filter(|agent| !agent.deleted);
    Ok(current.map_or_else(|| not_found(name), |agent| StoreError::Conflict { current: agent.version }))
}

fn not_found(name: &str) -> StoreError {
    StoreError::NotFound { what: "agent", id: name.to_owned() }
}

/// An agent with its state, which is empty if there is none.
fn stored(row: &Row<'_>) -> Result<StoredAgent, StoreError> {
    let (agent, snapshot_seq) = (agent(row)?, row.get(18)?);
    let mut snapshot: Vec<u8> = row.get::<_, Option<_>>(19)?.unwrap_or_default();
    let sum: Option<i64> = row.get(20)?;
    if sum.is_some_and(|sum| sum != checksum(&snapshot)) {
        // It can be computed from the records.
        snapshot.clear();
    }
    Ok(StoredAgent { agent, snapshot_seq, snapshot })
}

fn agent(row: &Row<'_>) -> Result<Agent, StoreError> {
    Ok(Agent {
        name: row.get(0)?,
        standing: standing(row, 1)?,
        role: row.get(7)?,
        kill_switch_enabled: row.get(8)?,
        kill_switch_window_size: row.get(9)?,
        kill_switch_threshold_tenths: row.get(10)?,
        policy_overrides: row.get(11)?,
        origin: Origin::parse(&row.get::<_, Box<str>>(12)?)?,
        version: row.get(13)?,
        created_at: row.get(14)?,
        updated_at: row.get(15)?,
        last_seen_at: row.get(16)?,
        deleted: row.get(17)?,
    })
}
