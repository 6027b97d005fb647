//! The upstream's answer on its way to the client: passed on chunk by chunk, observed, and cut when the request is.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use estop_core::event::AbortedBy;
use estop_wire::protocol::{Family, Protocol};
use estop_wire::refusal::{self, ErrorDetails};
use estop_wire::response::Framing;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::body::response_body::BodyError;
use crate::emergency_stop::connection::Busy;
use crate::emergency_stop::in_flight::{Cut, Phase, Registered};
use crate::engine::Engine;
use crate::exchange::forward;
use crate::exchange::usage_meter::UsageMeter;
use crate::upstream::Lease;

/// Why an answer that is there does not end well.
const NOT_KEPT: &str = "the journal cannot be written";

/// The upstream's answer on its way to the client.
pub(crate) struct MeteredBody {
    source: Incoming,
    lease: Option<Lease>,
    /// How it is written and what it uses; `None` of what costs nothing and is not read.
    metered: Option<(BodyFormat, Box<UsageMeter>)>,
    flight: Registered,
    engine: Arc<Engine>,
    ended: bool,
    /// Why the upstream broke off, to be told.
    broken: Option<BodyError>,
    /// Its place on the client's connection, until it is dropped.
    _busy: Busy,
    _held: Option<Box<dyn Send>>,
}

/// How the answer is written, which decides how it can be cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyFormat {
    /// Whose protocol.
    pub protocol: Protocol,
    /// How it is framed.
    pub framing: Framing,
    /// It is compressed, so that nothing readable can be added.
    pub encoded: bool,
}

impl BodyFormat {
    /// One that nobody reads.
    pub(crate) const OPAQUE: BodyFormat =
        BodyFormat { protocol: Protocol::Other(Family::OpenAi), framing: Framing::Plain, encoded: true };

    /// What ends the stream here; `None` where nothing readable can be added.
    fn cut_event(self, meter: &UsageMeter, cut: &Cut) -> Option<Vec<u8>> {
        let BodyFormat { protocol, framing, encoded } = self;
        if encoded {
            return None;
        }
        let refusal = ErrorDetails { kind: cut.kind, code: cut.code, message: &cut.message };
        match meter.array_gap() {
            Some(after_element) => Some(refusal::cut_array(protocol, after_element, &refusal)),
            None => refusal::cut(protocol, framing, meter.at_boundary(), &refusal),
        }
    }
}

/// Everything an answer's body is made of.
pub(crate) struct Parts {
    /// The upstream's body.
    pub body: Incoming,
    /// Its connection.
    pub lease: Lease,
    /// How it is written and what it uses; `None` of what costs nothing and is not read.
    pub metered: Option<(BodyFormat, Box<UsageMeter>)>,
    /// Its registration.
    pub flight: Registered,
    /// Where the core is asked.
    pub engine: Arc<Engine>,
    /// Its place on the client's connection.
    pub busy: Busy,
}

impl MeteredBody {
    /// Takes over the upstream's body.
    pub(crate) fn new(parts: Parts) -> MeteredBody {
        let Parts { body: source, lease, metered, flight, engine, busy } = parts;
        let is_empty = source.is_end_stream();
        let lease = Some(lease);
        let mut answer = MeteredBody {
            source,
            lease,
            metered,
            flight,
            engine,
            ended: false,
            broken: None,
            _busy: busy,
            _held: None,
        };
        // Nobody asks for the body of an answer that has none.
        if is_empty {
            // Its head says that nothing follows: only a head that is still held back can be kept from its client.
            let _ = answer.complete();
        }
        answer
    }

    /// Holds something until the answer is over.
    pub(crate) fn holding(mut self, held: impl Send + 'static) -> MeteredBody {
        self._held = Some(Box::new(held));
        self
    }

    fn pass(&mut self, mut frame: Frame<Bytes>) -> Result<Frame<Bytes>, BodyError> {
        if let (Some(data), Some((_, meter))) = (frame.data_ref(), &mut self.metered) {
            meter.observe(data);
        }
        if let Some(trailers) = frame.trailers_mut() {
            forward::response_headers(trailers);
        }
        self.flight.enter(Phase::Writing, self.engine.clock.now_coarse());
        // Of a body with a known length, and after trailers, nobody asks for the end.
        if self.source.is_end_stream() || frame.is_trailers() {
            self.complete()?;
        }
        Ok(frame)
    }

    /// Before its client sees the end: what was answered is never forgotten. What cannot be kept does not end well.
    fn complete(&mut self) -> Result<(), BodyError> {
        self.ended = true;
        if let Some((_, meter)) = &mut self.metered {
            meter.complete();
        }
        self.engine.journal.flush();
        if let Some(lease) = self.lease.take() {
            lease.finish(&self.flight);
        }
        if self.engine.journal.has_failed() { Err(NOT_KEPT.into()) } else { Ok(()) }
    }

    /// The upstream broke off, or we made it do so.
    fn break_off(
        &mut self,
        error: BodyError,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.flight.why_cut().is_some() {
            return Poll::Ready(self.end_cut());
        }
        self.ended = true;
        self.lease = None;
        if let Some((_, meter)) = &mut self.metered {
            meter.abort(AbortedBy::Upstream);
        }
        self.engine.journal.flush();
        // Told when the task runs again: what came before is on its way to the client, and would be lost with it.
        self.broken = Some(error);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Ends the stream with the protocol's error event; where none can be told, by breaking the connection. Never
    /// with a clean end (AN-3).
    fn end_cut(&mut self) -> Option<Result<Frame<Bytes>, BodyError>> {
        self.ended = true;
        self.lease = None;
        let cut = self.flight.why_cut().cloned()?;
        let can_add = self.size_hint().exact().is_none();
        let event = self.metered.as_mut().and_then(|(shape, meter)| {
            let event = shape.cut_event(meter, &cut).filter(|_| can_add);
            meter.abort(cut.by);
            event
        });
        self.engine.journal.flush();
        Some(match event {
            Some(event) => Ok(Frame::data(Bytes::from(event))),
            None => Err(cut.message.into()),
        })
    }
}

impl Body for MeteredBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(error) = self.broken.take() {
            return Poll::Ready(Some(Err(error)));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        if self.flight.poll_cut(cx).is_ready() {
            return Poll::Ready(self.end_cut());
        }
        match Pin::new(&mut self.source).poll_frame(cx) {
            Poll::Pending => {
                self.flight.enter(Phase::Streaming, self.engine.clock.now_coarse());
                Poll::Pending
            }
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(self.pass(frame))),
            Poll::Ready(Some(Err(error))) => self.break_off(error.into(), cx),
            Poll::Ready(None) => Poll::Ready(self.complete().err().map(Err)),
        }
    }

    /// Its end is settled before it is told.
    fn is_end_stream(&self) -> bool {
        self.ended && self.broken.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.source.size_hint()
    }
}
