//! Bodies that a handler did not read. Closed with such a body on its way, a connection breaks under its client (EPIPE, a
//! reset) before the answer is seen: so the rest is read and dropped, within bounds, while the answer goes out.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

/// The most that is read of a body nobody wants. Beyond it the connection is closed.
const DRAINED_MAX: usize = 1 << 20;
/// How long a client may take to send it.
const DRAINED_TIMEOUT: Duration = Duration::from_secs(2);

/// A request whose body is read to its end, whatever becomes of the request.
pub(super) fn drained(request: Request) -> Request {
    request.map(|body| Body::new(Drained(Some(body))))
}

struct Drained(Option<Body>);

impl HttpBody for Drained {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match &mut self.0 {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for Drained {
    fn drop(&mut self) {
        let Some(body) = self.0.take().filter(|body| !body.is_end_stream()) else { return };
        // Outside a runtime nobody serves the connection any more.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn(tokio::time::timeout(DRAINED_TIMEOUT, drain(body))));
        }
    }
}

async fn drain(mut body: Body) {
    let mut left = DRAINED_MAX;
    while let Some(Ok(frame)) = body.frame().await {
        let length = frame.data_ref().map_or(0, Bytes::len);
        let Some(rest) = left.checked_sub(length) else { return };
        left = rest;
    }
}
