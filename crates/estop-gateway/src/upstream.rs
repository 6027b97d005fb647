//! Connections to providers: dialled here and nowhere else, pooled, and closed the moment a request is cut.
//!
//! A pool belongs to one worker. Providers are spoken to by HTTP/1.1 alone: a connection carries one request at a time, so
//! that whoever stops a request can close its socket and nobody else's (docs/decisions/0029).

mod ask;
mod dial;
mod http1;
mod lease;
mod line;
mod provider;
mod slots;
mod unless_cut;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use estop_core::time::Millis;
use hyper::Response;

pub(crate) use http1::{Body, OwnConnection};
pub(crate) use lease::Lease;
pub(crate) use provider::Ready;
pub(crate) use slots::Slots;
pub(crate) use unless_cut::Sent;

use lease::Tried;

use crate::flight::{Flight, Phase};
use crate::host::Host;
use crate::upload::Outgoing;

/// Idle connections kept for each provider and worker. Chosen: as many as a worker has busy at once in load tests.
const IDLE_MAX: usize = 256;
/// An idle connection is not used after this time: providers close theirs after 60 s and more, and a request sent
/// into a closing connection is lost.
const IDLE_FOR_MS: u64 = 20_000;

/// Why a provider gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpstreamError {
    /// No connection could be made.
    #[error("{0}")]
    Unreachable(String),
    /// As many connections are open as may be.
    #[error(
        "too many connections to providers are open: raise the limit of open files (`estop doctor` says to what)"
    )]
    Crowded,
    /// The connection broke, or what came was not HTTP.
    #[error("the connection broke before an answer came: {0}")]
    Broken(String),
}

/// One provider, as one worker sees it.
pub(crate) struct Upstream {
    /// What is the same for all workers.
    pub ready: Arc<Ready>,
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    connection: Arc<OwnConnection>,
    since: Millis,
}

impl Idle {
    fn is_fresh(&self, now: Millis) -> bool {
        now.since(self.since) < IDLE_FOR_MS && self.connection.is_quiet()
    }
}

impl Upstream {
    /// A provider with no connections yet.
    pub(crate) fn new(ready: Arc<Ready>) -> Arc<Upstream> {
        Arc::new(Upstream { ready, idle: Mutex::default() })
    }

    /// Sends a request and waits for the head of its answer. A connection that was closed while idle is replaced,
    /// as long as nothing of the request was sent.
    pub(crate) async fn send(
        self: &Arc<Self>,
        mut request: Outgoing,
        flight: &Flight,
        host: &Arc<Host>,
    ) -> Result<(Response<Body>, Lease), UpstreamError> {
        loop {
            let (mut lease, reused) = match self.pooled(host.clock.about()) {
                Some(lease) => (lease, true),
                None => {
                    flight.enter(Phase::Connecting, host.clock.mono());
                    // Boxed, because it is large and rare: every request would carry its room.
                    (Box::pin(self.dial(host)).await?, false)
                }
            };
            flight.enter(Phase::Awaiting, host.clock.about());
            lease.hold(flight);
            flight.set_sent(true);
            match lease.try_send(request).await {
                Tried::Answered(response) => return Ok((response, lease)),
                Tried::Unsent(unsent, _) if reused && flight.why_cut().is_none() => {
                    flight.set_sent(false);
                    request = unsent;
                }
                Tried::Unsent(_, error) | Tried::Failed(error) => return Err(error),
            }
        }
    }

    fn pooled(self: &Arc<Self>, now: Millis) -> Option<Lease> {
        loop {
            let last = self.idle().pop()?;
            if last.is_fresh(now) {
                return Some(Lease::new(Arc::clone(self), last.connection));
            }
            last.connection.close();
        }
    }

    /// Takes back a connection whose answer is complete.
    fn put_back(&self, connection: Arc<OwnConnection>, now: Millis) {
        if !connection.rest() {
            return;
        }
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            return idle.push(Idle { connection, since: now });
        }
        drop(idle);
        connection.close();
    }

    /// Closes connections that carry nothing.
    pub(crate) fn close_idle(&self) {
        self.sweep(Millis(u64::MAX));
    }

    /// Closes connections that were idle for too long.
    pub(crate) fn sweep(&self, now: Millis) {
        let stale: Vec<Idle> = self.idle().extract_if(.., |idle| !idle.is_fresh(now)).collect();
        stale.iter().for_each(|idle| idle.connection.close());
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
