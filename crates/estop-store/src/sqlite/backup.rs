//! Copies a database while it is in use, and looks at a copy before it is restored.

use std::path::Path;

use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};

use super::packed::lines_of;
use super::{Sqlite, append, open};
use crate::error::{OpenError, StoreError};

/// What a copy holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restorable {
    /// Its schema.
    pub schema: u32,
    /// Its newest record.
    pub last_seq: u64,
}

/// Reads a copy from end to end: whether it is ours, of a schema we know, and undamaged. Nothing is changed.
pub fn restore_check(path: &Path) -> Result<Restorable, OpenError> {
    open::check_restored(path)?;
    open::check_header(path)?;
    let refused = |error: StoreError| open::refuse(path, error);
    let connection = open::reader(path).map_err(refused)?;
    let schema = open::check_owner(path, &connection)?;
    check(&connection).map_err(refused)?;
    Ok(Restorable { schema, last_seq: append::last_seq(&connection).map_err(refused)? })
}

/// Copies a database as it is at this moment, while whoever has it open goes on writing. An existing file is not
/// overwritten; what appears under the name is complete and on the disk.
pub fn backup(from: &Path, to: &Path) -> Result<(), StoreError> {
    let io = |error: std::io::Error| StoreError::Io(error.to_string());
    if to.try_exists().map_err(io)? {
        return Err(StoreError::Exists { what: "file", id: to.display().to_string() });
    }
    let draft = open::beside(to, ".part");
    open::remove(&draft).map_err(io)?;
    let file = open::create_private(&draft).map_err(io)?;
    let copied = copy(from, &draft);
    if copied.is_err() {
        // The first error is the one to tell.
        let _ = open::remove(&draft);
    }
    copied?;
    file.sync_all().and_then(|()| open::rename(&draft, to)).map_err(io)
}

impl Sqlite {
    /// The same for this one.
    pub fn backup(&self, to: &Path) -> Result<(), StoreError> {
        backup(self.path(), to)
    }

    /// Reads the whole database and says whether it is undamaged. Slow with many records.
    pub fn check(&self) -> Result<(), StoreError> {
        self.read(check)
    }
}

/// Reads everything. SQLite does not look into what it keeps: whether a block of the journal is damaged, its checksum says.
fn check(connection: &Connection) -> Result<(), StoreError> {
    // With the number of complaints it may stop after.
    open::quick_check(connection, "1")?;
    let columns = "SELECT count(*) FROM pragma_table_info('block') WHERE name IN ('raw_bytes', 'digests')";
    if connection.query_row(columns, [], |row| row.get::<_, u64>(0))? < 2 {
        // Of a schema that kept no checksums.
        return Ok(());
    }
    let mut statement =
        connection.prepare("SELECT lines, raw_bytes, digests FROM block ORDER BY first_seq")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        lines_of(row, 0)?;
    }
    Ok(())
}

/// In one step: further steps would begin again after each write in between.
fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    let source = open::reader(from)?;
    let mut target = Connection::open_with_flags(to, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    Backup::new(&source, &mut target)?.step(-1)?;
    // One file without a log beside it, that can be read where nothing can be written.
    target.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    target.close().map_err(|(_, error)| StoreError::from(error))
}
