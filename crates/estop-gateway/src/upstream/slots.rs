//! How many upstream connections may be open at once, over all workers. Each takes a descriptor, and a client that speaks
//! HTTP/2 can ask for many on one connection of its own: without a maximum they would take those that accept a kill.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::host::Host;

/// How often, and for how long, a connection that is being closed is waited for.
const TRIES: usize = 20;
const TRY_EVERY: Duration = Duration::from_millis(5);

/// Closes pooled connections that carry nothing.
type CloseIdle = Box<dyn Fn() + Send + Sync>;

/// The count of open upstream connections, and its maximum.
#[derive(Default)]
pub(crate) struct Slots {
    open: AtomicUsize,
    limit: OnceLock<(usize, CloseIdle)>,
}

impl Slots {
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
pub(super) struct Slot(Arc<Host>);

impl Slot {
    /// One of those that are left. If there is none, idle connections are closed, each by its worker, and waited for.
    pub(super) async fn take(host: &Arc<Host>) -> Option<Slot> {
        for _ in 0..TRIES {
            if host.upstream_slots.take() {
                return Some(Slot(Arc::clone(host)));
            }
            tokio::time::sleep(TRY_EVERY).await;
        }
        None
    }

    /// Whose it is.
    pub(super) fn host(&self) -> &Host {
        &self.0
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.upstream_slots.open.fetch_sub(1, Ordering::Relaxed);
    }
}
