//! Opens the database, and refuses one that cannot be trusted, with the reason.
//!
//! A start must stay under a second with millions of records, so the whole file is not read. What is checked: the
//! header, that the file is as long as it says, and every page of the small tables a start depends on.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::{SqliteOptions, migrate};
use crate::data_folder::{check_regular, open_regular};
use crate::error::{OpenError, StoreError};

/// "ESTP": the file is ours.
const APPLICATION_ID: i32 = 0x4553_5450;
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const HEADER_LEN: usize = 100;

/// How long a write waits for another process, such as someone's `sqlite3`. Longer would hold back a kill's record,
/// shorter would fail beside a harmless query.
pub(super) const BUSY: Duration = Duration::from_secs(2);

/// The write-ahead log is cut back to this once its content was moved; it grows beyond it in bursts only.
const WAL_KEEP_BYTES: i64 = 64 << 20;

/// Holds all pages that merging touches; with less they are written twice.
const WRITER_CACHE_KB: i64 = 16 << 10;

/// What a start reads, checked page by page. The rest grows with the traffic and is checked when it is read.
const CHECKED: &[&str] = &[
    "journal_cursor",
    "agent",
    "agent_snapshot",
    "system_state",
    "token",
    "agent_key",
    "session",
    "alert_rule",
    "meta",
];

/// What is added to a database's name for the copy that is about to take its place. While it is there the old one is being
/// taken apart: neither is what anybody stored.
pub const RESTORING: &str = ".restoring";

/// A lock that one process holds at a time; it ends with the process, however it ends.
///
/// It is on a file of its own, which is there before the database, and on the database: whoever removes the former does not
/// let another process in. To be dropped after every connection to the database is closed: closing any descriptor of its
/// file gives up the locks SQLite has on it.
#[derive(Debug)]
pub struct DataLock {
    _file: File,
    database: Option<File>,
}

/// Makes sure that only one process uses a database.
pub fn lock(path: &Path) -> Result<DataLock, OpenError> {
    let mut locked = DataLock { _file: lock_file(path)?, database: None };
    locked.hold(path)?;
    Ok(locked)
}

impl DataLock {
    /// Locks the database too, if there is one by now.
    pub(super) fn hold(&mut self, path: &Path) -> Result<(), OpenError> {
        if self.database.is_some() {
            return Ok(());
        }
        match open_regular(path, OpenOptions::new().read(true)) {
            Ok(file) => self.database = Some(locked(file, path)?),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(io(path, &error)),
        }
        Ok(())
    }

    /// Makes the lock's file anew where somebody removed it, so that others find who holds the data directory.
    pub fn restore_file(path: &Path) -> Result<File, OpenError> {
        lock_file(path)
    }
}

fn lock_file(path: &Path) -> Result<File, OpenError> {
    let name = beside(path, ".lock");
    let file = open_regular(&name, OpenOptions::new().write(true).create(true).truncate(false).mode(0o600));
    locked(file.map_err(|error| io(&name, &error))?, path)
}

fn locked(file: File, path: &Path) -> Result<File, OpenError> {
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(io(path, &error)),
    }
}

/// Refuses a database whose restore was cut short.
pub fn check_restored(path: &Path) -> Result<(), OpenError> {
    let is_begun = beside(path, RESTORING).try_exists().map_err(|error| io(path, &error))?;
    let detail =
        || format!("`estop restore` was cut short. `estop restore {}{RESTORING}` ends it", path.display());
    if is_begun { Err(corrupt(path, &detail())) } else { Ok(()) }
}

/// Creates the database with its whole schema, or not at all.
///
/// It is made beside its place and moved there, so that an empty file in its place is always a damaged one.
pub(super) fn create_if_missing(path: &Path) -> Result<(), OpenError> {
    if path.try_exists().map_err(|error| io(path, &error))? {
        return Ok(());
    }
    // SQLite would replay it into the new file.
    if beside(path, "-wal").exists() {
        return Err(corrupt(path, "it is gone, but its write-ahead log is still there"));
    }
    let draft = beside(path, ".new");
    remove(&draft).map_err(|error| io(path, &error))?;
    let file = create_private(&draft).map_err(|error| io(path, &error))?;
    lay_out(&draft).map_err(|error| refuse(path, StoreError::from(error)))?;
    file.sync_all().and_then(|()| rename(&draft, path)).map_err(|error| io(path, &error))
}

fn lay_out(draft: &Path) -> rusqlite::Result<()> {
    let mut connection = Connection::open_with_flags(draft, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // Before the first table, or it has no effect.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    migrate::migrate(&mut connection, migrate::MIGRATIONS)?;
    connection.close().map_err(|(_, error)| error)
}

/// Opens a database that is there.
pub(super) fn existing(path: &Path, options: SqliteOptions) -> Result<Connection, OpenError> {
    check_header(path)?;
    let refused = |error: rusqlite::Error| refuse(path, StoreError::from(error));
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(refused)?;
    check_owner(path, &connection)?;
    prepare(&connection, options).map_err(|error| refuse(path, error))?;
    check_length(path, &connection)?;
    migrate::migrate(&mut connection, migrate::MIGRATIONS).map_err(refused)?;
    for table in CHECKED {
        quick_check(&connection, table).map_err(|error| refuse(path, error))?;
    }
    Ok(connection)
}

/// Opens the writing connection again, after the disk failed.
pub(super) fn reopen(path: &Path, options: SqliteOptions) -> Result<Connection, StoreError> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    prepare(&connection, options)?;
    Ok(connection)
}

