//! One request's hold on an upstream connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http2};
use hyper::{Request, Response};
use tokio::time::timeout;

use super::{Own, Upstream};
use crate::flight::Flight;
use crate::upload::RequestBody;

/// A connection that was idle is ready at once, or after a turn of its task.
const READY_WITHIN: Duration = Duration::from_secs(1);

/// One request's hold on an upstream connection. Dropped before its end, an HTTP/1.1 connection is closed and an
/// HTTP/2 stream reset.
pub(crate) struct Lease(Option<Held>);

enum Held {
    One { upstream: Arc<Upstream>, own: Own },
    Two { upstream: Arc<Upstream>, sender: http2::SendRequest<RequestBody>, streams: Arc<AtomicUsize> },
}

impl Lease {
    pub(super) fn one(upstream: Arc<Upstream>, own: Own) -> Lease {
        own.busy.store(true, Ordering::Relaxed);
        Lease(Some(Held::One { upstream, own }))
    }

    pub(super) fn two(
        upstream: Arc<Upstream>,
        sender: http2::SendRequest<RequestBody>,
        streams: Arc<AtomicUsize>,
    ) -> Lease {
        streams.fetch_add(1, Ordering::Relaxed);
        Lease(Some(Held::Two { upstream, sender, streams }))
    }

    /// Whether the request has its connection for itself.
    pub(crate) fn is_exclusive(&self) -> bool {
        matches!(self.0, Some(Held::One { .. }))
    }

    /// Makes a cut of the request close the connection, where the request has it for itself.
    pub(super) fn hold(&self, flight: &Flight) {
        if let Some(Held::One { own, .. }) = &self.0 {
            flight.hold_upstream(own.task.clone());
        }
    }

    /// Whether a connection that was idle takes a request now. One that still writes its last one does not.
    pub(super) async fn is_ready_soon(&mut self) -> bool {
        match &mut self.0 {
            Some(Held::One { own, .. }) if !own.sender.is_ready() => {
                timeout(READY_WITHIN, own.sender.ready()).await.is_ok()
            }
            Some(Held::One { .. } | Held::Two { .. }) | None => true,
        }
    }

    pub(super) async fn try_send(
        &mut self,
        mut request: Box<Request<RequestBody>>,
    ) -> Result<Response<Incoming>, TrySendError<Request<RequestBody>>> {
        match &mut self.0 {
            Some(Held::One { upstream, own }) => {
                upstream.ready.aim_one(&mut request);
                // Not ready means closed; sending then gives the request back.
                let _ = own.sender.ready().await;
                own.sender.try_send_request(*request).await
            }
            Some(Held::Two { upstream, sender, .. }) => {
                upstream.ready.aim_two(&mut request);
                sender.try_send_request(*request).await
            }
            None => std::future::pending().await,
        }
    }

    /// The answer is complete: the connection may serve somebody else.
    pub(crate) fn finish(mut self, flight: &Flight) {
        match self.0.take() {
            Some(Held::One { upstream, own }) if flight.release_upstream() => {
                upstream.put_back(own, flight.moved());
            }
            Some(Held::Two { streams, .. }) => {
                streams.fetch_sub(1, Ordering::Relaxed);
            }
            // Aborted already.
            Some(Held::One { .. }) | None => {}
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        match &self.0 {
            Some(Held::One { own, .. }) => own.task.abort(),
            Some(Held::Two { streams, .. }) => {
                streams.fetch_sub(1, Ordering::Relaxed);
            }
            None => {}
        }
    }
}
