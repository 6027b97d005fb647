//! Copies the database while it is in use, and looks at a copy before it is restored.

use std::path::Path;

use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};

use super::{Sqlite, append, open};
use crate::error::{OpenError, StoreError};
use crate::journal::Cursor;

/// What a copy holds.
pub(crate) struct Copied {
    /// Its schema.
    pub(crate) schema: u32,
    /// How far into which journal its rows were made.
    pub(crate) cursor: Option<Cursor>,
}

/// Reads a copy from end to end: whether it is ours, of a schema we know, and undamaged. Nothing is changed.
pub(crate) fn check_copy(path: &Path) -> Result<Copied, OpenError> {
    open::check_header(path)?;
    let refused = |error: StoreError| open::refuse(path, error);
    let connection = open::reader(path).map_err(refused)?;
    let schema = open::check_owner(path, &connection)?;
    check(&connection).map_err(refused)?;
    let cursor = append::cursor(&connection).map_err(refused)?;
    Ok(Copied { schema, cursor })
}

/// Copies a database as it is at this moment into a new file, while whoever has it open goes on writing.
pub(crate) fn copy_database(from: &Path, to: &Path) -> Result<(), StoreError> {
    open::create_private(to)?;
    let source = open::reader(from)?;
    let mut target = Connection::open_with_flags(to, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // In one step: further steps would begin again after each write in between.
    Backup::new(&source, &mut target)?.step(-1)?;
    // One file without a log beside it, that can be read where nothing can be written.
    target.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    target.close().map_err(|(_, error)| StoreError::from(error))
}

impl Sqlite {
    /// Reads the whole database and says whether it is undamaged. Slow with many records.
    pub fn check(&self) -> Result<(), StoreError> {
        self.read(check)
    }
}

/// Reads everything.
fn check(connection: &Connection) -> Result<(), StoreError> {
    // With the number of complaints it may stop after.
    open::quick_check(connection, "1")
}
