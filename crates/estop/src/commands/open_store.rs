//! The lock of a data directory, taken so that no estop can run there.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::refused;

/// Keeps every estop away from a database until it is dropped; the lock every estop takes.
pub(super) fn lock(database: &Path) -> anyhow::Result<File> {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&name);
    let file = file.with_context(|| format!("cannot open {}", name.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            refused(format!("{} is in use: stop the estop that runs there first", database.display()))
        }
        Err(TryLockError::Error(error)) => Err(error).context("cannot lock the database"),
    }
}
