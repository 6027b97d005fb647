//! What keeps the journal from being written, as the data plane and people see it.

use std::sync::atomic::Ordering;

use estop_core::operator::JournalFailure;

use super::JournalQueue;

impl JournalQueue {
    /// Whether new requests must wait for the writer.
    pub fn is_full(&self) -> bool {
        self.trouble().is_some() || self.crowded.load(Ordering::Relaxed)
    }

    /// What people must know of it; a moment's crowd is nothing they could fix.
    pub fn trouble(&self) -> Option<JournalFailure> {
        if self.files_lost.load(Ordering::Relaxed) {
            return Some(JournalFailure::FilesLost);
        }
        let is_short = self.file.as_ref().is_some_and(|file| file.is_short());
        let is_stuck = is_short || self.stuck.load(Ordering::Relaxed);
        let stuck = is_stuck.then_some(JournalFailure::Stuck);
        if self.has_failed() { Some(JournalFailure::Failed) } else { stuck }
    }

    /// Whether what happens cannot be written down any more, or not in time.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed) || self.has_file_failed()
    }

    /// The store takes nothing for now (`true`), or does again.
    pub fn set_stuck(&self, stuck: bool) {
        self.stuck.store(stuck, Ordering::Relaxed);
    }

    /// A file of the data directory was removed, cut or replaced: nothing is let through any more.
    pub fn lose_files(&self) {
        self.files_lost.store(true, Ordering::Relaxed);
    }
}
