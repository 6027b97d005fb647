//! The store in one SQLite file: one thread that writes, a few connections that read.
//!
//! Every write is a job for the thread, which commits all that wait in one transaction (`writer.rs`). Reads run on
//! the caller's thread and never wait for a write (`readers.rs`). Times come as arguments; nothing here reads a clock.

mod access;
mod agents;
mod alerts;
mod append;
mod backup;
mod cases;
mod compact;
mod convert;
mod digests;
mod files;
mod journal;
mod ledger;
mod meta;
mod migrate;
mod one_chain;
mod open;
mod packed;
mod query;
mod readers;
mod reading;
mod retention;
mod runs;
mod shorn;
mod system_state;
mod tally;
mod upkeep;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;

use crate::error::{OpenError, StoreError};
use crate::journal::Durability;
pub use backup::{Restorable, backup, restore_check};
use compact::Fresh;
use files::Files;
pub use open::{DataLock, RESTORING, lock};
use readers::Readers;
pub use reading::StoredJournal;
use writer::Writer;

/// How the database is used.
#[derive(Clone, Copy, Debug)]
pub struct SqliteOptions {
    /// How large the file may grow; `None` = as large as the disk. Beyond it writes fail as on a full disk, and
    /// pruning still works.
    pub size_max_bytes: Option<u64>,
    /// Reads at the same time; more have to wait for one another, never for a write.
    pub readers_max: usize,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        // Four people's dashboards at once; each connection costs some 2 MB of page cache at most.
        SqliteOptions { size_max_bytes: None, readers_max: 4 }
    }
}

/// A cheap handle to an open database. The last one to go closes it.
#[derive(Clone, Debug)]
pub struct Sqlite {
    shared: Arc<Shared>,
}

/// Fields are dropped in this order. The writer closes last, because it alone can move the write-ahead log into the
/// database and leave one file; only then is the lock free.
#[derive(Debug)]
struct Shared {
    readers: Readers,
    writer: Writer,
    fresh: Arc<Fresh>,
    path: PathBuf,
    files: Arc<Files>,
    _lock: DataLock,
}

impl Sqlite {
    /// Opens the database, or creates it if there is none.
    pub fn open(path: &Path, options: SqliteOptions) -> Result<Sqlite, OpenError> {
        let mut lock = lock(path)?;
        open::check_restored(path)?;
        open::create_if_missing(path)?;
        lock.hold(path)?;
        let connection = open::existing(path, options)?;
        let fresh = Arc::new(Fresh::count(&connection).map_err(|error| open::refuse(path, error))?);
        let readers = Readers::new(path, options.readers_max);
        let files = Arc::new(Files::of(path));
        let writer = Writer::start(path, options, connection, Arc::clone(&fresh), Arc::clone(&files))
            .map_err(|error| OpenError::Io { path: path.to_owned(), detail: error.to_string() })?;
        let shared = Shared { writer, readers, fresh, path: path.to_owned(), files, _lock: lock };
        Ok(Sqlite { shared: Arc::new(shared) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// What became of the database's files, if somebody removed, cut or replaced one: what is stored from then on is lost.
    pub fn lost_file(&self) -> Option<String> {
        self.shared.files.lost()
    }

    fn write<T: Send + 'static>(
        &self,
        durability: Durability,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.shared.writer.write(durability, work)
    }

    fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.shared.readers.read(work)
    }
}
