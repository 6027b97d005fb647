//! A TCP socket that any thread can abort. Whoever carries out a stop closes it itself, whatever the worker that serves it
//! is doing (KS-11): no lock, no runtime and no task lies on that path.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use crate::clock::Clock;

/// The socket itself, shared by the stream that is read and written and by those who may abort it.
#[derive(Debug)]
pub(crate) struct AbortableSocket(TcpStream);

impl AbortableSocket {
    /// Ends the connection at once, in both directions. The peer gets a reset: a `shutdown(2)` alone would wait behind
    /// bytes not sent yet, and the peer would go on working until it has read all of them.
    pub(crate) fn abort(&self) {
        // Dissolves the association (connect(2), AF_UNSPEC): Linux sends a reset and drops what is queued. The descriptor
        // stays open until its owner drops it, so its number cannot become another connection's meanwhile.
        if rustix::net::connect_unspec(&self.0).is_err() {
            // Not connected any more, or a system without it: then this ends it as far as that can be.
            self.close();
        }
    }

    /// Ends the connection in both directions, after what was written. For one that carries nothing.
    pub(crate) fn close(&self) {
        // It fails where the connection has ended already.
        let _ = SockRef::from(&self.0).shutdown(Shutdown::Both);
    }
}

/// A socket as its worker reads and writes it. The connection ends when this is dropped.
#[derive(Debug)]
pub(crate) struct SocketStream {
    socket: Arc<AbortableSocket>,
    /// Read with the bytes: whoever takes them asks what time it is about.
    clock: Arc<Clock>,
}

impl SocketStream {
    /// A connection that was made.
    pub(crate) fn new(stream: TcpStream, clock: &Arc<Clock>) -> SocketStream {
        SocketStream { socket: Arc::new(AbortableSocket(stream)), clock: Arc::clone(clock) }
    }

    /// For those who may abort it. Weak: the descriptor is closed with the stream, whoever still remembers the connection.
    pub(crate) fn handle(&self) -> Weak<AbortableSocket> {
        Arc::downgrade(&self.socket)
    }

    /// The socket, for its options.
    pub(crate) fn tcp(&self) -> &TcpStream {
        &self.socket.0
    }
}

impl AsyncRead for SocketStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let stream = self.tcp();
        loop {
            ready!(stream.poll_read_ready(cx))?;
            let before = buf.filled().len();
            // A read that did not fill the room has taken all there is: said so, the next poll waits for the system
            // instead of asking it in vain (what tokio does where it owns the stream).
            let read = stream.try_io(Interest::READABLE, || {
                let count = stream.try_read_buf(buf)?;
                if count > 0 && buf.remaining() > 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
            });
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && buf.filled().len() == before => {}
                read => {
                    self.clock.mono();
                    let is_taken = buf.filled().len() > before;
                    return Poll::Ready(if is_taken { Ok(()) } else { read });
                }
            }
        }
    }
}

impl SocketStream {
    fn poll_try_write(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.tcp().poll_write_ready(cx))?;
            match write(self.tcp()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

impl AsyncWrite for SocketStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_try_write(cx, |stream| stream.try_write(buf))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A socket sends what it took.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(self.tcp()).shutdown(Shutdown::Write))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_try_write(cx, |stream| stream.try_write_vectored(bufs))
    }
}
