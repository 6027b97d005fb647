//! One request and its answer, over a socket of either kind. Every failure is a sentence with the mend.

use std::io::{Error, ErrorKind};
use std::path::Path;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::Way;

/// The largest answer, a page of 500 events with evidence, has a few megabytes.
const BODY_MAX: usize = 64 << 20;

const START: &str = "Start it with `estop serve`";

/// An answer, read whole.
pub(super) struct Received {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Connects, asks, and reads the answer.
pub(super) async fn exchange(way: &Way, request: Request<String>) -> Result<Received, String> {
    let place = way.shown();
    match way {
        Way::Socket(path) => {
            let stream = UnixStream::connect(path).await.map_err(|error| no_socket(path, &error))?;
            converse(stream, request, &place).await
        }
        Way::Tcp { host, port, authority } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await;
            let stream = stream.map_err(|error| {
                format!(
                    "cannot reach estop at http://{authority}: {error}. {START}, or check --url: it is the admin \
                     port, `listen.admin` of the configuration."
                )
            })?;
            converse(stream, request, &place).await
        }
    }
}

fn no_socket(path: &Path, error: &Error) -> String {
    let path = path.display();
    let elsewhere = "with the same --config or --data-dir, or name the running one with --data-dir or --url";
    let why = if error.kind() == ErrorKind::PermissionDenied {
        return format!(
            "cannot reach estop: {path} is its owner's alone. Run this as the user estop runs as, or use --url with a \
             token."
        );
    } else if error.kind() == ErrorKind::NotFound {
        format!("there is no socket {path}")
    } else if error.kind() == ErrorKind::ConnectionRefused {
        format!("nobody listens behind {path} any more")
    } else {
        format!("{path}: {error}")
    };
    format!("cannot reach estop: {why}. {START} {elsewhere}.")
}

async fn converse<S>(stream: S, request: Request<String>, place: &str) -> Result<Received, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let broken =
        |error: hyper::Error| format!("the connection to estop at {place} broke: {error}. Try again.");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // How it ends is told by the answer, or by its absence.
    tokio::spawn(async move { drop(connection.await) });
    let response = sender.send_request(request).await.map_err(broken)?;
    let (head, body) = response.into_parts();
    let body = Limited::new(body, BODY_MAX).collect().await;
    let body =
        body.map_err(|error| format!("the answer of estop at {place} broke off: {error}. Try again."))?;
    Ok(Received { status: head.status, headers: head.headers, body: body.to_bytes() })
}
