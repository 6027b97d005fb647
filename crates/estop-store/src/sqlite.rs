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
mod convert;
mod evidence;
mod files;
mod journal;
mod ledger;
mod meta;
mod migrate;
mod open;
mod query;
mod readers;
mod runs;
mod settings;
mod system_state;
mod upkeep;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rusqlite::Connection;

use crate::error::{OpenError, StoreError};
use crate::journal::{Cursor, Durability};
use crate::segments::{JOURNAL_FOLDER, JournalReader};
pub(crate) use backup::{Copied, check_copy, copy_database};
use files::Files;
pub use open::{DataLock, RESTORING, check_restored, lock};
use readers::Readers;
use settings::RecordedSettings;
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
    journal: JournalReader,
    settings: Mutex<RecordedSettings>,
    path: PathBuf,
    files: Arc<Files>,
    _lock: DataLock,
}

impl Sqlite {
    /// Opens the database, or creates it if there is none.
    pub fn open(path: &Path, options: SqliteOptions) -> Result<Sqlite, OpenError> {
        let mut lock = lock(path)?;
        check_restored(path)?;
        open::create_if_missing(path)?;
        lock.hold(path)?;
        let connection = open::existing(path, options)?;
        let readers = Readers::new(path, options.readers_max);
        let files = Arc::new(Files::of(path));
        let writer = Writer::start(path, options, connection, Arc::clone(&files))
            .map_err(|error| OpenError::Io { path: path.to_owned(), detail: error.to_string() })?;
        let folder = path.parent().unwrap_or(Path::new(".")).join(JOURNAL_FOLDER);
        let journal = JournalReader::new(&folder);
        let settings = Mutex::default();
        let shared = Shared { writer, readers, journal, settings, path: path.to_owned(), files, _lock: lock };
        Ok(Sqlite { shared: Arc::new(shared) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.shared.path
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

/// Checks a database, which may be in use: whether it is ours and of a schema we know.
pub fn check_database(path: &Path) -> Result<(), OpenError> {
    check_restored(path)?;
    open::check_header(path)?;
    let connection = open::reader(path).map_err(|error| open::refuse(path, error))?;
    open::check_owner(path, &connection).map(drop)
}

/// The same, and reads all of it: slow with many records.
pub fn check_whole_database(path: &Path) -> Result<(), OpenError> {
    check_restored(path)?;
    check_copy(path).map(drop)
}

/// How far into which journal the rows of a database, which may be in use, were made.
pub fn database_cursor(path: &Path) -> Result<Option<Cursor>, OpenError> {
    open::check_header(path)?;
    let refused = |error| open::refuse(path, error);
    let connection = open::reader(path).map_err(refused)?;
    append::cursor(&connection).map_err(refused)
}
