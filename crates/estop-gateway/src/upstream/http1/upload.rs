//! A body that is sent while it comes, by a task of its own: its client may send for long and read nothing meanwhile.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt;

use super::{Connection, Failed};
use crate::upload::{Outgoing, RequestBody};

/// Takes a body out of its request, if it is one that comes: what is to be run beside reading the answer.
pub(super) fn of(
    request: &mut Outgoing,
    connection: &Arc<Connection>,
) -> Option<impl Future<Output = ()> + use<>> {
    if matches!(request.body, RequestBody::Whole(_)) {
        return None;
    }
    let is_chunked = request.body.size_hint().exact().is_none();
    let body = std::mem::replace(&mut request.body, RequestBody::Whole(None));
    let connection = Arc::clone(connection);
    Some(async move {
        if let Err(Ended::Early) = upload(body, is_chunked, &connection).await {
            // Broken off, so that nobody takes it for whole.
            connection.close();
        }
    })
}

/// Why an upload did not come to its end.
enum Ended {
    /// Its client broke off, or nobody waits for the answer any more.
    Early,
    /// The provider takes no more of it.
    Refused,
}

async fn upload(mut body: RequestBody, is_chunked: bool, connection: &Connection) -> Result<(), Ended> {
    while let Some(frame) = body.frame().await {
        // Nothing but data comes from there. An empty chunk would be the last one.
        let data = frame.map_err(|_| Ended::Early)?.into_data().unwrap_or_default();
        if data.is_empty() {
            continue;
        }
        let size = if is_chunked { Bytes::from(format!("{:x}\r\n", data.len())) } else { Bytes::new() };
        send(connection, [size, data]).await?;
        if is_chunked {
            send(connection, [Bytes::from_static(b"\r\n"), Bytes::new()]).await?;
        }
    }
    if is_chunked {
        send(connection, [Bytes::from_static(b"0\r\n\r\n"), Bytes::new()]).await?;
    }
    if let Some(wire) = &mut *connection.lock() {
        wire.has_uploaded();
    }
    Ok(())
}

async fn send(connection: &Connection, mut pieces: [Bytes; 2]) -> Result<(), Ended> {
    let sent = std::future::poll_fn(|cx| {
        connection.poll_with(cx, |wire, cx| {
            wire.poll_upload(cx, &mut pieces).map_err(|error: io::Error| {
                wire.cannot_send(error);
                Failed::Gone
            })
        })
    });
    sent.await.map_err(|_| Ended::Refused)
}
