//! One worker's turn. Answers that end in the same turn are kept by one write to the journal's tail; until then the last
//! bytes of each are held back: nobody is told what a dead process would not remember.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use atomic_waker::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::journal_queue::JournalQueue;

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
    socket: Option<OwnedWriteHalf>,
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
            let sent = socket.try_write(&self.bytes).unwrap_or(0);
            self.bytes.drain(..sent);
        }
        if self.bytes.is_empty() && self.bytes.capacity() > ROOM_MAX {
            self.bytes = Vec::new();
        }
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
        Poll::Ready(Ok(()))
    }

    /// The socket, once everything that was held back is sent.
    fn poll_socket(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pin<&mut OwnedWriteHalf>>> {
        ready!(self.poll_send(cx))?;
        let gone = || io::ErrorKind::NotConnected.into();
        Poll::Ready(self.socket.as_mut().map(Pin::new).ok_or_else(gone))
    }
}

/// A client's socket whose last bytes can be held back.
pub(crate) struct Holding {
    socket: OwnedReadHalf,
    outbox: Arc<Outbox>,
}

impl Holding {
    pub(crate) fn new(stream: TcpStream, turn: &Arc<Turn>) -> (Holding, Arc<Outbox>) {
        let (read, write) = stream.into_split();
        let held = Held { socket: Some(write), waits: false, lost: false, bytes: Vec::new(), waker: None };
        let outbox = Arc::new(Outbox { turn: Arc::clone(turn), held: Mutex::new(held) });
        (Holding { socket: read, outbox: Arc::clone(&outbox) }, outbox)
    }

    /// What is held back, if it need not wait any more.
    fn free(&self) -> MutexGuard<'_, Held> {
        let held = self.outbox.held();
        if !held.waits {
            return held;
        }
        drop(held);
        self.outbox.turn.end();
        self.outbox.held()
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        // Whoever was told that its bytes are out may end the connection without another word: they go now.
        // Others may hold the outbox for longer: the socket is closed with its connection.
        self.free().socket.take().into_iter().for_each(OwnedWriteHalf::forget);
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
        ready!(self.free().poll_socket(cx))?.poll_write(cx, buf)
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
        ready!(self.free().poll_socket(cx))?.poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
