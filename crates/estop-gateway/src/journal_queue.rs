//! The way out for events and decisions: a bounded queue between the data plane and whoever writes the journal.
//!
//! Nothing that was decided is dropped. When the writer falls behind, new requests are refused instead
//! ([`JournalQueue::is_full`]); what belongs to requests already let through still gets in. When the writer is gone
//! ([`JournalQueue::fail`]), nothing is let through any more.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use estop_core::decision::Decision;
use estop_core::event::Event;
use estop_core::ids::Name;
use estop_core::system::{SystemDecision, SystemEvent};
use estop_core::time::Now;

/// Records that may wait. Chosen: about 30 MB and three seconds of a busy machine; half sheds load at a slow disk's
/// hiccup, double only hides a dead one for longer.
const WAITING_MAX: usize = 65_536;

/// One thing to write down.
#[derive(Debug)]
pub enum Recorded {
    /// Of an agent.
    Agent {
        /// Whose chain.
        agent: Arc<str>,
        /// When.
        now: Now,
        /// What happened.
        event: Event,
        /// What was decided.
        decision: Arc<Decision>,
    },
    /// Of the system.
    System {
        /// When.
        now: Now,
        /// What happened.
        event: SystemEvent,
        /// What was decided.
        decision: SystemDecision,
    },
}

/// Longest name of a model or a tool in a record. Chosen: ARNs and MCP's long names fit; whatever is longer is a text
/// that somebody put there, and does not belong in a journal.
const NAME_MAX: usize = 256;

/// A name as it is written down: the queue counts records, so that each must be small.
pub(crate) fn short_name(name: &str) -> Name {
    name[..name.floor_char_boundary(NAME_MAX)].into()
}

/// The same for a name that is at hand, and mostly short.
pub(crate) fn shorten(name: &mut Name) {
    if name.len() > NAME_MAX {
        *name = short_name(name);
    }
}

/// The queue.
#[derive(Debug, Default)]
pub struct JournalQueue {
    waiting: Mutex<Vec<Recorded>>,
    count: AtomicUsize,
    /// The writer sleeps until it is woken; while it is busy it looks by itself, and nobody pays for waking it.
    asleep: AtomicBool,
    closed: AtomicBool,
    /// The writer is gone: nothing can be written any more.
    failed: AtomicBool,
    bell: Condvar,
}

/// How long the writer gathers records before it writes them.
const GATHER: Duration = Duration::from_millis(2);

impl JournalQueue {
    /// Whether new requests must wait for the writer.
    pub fn is_full(&self) -> bool {
        self.has_failed() || self.count.load(Ordering::Relaxed) >= WAITING_MAX
    }

    /// Whether the writer is gone.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// The writer is gone: from here on every new request is refused, and what cannot be written is not kept.
    pub fn fail(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.failed.store(true, Ordering::Relaxed);
        *waiting = Vec::new();
    }

    /// Adds a record. Callers that must keep an order hold their own lock while they call.
    pub fn push(&self, record: Recorded) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.has_failed() {
            return;
        }
        waiting.push(record);
        self.count.store(waiting.len(), Ordering::Relaxed);
        if self.asleep.swap(false, Ordering::Relaxed) {
            self.bell.notify_one();
        }
    }

    /// Waits for records and takes all of them; `false` once the queue is closed and empty.
    pub fn take(&self, into: &mut Vec<Recorded>) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while waiting.is_empty() {
            if self.closed.load(Ordering::Relaxed) {
                return false;
            }
            self.asleep.store(true, Ordering::Relaxed);
            waiting = self.bell.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        if !self.closed.load(Ordering::Relaxed) {
            drop(waiting);
            std::thread::sleep(GATHER);
            waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut *waiting, into);
        self.count.store(waiting.len(), Ordering::Relaxed);
        true
    }

    /// Nothing more will come: the writer takes what is there and ends.
    pub fn close(&self) {
        // Under the lock, so that a writer about to sleep does not miss it.
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.closed.store(true, Ordering::Relaxed);
        drop(waiting);
        self.bell.notify_all();
    }
}
