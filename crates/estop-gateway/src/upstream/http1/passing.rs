//! A body that is sent while it comes, by a task of its own: its client may send for long and read nothing meanwhile.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt;

use super::OwnConnection;
use crate::upload::{Outgoing, RequestBody};

/// Takes a body out of its request, if it is one that comes: what is to be run beside reading the answer.
pub(super) fn of(
    request: &mut Outgoing,
    connection: &Arc<OwnConnection>,
) -> Option<impl Future<Output = ()> + use<>> {
    if matches!(request.body, RequestBody::Whole(_)) {
        return None;
    }
    let length = request.body.size_hint().exact();
    let body = std::mem::replace(&mut request.body, RequestBody::Whole(None));
    let connection = Arc::clone(connection);
    Some(async move {
        if let Err(Ended::Early) = upload(body, length, &connection).await {
            // Broken off, so that nobody takes it for whole.
            connection.close();
        }
    })
}

/// Why an upload did not come to its end.
enum Ended {
    /// Its client broke off, or nobody waits for the answer any more.
    Early,
    /// The provider takes no more of it, or nobody is there any more.
    Refused,
}

/// Sends a body of this length, or in chunks.
async fn upload(mut body: RequestBody, length: Option<u64>, connection: &OwnConnection) -> Result<(), Ended> {
    // What of the head did not go out at once is not left until the client says more.
    send(connection, Default::default()).await?;
    let mut sent = 0;
    while let Some(frame) = body.frame().await {
        // Nothing but data comes from there. An empty chunk would be the last one.
        let data = frame.map_err(|_| Ended::Early)?.into_data().unwrap_or_default();
        if data.is_empty() {
            continue;
        }
        sent += data.len() as u64;
        let pieces = match length {
            Some(_) => [data, Bytes::new(), Bytes::new()],
            None => [format!("{:x}\r\n", data.len()).into(), data, Bytes::from_static(b"\r\n")],
        };
        send(connection, pieces).await?;
    }
    match length {
        Some(length) if sent != length => return Err(Ended::Early),
        Some(_) => {}
        None => send(connection, [Bytes::from_static(b"0\r\n\r\n"), Bytes::new(), Bytes::new()]).await?,
    }
    if let Some(wire) = &mut *connection.lock() {
        wire.has_uploaded();
    }
    Ok(())
}

async fn send(connection: &OwnConnection, mut pieces: [Bytes; 3]) -> Result<(), Ended> {
    let sent = poll_fn(|cx| connection.poll_with(cx, |wire, cx| wire.poll_upload(cx, &mut pieces)));
    sent.await.map_err(|_| Ended::Refused)
}
