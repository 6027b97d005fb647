//! A checkpoint on request: whoever copies the journal of a running estop asks for one, so that a copy ends with it and a
//! cut tail of the copy is noticed.

use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::JournalQueue;

/// What was asked for, and what was done.
#[derive(Debug, Default)]
pub struct CheckpointRequests {
    inner: Mutex<Inner>,
    done: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    asked: u64,
    served: u64,
    /// The record of the latest.
    seq: u64,
}

impl CheckpointRequests {
    /// The latest request that is not served. Look before you take records: all that were pushed before it are among them.
    pub fn wanted(&self) -> Option<u64> {
        let inner = self.lock();
        (inner.asked > inner.served).then_some(inner.asked)
    }

    /// The checkpoint of a request, and all before it, is stored as the record `seq`.
    pub fn serve(&self, request: u64, seq: u64) {
        let mut inner = self.lock();
        (inner.served, inner.seq) = (request, seq);
        drop(inner);
        self.done.notify_all();
    }

    fn ask(&self) -> u64 {
        let mut inner = self.lock();
        inner.asked += 1;
        inner.asked
    }

    fn wait(&self, request: u64, within: Duration) -> Option<u64> {
        let waited = self.done.wait_timeout_while(self.lock(), within, |inner| inner.served < request);
        let (inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (inner.served >= request).then_some(inner.seq)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JournalQueue {
    /// Has the writer store a checkpoint after all records there are; its number, or `None` if that takes too long.
    pub fn checkpoint(&self, within: Duration) -> Option<u64> {
        let request = self.checkpoints.ask();
        self.hurry.store(true, Ordering::Relaxed);
        // Under the lock, so that a writer about to sleep does not miss it.
        drop(self.waiting());
        self.bell.notify_all();
        self.checkpoints.wait(request, within)
    }
}
