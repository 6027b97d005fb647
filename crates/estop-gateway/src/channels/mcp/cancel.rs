//! Tells a server that a call was stopped: to it, a connection that closes is only a connection that closes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use estop_core::system::Channel;
use estop_wire::mcp;
use http::header::{CONTENT_LENGTH, HeaderName};
use http::{HeaderMap, Method, Request, Uri};
use tokio::task::JoinSet;

use super::calls::Pending;
use crate::body::upload::RequestBody;
use crate::emergency_stop::in_flight::InFlightRequest;
use crate::engine::Engine;
use crate::engine::agents::Agent;
use crate::upstream::Upstream;

/// A server that takes longer, for all of them, is not waited for.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How many are told at once: a batch is no reason to open hundreds of connections.
const AT_ONCE: usize = 16;
const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");

/// How a server is told.
pub(super) struct Way {
    pub(super) engine: Arc<Engine>,
    pub(super) upstream: Arc<Upstream>,
    pub(super) agent: Arc<Agent>,
    /// The request with the calls.
    pub(super) flight: Arc<InFlightRequest>,
    pub(super) pending: Pending,
    pub(super) uri: Uri,
    /// With the session and the credentials of the client.
    pub(super) headers: HeaderMap,
    pub(super) max: usize,
}

/// Waits, on its own, until the request is over; if it was cut, takes its calls back.
pub(super) fn when_cut(way: Way) {
    tokio::spawn(async move {
        // Its body is inspected, so nobody else waits here.
        std::future::poll_fn(|cx| way.flight.poll_over(cx)).await;
        let Some(cut) = way.flight.why_cut().filter(|_| way.flight.was_sent()) else { return };
        let reason = cut.message.clone();
        // It was stopped either way; those that are not told by then are let go.
        let _ = tokio::time::timeout(TIMEOUT, tell_all(&Arc::new(way), &reason)).await;
    });
}

async fn tell_all(way: &Arc<Way>, reason: &str) {
    let mut told = JoinSet::new();
    // Where a result has a kind, closing the stream is the way to cancel.
    for call in way.pending.calls().iter().filter(|call| !call.wants_result_type) {
        if told.len() == AT_ONCE {
            told.join_next().await;
        }
        let (way, message) = (Arc::clone(way), mcp::cancelled(&call.id, reason));
        told.spawn(async move { way.tell(message).await });
    }
    while told.join_next().await.is_some() {}
}

impl Way {
    async fn tell(&self, message: String) {
        let (agent, engine) = (&self.agent, &self.engine);
        let connection = Arc::clone(&self.flight.connection);
        let now = engine.clock.now_coarse();
        let flight = agent.in_flight_requests.register(
            agent.next_request(),
            Channel::Tools,
            self.flight.upstream_name,
            connection,
            now,
            self.max,
        );
        let Some(flight) = flight else { return };
        let mut request = Request::new(RequestBody::whole(Bytes::from(message)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        for about_the_call in [CONTENT_LENGTH, MCP_METHOD, MCP_NAME] {
            request.headers_mut().remove(about_the_call);
        }
        let _ = self.upstream.send_unless_cut(request, &flight).await;
    }
}
