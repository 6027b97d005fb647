//! HTTP/1.1 to a provider, written and read by the task of whoever asks: handing a request to a task of its connection,
//! and the answer back, would cost more than both.

mod body;
mod chunks;
mod head;
mod passing;
mod stream;
mod wire;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

use http::Response;

pub(crate) use body::Body;
pub(super) use stream::Stream;
use wire::Wire;

use super::Ready;
use crate::socket::AbortableSocket;
use crate::upload::Outgoing;

/// A connection, which carries one request at a time. Whoever ends that request aborts the socket, from any thread, whoever
/// is or is not polling.
pub(crate) struct OwnConnection {
    wire: Mutex<Option<Wire>>,
    socket: Weak<AbortableSocket>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    /// Nothing of the request was sent: it can go another way.
    #[error("{0}")]
    Unsent(io::Error),
    /// The connection broke.
    #[error("{0}")]
    Broken(#[from] io::Error),
    /// What came is not HTTP/1.1, or more than is taken.
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// Somebody took the socket away.
    #[error("the connection was closed here")]
    Gone,
}

/// What came is not HTTP/1.1, or more than is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Malformed(&'static str);

impl OwnConnection {
    /// Takes over a stream on which nothing was said yet.
    pub(super) fn new(stream: Stream) -> Arc<OwnConnection> {
        let socket = stream.line_ref().socket();
        Arc::new(OwnConnection { wire: Mutex::new(Some(Wire::new(stream))), socket })
    }

    /// Sends a request and waits for the head of its answer. The request's body stays where it is until its head was
    /// sent.
    pub(super) async fn exchange(
        self: &Arc<Self>,
        ready: &Ready,
        request: &mut Outgoing,
    ) -> Result<Response<Body>, Failed> {
        let mut is_sent = false;
        let head = std::future::poll_fn(|cx| {
            let mut held = self.lock();
            let Some(wire) = &mut *held else { return Poll::Ready(Err(Failed::Gone)) };
            if !is_sent {
                wire.begin(cx, ready, request)?;
                is_sent = true;
                if let Some(upload) = passing::of(request, self) {
                    wire.uploads();
                    tokio::spawn(upload);
                }
            }
            wire.poll_head(cx).map_ok(|head| (head, wire.is_at_end(), wire.left()))
        });
        let (head, is_over, left) = head.await?;
        Ok(Response::from_parts(head, Body { connection: Arc::clone(self), is_over, left, broken: None }))
    }

    /// Resets the connection, from the thread that calls this and without a lock: the worker that reads it may be blocked.
    /// What is under way on it breaks off; whoever ends a request wakes it by its [`crate::flight::Flight`].
    pub(crate) fn abort(&self) {
        if let Some(socket) = self.socket.upgrade() {
            socket.abort();
        }
    }

    /// Closes it, here and now.
    pub(super) fn close(&self) {
        let wire = self.lock().take();
        // Its socket is closed outside the lock.
        drop(wire);
    }

    /// Whether nothing is known that speaks against another request: it is open, and nobody said anything unasked.
    pub(super) fn is_quiet(&self) -> bool {
        self.lock().as_mut().is_some_and(Wire::is_quiet)
    }

    /// The answer was taken to its end: whether the connection can serve somebody else. If not, it is closed.
    pub(super) fn rest(&self) -> bool {
        let mut held = self.lock();
        let rests = held.as_mut().is_some_and(Wire::rest);
        if !rests {
            let wire = held.take();
            drop(held);
            drop(wire);
        }
        rests
    }

    /// Does something with the connection; `Gone` if somebody took its socket away.
    fn poll_with<T>(
        &self,
        cx: &mut Context<'_>,
        act: impl FnOnce(&mut Wire, &mut Context<'_>) -> Poll<Result<T, Failed>>,
    ) -> Poll<Result<T, Failed>> {
        match &mut *self.lock() {
            Some(wire) => act(wire, cx),
            None => Poll::Ready(Err(Failed::Gone)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Wire>> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
