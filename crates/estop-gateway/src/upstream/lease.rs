//! One request's hold on an upstream connection.

use std::sync::Arc;

use super::Upstream;
use super::connection::{Tried, UpstreamConnection};
use crate::body::upload::Outgoing;
use crate::emergency_stop::in_flight::InFlightRequest;

/// One request's hold on an upstream connection. Dropped before its end, the connection is reset.
pub(crate) struct Lease {
    upstream: Arc<Upstream>,
    /// `None` once the answer is complete.
    connection: Option<UpstreamConnection>,
}

impl Lease {
    pub(super) fn new(upstream: Arc<Upstream>, connection: UpstreamConnection) -> Lease {
        Lease { upstream, connection: Some(connection) }
    }

    /// Makes a cut of the request close the connection.
    pub(super) fn hold(&self, flight: &InFlightRequest) {
        if let Some(connection) = &self.connection {
            flight.hold_upstream(connection.socket());
        }
    }

    /// Sends a request and waits for the head of its answer. `None` if the connection was given back.
    pub(super) async fn try_send(&mut self, request: Outgoing) -> Option<Tried> {
        Some(self.connection.as_mut()?.try_send(request).await)
    }

    /// The answer is complete: the connection may serve somebody else.
    pub(crate) fn finish(mut self, flight: &InFlightRequest) {
        if !flight.release_upstream() {
            // It was cut: the connection is closed with this.
            return;
        }
        if let Some(connection) = self.connection.take_if(|connection| connection.can_rest()) {
            self.upstream.put_back(connection, flight.moved());
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            connection.abort();
        }
    }
}
