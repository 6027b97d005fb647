//! Connections to providers: dialled here and nowhere else, pooled, and closed the moment a request is cut.
//!
//! A pool belongs to one worker. Providers are spoken to by HTTP/1.1 alone: a connection carries one request at a time, so
//! that whoever stops a request can close its socket and nobody else's (docs/decisions/0029).

mod ask;
mod connection;
mod dial;
mod lease;
pub(crate) mod mcp_servers;
mod provider;
pub(crate) mod relays;
mod slots;
mod unless_cut;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use estop_core::time::Millis;
use http::header::HOST;
use http::{Response, Version};
use hyper::body::Incoming;

pub(crate) use lease::Lease;
pub(crate) use provider::ProviderTarget;
pub(crate) use slots::Shared;
pub(crate) use unless_cut::Sent;

use connection::{Tried, UpstreamConnection};

use crate::body::upload::Outgoing;
use crate::emergency_stop::in_flight::{InFlightRequest, Phase};

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

impl UpstreamError {
    fn broken(error: &hyper::Error) -> UpstreamError {
        let cause = std::error::Error::source(error).map(|cause| format!(" ({cause})")).unwrap_or_default();
        UpstreamError::Broken(format!("{error}{cause}"))
    }
}

/// One provider, as one worker sees it.
pub(crate) struct Upstream {
    /// What is the same for all workers.
    pub ready: Arc<ProviderTarget>,
    shared: Arc<Shared>,
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    connection: UpstreamConnection,
    since: Millis,
}

impl Idle {
    fn is_fresh(&self, now: Millis) -> bool {
        now.since(self.since) < IDLE_FOR_MS && self.connection.is_open()
    }
}

impl Upstream {
    /// A provider with no connections yet.
    pub(crate) fn new(ready: Arc<ProviderTarget>, shared: &Arc<Shared>) -> Arc<Upstream> {
        Arc::new(Upstream { ready, shared: Arc::clone(shared), idle: Mutex::default() })
    }

    /// Sends a request and waits for the head of its answer. A connection that was closed while idle is replaced,
    /// as long as nothing of the request was sent.
    pub(crate) async fn send(
        self: &Arc<Self>,
        mut request: Outgoing,
        flight: &InFlightRequest,
    ) -> Result<(Response<Incoming>, Lease), UpstreamError> {
        self.address(&mut request);
        let clock = &self.shared.clock;
        loop {
            let (mut lease, reused) = match self.pooled(clock.now_coarse()) {
                Some(lease) => (lease, true),
                None => {
                    flight.enter(Phase::Connecting, clock.mono());
                    // Boxed, because it is large and rare: every request would carry its room.
                    (Lease::new(Arc::clone(self), Box::pin(self.dial()).await?), false)
                }
            };
            flight.enter(Phase::Awaiting, clock.now_coarse());
            lease.hold(flight);
            flight.set_sent(true);
            match lease.try_send(request).await {
                Some(Tried::Answered(response)) => return Ok((response, lease)),
                Some(Tried::Unsent(unsent, _)) if reused && flight.why_cut().is_none() => {
                    flight.set_sent(false);
                    request = *unsent;
                }
                Some(Tried::Unsent(_, error) | Tried::Failed(error)) => return Err(error),
                None => return Err(UpstreamError::Broken("the connection was given back".into())),
            }
        }
    }

    /// Makes a request one to this provider, whatever version and host its client named.
    fn address(&self, request: &mut Outgoing) {
        *request.version_mut() = Version::HTTP_11;
        request.headers_mut().insert(HOST, self.ready.host.clone());
    }

    fn pooled(self: &Arc<Self>, now: Millis) -> Option<Lease> {
        loop {
            let last = self.idle().pop()?;
            if last.is_fresh(now) {
                return Some(Lease::new(Arc::clone(self), last.connection));
            }
        }
    }

    /// Takes back a connection whose answer is complete.
    fn put_back(&self, connection: UpstreamConnection, now: Millis) {
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(Idle { connection, since: now });
        }
    }

    /// Closes connections that carry nothing.
    pub(crate) fn close_idle(&self) {
        self.sweep(Millis(u64::MAX));
    }

    /// Closes connections that were idle for too long.
    pub(crate) fn sweep(&self, now: Millis) {
        self.idle().retain(|idle| idle.is_fresh(now));
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
