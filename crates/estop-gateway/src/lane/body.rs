//! The body of a usual request, read from its connection when it is asked for.

use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::reader::Reading;
use crate::out_body::BodyError;

/// The body of a usual request.
pub(crate) struct LaneBody {
    reading: Reading,
    /// Whose body it is: nobody reads that of a later one.
    request: u64,
}

impl LaneBody {
    /// Of the request whose head was read last.
    pub(super) fn new(reading: &Reading) -> LaneBody {
        let request = reading.lock().request();
        LaneBody { reading: reading.clone(), request }
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let data = self.reading.lock().poll_data(cx, self.request);
        data.map(|data| data.map(|data| data.map(Frame::data).map_err(Into::into)))
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.reading.lock().left(self.request) == 0
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.reading.lock().left(self.request))
    }
}
