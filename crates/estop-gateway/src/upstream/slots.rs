//! How many upstream connections may be open at once, over all workers. Each takes a descriptor, and a client that speaks
//! HTTP/2 can ask for many on one connection of its own: without a maximum they would take those that accept a kill.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::clock::Clock;

/// How often, and for how long, a connection that is being closed is waited for.
const TRIES: usize = 20;
const TRY_INTERVAL: Duration = Duration::from_millis(5);

/// Closes pooled connections that carry nothing.
type CloseIdle = Box<dyn Fn() + Send + Sync>;

/// What all upstream connections share: the clock, how many are open, and how many may be.
pub(crate) struct Shared {
    pub(super) clock: Arc<Clock>,
    open: AtomicUsize,
    limit: OnceLock<(usize, CloseIdle)>,
}

impl Shared {
    /// Connections without a maximum so far.
    pub(crate) fn new(clock: Arc<Clock>) -> Shared {
        Shared { clock, open: AtomicUsize::new(0), limit: OnceLock::new() }
    }

    /// Sets the maximum, once; `close_idle` is called when it is reached.
    pub(crate) fn limit(&self, max: usize, close_idle: impl Fn() + Send + Sync + 'static) {
        // Set where the data plane starts, and nowhere else.
        let _ = self.limit.set((max, Box::new(close_idle)));
    }

    fn take(&self) -> bool {
        let Some((max, close_idle)) = self.limit.get() else {
            self.open.fetch_add(1, Ordering::Relaxed);
            return true;
        };
        let room = |open: usize| (open < *max).then_some(open + 1);
        let is_taken = self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_ok();
        if !is_taken {
            close_idle();
        }
        is_taken
    }
}

/// The right to one upstream connection, given back when dropped.
pub(super) struct Slot(Arc<Shared>);

impl Slot {
    /// One of those that are left. If there is none, idle connections are closed, and waited for.
    pub(super) async fn take(shared: &Arc<Shared>) -> Option<Slot> {
        for _ in 0..TRIES {
            if shared.take() {
                return Some(Slot(Arc::clone(shared)));
            }
            tokio::time::sleep(TRY_INTERVAL).await;
        }
        None
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
