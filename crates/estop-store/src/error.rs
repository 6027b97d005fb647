//! What can go wrong, in two small enums: when a store is opened, and when it is used.

use std::path::PathBuf;

/// Why a database was not opened. The caller starts in a safe state and shows the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// A newer estop wrote it.
    #[error(
        "{} has schema {found}, this estop knows schemas up to {known}: start the newer estop again, or restore a backup made before the update",
        path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// The newest schema this program knows.
        known: u32,
    },
    /// It belongs to another program.
    #[error(
        "{} is a database of another program (application id {application_id:#010x}): set `data_dir` to a folder of estop's own",
        path.display()
    )]
    Foreign {
        /// The database.
        path: PathBuf,
        /// Whose it is.
        application_id: i32,
    },
    /// It is damaged, cut off, or no database.
    #[error("{} cannot be trusted: {detail}. Restore a backup, or move the file away to start anew", path.display())]
    Corrupt {
        /// The database.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// Another process has it.
    #[error("{} is in use by another estop: stop that one first, or use another `data_dir`", path.display())]
    Locked {
        /// The database.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("{} cannot be opened: {detail}", path.display())]
    Io {
        /// The database.
        path: PathBuf,
        /// What the system said.
        detail: String,
    },
}

/// Why something was not stored or read. Nothing of a failed write was applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk, or the database's allowance, is full.
    #[error("the disk is full: free space or shorten the retention")]
    Full,
    /// The disk failed.
    #[error("the disk failed: {0}")]
    Io(String),
    /// Another process held the database for too long.
    #[error("the database is held by another process")]
    Busy,
    /// The database is damaged.
    #[error("the database is damaged: {0}")]
    Corrupt(String),
    /// The thread that writes is gone.
    #[error("the store is closed")]
    Closed,
    /// No such thing.
    #[error("there is no {what} `{id}`")]
    NotFound {
        /// Kind of thing.
        what: &'static str,
        /// Its name or number.
        id: String,
    },
    /// It is there already.
    #[error("there is a {what} `{id}` already")]
    Exists {
        /// Kind of thing.
        what: &'static str,
        /// Its name or number.
        id: String,
    },
    /// Someone else changed it in between.
    #[error("it was changed in between: its version is {current}")]
    Conflict {
        /// Its version, or epoch.
        current: u64,
    },
    /// A batch does not follow the last stored record.
    #[error("record {expected} is next, but this batch begins with {found}")]
    OutOfOrder {
        /// The record that is next.
        expected: u64,
        /// The first of the batch.
        found: u64,
    },
    /// What was given breaks a rule of the schema.
    #[error("refused: {0}")]
    Invalid(String),
    /// Anything else the database said.
    #[error("the database refused: {0}")]
    Database(String),
}

/// Of the journal's files.
impl From<std::io::Error> for StoreError {
    fn from(error: std::io::Error) -> StoreError {
        let kind = error.kind();
        if kind == std::io::ErrorKind::InvalidData {
            StoreError::Corrupt(format!("the journal: {error}"))
        } else if kind == std::io::ErrorKind::StorageFull {
            StoreError::Full
        } else {
            StoreError::Io(error.to_string())
        }
    }
}
