//! The place of a connection at a listener of the admin plane, as whoever serves it and whoever answers it share it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The place a connection has at a listener. One with a supervisor's line keeps it, whoever else comes.
#[derive(Clone, Debug, Default)]
pub struct ConnectionSlot(Arc<Standing>);

#[derive(Debug, Default)]
struct Standing {
    kept: AtomicBool,
    known: AtomicBool,
    busy: AtomicBool,
}

impl ConnectionSlot {
    /// Whether it must not be given to another.
    pub fn is_kept(&self) -> bool {
        self.0.kept.load(Ordering::Relaxed)
    }

    /// How much speaks against giving it to another: most while somebody with a right to be here waits for an answer, less
    /// if such a person was here before, nothing as long as nobody has shown one.
    pub fn rank(&self) -> u8 {
        let known = self.0.known.load(Ordering::Relaxed);
        u8::from(known) + u8::from(known && self.0.busy.load(Ordering::Relaxed))
    }

    pub(crate) fn keep(&self, kept: bool) {
        self.0.kept.store(kept, Ordering::Relaxed);
    }

    /// Somebody with a right to be here asks, until the result is dropped.
    pub(crate) fn begin(&self) -> Answering {
        self.0.known.store(true, Ordering::Relaxed);
        self.0.busy.store(true, Ordering::Relaxed);
        Answering(self.clone())
    }
}

/// A request is being answered.
pub(crate) struct Answering(ConnectionSlot);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.0.busy.store(false, Ordering::Relaxed);
    }
}
