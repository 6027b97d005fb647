//! The upstream's answer on its way to the client: passed on chunk by chunk, observed, and cut when the request is.

use std::task::{Context, Poll};

use bytes::Bytes;
use estop_core::event::AbortedBy;
use estop_wire::protocol::Protocol;
use estop_wire::refusal::{self, Refusal};
use estop_wire::response::Framing;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::mpsc;

use crate::account::Account;
use crate::connection::Busy;
use crate::flight::{Hold, Phase, Registered};
use crate::forward;
use crate::host::Host;
use crate::near::Near;
use crate::out_body::BodyError;
use crate::turn::NOT_KEPT;
use crate::upstream::{self, Answer, Lease};

/// The upstream's answer on its way to the client.
pub(crate) struct AnswerBody {
    source: Source,
    lease: Option<Lease>,
    account: Box<Account>,
    flight: Registered,
    host: Near<Host>,
    shape: Shape,
    ended: bool,
    busy: Busy,
}

/// How the answer is written, which decides how it can be cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Whose protocol.
    pub protocol: Protocol,
    /// How it is framed.
    pub framing: Framing,
    /// It is compressed, so that nothing readable can be added.
    pub encoded: bool,
}

/// Where the bytes come from.
enum Source {
    /// A connection of its own.
    Own(upstream::Body),
    /// A stream of a shared connection, read by a task that can be aborted from outside: a client that does not read
    /// would otherwise keep the stream open.
    Shared { frames: mpsc::Receiver<Result<Pumped, BodyError>>, size: SizeHint, at_end: bool },
}

/// Everything an answer's body is made of.
pub(crate) struct Parts {
    /// The upstream's body.
    pub body: Answer,
    /// Its connection.
    pub lease: Lease,
    /// Its account.
    pub account: Box<Account>,
    /// Its registration.
    pub flight: Registered,
    /// Where the core is asked.
    pub host: Near<Host>,
    /// How it is written.
    pub shape: Shape,
    /// Its place on the client's connection.
    pub busy: Busy,
}

impl AnswerBody {
    /// Takes over the upstream's body.
    pub(crate) fn new(parts: Parts) -> AnswerBody {
        let Parts { body, lease, account, flight, host, shape, busy } = parts;
        let source = match body {
            Answer::Own(body) => Source::Own(body),
            Answer::Shared(body) => pump(body, &flight),
        };
        let is_empty = source.is_at_end();
        let lease = Some(lease);
        let mut answer = AnswerBody { source, lease, account, flight, host, shape, ended: false, busy };
        // Nobody asks for the body of an answer that has none.
        if is_empty {
            // Its head says that nothing follows: only a head that is still held back can be kept from its client.
            let _ = answer.complete();
        }
        answer
    }

    /// Whether there is nothing more to come.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// The next frame for the client.
    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if self.flight.poll_cut(cx).is_ready() {
            return Poll::Ready(self.end_cut());
        }
        match self.source.poll_frame(cx) {
            Poll::Pending => {
                self.flight.enter(Phase::Streaming, self.host.clock.about());
                Poll::Pending
            }
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(self.pass(frame))),
            Poll::Ready(Some(Err(error))) => Poll::Ready(self.broken(error)),
            Poll::Ready(None) => Poll::Ready(self.complete().err().map(Err)),
        }
    }

    /// How much will come, as far as it is known.
    pub(crate) fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Own(body) => body.size_hint(),
            Source::Shared { size, .. } => *size,
        }
    }

    fn pass(&mut self, mut frame: Frame<Bytes>) -> Result<Frame<Bytes>, BodyError> {
        if let Some(data) = frame.data_ref() {
            self.account.observe(data);
        }
        if let Some(trailers) = frame.trailers_mut() {
            forward::response_headers(trailers);
        }
        self.flight.enter(Phase::Writing, self.host.clock.about());
        // Of a body with a known length, and after trailers, nobody asks for the end.
        if self.source.is_at_end() || frame.is_trailers() {
            self.complete()?;
        }
        Ok(frame)
    }

    /// Before its client sees the end: what was answered is never forgotten. What cannot be kept does not end well.
    fn complete(&mut self) -> Result<(), BodyError> {
        self.ended = true;
        self.account.complete();
        self.busy.connection.end_answer(&self.host.journal);
        if let Some(lease) = self.lease.take() {
            lease.finish(&self.flight);
        }
        if self.host.journal.has_failed() { Err(NOT_KEPT.into()) } else { Ok(()) }
    }

    /// The upstream broke off, or we made it do so.
    fn broken(&mut self, error: BodyError) -> Option<Result<Frame<Bytes>, BodyError>> {
        if self.flight.why_cut().is_some() {
            return self.end_cut();
        }
        self.ended = true;
        self.lease = None;
        self.account.abort(AbortedBy::Upstream);
        self.host.journal.flush();
        Some(Err(error))
    }

    /// Ends the stream with the protocol's error event; where none can be told, by breaking the connection. Never
    /// with a clean end (AN-3).
    fn end_cut(&mut self) -> Option<Result<Frame<Bytes>, BodyError>> {
        self.ended = true;
        self.lease = None;
        let cut = self.flight.why_cut().cloned()?;
        let at_boundary = self.account.at_boundary();
        self.account.abort(cut.by);
        self.host.journal.flush();
        let refusal = Refusal { kind: cut.kind, code: cut.code, message: &cut.message };
        let Shape { protocol, framing, encoded } = self.shape;
        let can_add = !encoded && self.size_hint().exact().is_none();
        let event = if can_add { refusal::cut(protocol, framing, at_boundary, &refusal) } else { None };
        Some(match event {
            Some(event) => Ok(Frame::data(Bytes::from(event))),
            None => Err(cut.message.into()),
        })
    }
}

/// A frame, and whether it is the last one.
struct Pumped {
    frame: Frame<Bytes>,
    is_last: bool,
}

fn pump(mut body: Incoming, flight: &Registered) -> Source {
    let (size, at_end) = (body.size_hint(), body.is_end_stream());
    let (tx, frames) = mpsc::channel(1);
    let task = tokio::spawn(async move {
        while let Some(frame) = body.frame().await {
            let pumped =
                frame.map(|frame| Pumped { frame, is_last: body.is_end_stream() }).map_err(Into::into);
            if tx.send(pumped).await.is_err() {
                return;
            }
        }
    });
    flight.hold_upstream(Hold::Task(task.abort_handle()));
    Source::Shared { frames, size, at_end }
}

impl Source {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self {
            Source::Own(body) => body.poll_frame(cx),
            Source::Shared { frames, at_end, .. } => frames.poll_recv(cx).map_ok(|pumped| {
                *at_end = pumped.is_last;
                pumped.frame
            }),
        }
    }

    fn is_at_end(&self) -> bool {
        match self {
            Source::Own(body) => body.is_end_stream(),
            Source::Shared { at_end, .. } => *at_end,
        }
    }
}
