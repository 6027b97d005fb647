//! The body of an answer: one of estop's own, or the upstream's, passed on and observed.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::answer::AnswerBody;
use crate::mcp::McpBody;
use crate::relay::Place;

/// Why a body ended before its end. The connection is then broken off, so that nobody takes it for whole.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of an answer.
pub(crate) enum OutBody {
    /// All of it at once.
    Full(Option<Bytes>),
    /// The upstream's.
    Answer(Box<AnswerBody>),
    /// The same of a relay, where it has a place until its end.
    Relayed(Box<(AnswerBody, Place)>),
    /// An MCP server's.
    Mcp(Box<McpBody>),
}

impl OutBody {
    /// A body that is at hand.
    pub(crate) fn full(bytes: Bytes) -> OutBody {
        OutBody::Full(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }

    /// An answer through a relay.
    pub(crate) fn relayed(answer: AnswerBody, place: Place) -> OutBody {
        OutBody::Relayed(Box::new((answer, place)))
    }
}

impl Body for OutBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            OutBody::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            OutBody::Answer(answer) => answer.poll_frame(cx),
            OutBody::Relayed(relayed) => relayed.0.poll_frame(cx),
            OutBody::Mcp(answer) => answer.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            OutBody::Full(bytes) => bytes.is_none(),
            // Its end is settled before it is told.
            OutBody::Answer(answer) => answer.has_ended(),
            OutBody::Relayed(relayed) => relayed.0.has_ended(),
            OutBody::Mcp(answer) => answer.has_ended(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            OutBody::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            OutBody::Answer(answer) => answer.size_hint(),
            OutBody::Relayed(relayed) => relayed.0.size_hint(),
            OutBody::Mcp(answer) => answer.size_hint(),
        }
    }
}
