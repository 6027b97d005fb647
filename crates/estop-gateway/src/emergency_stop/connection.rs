//! One client connection: plain or TLS, HTTP/1.1 or HTTP/2, watched for clients that dawdle.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};

use estop_core::time::Millis;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::AbortHandle;

use crate::clock::Clock;
use crate::emergency_stop::heartbeat::Heartbeat;
use crate::emergency_stop::socket::AbortableSocket;

/// A worker that was silent for so long does not tell the clients of stopped requests why: they are cut off. Chosen: ten
/// times the interval of its heartbeat, so that a worker on a busy machine is not taken for a blocked one; the sweeper cuts
/// off whoever is not told within a second anyway.
const BLOCKED_AFTER_MS: u64 = 2_500;

/// What others need to know of a connection.
pub struct Connection {
    /// It speaks HTTP/1.1, so that it carries one request at a time.
    pub is_http1: bool,
    /// Requests under way on it.
    busy: AtomicU32,
    /// Since when it waits for a request, in monotonic milliseconds.
    idle_since: AtomicU64,
    /// When the first byte of the next request's head came; 0 = not yet.
    head_since: AtomicU64,
    /// Any request came yet.
    used: AtomicBool,
    task: Mutex<Option<AbortHandle>>,
    socket: Weak<AbortableSocket>,
    /// Of the worker that serves it.
    heartbeat: Arc<Heartbeat>,
}

impl Connection {
    /// A connection that was accepted now.
    pub(crate) fn new(
        is_http1: bool,
        now: Millis,
        socket: Weak<AbortableSocket>,
        heartbeat: Arc<Heartbeat>,
    ) -> Connection {
        Connection {
            is_http1,
            busy: AtomicU32::new(0),
            idle_since: AtomicU64::new(now.0),
            head_since: AtomicU64::new(0),
            used: AtomicBool::new(false),
            task: Mutex::new(None),
            socket,
            heartbeat,
        }
    }

    /// The task that serves it, to be aborted if need be.
    pub fn hold(&self, task: AbortHandle) {
        *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    /// Closes it, whatever is under way on it.
    pub fn close(&self) {
        if let Some(task) = self.task.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }

    /// Resets it, from the thread that calls this: its worker may be blocked, or its client may not read.
    pub(crate) fn abort(&self) {
        if let Some(socket) = self.socket.upgrade() {
            socket.abort();
        }
        self.close();
    }

    /// Its worker has not run for a while, and will tell its client nothing in time.
    pub(crate) fn has_blocked_worker(&self, now: Millis) -> bool {
        self.heartbeat.silent_ms(now) > BLOCKED_AFTER_MS
    }

    /// Bytes came on it, perhaps the first ones of a head.
    pub(crate) fn note_read(&self, clock: &Clock) {
        // Of HTTP/2, most bytes between requests are no head: such a connection is idle.
        if self.is_http1
            && self.busy.load(Ordering::Relaxed) == 0
            && self.head_since.load(Ordering::Relaxed) == 0
        {
            self.head_since.store(clock.now_coarse().0.max(1), Ordering::Relaxed);
        }
    }

    /// A request begins on it; ends when the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>, clock: &Arc<Clock>) -> Busy {
        self.busy.fetch_add(1, Ordering::Relaxed);
        self.head_since.store(0, Ordering::Relaxed);
        self.used.store(true, Ordering::Relaxed);
        Busy { connection: Arc::clone(self), clock: Arc::clone(clock) }
    }

    /// How long its client has kept us waiting for a request.
    pub fn waiting(&self, now: Millis) -> Waiting {
        if self.busy.load(Ordering::Relaxed) > 0 {
            return Waiting::No;
        }
        let head = self.head_since.load(Ordering::Relaxed);
        if head > 0 {
            return Waiting::ForHead(now.since(Millis(head)));
        }
        let idle = now.since(Millis(self.idle_since.load(Ordering::Relaxed)));
        if self.used.load(Ordering::Relaxed) { Waiting::Idle(idle) } else { Waiting::ForHead(idle) }
    }
}

/// What a connection waits for, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Nothing: a request is under way.
    No,
    /// For the rest of a head, or for the first request.
    ForHead(u64),
    /// For the next request.
    Idle(u64),
}

/// A request is under way on a connection.
pub(crate) struct Busy {
    /// Which connection.
    pub connection: Arc<Connection>,
    clock: Arc<Clock>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.connection.idle_since.store(self.clock.now_coarse().0, Ordering::Relaxed);
        self.connection.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The connection's bytes, noting when they arrive, and when a head begins to.
pub(crate) struct Watched<S> {
    /// The stream itself.
    pub stream: S,
    /// Its record.
    pub connection: Arc<Connection>,
    /// Set where bytes arrive.
    pub clock: Arc<Clock>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if read.is_ready() && buf.filled().len() > before {
            self.connection.note_read(&self.clock);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }
}
