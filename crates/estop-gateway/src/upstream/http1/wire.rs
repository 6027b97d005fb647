//! One connection's side of the conversation: what is still to be sent, and how far the answer is read.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode, response};
use http_body::Body as _;
use memchr::memchr;
use tokio::io::ReadBuf;

use super::chunks::{Chunks, End};
use super::head::{self, Follows, Sends};
use super::stream::Stream;
use super::{Failed, Malformed};
use crate::upload::{Outgoing, RequestBody};
use crate::upstream::Ready;

/// A head of an answer is no longer.
const HEAD_MAX: usize = 256 << 10;
/// Read at once.
const READ_MAX: usize = 64 << 10;
/// A head and a body of so many bytes together are copied into one piece: cheaper than handing the system a list of two.
const SMALL: usize = 4 << 10;
/// Room for heads that a thread keeps.
const ROOM_MAX: usize = 64 << 10;

thread_local! {
    /// Room to read into, for all connections of a thread: what came is kept in as many bytes as it has. Ten thousand
    /// streams may be open, and most of them silent.
    static READ: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_MAX].into());
    /// Room to write a request into.
    static WRITTEN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A stream, and where its conversation stands.
pub(super) struct Wire {
    stream: Stream,
    /// What the request's head and body have left to send.
    unsent: [Bytes; 2],
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
            unsent: [Bytes::new(), Bytes::new()],
            unflushed: false,
            send_error: None,
            uploads: false,
            method: Method::GET,
            came: Bytes::new(),
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
        self.stream.line().is_idle = false;
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
            head::write(&request.parts, ready, sends, head);
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
            Poll::Ready(Ok(0)) => return Err(Failed::Unsent(io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(written)) => written,
            Poll::Ready(Err(error)) => return Err(Failed::Unsent(error)),
            Poll::Pending => 0,
        };
        self.unflushed = true;
        match head.get(written..) {
            Some(left) => self.unsent = [Bytes::copy_from_slice(left), body],
            None => self.unsent = [Bytes::new(), body.split_off(written - head.len())],
        }
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

    /// Sends more of an upload. What it took is not in `pieces` any more.
    pub(super) fn poll_upload(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &mut [Bytes; 2],
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_send(cx))?;
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
            let [head, body] = &self.unsent;
            let written = ready!(self.stream.poll_write(cx, &[IoSlice::new(head), IoSlice::new(body)]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let [head, body] = &mut self.unsent;
            let of_head = written.min(head.len());
            head.advance(of_head);
            body.advance(written - of_head);
        }
        if self.unflushed {
            ready!(self.stream.poll_flush(cx))?;
            self.unflushed = false;
            // The client's bytes are not kept longer than they are needed.
            self.unsent = [Bytes::new(), Bytes::new()];
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
    pub(super) fn cannot_send(&mut self, error: io::Error) {
        self.unsent = [Bytes::new(), Bytes::new()];
        self.unflushed = false;
        self.send_error.get_or_insert(error);
    }

    /// Reads the head of the answer.
    pub(super) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<response::Parts, Failed>> {
        self.send_on(cx);
        loop {
            let before = std::mem::take(&mut self.came);
            let seen = before.len();
            let came = ready!(self.poll_read(cx, before))?;
            let Some(came) = came else { return Poll::Ready(Err(self.closed())) };
            self.came = came;
            // Read anew with each line at most: heads that drip would otherwise cost their length squared.
            let has_line = memchr(b'\n', &self.came[seen..]).is_some();
            if has_line && let Some(head) = self.take_head()? {
                return Poll::Ready(Ok(head));
            }
            if self.came.len() > HEAD_MAX {
                return Poll::Ready(Err(Malformed("its head is too long").into()));
            }
        }
    }

    /// Takes the head of the answer from what came, if it is all there.
    fn take_head(&mut self) -> Result<Option<response::Parts>, Malformed> {
        while !self.came.is_empty() {
            let Some(head) = head::read(&self.came, &self.method)? else { return Ok(None) };
            self.came.advance(head.length);
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
                let mut data = Gathered::default();
                let read = chunks.read(&self.came, |at| data.add(&self.came, at));
                // What came well before a broken chunk is passed on.
                match read.and_then(|length| Ok((length, chunks.end()?))) {
                    Ok((length, end)) => {
                        self.came.advance(length);
                        match end {
                            End::NotYet => {}
                            End::Plain => self.left = Left::Nothing,
                            End::Trailers(trailers) => self.left = Left::Trailers(trailers),
                        }
                    }
                    Err(error) => self.left = Left::Broken(error),
                }
                data.take()
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
        READ.with_borrow_mut(|room| {
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
        let (mut byte, mut cx) = ([0], Context::from_waker(Waker::noop()));
        // Asks the system only if it said that there is something.
        self.stream.poll_read(&mut cx, &mut ReadBuf::new(&mut byte)).is_pending()
    }

    /// The answer is over: whether another request can be sent.
    pub(super) fn rest(&mut self) -> bool {
        let is_sent =
            !self.uploads && self.send_error.is_none() && !self.unsent.iter().any(Buf::has_remaining);
        // Closed with bytes of the request unsent, it would wait until all of them are taken.
        self.stream.line().is_idle = is_sent;
        is_sent && self.keep_alive && self.is_at_end() && self.came.is_empty()
    }
}

/// Data of one or more chunks. That of one is not copied.
#[derive(Default)]
struct Gathered {
    one: Bytes,
    more: BytesMut,
}

impl Gathered {
    fn add(&mut self, from: &Bytes, at: std::ops::Range<usize>) {
        if self.one.is_empty() && self.more.is_empty() {
            self.one = from.slice(at);
            return;
        }
        if self.more.is_empty() {
            self.more.reserve(from.len());
            self.more.extend_from_slice(&std::mem::take(&mut self.one));
        }
        self.more.extend_from_slice(&from[at]);
    }

    fn take(self) -> Bytes {
        if self.more.is_empty() { self.one } else { self.more.freeze() }
    }
}
