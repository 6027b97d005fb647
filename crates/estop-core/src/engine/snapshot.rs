//! An agent's state as bytes, so that a restart need not read its whole journal.
//!
//! A snapshot is a shortcut, never a truth of its own: the journal up to the same record gives the same state. One that
//! cannot be read (another version wrote it) is replaced by reading the journal.

use serde::{Deserialize, Serialize};

use super::AgentState;
use crate::decision::Decision;
use crate::event::{Event, EventKind};
use crate::json;
use crate::policy::Policy;
use crate::time::Now;

/// The form this version writes. Raised when a field changes its meaning; a new field with a default does not need it. Of those
/// in lists (`as_list`), a new one comes last, and moving one changes its meaning.
const VERSION: u32 = 1;

/// An agent after a number of its records.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Snapshot {
    /// How many records of its chain it covers.
    pub told: u64,
    /// The rules in force.
    pub policy: Policy,
    /// What is known of it.
    pub state: AgentState,
}

#[derive(Serialize)]
struct Out<'a> {
    version: u32,
    told: u64,
    policy: &'a Policy,
    state: &'a AgentState,
}

#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// Why a snapshot cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Another version wrote it.
    #[error("the snapshot has version {0}, this estop writes and reads version {VERSION}")]
    Version(u32),
    /// It is not what was written.
    #[error("the snapshot cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

impl AgentState {
    /// The state after `told` records, under these rules, as bytes.
    pub fn snapshot(&self, told: u64, policy: &Policy) -> Vec<u8> {
        let mut bytes = Vec::new();
        json::write(&mut bytes, &Out { version: VERSION, told, policy, state: self });
        bytes
    }
}

impl Snapshot {
    /// Tells it the next record of its chain. New rules hold from the event that brings them on.
    pub fn tell(&mut self, now: Now, event: &Event) -> Decision {
        if let EventKind::PolicyChanged { policy, .. } = &event.what {
            self.policy.clone_from(policy);
        }
        self.told += 1;
        self.state.handle(now, event, &self.policy)
    }

    /// As bytes, for [`Snapshot::read`].
    pub fn write(&self) -> Vec<u8> {
        self.state.snapshot(self.told, &self.policy)
    }

    /// Reads what [`AgentState::snapshot`] wrote.
    pub fn read(bytes: &[u8]) -> Result<Snapshot, SnapshotError> {
        let Versioned { version } = serde_json::from_slice(bytes)?;
        if version != VERSION {
            return Err(SnapshotError::Version(version));
        }
        Ok(serde_json::from_slice(bytes)?)
    }
}
