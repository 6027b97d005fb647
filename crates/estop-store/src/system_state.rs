//! The red button's state, as the store remembers it beside the latch file (KS-3).

use crate::error::StoreError;

/// The system's state, and who brought it about.
pub use estop_core::system::button::Latched as StoredSystem;

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
