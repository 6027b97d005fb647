//! A database that another process may be writing, only for reading: that process stays the only one that writes.

use std::path::Path;

use estop_core::chain::ChainHead;

use super::journal::{blocks, heads_at, tail_mark};
use super::readers::Readers;
use super::{append, migrate, open, retention};
use crate::error::{OpenError, StoreError};
use crate::journal::{EachBlock, Pruned, TailMark};

/// The journal of a database that may be in use.
#[derive(Debug)]
pub struct StoredJournal {
    readers: Readers,
}

impl StoredJournal {
    /// Opens it, if it is ours and of the schema this program writes.
    pub fn open(path: &Path) -> Result<StoredJournal, OpenError> {
        open::check_restored(path)?;
        open::check_header(path)?;
        let connection = open::reader(path).map_err(|error| open::refuse(path, error))?;
        let (found, known) = (open::check_owner(path, &connection)?, migrate::newest());
        if found != known {
            let detail = format!(
                "it has schema {found}, this estop reads schema {known}: use the estop that wrote it, or start this one on \
                 it once"
            );
            return Err(OpenError::Io { path: path.to_owned(), detail });
        }
        Ok(StoredJournal { readers: Readers::new(path, 1) })
    }

    /// The newest record; 0 if there is none.
    pub fn last_seq(&self) -> Result<u64, StoreError> {
        self.readers.read(append::last_seq)
    }

    /// How far the write-ahead tail was taken in.
    pub fn tail(&self) -> Result<TailMark, StoreError> {
        self.readers.read(tail_mark)
    }

    /// How far it was pruned.
    pub fn pruned(&self) -> Result<Pruned, StoreError> {
        self.readers.read(|connection| {
            let to_seq = retention::pruned_to(connection)?;
            Ok(Pruned { to_seq, heads: heads_at(connection, to_seq)? })
        })
    }

    /// How far it was pruned, and the state of each chain after that, all of one moment. `each` is called first without a
    /// chain, then for each chain in order of name, with an empty state if there is none; `false` ends the reading.
    pub fn beginning(
        &self,
        mut each: impl FnMut(&Pruned, Option<(&ChainHead, &[u8])>) -> bool,
    ) -> Result<(), StoreError> {
        self.readers.read(|connection| {
            let to_seq = retention::pruned_to(connection)?;
            let pruned = Pruned { to_seq, heads: heads_at(connection, to_seq)? };
            let mut goes_on = each(&pruned, None);
            for head in &pruned.heads {
                if !goes_on {
                    break;
                }
                let state = retention::base_state(connection, &head.chain)?;
                goes_on = each(&pruned, Some((head, state.as_deref().unwrap_or_default())));
            }
            Ok(())
        })
    }

    /// Reads the records `from_seq..=to_seq`, some hundreds at a time, without holding anything back meanwhile.
    pub fn blocks(&self, from_seq: u64, to_seq: u64, each: EachBlock<'_>) -> Result<(), StoreError> {
        blocks(&self.readers, from_seq, to_seq, each)
    }
}
