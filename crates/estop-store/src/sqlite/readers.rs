//! A few read-only connections, shared by whoever reads.

use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use super::open;
use crate::error::StoreError;

/// Connections are opened when first needed and kept.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    max: usize,
    pool: Mutex<Pool>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Pool {
    idle: Vec<Connection>,
    /// How many are in use.
    busy: usize,
}

impl Readers {
    pub(super) fn new(path: &Path, max: usize) -> Readers {
        Readers { path: path.to_owned(), max: max.max(1), pool: Mutex::default(), freed: Condvar::new() }
    }

    /// Reads on a connection that sees one moment of the database throughout.
    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut loan = PooledReader { readers: self, connection: self.take() };
        if loan.connection.is_none() {
            loan.connection = Some(open::reader(&self.path)?);
        }
        let Some(connection) = &loan.connection else { return Err(StoreError::Closed) };
        let moment = connection.unchecked_transaction()?;
        work(&moment)
    }

    /// Waits until one may be used; `None` = it must be opened first.
    fn take(&self) -> Option<Connection> {
        let mut pool = self.pool();
        while pool.busy >= self.max {
            pool = self.freed.wait(pool).unwrap_or_else(PoisonError::into_inner);
        }
        pool.busy += 1;
        pool.idle.pop()
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives the connection back, whatever happened to the reader.
struct PooledReader<'a> {
    readers: &'a Readers,
    connection: Option<Connection>,
}

impl Drop for PooledReader<'_> {
    fn drop(&mut self) {
        let mut pool = self.readers.pool();
        pool.busy -= 1;
        pool.idle.extend(self.connection.take());
        self.readers.freed.notify_one();
    }
}
