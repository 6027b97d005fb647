//! The reading side of a connection: heads, bodies behind them, and whether the client is still there.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::head::{self, Head};
use crate::connection::Connection;
use crate::head_progress::HeadProgress;
use crate::host::Host;
use crate::near::Near;
use crate::read_room;
use crate::turn::Holding;
use crate::worker::Worker;

/// How often more is read of a body that nobody wants. Chosen: a small one that came late is all read.
const REST_READS: usize = 4;

/// The reading side, shared by the lane and the body that is under way.
#[derive(Clone)]
pub(super) struct Reading(Arc<Mutex<State>>);

impl Reading {
    pub(super) fn new(stream: Holding, worker: &Worker, connection: &Arc<Connection>) -> Reading {
        let head_max = worker.limits.header_bytes.min(head::BYTES_MAX);
        let lines_max = worker.limits.headers.min(head::LINES_MAX);
        Reading(Arc::new(Mutex::new(State {
            stream: Some(stream),
            came: Bytes::new(),
            progress: HeadProgress::default(),
            request: 0,
            left: 0,
            is_ahead: false,
            lane: None,
            head_max,
            lines_max,
            connection: Arc::clone(connection),
            host: worker.host.clone(),
        })))
    }

    /// Somebody else reads a body that has not ended.
    pub(super) fn is_being_read(&self) -> bool {
        Arc::strong_count(&self.0) > 1 && self.lock().0.left > 0
    }

    pub(super) fn lock(&self) -> Reader<'_> {
        Reader(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct State {
    /// `None` once the lane has left it.
    stream: Option<Holding>,
    /// Came, and was not taken yet.
    came: Bytes,
    /// How far the next head has come.
    progress: HeadProgress,
    /// Heads so far: whose body it is.
    request: u64,
    /// How much of the body is still to be taken.
    left: u64,
    /// The client sent more before it was answered.
    is_ahead: bool,
    /// The lane waits for the body to be taken.
    lane: Option<Waker>,
    head_max: usize,
    lines_max: usize,
    connection: Arc<Connection>,
    host: Near<Host>,
}

/// What a client sent.
pub(super) enum Next {
    /// The head of a usual request. Its body follows.
    Usual(Box<Parts>),
    /// Something else.
    Unusual,
    /// It is gone.
    Gone,
}

/// Whoever reads.
pub(super) struct Reader<'a>(MutexGuard<'a, State>);

impl Reader<'_> {
    /// The next head.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        self.0.is_ahead = false;
        loop {
            let state = &mut *self.0;
            let is_due = state.progress.is_due(&state.came) || state.came.len() >= state.head_max;
            let read = if is_due {
                head::read(&state.came, state.head_max, state.lines_max)
            } else {
                Head::Unfinished
            };
            match read {
                Head::Usual { head, bytes, body } => {
                    self.0.progress = HeadProgress::default();
                    drop(self.0.came.split_to(bytes));
                    self.0.left = body;
                    self.0.request += 1;
                    return Poll::Ready(Next::Usual(head));
                }
                Head::Unusual => return Poll::Ready(Next::Unusual),
                Head::Unfinished => {}
            }
            match ready!(self.poll_read(cx)) {
                Ok(true) => {}
                Ok(false) | Err(_) => return Poll::Ready(Next::Gone),
            }
        }
    }

    /// The next piece of this request's body, `None` at its end.
    pub(super) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
        request: u64,
    ) -> Poll<Option<io::Result<Bytes>>> {
        if self.0.request != request {
            return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
        }
        if self.0.left == 0 {
            return Poll::Ready(None);
        }
        if self.0.came.is_empty() && !ready!(self.poll_read(cx))? {
            return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
        }
        Poll::Ready(Some(Ok(self.take_data())))
    }

    fn take_data(&mut self) -> Bytes {
        let state = &mut *self.0;
        let length = usize::try_from(state.left).map_or(state.came.len(), |left| left.min(state.came.len()));
        state.left -= length as u64;
        if state.left == 0 {
            state.lane.take().into_iter().for_each(Waker::wake);
        }
        state.came.split_to(length)
    }

    /// How much of this request's body is still to come.
    pub(super) fn left(&self, request: u64) -> u64 {
        if self.0.request == request { self.0.left } else { 0 }
    }

    /// Which request's body it is.
    pub(super) fn request(&self) -> u64 {
        self.0.request
    }

    /// Takes what came of the body, and a little more, without waiting; whether that is all of it.
    pub(super) fn take_rest(&mut self, cx: &mut Context<'_>) -> bool {
        let request = self.0.request;
        for _ in 0..REST_READS {
            match self.poll_data(cx, request) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(None) => break,
                Poll::Ready(Some(Err(_))) | Poll::Pending => return false,
            }
        }
        self.0.left == 0
    }

    /// Ready when the client has gone.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let state = &mut *self.0;
        if state.left > 0 {
            // Whoever takes the body sees it.
            state.lane = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if state.is_ahead || !state.came.is_empty() {
            return Poll::Pending;
        }
        let Some(stream) = &mut state.stream else { return Poll::Ready(()) };
        match ready!(stream.poll_peek(cx)) {
            // The next request waits for the end of this one, and is read then.
            Ok(1..) => {
                state.is_ahead = true;
                Poll::Pending
            }
            Ok(0) | Err(_) => Poll::Ready(()),
        }
    }

    /// Sends what is held back, and says that nothing follows.
    pub(super) fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0.stream {
            Some(stream) => Pin::new(stream).poll_shutdown(cx),
            None => Poll::Ready(Ok(())),
        }
    }

    /// Gives the connection away, and what came on it.
    pub(super) fn leave(&mut self) -> Option<(Bytes, Holding)> {
        let stream = self.0.stream.take()?;
        Some((std::mem::take(&mut self.0.came), stream))
    }

    /// Reads once; `false` at the end.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let state = &mut *self.0;
        let Some(stream) = &mut state.stream else { return Poll::Ready(Ok(false)) };
        read_room::with(|room| {
            let mut room = ReadBuf::new(room);
            ready!(Pin::new(stream).poll_read(cx, &mut room))?;
            let came = room.filled();
            if came.is_empty() {
                return Poll::Ready(Ok(false));
            }
            state.connection.note_read(&state.host.clock);
            state.came = if state.came.is_empty() {
                Bytes::copy_from_slice(came)
            } else {
                let mut all = BytesMut::from(std::mem::take(&mut state.came));
                all.extend_from_slice(came);
                all.freeze()
            };
            Poll::Ready(Ok(true))
        })
    }
}
