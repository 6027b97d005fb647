//! estop-store: what must outlive the process.
//!
//! Small traits, one for each thing that is kept, [`Store`], which is all of them, and [`Sqlite`], which keeps them in one
//! file of the data directory (ST-1). Whoever uses a store takes the traits; one line of `estop-daemon` opens [`Sqlite`].
//! Everything is synchronous: a write returns when it is committed. `tests/contract` says what every store must do, so
//! that PostgreSQL can be held to the same.
//!
//! What it never does: judge, decide that a kill is over, or stand between a trigger and the gate. A failed write
//! never undoes a kill. It holds no prompts: of what was said, only an agent's last words, with an escalation,
//! and the excerpts that its policy keeps, with an incident. It holds no key: only
//! hashes, which are made elsewhere.
//!
//! It is the only crate with SQL in it. It may use `estop-core`, and is used by `estop-admin`, `estop-notify`,
//! `estop-daemon` and `estop-cli`.

mod error;

mod access;
mod agents;
mod alerts;
mod backup;
mod cases;
mod data_folder;
mod evidence;
mod journal;
mod latch;
mod ledger;
mod runs;
pub mod segments;
mod settings;
mod system_state;
mod upkeep;

mod sqlite;

pub use access::{Access, AgentKey, SESSIONS_MAX, Session, Token, TokenKind, TokenRole};
pub use agents::{Agent, AgentRepo, AgentSnapshot, Origin, StoredAgent};
pub use alerts::{
    AlertCommit, AlertMemory, AlertRule, Alerts, Delivery, DeliveryFilter, DeliveryOutcome, DueAlert,
    LoggedDelivery, NewAlert, Waiting,
};
pub use backup::{Backup, backup, check_unpacked, unpack};
pub use cases::{
    CaseEntry, CaseFilter, CaseStatus, CaseTarget, CaseUpdate, Cases, Escalation, Incident, OpenCases,
    StatusFilter,
};
pub use data_folder::{DataDirError, FileId, check_folder, open_regular};
pub use error::{OpenError, StoreError};
pub use evidence::{Evidence, EvidenceRepo};
pub use journal::{
    AgentSeen, Cursor, Durability, EVENT_TYPES, EachBlock, EventFilter, EventKey, Journal, JournalBatch,
    NewEvent, Snapshot, StandingChange, StoredEvent,
};
pub use latch::{
    Entry, FoundLatch, FoundSlot, LatchFile, RequestedKill, SlotVersion, is_of_daemon, is_of_this_daemon,
    latch_path,
};
pub use ledger::{Ledger, Spend, SpendBy, SpendGroup, SpendQuery, SpendSum};
pub use runs::{Run, RunFilter, RunRepo};
pub use settings::{RestoredSettings, SettingsJournal, SettingsRepo};
pub use sqlite::{
    DataLock, RESTORING, Sqlite, SqliteOptions, check_database, check_restored, check_whole_database,
    database_cursor, lock,
};
pub use system_state::{StoredSystem, SystemStateRepo};
pub use upkeep::{RetentionCutoffs, Upkeep};

/// Everything a store keeps.
pub trait Store:
    Journal
    + AgentRepo
    + RunRepo
    + Ledger
    + Access
    + SystemStateRepo
    + SettingsRepo
    + Cases
    + EvidenceRepo
    + Alerts
    + Meta
    + Upkeep
{
}

impl<S> Store for S where
    S: Journal
        + AgentRepo
        + RunRepo
        + Ledger
        + Access
        + SystemStateRepo
        + SettingsRepo
        + Cases
        + EvidenceRepo
        + Alerts
        + Meta
        + Upkeep
{
}

/// The name under which [`Meta`] has the account of all agents together (`JournalBatch::fleet`).
pub const FLEET_ACCOUNT: &str = "fleet_account";

/// Single values that have no better place.
pub trait Meta: Send + Sync {
    /// A value.
    fn meta(&self, name: &str) -> Result<Option<String>, StoreError>;
    /// Sets a value; on the disk before it is acknowledged.
    fn put_meta(&self, name: &str, value: &str) -> Result<(), StoreError>;
}
