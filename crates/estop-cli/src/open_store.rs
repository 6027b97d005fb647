//! The lock of a data directory, taken so that no estop can run there.

use std::path::Path;

use estop_store::{DataLock, OpenError};

use super::refused;

/// Keeps every estop away from a database until it is dropped; the lock every estop takes.
pub(super) fn lock(database: &Path) -> anyhow::Result<DataLock> {
    match estop_store::lock(database) {
        Err(OpenError::Locked { path }) => {
            refused(format!("{} is in use: stop the estop that runs there first", path.display()))
        }
        locked => Ok(locked?),
    }
}
