//! What the workers do: serve, end what is in progress, or nothing any more.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// What may arrive of a connection that has just begun when estop ends.
const LATE: Duration = Duration::from_millis(100);

/// What the workers do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Serving,
    /// Only what is in progress.
    Draining,
    Stopped,
}

/// What a connection does before its first request. Once estop ends it has a moment to come to its end: what was sent is
/// answered, and nobody waits for a client that sends nothing.
pub(super) async fn while_serving<T>(
    phases: &mut watch::Receiver<Phase>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        biased;
        done = &mut work => return Some(done),
        _ = phases.wait_for(|phase| *phase != Phase::Serving) => {}
    }
    timeout(LATE, work).await.ok()
}