/// Opens a connection that can only read.
pub(super) fn reader(path: &Path) -> Result<Connection, StoreError> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(128);
    // Otherwise each new value of a parameter has its statement prepared again, which costs more than running it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

/// Moves all of the write-ahead log into the database, so that nothing hangs on a write whose sync may have failed.
fn prepare(connection: &Connection, options: SqliteOptions) -> Result<(), StoreError> {
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        return Err(StoreError::Io(format!("the file system allows no write-ahead log ({mode})")));
    }
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KB)?;
    // What a savepoint may have to undo stays in memory.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // The writer does it between commits, so that no answer waits for it.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update_and_check(None, "journal_size_limit", WAL_KEEP_BYTES, |_| Ok(()))?;
    if let Some(bytes) = options.size_max_bytes {
        let page: u64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        connection.pragma_update_and_check(None, "max_page_count", bytes / page.max(1), |_| Ok(()))?;
    }
    let is_held = connection.query_row("PRAGMA wal_checkpoint(FULL)", [], |row| row.get(0))?;
    if is_held { Err(StoreError::Busy) } else { Ok(()) }
}

/// Looks at the file before SQLite does, which would take an empty one for a new one.
pub(super) fn check_header(path: &Path) -> Result<(), OpenError> {
    let mut header = [0; HEADER_LEN];
    for part in ["-wal", "-shm"] {
        let name = beside(path, part);
        check_regular(&name).map_err(|error| io(&name, &error))?;
    }
    let mut file = open_regular(path, OpenOptions::new().read(true)).map_err(|error| io(path, &error))?;
    match file.read_exact(&mut header) {
        Ok(()) if header.starts_with(MAGIC) => Ok(()),
        Ok(()) => Err(corrupt(path, "it is not an SQLite database")),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(corrupt(path, "it was cut off")),
        Err(error) => Err(io(path, &error)),
    }
}

/// Whether it is ours, and of a schema we know; the schema.
pub(super) fn check_owner(path: &Path, connection: &Connection) -> Result<u32, OpenError> {
    let refused = |error: rusqlite::Error| refuse(path, StoreError::from(error));
    let application_id: i32 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(refused)?;
    if application_id != APPLICATION_ID {
        return Err(OpenError::Foreign { path: path.to_owned(), application_id });
    }
    let (found, known) = (migrate::version(connection).map_err(refused)?, migrate::newest());
    if found > known {
        return Err(OpenError::Newer { path: path.to_owned(), found, known });
    }
    Ok(found)
}

/// Whether the file has all the pages its header counts. Only once the write-ahead log was moved into it.
fn check_length(path: &Path, connection: &Connection) -> Result<(), OpenError> {
    let number = |name| {
        let value = connection.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
        value.map_err(|error| refuse(path, StoreError::from(error)))
    };
    let wanted = number("page_count")? * number("page_size")?;
    let found = path.metadata().map_err(|error| io(path, &error))?.len();
    if found < wanted {
        return Err(corrupt(path, &format!("it was cut off: {found} of {wanted} bytes are there")));
    }
    Ok(())
}

/// Checks every page of a table, or of all (`0`).
pub(super) fn quick_check(connection: &Connection, table: &str) -> Result<(), StoreError> {
    let result: String =
        connection.query_row(&format!("PRAGMA quick_check({table})"), [], |row| row.get(0))?;
    if result == "ok" { Ok(()) } else { Err(StoreError::Corrupt(result)) }
}

/// What an error means for someone who wants to open.
pub(super) fn refuse(path: &Path, error: StoreError) -> OpenError {
    match error {
        StoreError::Corrupt(detail) => OpenError::Corrupt { path: path.to_owned(), detail },
        StoreError::Busy => OpenError::Locked { path: path.to_owned() },
        // A database of ours has our tables and no broken statement.
        StoreError::Database(detail) | StoreError::Invalid(detail) => {
            OpenError::Corrupt { path: path.to_owned(), detail }
        }
        StoreError::Full
        | StoreError::Io(_)
        | StoreError::Closed
        | StoreError::NotFound { .. }
        | StoreError::Exists { .. }
        | StoreError::Conflict { .. }
        | StoreError::OutOfOrder { .. } => OpenError::Io { path: path.to_owned(), detail: error.to_string() },
    }
}

fn corrupt(path: &Path, detail: &str) -> OpenError {
    OpenError::Corrupt { path: path.to_owned(), detail: detail.to_owned() }
}

fn io(path: &Path, error: &std::io::Error) -> OpenError {
    OpenError::Io { path: path.to_owned(), detail: error.to_string() }
}

/// A file that only its owner can read.
pub(super) fn create_private(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Removes a file, if it is there.
pub(super) fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Moves a file to its place, for good: the folder is synced too.
pub(super) fn rename(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::rename(from, to)?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// The file of that name with something added.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}
