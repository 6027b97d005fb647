//! One worker's turn. Answers that end in the same turn are kept by one write to the journal's tail; until then the last
//! bytes of each are held back: nobody is told what a dead process would not remember.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use atomic_waker::AtomicWaker;
use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::journal_queue::JournalQueue;
use crate::socket::SocketStream;

/// Why an answer that is there does not end well.
pub(crate) const NOT_KEPT: &str = "the journal cannot be written";
/// Bytes held back for a client. Chosen: most answers that do not stream fit; one that ends with more has a write of its
/// own, which costs it less than copying double would.
const HELD_MAX: usize = 16 << 10;
/// Room for them that a connection keeps. Ten thousand may be open.
const ROOM_MAX: usize = 2 << 10;

/// The answers that ended in this turn of a worker.
pub(crate) struct Turn {
    journal: Arc<JournalQueue>,
    ended: Mutex<Vec<Arc<Outbox>>>,
    waker: AtomicWaker,
}

impl Turn {
    pub(crate) fn new(journal: Arc<JournalQueue>) -> Arc<Turn> {
        Arc::new(Turn { journal, ended: Mutex::default(), waker: AtomicWaker::new() })
    }

    /// Ends turns, for ever. Whoever could run when the first answer of a turn ended has run before.
    pub(crate) async fn run(self: Arc<Self>) {
        std::future::poll_fn(|cx| {
            self.waker.register(cx.waker());
            self.end();
            Poll::<()>::Pending
        })
        .await;
    }

    /// Ends the turn: the journal keeps what was answered, and the clients get the rest of it.
    pub(crate) fn end(&self) {
        let mut ended = std::mem::take(&mut *self.ended());
        if ended.is_empty() {
            return;
        }
        self.journal.flush();
        let is_kept = !self.journal.has_failed();
        ended.drain(..).for_each(|outbox| outbox.held().release(is_kept));
        let mut next = self.ended();
        if next.is_empty() {
            // Its room serves the next turn.
            *next = ended;
        }
    }

    fn add(&self, outbox: &Arc<Outbox>) {
        let mut ended = self.ended();
        ended.push(Arc::clone(outbox));
        if ended.len() == 1 {
            drop(ended);
            self.waker.wake();
        }
    }

    fn ended(&self) -> MutexGuard<'_, Vec<Arc<Outbox>>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What goes to a client.
pub(crate) struct Outbox {
    turn: Arc<Turn>,
    held: Mutex<Held>,
}

struct Held {
    /// `None` once the connection is gone.
    socket: Option<SocketStream>,
    /// The journal does not have the answer that ends here.
    waits: bool,
    /// It never will.
    lost: bool,
    bytes: Vec<u8>,
    waker: Option<Waker>,
}

impl Outbox {
    /// Its answer ends: what is written from here on waits for the end of the turn.
    pub(crate) fn wait(self: &Arc<Self>) {
        if !std::mem::replace(&mut self.held().waits, true) {
            self.turn.add(self);
        }
    }

    /// Puts bytes behind what is still to be sent.
    pub(crate) fn write<R>(&self, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        write(&mut self.held().bytes)
    }

    /// There is more to send than is held back.
    pub(crate) fn is_full(&self) -> bool {
        self.held().is_full()
    }

    /// Sends what was put there, unless it waits for the end of the turn, which comes by itself.
    pub(crate) fn poll_out(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut held = self.held();
        if held.waits && !held.is_full() {
            held.note(cx.waker());
            return Poll::Ready(Ok(()));
        }
        drop(held);
        self.free().poll_send(cx)
    }

    /// Sends a piece behind it, as it is.
    pub(crate) fn poll_piece(&self, cx: &mut Context<'_>, piece: &mut Bytes) -> Poll<io::Result<()>> {
        let mut held = self.free();
        while !piece.is_empty() {
            let sent = ready!(ready!(held.poll_socket(cx))?.poll_write(cx, piece))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            piece.advance(sent);
        }
        Poll::Ready(Ok(()))
    }

