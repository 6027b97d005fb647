//! The body of a usual request, read from its connection when it is asked for.

use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::reader::Reading;
use crate::out_body::BodyError;

/// The body of a usual request.
pub(crate) struct LaneBody(Reading);

impl LaneBody {
    pub(super) fn new(reading: &Reading) -> LaneBody {
        LaneBody(reading.clone())
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.0.lock().poll_data(cx).map(|data| data.map(|data| data.map(Frame::data).map_err(Into::into)))
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.0.lock().left() == 0
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.lock().left())
    }
}
