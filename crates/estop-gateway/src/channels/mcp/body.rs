//! A server's answer on its way to the client: passed on as it is, and read beside it for the ends of calls.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use estop_wire::mcp::{self, Part};
use estop_wire::sse::EventReader;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http_body::{Body, Frame, SizeHint};
use tokio::task::JoinHandle;

use super::calls::Pending;
use crate::body::response_body::BodyError;
use crate::emergency_stop::in_flight::InFlightRequest;
use crate::exchange::metered_body::MeteredBody;

/// A server's answer on its way to the client.
pub(crate) struct McpBody {
    answer: MeteredBody,
    flight: Arc<InFlightRequest>,
    pending: Pending,
    reading: Reading,
    /// A stream the client holds open for whatever the server has to say.
    listens: bool,
    ended: bool,
    /// An answer switched the agent off: the journal is on its way to the disk.
    keeping: Option<JoinHandle<()>>,
    /// The end, in estop's words: said when that is on the disk.
    last: Option<Last>,
}

/// How a body ends.
type Last = Option<Result<Frame<Bytes>, BodyError>>;

/// How the answer is read.
enum Reading {
    /// One message.
    Whole(Vec<u8>),
    /// An event for each message.
    Events(Box<EventReader>),
    /// Compressed, or too large: its calls end unseen.
    Not,
}

impl McpBody {
    pub(super) fn new(
        answer: MeteredBody,
        flight: Arc<InFlightRequest>,
        headers: &HeaderMap,
        pending: Pending,
        listens: bool,
    ) -> McpBody {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = text(CONTENT_TYPE).split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let is_plain = matches!(text(CONTENT_ENCODING), "" | "identity");
        let reading = match &*kind {
            "text/event-stream" if is_plain => Reading::Events(Box::default()),
            "application/json" if is_plain && !pending.is_empty() => Reading::Whole(Vec::new()),
            _ => Reading::Not,
        };
        McpBody { answer, flight, pending, reading, listens, ended: false, keeping: None, last: None }
    }

    /// A client that waits for a call is told that it was stopped, where there is a way to tell; one that only listens
    /// sees its stream end.
    fn broken(&mut self, error: BodyError) -> Last {
        self.ended = true;
        let Some(cut) = self.flight.why_cut() else { return Some(Err(error)) };
        if self.answer.size_hint().exact().is_some() || !self.reading.at_boundary() {
            return Some(Err(error));
        }
        let event =
            |call: &mcp::Call<'_>| format!("event: message\ndata: {}\n\n", mcp::denied(call, &cut.message));
        let events: String = self.pending.calls().iter().map(event).collect();
        match events.is_empty() {
            true if self.listens => None,
            true => Some(Err(error)),
            false => Some(Ok(Frame::data(Bytes::from(events)))),
        }
    }
}

impl Body for McpBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let body = &mut *self;
        if body.last.is_none() {
            if body.ended {
                return Poll::Ready(None);
            }
            let next = ready!(Pin::new(&mut body.answer).poll_frame(cx));
            let stops = match &next {
                Some(Ok(frame)) => {
                    let stops = frame.data_ref().is_some_and(|data| body.reading.push(data, &body.pending));
                    stops | (body.answer.is_end_stream() && body.reading.finish(&body.pending))
                }
                Some(Err(_)) => false,
                None => body.reading.finish(&body.pending),
            };
            if stops {
                // One later sync keeps what an earlier one would.
                body.keeping = body.pending.sync();
            }
            match next {
                Some(Err(error)) => body.last = Some(body.broken(error)),
                // What the server said waits for no disk.
                next => return Poll::Ready(next),
            }
        }
        if let Some(keeping) = &mut body.keeping {
            // If the task is lost, so is the process.
            let _ = ready!(Pin::new(keeping).poll(cx));
            body.keeping = None;
        }
        Poll::Ready(body.last.take().flatten())
    }

    fn is_end_stream(&self) -> bool {
        self.last.is_none() && (self.ended || self.answer.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.answer.size_hint()
    }
}

impl Reading {
    /// Reads on; whether an end of a call switched the agent off.
    fn push(&mut self, data: &[u8], pending: &Pending) -> bool {
        let mut stops = false;
        match self {
            Reading::Whole(bytes) if bytes.len() + data.len() > mcp::MESSAGE_BYTES_MAX => {
                *self = Reading::Not;
            }
            Reading::Whole(bytes) => bytes.extend_from_slice(data),
            Reading::Events(reader) => reader.push(data, |event| stops |= look(event.data, pending)),
            Reading::Not => {}
        }
        stops
    }

    fn finish(&mut self, pending: &Pending) -> bool {
        let mut stops = false;
        match std::mem::replace(self, Reading::Not) {
            Reading::Whole(bytes) => stops = look(&bytes, pending),
            Reading::Events(mut reader) => reader.finish(|event| stops |= look(event.data, pending)),
            Reading::Not => {}
        }
        stops
    }

    /// An event can be added here.
    fn at_boundary(&self) -> bool {
        match self {
            Reading::Events(reader) => reader.at_boundary(),
            Reading::Whole(_) | Reading::Not => false,
        }
    }
}

/// Looks for ends of calls. Whatever else it is, it is the client's.
fn look(message: &[u8], pending: &Pending) -> bool {
    if pending.is_empty() {
        return false;
    }
    let Ok(message) = mcp::read(message) else { return false };
    let mut stops = false;
    for part in message.parts() {
        match part {
            Part::Answer { id, result, error } => stops |= pending.ended(id, *result, *error),
            Part::Call(_) | Part::Request { .. } | Part::Notice { .. } | Part::Other => {}
        }
    }
    stops
}
