//! One HTTP/1.1 connection to a provider. hyper speaks on it, in a task of its own on the worker's runtime; it carries one
//! request at a time, so that whoever stops a request closes its socket and nobody else's.

use std::sync::Weak;

use http::Response;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;

use super::UpstreamError;
use super::slots::Slot;
use crate::body::upload::{Outgoing, RequestBody};
use crate::emergency_stop::socket::AbortableSocket;

/// Header lines of an answer that are taken. Providers send some 40.
const HEADERS_MAX: usize = 256;
/// A head of an answer is no longer.
const HEAD_MAX: usize = 256 << 10;

/// One connection to a provider. Dropped, it is closed.
pub(super) struct UpstreamConnection {
    sender: SendRequest<RequestBody>,
    socket: Weak<AbortableSocket>,
    task: AbortHandle,
    /// Nothing that came on it could be understood in two ways.
    is_clear: bool,
    /// The body on its way is the client's, and may not have ended with the answer.
    uploads: bool,
}

/// What became of a request that was sent.
pub(super) enum Tried {
    Answered(Response<Incoming>),
    /// Nothing of it was sent: it can go another way.
    Unsent(Box<Outgoing>, UpstreamError),
    Failed(UpstreamError),
}

impl UpstreamConnection {
    /// Takes over a stream on which nothing was said yet.
    pub(super) async fn new<S>(
        stream: S,
        socket: Weak<AbortableSocket>,
        slot: Slot,
    ) -> hyper::Result<UpstreamConnection>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::Builder::new()
            .max_headers(HEADERS_MAX)
            .max_buf_size(HEAD_MAX)
            .handshake(TokioIo::new(stream))
            .await?;
        let speak = async move {
            // Whoever waits for an answer hears how it ended.
            drop(connection.await);
            // Given back once the socket is closed.
            drop(slot);
        };
        let task = tokio::spawn(speak).abort_handle();
        Ok(UpstreamConnection { sender, socket, task, is_clear: true, uploads: false })
    }

    /// For those who may abort it.
    pub(super) fn socket(&self) -> Weak<AbortableSocket> {
        Weak::clone(&self.socket)
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn try_send(&mut self, request: Outgoing) -> Tried {
        // One that was used before may have been closed by the provider since.
        if let Err(error) = self.sender.ready().await {
            return Tried::Unsent(Box::new(request), UpstreamError::broken(&error));
        }
        self.uploads = matches!(request.body(), RequestBody::Passing(_));
        match self.sender.try_send_request(request).await {
            Ok(response) => {
                // Two words about the length of a body may be understood in two ways: the next answer is read elsewhere.
                let says = |name| response.headers().contains_key(name);
                self.is_clear = !(says(TRANSFER_ENCODING) && says(CONTENT_LENGTH));
                Tried::Answered(response)
            }
            Err(mut error) => match error.take_message() {
                Some(request) => Tried::Unsent(Box::new(request), UpstreamError::broken(error.error())),
                None => Tried::Failed(UpstreamError::broken(error.error())),
            },
        }
    }

    /// Whether it is open, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// The answer was taken to its end: whether another request can be sent.
    pub(super) fn can_rest(&self) -> bool {
        self.is_clear && self.is_open() && (!self.uploads || self.sender.is_ready())
    }

    /// Resets it: a close would wait behind everything not sent yet, and the provider would go on working until it has read
    /// all of that.
    pub(super) fn abort(&self) {
        if let Some(socket) = self.socket.upgrade() {
            socket.abort();
        }
    }
}

impl Drop for UpstreamConnection {
    fn drop(&mut self) {
        // By whoever drops it, such as the sweeper: its worker, on which the task would end, may be blocked (KS-11).
        if let Some(socket) = self.socket.upgrade() {
            socket.close();
        }
        self.task.abort();
    }
}
