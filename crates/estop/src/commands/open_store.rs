//! The database of a data directory: opened beside an estop that may be writing it, or locked so that none can.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use estop_store::{Sqlite, SqliteOptions, restore_check};

use super::{Refused, refused};

/// A database that another process may be writing. Only for reading: that process stays the only one that writes.
///
/// The store takes a lock beside the name it is given, so it is given another name: a link to the database in a private
/// folder. SQLite follows it and keeps both processes in order with locks of its own.
pub(super) struct StoreBeside {
    pub(super) store: Sqlite,
    _folder: PrivateFolder,
}

impl StoreBeside {
    /// Opens it. Opening would bring an older schema up to date, under the feet of an older estop: that is refused.
    pub(super) fn open(database: &Path) -> anyhow::Result<StoreBeside> {
        let found = restore_check(database).map_err(|error| Refused(error.to_string()))?.schema;
        let folder = PrivateFolder::create()?;
        let known = newest_schema(&folder.0)?;
        if found != known {
            return refused(format!(
                "{} has schema {found}, this estop writes schema {known}: use the estop that wrote it, or start this one \
                 on it once",
                database.display()
            ));
        }
        let link = folder.0.join("estop.db");
        std::os::unix::fs::symlink(std::path::absolute(database)?, &link)?;
        Ok(StoreBeside { store: Sqlite::open(&link, SqliteOptions::default())?, _folder: folder })
    }
}

/// What a database has that is made today.
fn newest_schema(folder: &Path) -> anyhow::Result<u32> {
    let fresh = folder.join("fresh.db");
    drop(Sqlite::open(&fresh, SqliteOptions::default())?);
    Ok(restore_check(&fresh)?.schema)
}

/// Gone when dropped, with what is in it.
struct PrivateFolder(PathBuf);

impl PrivateFolder {
    fn create() -> anyhow::Result<PrivateFolder> {
        let now = jiff::Timestamp::now().as_nanosecond();
        let path = std::env::temp_dir().join(format!("estop-{}-{now}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("cannot create the folder {}", path.display()))?;
        Ok(PrivateFolder(path))
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // A folder that stays behind is in the system's folder for such things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

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
