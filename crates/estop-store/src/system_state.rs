//! The red button's state, as the store remembers it beside the latch file (KS-3).

use estop_core::ids::Name;
use estop_core::system::{GateView, KillReason};

use crate::error::StoreError;

/// The system's state, and who brought it about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSystem {
    /// State, epoch and channels that are shut.
    pub gate: GateView,
    /// Why.
    pub reason: Option<KillReason>,
    /// In someone's words.
    pub note: Option<String>,
    /// Who.
    pub by: Name,
    /// From where: `api`, `cli`, `signal`, `gpio`, …
    pub source: Name,
    /// Since when, by the wall clock.
    pub since: i64,
    /// What else came with it, as JSON.
    pub metadata: Option<String>,
}

/// What keeps the system's state.
pub trait SystemStateRepo: Send + Sync {
    /// What was last stored; `None` on a first start.
    fn system(&self) -> Result<Option<StoredSystem>, StoreError>;

    /// Stores a state whose epoch is above the stored one's; on the disk before it is acknowledged.
    ///
    /// Anything else is a conflict, so that an old clear never undoes a newer kill. The very same state once more is
    /// fine.
    fn put_system(&self, system: &StoredSystem) -> Result<(), StoreError>;
}
