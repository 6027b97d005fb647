//! A request of estop's own: on a connection of its own, cut by nobody, its answer read to the end.

use std::sync::Arc;

use http::StatusCode;
use http_body_util::BodyExt;

use super::connection::Tried;
use super::{Upstream, UpstreamError};
use crate::body::upload::Outgoing;

impl Upstream {
    /// Sends a request and reads its answer, at most `max` bytes of it. Whoever calls says how long that may take.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        mut request: Outgoing,
        max: usize,
    ) -> Result<(StatusCode, Vec<u8>), UpstreamError> {
        // Closed when it is dropped: the connection is not put back.
        let mut connection = self.dial().await?;
        self.address(&mut request);
        let response = match connection.try_send(request).await {
            Tried::Answered(response) => response,
            Tried::Unsent(_, error) | Tried::Failed(error) => return Err(error),
        };
        let (head, mut body) = response.into_parts();
        let mut read = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| UpstreamError::broken(&error))?;
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
