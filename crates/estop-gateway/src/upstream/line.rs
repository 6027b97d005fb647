//! The socket under an upstream connection. Dropped while a request is on it, it is reset instead of closed: a close
//! would wait behind everything not sent yet, and the provider would go on working until it has read all of that.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::slots::Slot;
use crate::host::Host;
use crate::socket::{AbortableSocket, SocketStream};

/// The socket, and whether a request is on it.
pub(super) struct Line {
    stream: SocketStream,
    /// Nobody's request is on it.
    pub is_idle: bool,
    /// Something was sent since this was last unset.
    pub has_sent: bool,
    host: Arc<Host>,
    /// Given back once the socket is closed.
    pub slot: Option<Slot>,
}

impl Line {
    pub(super) fn new(stream: SocketStream, host: Arc<Host>) -> Line {
        Line { stream, is_idle: false, has_sent: false, host, slot: None }
    }

    /// For those who may abort it.
    pub(super) fn socket(&self) -> Weak<AbortableSocket> {
        self.stream.handle()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if !self.is_idle {
            // A socket that does not take it is closed the usual way.
            let _ = SockRef::from(self.stream.tcp()).set_linger(Some(Duration::ZERO));
        }
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if read.is_ready() {
            // Whoever takes the bytes asks what time it is about.
            self.host.clock.mono();
        }
        read
    }
}

impl AsyncWrite for Line {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.has_sent |= matches!(written, Poll::Ready(Ok(1..)));
        written
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
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.has_sent |= matches!(written, Poll::Ready(Ok(1..)));
        written
    }
}
