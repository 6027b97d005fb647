//! A request of estop's own: on a connection of its own, cut by nobody, its answer read to the end.

use std::sync::Arc;

use http::StatusCode;
use http_body::Frame;

use super::lease::Tried;
use super::{Body, Upstream, UpstreamError};
use crate::host::Host;
use crate::upload::Outgoing;

impl Upstream {
    /// Sends a request and reads its answer, at most `max` bytes of it. Whoever calls says how long that may take.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        request: Outgoing,
        host: &Arc<Host>,
        max: usize,
    ) -> Result<(StatusCode, Vec<u8>), UpstreamError> {
        // Closed when it is dropped: the connection is not put back.
        let mut lease = self.dial(host).await?;
        let response = match lease.try_send(request).await {
            Tried::Answered(response) => response,
            Tried::Unsent(_, error) | Tried::Failed(error) => return Err(error),
        };
        let (head, mut body) = response.into_parts();
        let mut read = Vec::new();
        while let Some(frame) = next(&mut body).await? {
            let data = frame.into_data().unwrap_or_default();
            let room = max.saturating_sub(read.len());
            read.extend_from_slice(data.get(..data.len().min(room)).unwrap_or_default());
            if room == 0 {
                break;
            }
        }
        Ok((head.status, read))
    }
}

async fn next(body: &mut Body) -> Result<Option<Frame<bytes::Bytes>>, UpstreamError> {
    let frame = std::future::poll_fn(|cx| body.poll_frame(cx)).await;
    frame.transpose().map_err(|error| UpstreamError::Broken(error.to_string()))
}
