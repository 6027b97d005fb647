//! The bytes under a connection: plain or TLS.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;

use crate::upstream::line::Line;

/// The bytes under a connection.
pub(in crate::upstream) enum Stream {
    Plain(Line),
    Tls(Box<TlsStream<Line>>),
}

impl Stream {
    /// Its socket.
    pub(super) fn line(&mut self) -> &mut Line {
        match self {
            Stream::Plain(line) => line,
            Stream::Tls(tls) => tls.get_mut().0,
        }
    }

    /// The same, to look at.
    pub(super) fn line_ref(&self) -> &Line {
        match self {
            Stream::Plain(line) => line,
            Stream::Tls(tls) => tls.get_ref().0,
        }
    }

    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(line) => Pin::new(line).poll_read(cx, room),
            Stream::Tls(tls) => Pin::new(&mut **tls).poll_read(cx, room),
        }
    }

    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match (self, pieces) {
            // Cheaper than a list of one.
            (Stream::Plain(line), [one]) => Pin::new(line).poll_write(cx, one),
            (Stream::Plain(line), pieces) => Pin::new(line).poll_write_vectored(cx, pieces),
            (Stream::Tls(tls), pieces) => Pin::new(&mut **tls).poll_write_vectored(cx, pieces),
        }
    }

    /// A socket sends what it took; TLS may keep some of it.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(_) => Poll::Ready(Ok(())),
            Stream::Tls(tls) => Pin::new(&mut **tls).poll_flush(cx),
        }
    }
}
