//! A request on its way to the provider, and its body: the inspected bytes, or a stream of bytes that nobody inspects.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use estop_core::event::AbortedBy;
use estop_wire::refusal::Kind;
use http::Request;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::body::reading::{self, BodyProblem};
use crate::body::response_body::BodyError;
use crate::clock::Clock;
use crate::emergency_stop::in_flight::{Cut, InFlightRequest, Phase};

/// A body whose client broke off, or framed it wrongly.
pub(crate) const BROKEN: &str = "The request body ended early or is framed wrongly.";

/// How large a body may be, and the setting that says so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimit {
    pub bytes: u64,
    pub setting: &'static str,
}

impl BodyLimit {
    /// For a client whose body is larger.
    pub(crate) fn exceeded(self) -> String {
        let BodyLimit { bytes, setting } = self;
        format!("The request body is larger than {bytes} bytes. Send less, or raise {setting}.")
    }
}

/// A request on its way to the provider.
pub(crate) type Outgoing = Request<RequestBody>;

/// The body of a request on its way to the provider.
pub(crate) enum RequestBody {
    /// The client's bytes, as they were inspected.
    Whole(Option<Bytes>),
    /// The client's bytes as they come, of a path that is not inspected.
    Passing(Box<Passing>),
}

/// A body that is passed on without being looked at.
pub(crate) struct Passing {
    body: Incoming,
    /// How many bytes may still come.
    left: u64,
    limit: BodyLimit,
    clock: Arc<Clock>,
    flight: Arc<InFlightRequest>,
}

impl RequestBody {
    /// All of it.
    pub(crate) fn whole(bytes: Bytes) -> RequestBody {
        RequestBody::Whole(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }

    /// As it comes, within a limit.
    ///
    /// Of a request without a body the head is everything. It is not sent before that body has ended, and well: a stream of
    /// HTTP/2 that announced another length is reset only then.
    pub(crate) async fn passing(
        body: Incoming,
        limit: BodyLimit,
        clock: &Arc<Clock>,
        flight: Arc<InFlightRequest>,
    ) -> Result<RequestBody, BodyProblem> {
        if body.is_end_stream() || body.size_hint().exact() == Some(0) {
            reading::ends_empty(body, &flight).await?;
            return Ok(RequestBody::Whole(None));
        }
        Ok(RequestBody::Passing(Box::new(Passing {
            body,
            left: limit.bytes,
            limit,
            clock: Arc::clone(clock),
            flight,
        })))
    }
}

impl Passing {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        // Ends the stream or the connection it is sent on, which would otherwise wait for the client.
        if self.flight.poll_over(cx).is_ready() {
            return Poll::Ready(Some(Err("the request is over".into())));
        }
        loop {
            let next = Pin::new(&mut self.body).poll_frame(cx);
            let now = self.clock.now_coarse();
            let frame = match next {
                Poll::Pending => {
                    // It is the client who keeps us waiting, not the provider.
                    self.flight.enter(Phase::Reading, now);
                    return Poll::Pending;
                }
                Poll::Ready(None) => {
                    self.flight.enter(Phase::Awaiting, now);
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(Err(error))) => {
                    self.give_up(400, "broken_body", BROKEN);
                    return Poll::Ready(Some(Err(error.into())));
                }
                Poll::Ready(Some(Ok(frame))) => frame,
            };
            // Trailers are left out, as they are of an inspected body.
            let Ok(data) = frame.into_data() else { continue };
            self.flight.enter(Phase::Awaiting, now);
            let Some(left) = self.left.checked_sub(data.len() as u64) else {
                let message = self.limit.exceeded();
                self.give_up(413, "body_too_large", &message);
                return Poll::Ready(Some(Err(message.into())));
            };
            self.left = left;
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
    }

    /// Ends the request: its client is at fault, and is told so.
    fn give_up(&self, status: u16, code: &'static str, message: &str) {
        let kind = Kind::BadRequest { status };
        self.flight.cut(Cut { by: AbortedBy::Client, kind, code, message: message.to_owned() });
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            RequestBody::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            RequestBody::Passing(passing) => passing.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            RequestBody::Whole(bytes) => bytes.is_none(),
            // One that was over when it came is no such body; one that is over now may have been broken off.
            RequestBody::Passing(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            RequestBody::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            RequestBody::Passing(passing) => passing.body.size_hint(),
        }
    }
}
