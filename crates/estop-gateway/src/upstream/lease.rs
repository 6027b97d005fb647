//! One request's hold on an upstream connection.

use std::sync::Arc;

use hyper::Response;

use super::http1::{Body, Failed, OwnConnection};
use super::{Upstream, UpstreamError};
use crate::flight::Flight;
use crate::upload::Outgoing;

/// One request's hold on an upstream connection. Dropped before its end, the connection is closed.
pub(crate) struct Lease {
    upstream: Arc<Upstream>,
    /// `None` once the answer is complete.
    connection: Option<Arc<OwnConnection>>,
}

/// What became of a request that was sent.
pub(super) enum Tried {
    Answered(Response<Body>),
    /// Nothing of it was sent: it can go another way.
    Unsent(Outgoing, UpstreamError),
    Failed(UpstreamError),
}

impl Lease {
    pub(super) fn new(upstream: Arc<Upstream>, connection: Arc<OwnConnection>) -> Lease {
        Lease { upstream, connection: Some(connection) }
    }

    /// Makes a cut of the request close the connection.
    pub(super) fn hold(&self, flight: &Flight) {
        if let Some(connection) = &self.connection {
            flight.hold_upstream(Arc::clone(connection));
        }
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn try_send(&mut self, mut request: Outgoing) -> Tried {
        let broken = |error: &Failed| UpstreamError::Broken(error.to_string());
        let Some(connection) = &self.connection else {
            return Tried::Failed(broken(&Failed::Gone));
        };
        match connection.exchange(&self.upstream.ready, &mut request).await {
            Ok(response) => Tried::Answered(response),
            Err(error @ Failed::Unsent(_)) => Tried::Unsent(request, broken(&error)),
            Err(error) => Tried::Failed(broken(&error)),
        }
    }

    /// The answer is complete: the connection may serve somebody else.
    pub(crate) fn finish(mut self, flight: &Flight) {
        if !flight.release_upstream() {
            // It was cut: the connection is closed with this.
            return;
        }
        if let Some(connection) = self.connection.take() {
            self.upstream.put_back(connection, flight.moved());
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            connection.close();
        }
    }
}
