//! An answer on its way to the client: its head, and its body as it comes.

use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, TRAILER, TRANSFER_ENCODING};
use http::{Response, StatusCode, response};
use http_body::{Body, Frame};
use hyper::ext::ReasonPhrase;

use crate::clock::Clock;
use crate::header_line;
use crate::http_date;
use crate::out_body::OutBody;
use crate::turn::Outbox;

/// Pieces of a body that are larger are not copied.
const SMALL: usize = 4 << 10;

/// How a body is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// So many bytes are still to come.
    Length(u64),
    Chunks,
    /// The status has none, whatever comes.
    Nothing,
}

impl Framing {
    fn of(status: StatusCode, body: &OutBody) -> Framing {
        if matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            return Framing::Nothing;
        }
        let length = if body.is_end_stream() { Some(0) } else { body.size_hint().exact() };
        length.map_or(Framing::Chunks, Framing::Length)
    }
}

/// An answer that is being written.
pub(super) struct Answer<'a> {
    outbox: &'a Arc<Outbox>,
    body: OutBody,
    framing: Framing,
    /// A large piece, and what follows it.
    piece: Bytes,
    behind: &'static [u8],
    has_ended: bool,
    /// Why it ends without an end.
    failed: Option<io::Error>,
    is_last: bool,
}

impl<'a> Answer<'a> {
    /// Writes the head.
    pub(super) fn new(response: Response<OutBody>, outbox: &'a Arc<Outbox>, clock: &Clock) -> Answer<'a> {
        let (head, body) = response.into_parts();
        let framing = Framing::of(head.status, &body);
        let is_last = outbox.write(|to| write_head(to, &head, framing, clock));
        let has_ended = body.is_end_stream() || framing == Framing::Length(0);
        let body = if has_ended { OutBody::Full(None) } else { body };
        Answer { outbox, body, framing, piece: Bytes::new(), behind: b"", has_ended, failed: None, is_last }
    }

    /// Whether the connection ends with it.
    pub(super) fn is_last(&self) -> bool {
        self.is_last
    }

    /// Writes the body, to its end. An error breaks the connection off.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let gathered = self.poll_gather(cx);
            let sent = self.outbox.poll_out(cx);
            // Of what came before, the client has what it took; it is not waited for.
            if let Some(error) = self.failed.take() {
                return Poll::Ready(Err(error));
            }
            ready!(sent)?;
            if !self.piece.is_empty() {
                ready!(self.outbox.poll_piece(cx, &mut self.piece))?;
                let behind = std::mem::take(&mut self.behind);
                self.outbox.write(|to| to.extend_from_slice(behind));
            } else if self.has_ended {
                return Poll::Ready(Ok(()));
            } else {
                ready!(gathered);
            }
        }
    }

    /// Takes what there is of the body, until there is enough to send.
    fn poll_gather(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.has_ended && self.failed.is_none() && self.piece.is_empty() && !self.outbox.is_full() {
            let taken = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => self.take(frame),
                Some(Err(error)) => Err(io::Error::other(error)),
                None => self.end(),
            };
            self.failed = taken.err();
        }
        Poll::Ready(())
    }

    fn take(&mut self, frame: Frame<Bytes>) -> io::Result<()> {
        // Trailers are only for those who asked for them, and nobody can here.
        let data = frame.into_data().unwrap_or_default();
        if let Framing::Length(left) = &mut self.framing {
            *left = left.checked_sub(data.len() as u64).ok_or_else(|| wrong("longer"))?;
        }
        if !data.is_empty() && self.framing != Framing::Nothing {
            self.put(data);
        }
        if self.body.is_end_stream() || self.framing == Framing::Length(0) { self.end() } else { Ok(()) }
    }

    fn put(&mut self, data: Bytes) {
        let is_chunk = self.framing == Framing::Chunks;
        let is_small = data.len() <= SMALL;
        let behind: &'static [u8] = if is_chunk { b"\r\n" } else { b"" };
        self.outbox.write(|to| {
            if is_chunk {
                // A vector takes everything.
                let _ = write!(to, "{:x}\r\n", data.len());
            }
            if is_small {
                to.extend_from_slice(&data);
                to.extend_from_slice(behind);
            }
        });
        if !is_small {
            (self.piece, self.behind) = (data, behind);
        }
    }

    fn end(&mut self) -> io::Result<()> {
        match self.framing {
            Framing::Length(1..) => return Err(wrong("shorter")),
            Framing::Chunks if self.piece.is_empty() => {
                self.outbox.write(|to| to.extend_from_slice(b"0\r\n\r\n"));
            }
            Framing::Chunks => self.behind = b"\r\n0\r\n\r\n",
            Framing::Length(0) | Framing::Nothing => {}
        }
        self.has_ended = true;
        // Whoever sees the end finds the request over.
        self.body = OutBody::Full(None);
        Ok(())
    }
}

fn wrong(how: &str) -> io::Error {
    io::Error::other(format!("the answer is {how} than its head says"))
}

/// Writes a head; whether the connection ends behind its answer.
fn write_head(to: &mut Vec<u8>, head: &response::Parts, framing: Framing, clock: &Clock) -> bool {
    status_line(to, head);
    let (mut has_length, mut has_date, mut is_last) = (false, false, false);
    for (name, value) in &head.headers {
        match *name {
            // Said once, and only of a body that has it.
            CONTENT_LENGTH => {
                if has_length || !matches!(framing, Framing::Length(1..)) {
                    continue;
                }
                has_length = true;
            }
            // The body is framed here, and has no trailers.
            TRANSFER_ENCODING | TRAILER => continue,
            CONNECTION => is_last |= value.as_bytes().eq_ignore_ascii_case(b"close"),
            DATE => has_date = true,
            _ => {}
        }
        header_line::write(to, name.as_str().as_bytes(), value.as_bytes());
    }
    match framing {
        Framing::Chunks => header_line::write(to, b"transfer-encoding", b"chunked"),
        Framing::Length(length) if !has_length => {
            let _ = write!(to, "content-length: {length}\r\n");
        }
        Framing::Length(_) | Framing::Nothing => {}
    }
    if !has_date {
        http_date::with(clock.about_wall(), |date| header_line::write(to, b"date", date));
    }
    to.extend_from_slice(b"\r\n");
    is_last
}

fn status_line(to: &mut Vec<u8>, head: &response::Parts) {
    let reason = head.extensions.get::<ReasonPhrase>().map(ReasonPhrase::as_bytes);
    if head.status == StatusCode::OK && reason.is_none() {
        return to.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    }
    to.extend_from_slice(b"HTTP/1.1 ");
    to.extend_from_slice(head.status.as_str().as_bytes());
    to.push(b' ');
    let usual = || head.status.canonical_reason().unwrap_or("<none>").as_bytes();
    to.extend_from_slice(reason.unwrap_or_else(usual));
    to.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests;
