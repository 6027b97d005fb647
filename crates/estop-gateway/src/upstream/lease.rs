//! One request's hold on an upstream connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::client::conn::http2;
use hyper::{Request, Response};

use super::http1::{Failed, OwnConnection};
use super::{Answer, Upstream, UpstreamError};
use crate::flight::{Flight, Hold};
use crate::upload::{Outgoing, RequestBody};

/// One request's hold on an upstream connection. Dropped before its end, an HTTP/1.1 connection is closed and an
/// HTTP/2 stream reset.
pub(crate) struct Lease(Option<Held>);

enum Held {
    One { upstream: Arc<Upstream>, connection: Arc<OwnConnection> },
    Two { upstream: Arc<Upstream>, sender: http2::SendRequest<RequestBody>, streams: Arc<AtomicUsize> },
}

/// What became of a request that was sent.
pub(super) enum Tried {
    Answered(Response<Answer>),
    /// Nothing of it was sent: it can go another way.
    Unsent(Outgoing, UpstreamError),
    Failed(UpstreamError),
}

impl Lease {
    pub(super) fn one(upstream: Arc<Upstream>, connection: Arc<OwnConnection>) -> Lease {
        Lease(Some(Held::One { upstream, connection }))
    }

    pub(super) fn two(
        upstream: Arc<Upstream>,
        sender: http2::SendRequest<RequestBody>,
        streams: Arc<AtomicUsize>,
    ) -> Lease {
        streams.fetch_add(1, Ordering::Relaxed);
        Lease(Some(Held::Two { upstream, sender, streams }))
    }

    /// Makes a cut of the request close the connection, where the request has it for itself.
    pub(super) fn hold(&self, flight: &Flight) {
        if let Some(Held::One { connection, .. }) = &self.0 {
            flight.hold_upstream(Hold::Connection(Arc::clone(connection)));
        }
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn try_send(&mut self, mut request: Outgoing) -> Tried {
        let broken = |error: &dyn std::error::Error| UpstreamError::Broken(error.to_string());
        match &mut self.0 {
            Some(Held::One { upstream, connection }) => {
                match connection.exchange(&upstream.ready, &mut request).await {
                    Ok(response) => Tried::Answered(response.map(Answer::Own)),
                    Err(error @ Failed::Unsent(_)) => Tried::Unsent(request, broken(&error)),
                    Err(error) => Tried::Failed(broken(&error)),
                }
            }
            Some(Held::Two { upstream, sender, .. }) => {
                let mut request = match Request::try_from(request) {
                    Ok(request) => request,
                    Err(error) => return Tried::Failed(broken(&error)),
                };
                upstream.ready.aim_two(&mut request);
                match sender.try_send_request(request).await {
                    Ok(response) => Tried::Answered(response.map(Answer::Shared)),
                    Err(mut error) => match error.take_message() {
                        Some(unsent) => Tried::Unsent(unsent.into(), broken(error.error())),
                        None => Tried::Failed(broken(error.error())),
                    },
                }
            }
            None => std::future::pending().await,
        }
    }

    /// The answer is complete: the connection may serve somebody else.
    pub(crate) fn finish(mut self, flight: &Flight) {
        match self.0.take() {
            Some(Held::One { upstream, connection }) if flight.release_upstream() => {
                upstream.put_back(connection, flight.moved());
            }
            Some(Held::Two { streams, .. }) => {
                streams.fetch_sub(1, Ordering::Relaxed);
            }
            // Closed already.
            Some(Held::One { .. }) | None => {}
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        match &self.0 {
            Some(Held::One { connection, .. }) => connection.close(),
            Some(Held::Two { streams, .. }) => {
                streams.fetch_sub(1, Ordering::Relaxed);
            }
            None => {}
        }
    }
}
