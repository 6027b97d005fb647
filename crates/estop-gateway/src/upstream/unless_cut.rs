//! Sending a request unless it is cut meanwhile: whoever stops it does not wait for the upstream.

use std::sync::Arc;
use std::task::Poll;

use http::Response;
use hyper::body::Incoming;

use super::{Lease, Upstream, UpstreamError};
use crate::body::upload::Outgoing;
use crate::emergency_stop::in_flight::InFlightRequest;

/// What became of a request that was sent.
pub(crate) enum Sent {
    /// The head of an answer came.
    Answered(Response<Incoming>, Lease),
    /// None came.
    Failed(UpstreamError),
    /// Somebody ended it first.
    Cut,
}

impl Upstream {
    /// Sends a request and waits for the head of its answer, or until it is cut.
    pub(crate) async fn send_unless_cut(
        self: &Arc<Self>,
        request: Outgoing,
        flight: &InFlightRequest,
    ) -> Sent {
        let mut sending = std::pin::pin!(self.send(request, flight));
        std::future::poll_fn(|cx| {
            if flight.poll_cut(cx).is_ready() {
                return Poll::Ready(Sent::Cut);
            }
            match sending.as_mut().poll(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Ok((response, lease))) => Poll::Ready(Sent::Answered(response, lease)),
                Poll::Ready(Err(_)) if flight.why_cut().is_some() => Poll::Ready(Sent::Cut),
                Poll::Ready(Err(error)) => Poll::Ready(Sent::Failed(error)),
            }
        })
        .await
    }
}
