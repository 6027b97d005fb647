//! The socket under an upstream connection.

use std::io;
use std::pin::Pin;
use std::sync::Weak;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::slots::Slot;
use crate::emergency_stop::socket::{AbortableSocket, SocketStream};

/// The socket under an upstream connection.
pub(super) struct UpstreamSocket {
    stream: SocketStream,
    /// Given back once the socket is closed.
    slot: Slot,
}

impl UpstreamSocket {
    pub(super) fn new(stream: SocketStream, slot: Slot) -> UpstreamSocket {
        UpstreamSocket { stream, slot }
    }

    /// For those who may abort it.
    pub(super) fn socket(&self) -> Weak<AbortableSocket> {
        self.stream.handle()
    }
}

impl AsyncRead for UpstreamSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if read.is_ready() {
            // Whoever takes the bytes asks what time it is about.
            self.slot.clock().mono();
        }
        read
    }
}

impl AsyncWrite for UpstreamSocket {
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
