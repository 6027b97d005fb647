//! The body of a provider's answer, as its connection reads it.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::wire::Came;
use super::{Failed, OwnConnection};
use crate::out_body::BodyError;

/// The body of a provider's answer.
pub(crate) struct Body {
    pub(super) connection: Arc<OwnConnection>,
    /// Nothing is to come.
    pub(super) is_over: bool,
    /// How many bytes are still to come, if it is known.
    pub(super) left: Option<u64>,
    /// Why it broke off, to be told.
    pub(super) broken: Option<Failed>,
}

impl Body {
    /// Whether nothing more is to come.
    pub(crate) fn is_end_stream(&self) -> bool {
        self.is_over
    }

    /// How much is to come, as far as it is known.
    pub(crate) fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }

    /// What comes next.
    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(error) = self.broken.take() {
            return Poll::Ready(Some(Err(error.into())));
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        let came = self.connection.poll_with(cx, |wire, cx| {
            let came = ready!(wire.poll_body(cx))?;
            Poll::Ready(Ok((came, wire.is_at_end(), wire.left())))
        });
        let (came, is_over, left) = match ready!(came) {
            Ok(came) => came,
            Err(error) => {
                // Told in the next turn: what came before it is on its way to the client, and would be lost.
                (self.is_over, self.broken) = (true, Some(error));
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        };
        (self.is_over, self.left) = (is_over, left);
        Poll::Ready(match came {
            Came::Data(data) => Some(Ok(Frame::data(data))),
            Came::Trailers(trailers) => Some(Ok(Frame::trailers(trailers))),
            Came::End => None,
        })
    }
}
