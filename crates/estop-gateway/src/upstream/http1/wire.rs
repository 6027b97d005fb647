//! One connection's side of the conversation: what is still to be sent, and how far the answer is read.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode, response};
use http_body::Body as _;
use tokio::io::ReadBuf;

use super::chunks::{Chunks, End};
use super::head::{self, Follows, Sends};
use super::stream::Stream;
use super::{Failed, Malformed};
use crate::head_progress::HeadProgress;
use crate::read_room;
use crate::upload::{Outgoing, RequestBody};
use crate::upstream::Ready;

/// A head of an answer is no longer.
const HEAD_MAX: usize = 256 << 10;
const TOO_LONG: Malformed = Malformed("its head is too long");
/// A head and a body of so many bytes together are copied into one piece: cheaper than handing the system a list of two.
const SMALL: usize = 4 << 10;
/// Room for heads that a thread keeps.
const ROOM_MAX: usize = 64 << 10;

thread_local! {
    /// Room to write a request into.
    static WRITTEN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A stream, and where its conversation stands.
pub(super) struct Wire {
    stream: Stream,
    /// What is left to send, in pieces.
    unsent: [Bytes; 3],
    /// TLS may keep what it took.
    unflushed: bool,
    /// Why no more can be sent. The provider may have answered all the same.
    send_error: Option<io::Error>,
    /// The body is sent by a task of its own, which is not done.
    uploads: bool,
    /// The request's method decides what its answer looks like.
    method: Method,
    /// Came, and was not taken yet.
    came: Bytes,
    /// How far the head has come.
    progress: HeadProgress,
    left: Left,
    keep_alive: bool,
}

/// What of an answer is still to come.
enum Left {
    /// Its head.
    Head,
    /// So many bytes.
    Length(u64),
    Chunks(Box<Chunks>),
    Trailers(HeaderMap),
    UntilClose,
    /// It cannot be read any further.
    Broken(Malformed),
    Nothing,
}

/// What came of a body.
pub(super) enum Came {
    Data(Bytes),
    Trailers(HeaderMap),
    End,
}

impl Wire {
    pub(super) fn new(stream: Stream) -> Wire {
        Wire {
            stream,
            unsent: Default::default(),
            unflushed: false,
            send_error: None,
            uploads: false,
            method: Method::GET,
            came: Bytes::new(),
            progress: HeadProgress::default(),
            left: Left::Nothing,
            keep_alive: true,
        }
    }

    /// Sends a request, as much of it as goes out at once.
    pub(super) fn begin(
        &mut self,
        cx: &mut Context<'_>,
        ready: &Ready,
        request: &Outgoing,
    ) -> Result<(), Failed> {
        let line = self.stream.line();
        (line.is_idle, line.has_sent) = (false, false);
        self.method = request.parts.method.clone();
        self.left = Left::Head;
        let sends = match request.body.size_hint().exact() {
            _ if request.body.is_end_stream() => Sends::Nothing,
            Some(length) => Sends::Length(length),
            None => Sends::Chunks,
        };
        let body = match &request.body {
            RequestBody::Whole(bytes) => bytes.clone().unwrap_or_default(),
            RequestBody::Passing(_) => Bytes::new(),
        };
        WRITTEN.with_borrow_mut(|head| {
            head.clear();
            head.shrink_to(ROOM_MAX);
            head::write(request, ready, sends, head);
            self.write(cx, head, body)
        })
    }

    fn write(&mut self, cx: &mut Context<'_>, head: &mut Vec<u8>, mut body: Bytes) -> Result<(), Failed> {
        if head.len() + body.len() <= SMALL {
            head.extend_from_slice(&std::mem::take(&mut body));
        }
        let pieces = [IoSlice::new(head), IoSlice::new(&body)];
        let pieces = if body.is_empty() { &pieces[..1] } else { &pieces };
        let written = match self.stream.poll_write(cx, pieces) {
            Poll::Ready(Ok(written)) => written,
            // TLS may have sent some of it.
            Poll::Ready(Err(error)) if self.stream.line().has_sent => return Err(Failed::Broken(error)),
            Poll::Ready(Err(error)) => return Err(Failed::Unsent(error)),
            Poll::Pending => 0,
        };
        self.unflushed = true;
        let left = Bytes::copy_from_slice(head.get(written..).unwrap_or_default());
        self.unsent = [left, body.split_off(written.saturating_sub(head.len())), Bytes::new()];
        Ok(())
    }

    /// The body comes by itself, from a task of its own.
    pub(super) fn uploads(&mut self) {
        self.uploads = true;
    }

    /// That task has sent everything.
    pub(super) fn has_uploaded(&mut self) {
        self.uploads = false;
    }

    /// Sends more of an upload, behind what was not sent yet. What it took is not in `pieces` any more.
    pub(super) fn poll_upload(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &mut [Bytes; 3],
    ) -> Poll<Result<(), Failed>> {
        loop {
            if let Err(error) = ready!(self.poll_send(cx)) {
                self.cannot_send(error);
                return Poll::Ready(Err(Failed::Gone));
            }
            if !pieces.iter().any(Buf::has_remaining) {
                return Poll::Ready(Ok(()));
            }
            self.unsent = std::mem::take(pieces);
            self.unflushed = true;
        }
    }

    /// Sends what is left to send.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.unsent.iter().any(Buf::has_remaining) {
            let pieces = self.unsent.each_ref().map(|piece| IoSlice::new(piece));
            let mut written = ready!(self.stream.poll_write(cx, &pieces))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            for piece in &mut self.unsent {
                let of_piece = written.min(piece.len());
                piece.advance(of_piece);
                written -= of_piece;
            }
        }
        if self.unflushed {
            ready!(self.stream.poll_flush(cx))?;
            self.unflushed = false;
            // The client's bytes are not kept longer than they are needed.
            self.unsent = Default::default();
        }
        Poll::Ready(Ok(()))
    }

    /// Sends on beside reading. What cannot be sent any more is told if no answer comes.
    fn send_on(&mut self, cx: &mut Context<'_>) {
        // Of two who wait to write, only the last one would be woken.
        if !self.uploads
            && let Poll::Ready(Err(error)) = self.poll_send(cx)
        {
            self.cannot_send(error);
        }
    }

    /// No more can be sent. The provider may have answered all the same.
    fn cannot_send(&mut self, error: io::Error) {
        self.unsent = Default::default();
        self.unflushed = false;
        self.send_error.get_or_insert(error);
    }

    /// Reads the head of the answer.
    pub(super) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<response::Parts, Failed>> {
        self.send_on(cx);
        loop {
            let before = std::mem::take(&mut self.came);
            let came = ready!(self.poll_read(cx, before))?;
            let Some(came) = came else { return Poll::Ready(Err(self.closed())) };
            self.came = came;
            if self.progress.is_due(&self.came)
                && let Some(head) = self.take_head()?
            {
                return Poll::Ready(Ok(head));
            }
            if self.came.len() > HEAD_MAX {
                return Poll::Ready(Err(TOO_LONG.into()));
            }
        }
    }

    /// Takes the head of the answer from what came, if it is all there.
    fn take_head(&mut self) -> Result<Option<response::Parts>, Malformed> {
        while !self.came.is_empty() {
            let Some(head) = head::read(&self.came, &self.method)? else { return Ok(None) };
            if head.length > HEAD_MAX {
                return Err(TOO_LONG);
            }
            self.came.advance(head.length);
            self.progress = HeadProgress::default();
            let status = head.parts.status;
            // Said before the answer, and not part of it.
            if status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS {
                continue;
            }
            self.keep_alive = head.keep_alive && status != StatusCode::SWITCHING_PROTOCOLS;
            self.left = match head.follows {
                Follows::Length(0) => Left::Nothing,
                Follows::Length(length) => Left::Length(length),
                Follows::Chunks => Left::Chunks(Box::default()),
                Follows::UntilClose => Left::UntilClose,
            };
            return Ok(Some(head.parts));
        }
        Ok(None)
    }

    /// Reads on in the answer's body.
    pub(super) fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Came, Failed>> {
        self.send_on(cx);
        loop {
            if !self.came.is_empty()
                && let Some(data) = self.take_data()
            {
                return Poll::Ready(Ok(Came::Data(data)));
            }
            match std::mem::replace(&mut self.left, Left::Nothing) {
                Left::Trailers(trailers) => return Poll::Ready(Ok(Came::Trailers(trailers))),
                Left::Broken(error) => return Poll::Ready(Err(error.into())),
                Left::Nothing => return Poll::Ready(Ok(Came::End)),
                left @ (Left::Head | Left::Length(_) | Left::Chunks(_) | Left::UntilClose) => {
                    self.left = left;
                }
            }
            match ready!(self.poll_read(cx, Bytes::new()))? {
                Some(came) => self.came = came,
                None if matches!(self.left, Left::UntilClose) => {
                    (self.left, self.keep_alive) = (Left::Nothing, false);
                }
                None => return Poll::Ready(Err(self.closed())),
            }
        }
    }

    /// Takes the data that is in what came. What follows the answer's end stays there.
    fn take_data(&mut self) -> Option<Bytes> {
        let data = match &mut self.left {
            Left::UntilClose => std::mem::take(&mut self.came),
            Left::Length(left) => {
                let length = usize::try_from(*left).map_or(self.came.len(), |left| left.min(self.came.len()));
                *left -= length as u64;
                if *left == 0 {
                    self.left = Left::Nothing;
                }
                self.came.split_to(length)
            }
            Left::Chunks(chunks) => {
                let (data, end) = chunks.take(&mut self.came);
                // What came well before a broken chunk is passed on.
                match end {
                    Ok(End::NotYet) => {}
                    Ok(End::Plain) => self.left = Left::Nothing,
                    Ok(End::Trailers(trailers)) => self.left = Left::Trailers(trailers),
                    Err(error) => self.left = Left::Broken(error),
                }
                data
            }
            Left::Head | Left::Trailers(_) | Left::Broken(_) | Left::Nothing => Bytes::new(),
        };
        Some(data).filter(|data| !data.is_empty())
    }

    /// Whether nothing of the answer is still to come.
    pub(super) fn is_at_end(&self) -> bool {
        matches!(self.left, Left::Nothing)
    }

    /// How many bytes are still to come, if it is known.
    pub(super) fn left(&self) -> Option<u64> {
        match self.left {
            Left::Length(left) => Some(left),
            Left::Nothing => Some(0),
            Left::Head | Left::Chunks(_) | Left::Trailers(_) | Left::UntilClose | Left::Broken(_) => None,
        }
    }

    /// Reads once, behind what was there `before`. `None` at the end.
    fn poll_read(&mut self, cx: &mut Context<'_>, before: Bytes) -> Poll<Result<Option<Bytes>, Failed>> {
        read_room::with(|room| {
            let mut room = ReadBuf::new(room);
            let read = self.stream.poll_read(cx, &mut room);
            let came = room.filled();
            let came = match read {
                Poll::Ready(Ok(())) if came.is_empty() => Ok(None),
                Poll::Ready(Ok(())) if before.is_empty() => {
                    return Poll::Ready(Ok(Some(Bytes::copy_from_slice(came))));
                }
                Poll::Ready(Ok(())) => {
                    // Nobody else holds it: its room grows, and nothing is copied twice.
                    let mut all = BytesMut::from(before);
                    all.extend_from_slice(came);
                    return Poll::Ready(Ok(Some(all.freeze())));
                }
                Poll::Ready(Err(error)) => Err(self.send_error.take().unwrap_or(error).into()),
                Poll::Pending => {
                    self.came = before;
                    return Poll::Pending;
                }
            };
            Poll::Ready(came)
        })
    }

    fn closed(&mut self) -> Failed {
        let early =
            || io::Error::new(io::ErrorKind::UnexpectedEof, "the provider closed the connection early");
        Failed::Broken(self.send_error.take().unwrap_or_else(early))
    }

    /// Whether an idle connection is open, as far as is known, and nothing came on it unasked.
    pub(super) fn is_quiet(&mut self) -> bool {
        // Asks the system only if it said that there is something; and whoever asks, however much it has read already.
        let mut byte = [0];
        let read =
            tokio::task::unconstrained(poll_fn(|cx| self.stream.poll_read(cx, &mut ReadBuf::new(&mut byte))));
        pin!(read).poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// The answer is over: whether another request can be sent.
    pub(super) fn rest(&mut self) -> bool {
        // Whatever was not sent was not flushed either.
        let is_sent = !self.uploads && self.send_error.is_none() && !self.unflushed;
        // Closed with bytes of the request unsent, it would wait until all of them are taken.
        self.stream.line().is_idle = is_sent;
        is_sent && self.keep_alive && self.is_at_end() && self.came.is_empty()
    }
}
