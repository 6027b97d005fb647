//! Agents: who they are, what they may do, and the state they resume from.

use estop_core::agent::standing::Standing;
use estop_core::ids::Name;

use crate::error::StoreError;

/// An agent as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Its name.
    pub name: Name,
    /// Whether it may work.
    pub standing: Standing,
    /// Its role, if it has one.
    pub role: Option<Name>,
    /// Loop detection stops it; `None` = as the policy says.
    pub kill_switch_enabled: Option<bool>,
    /// Requests that are compared; `None` = as the policy says.
    pub kill_switch_window_size: Option<u8>,
    /// Score above which it is stopped, in tenths; `None` = as the policy says.
    pub kill_switch_threshold_tenths: Option<u16>,
    /// What differs from the policy, as a JSON object.
    pub policy_overrides: Option<String>,
    /// Where it was first named.
    pub origin: Origin,
    /// Grows with each change; 0 before it is stored.
    pub version: u64,
    /// When it was added.
    pub created_at: i64,
    /// When it was last changed.
    pub updated_at: i64,
    /// When it last called.
    pub last_seen_at: Option<i64>,
    /// It was deleted; its records are still there.
    pub deleted: bool,
}

impl Agent {
    /// An active agent without any settings of its own.
    pub fn new(name: &str, origin: Origin, at: i64) -> Agent {
        Agent {
            name: name.into(),
            standing: Standing::Active,
            role: None,
            kill_switch_enabled: None,
            kill_switch_window_size: None,
            kill_switch_threshold_tenths: None,
            policy_overrides: None,
            origin,
            version: 0,
            created_at: at,
            updated_at: at,
            last_seen_at: None,
            deleted: false,
        }
    }
}

/// Where an agent was first named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the configuration.
    Config,
    /// By the API.
    Api,
    /// It simply called.
    Traffic,
}

/// What an agent resumes from when the process starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAgent {
    /// The agent.
    pub agent: Agent,
    /// The last record its state covers; 0 = there is no state.
    pub snapshot_seq: u64,
    /// Its state; empty = there is none.
    pub snapshot: Vec<u8>,
}

/// The state of an agent; the store does not look into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSnapshot {
    /// Whose.
    pub agent: Name,
    /// The state.
    pub state: Vec<u8>,
    /// When it last called.
    pub last_seen_at: Option<i64>,
}

/// What keeps agents. Each change is on the disk before it is acknowledged.
pub trait AgentRepo: Send + Sync {
    /// A page of agents in order of name, deleted ones left out.
    fn agents(&self, after: Option<&str>, limit: usize) -> Result<Vec<Agent>, StoreError>;

    /// One agent, deleted or not.
    fn agent(&self, name: &str) -> Result<Option<Agent>, StoreError>;

    /// Adds an agent; a deleted one of that name comes back as this one.
    fn insert_agent(&self, agent: &Agent) -> Result<Agent, StoreError>;

    /// Replaces an agent's standing and settings, if its version is still `agent.version`.
    fn update_agent(&self, agent: &Agent) -> Result<Agent, StoreError>;

    /// Marks an agent as deleted, if its version is still this one, and takes its keys back. Its state stays: if it calls
    /// again, it is who it was.
    fn delete_agent(&self, name: &str, version: u64, at: i64) -> Result<(), StoreError>;

    /// The states of all agents, deleted or not, in order of name.
    fn states(&self) -> Result<Vec<AgentSnapshot>, StoreError>;

    /// The state of one agent, deleted or not.
    fn state(&self, agent: &str) -> Result<Option<AgentSnapshot>, StoreError>;

    /// All agents with their states, deleted ones left out, in order of name.
    fn load_agents(&self) -> Result<Vec<StoredAgent>, StoreError>;
}
