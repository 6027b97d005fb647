//! Whether the files of an open database are still those that were opened, and as long as they were left.
//!
//! SQLite goes on with a file that was removed, and everything it stores then is lost. The database file and its log change
//! under the writer's hands alone: whoever finds one shorter than the writer left it has found that somebody else cut it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::open::beside;
use crate::data_folder::FileId;

/// The database, its write-ahead log, and the log's index.
const PARTS: [&str; 3] = ["", "-wal", "-shm"];

#[derive(Debug)]
pub(super) struct Files {
    paths: [PathBuf; 3],
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    ids: [Option<FileId>; 3],
    /// Of the first two; 0 while the writer works.
    lengths: [u64; 2],
    /// What was found first.
    lost: Option<String>,
}

impl Files {
    /// Those of a database that was just opened.
    pub(super) fn of(path: &Path) -> Files {
        let files = Files { paths: PARTS.map(|part| beside(path, part)), known: Mutex::default() };
        let mut known = files.known();
        known.ids = std::array::from_fn(|at| FileId::at(&files.paths[at]).ok().flatten());
        known.lengths = files.lengths().map(Option::unwrap_or_default);
        drop(known);
        files
    }

    /// What is lost, if something is. Once found, it stays so.
    pub(super) fn lost(&self) -> Option<String> {
        self.check(&mut self.known())
    }

    /// The writer begins to work: from here to [`Files::rest`] lengths may change.
    pub(super) fn begin(&self) {
        let mut known = self.known();
        self.check(&mut known);
        known.lengths = [0; 2];
    }

    /// The writer is done for now.
    pub(super) fn rest(&self) {
        let lengths = self.lengths().map(Option::unwrap_or_default);
        self.known().lengths = lengths;
    }

    /// The writer closes the database: if nobody else has it open, SQLite removes its log.
    pub(super) fn closing(&self) {
        self.known().ids[1..].fill(None);
    }

    /// The writer opened the database anew: if nobody else had it open, its log is a new one. The database must be the same.
    pub(super) fn reopened(&self) {
        let mut known = self.known();
        for at in 1..PARTS.len() {
            known.ids[at] = FileId::at(&self.paths[at]).ok().flatten();
        }
    }

    fn check(&self, known: &mut Known) -> Option<String> {
        if known.lost.is_none() {
            let replaced = self.paths.iter().zip(known.ids).find_map(|(path, id)| id?.lost(path));
            known.lost = replaced.or_else(|| {
                let pairs = self.paths.iter().zip(self.lengths().into_iter().zip(known.lengths));
                let cut = |(path, (is, was)): (&PathBuf, (Option<u64>, u64))| {
                    let is = is.filter(|is| *is < was)?;
                    Some(format!("{} was cut to {is} of {was} bytes", path.display()))
                };
                pairs.into_iter().find_map(cut)
            });
        }
        known.lost.clone()
    }

    /// How long the first two are; `None` if the disk does not say.
    fn lengths(&self) -> [Option<u64>; 2] {
        std::array::from_fn(|at| std::fs::symlink_metadata(&self.paths[at]).ok().map(|about| about.len()))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