    /// What is held back, if it need not wait any more.
    fn free(&self) -> MutexGuard<'_, Held> {
        let held = self.held();
        if !held.waits {
            return held;
        }
        drop(held);
        self.turn.end();
        self.held()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Whom to wake if the socket does not take everything.
    fn note(&mut self, waker: &Waker) {
        if !self.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            self.waker = Some(waker.clone());
        }
    }

    /// The turn is over. What the socket does not take is left to its connection's task.
    fn release(&mut self, is_kept: bool) {
        self.waits = false;
        self.lost |= !is_kept;
        if let Some(socket) = self.socket.as_ref().filter(|_| is_kept && !self.bytes.is_empty()) {
            // Whatever is wrong with it, its connection's task will hear of it.
            let sent = socket.tcp().try_write(&self.bytes).unwrap_or(0);
            self.bytes.drain(..sent);
        }
        self.give_room_back();
        if self.lost || !self.bytes.is_empty() {
            self.waker.take().into_iter().for_each(Waker::wake);
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lost {
            return Poll::Ready(Err(io::Error::other(NOT_KEPT)));
        }
        while !self.bytes.is_empty() {
            let Some(socket) = &mut self.socket else { break };
            let sent = ready!(Pin::new(socket).poll_write(cx, &self.bytes))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.bytes.drain(..sent);
        }
        self.give_room_back();
        Poll::Ready(Ok(()))
    }

    fn is_full(&self) -> bool {
        self.bytes.len() > HELD_MAX
    }

    fn give_room_back(&mut self) {
        if self.bytes.is_empty() && self.bytes.capacity() > ROOM_MAX {
            self.bytes = Vec::new();
        }
    }

    /// The socket, once everything that was held back is sent.
    fn poll_socket(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pin<&mut SocketStream>>> {
        ready!(self.poll_send(cx))?;
        let gone = || io::ErrorKind::NotConnected.into();
        Poll::Ready(self.socket.as_mut().map(Pin::new).ok_or_else(gone))
    }
}

/// A client's socket whose last bytes can be held back.
pub(crate) struct Holding {
    socket: SocketStream,
    outbox: Arc<Outbox>,
}

impl Holding {
    pub(crate) fn new(socket: SocketStream, turn: &Arc<Turn>) -> (Holding, Arc<Outbox>) {
        let held =
            Held { socket: Some(socket.second()), waits: false, lost: false, bytes: Vec::new(), waker: None };
        let outbox = Arc::new(Outbox { turn: Arc::clone(turn), held: Mutex::new(held) });
        (Holding { socket, outbox: Arc::clone(&outbox) }, outbox)
    }

    /// What goes to the client.
    pub(crate) fn outbox(&self) -> &Arc<Outbox> {
        &self.outbox
    }

    /// Whether there is something to read, without reading it: 0 at the end.
    pub(crate) fn poll_peek(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.socket.tcp().poll_peek(cx, &mut ReadBuf::new(&mut [0]))
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        // Whoever was told that its bytes are out may end the connection without another word: they go now.
        // Others may hold the outbox for longer: the socket is closed with its connection.
        drop(self.outbox.free().socket.take());
    }
}

impl AsyncRead for Holding {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for Holding {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut held = self.outbox.held();
        if held.waits && held.bytes.len() + buf.len() <= HELD_MAX {
            held.bytes.extend_from_slice(buf);
            held.note(cx.waker());
            return Poll::Ready(Ok(buf.len()));
        }
        drop(held);
        ready!(self.outbox.free().poll_socket(cx))?.poll_write(cx, buf)
    }

    /// Nothing is gained by waiting for the end of the turn: it comes by itself, and at the latest with the socket's end.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut held = self.outbox.held();
        if !held.waits {
            return held.poll_send(cx);
        }
        held.note(cx.waker());
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.outbox.free().poll_socket(cx))?.poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
