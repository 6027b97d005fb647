//! The body of an answer: sent at its own pace, cut as scripted, and aware of whether it was taken to its end.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::connection::{Connection, Order, Ticket};
use crate::encoding::Encoder;
use crate::framing::{Event, Events, Framing};
use crate::script::{Abort, AbortAt, AbortHow, Hold, Reply, Split};
use crate::seen::Outcome;

/// What an answer consists of.
pub(crate) enum Source {
    /// These bytes.
    Bytes(Vec<u8>),
    /// These events; the last is the protocol's error event, for answers that break off with it.
    Stream { events: Events, framing: Framing, error: Event },
    /// Signs of life, for ever.
    KeepAlive(Framing),
}

/// A body that hyper takes frame by frame.
pub(crate) struct Outgoing {
    frames: mpsc::Receiver<io::Result<Bytes>>,
    /// Bytes to come, if that is known beforehand.
    left: Option<u64>,
    /// Dropped before the end, it notes that the client went away.
    ticket: Option<Ticket>,
}

impl Outgoing {
    /// Starts to send.
    pub(crate) fn start(
        source: Source,
        reply: Reply,
        ticket: Ticket,
        connection: Arc<Connection>,
    ) -> io::Result<Self> {
        let mut encoder = Encoder::new(reply.encoding);
        let source = match source {
            Source::Bytes(bytes) if reply.encoding.is_some() => {
                let mut encoded = encoder.chunk(bytes)?;
                encoded.extend(std::mem::replace(&mut encoder, Encoder::Identity).end()?);
                Source::Bytes(encoded)
            }
            Source::Bytes(_) | Source::Stream { .. } | Source::KeepAlive(_) => source,
        };
        let cuts = reply.abort.is_some_and(|abort| abort.how == AbortHow::Eof);
        let left = match &source {
            Source::Bytes(bytes) if !cuts => Some(bytes.len() as u64),
            Source::Bytes(_) | Source::Stream { .. } | Source::KeepAlive(_) => None,
        };
        let (sender, frames) = mpsc::channel(1);
        let random = match reply.split {
            Some(Split::Random(seed)) => seed,
            Some(Split::Bytes(_)) | None => 0,
        };
        let number = ticket.number();
        tokio::spawn(Sending { sender, reply, connection, number, random }.run(source, encoder));
        Ok(Self { frames, left, ticket: Some(ticket) })
    }

    /// An answer to the model's own requests: not counted.
    pub(crate) fn whole(bytes: Vec<u8>) -> Self {
        let (sender, frames) = mpsc::channel(1);
        let left = Some(bytes.len() as u64);
        if sender.try_send(Ok(Bytes::from(bytes))).is_err() {
            unreachable!("a new channel has room for one");
        }
        Self { frames, left, ticket: None }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let next = ready!(self.frames.poll_recv(context));
        match &next {
            Some(Ok(bytes)) => {
                if let Some(ticket) = &self.ticket {
                    ticket.sent(bytes.len());
                }
                self.left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
                // With a known length hyper does not ask again after the last byte.
                if self.left == Some(0) {
                    self.end();
                }
            }
            Some(Err(_)) => {}
            None => self.end(),
        }
        Poll::Ready(next.map(|frame| frame.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Outgoing {
    fn end(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            ticket.end(Outcome::Completed);
        }
    }
}

/// The end of the body that writes.
struct Sending {
    sender: mpsc::Sender<io::Result<Bytes>>,
    reply: Reply,
    connection: Arc<Connection>,
    number: u64,
    random: u64,
}

/// The body ended before its time: by script, or because the client is gone.
struct Ended;

impl Sending {
    async fn run(mut self, source: Source, encoder: Encoder) {
        // Both ways to end early have been noted where they happened.
        let _: Result<(), Ended> = self.send(source, encoder).await;
    }

    async fn send(&mut self, source: Source, mut encoder: Encoder) -> Result<(), Ended> {
        self.pause(self.reply.delay.first_byte_ms).await?;
        if self.reply.hold == Some(Hold::Body) {
            return self.hold().await;
        }
        if let Some(abort) = self.reply.abort.filter(|abort| abort.at == AbortAt::AfterHeaders) {
            return self.break_off(abort, None).await;
        }
        match source {
            Source::Bytes(bytes) => self.send_bytes(bytes).await,
            Source::KeepAlive(framing) => loop {
                self.write(encoder.chunk(framing.keep_alive(self.reply.crlf)).map_err(|_| Ended)?).await?;
                self.pause(if self.reply.delay.chunk_ms == 0 { 100 } else { 0 }).await?;
            },
            Source::Stream { events, framing, error } => {
                let cut = self.cut();
                let mut events = events.enumerate().peekable();
                while let Some((at, event)) = events.next() {
                    let is_last = events.peek().is_none();
                    if cut.is_some_and(|cut| at >= cut || is_last) {
                        let error = framing.bytes(at, &error, self.reply.crlf);
                        return self.midway(Some(encoder.chunk(error).map_err(|_| Ended)?)).await;
                    }
                    let mut bytes = framing.bytes(at, &event, self.reply.crlf);
                    if is_last {
                        bytes.extend(framing.end());
                    }
                    self.write(encoder.chunk(bytes).map_err(|_| Ended)?).await?;
                }
                self.write(encoder.end().map_err(|_| Ended)?).await
            }
        }
    }

    async fn send_bytes(&mut self, bytes: Vec<u8>) -> Result<(), Ended> {
        if self.cut().is_none() {
            return self.write(bytes).await;
        }
        let half = bytes.len() / 2;
        self.write(bytes[..half].to_vec()).await?;
        self.midway(None).await
    }

    /// After how many events the stream stops midway, if it does.
    fn cut(&self) -> Option<usize> {
        let abort = self.reply.abort.filter(|abort| abort.at == AbortAt::MidStream);
        let hold = self.reply.hold.filter(|hold| *hold == Hold::MidStream);
        abort.map(|abort| abort.after_events).or(hold.map(|_| 3))
    }

    async fn midway(&mut self, error: Option<Vec<u8>>) -> Result<(), Ended> {
        match self.reply.abort {
            Some(abort) => self.break_off(abort, error).await,
            None => self.hold().await,
        }
    }

    async fn write(&mut self, bytes: Vec<u8>) -> Result<(), Ended> {
        let mut rest = Bytes::from(bytes);
        while !rest.is_empty() {
            let size = match self.reply.split {
                None => rest.len(),
                Some(Split::Bytes(size)) => size.max(1),
                Some(Split::Random(_)) => self.random_size(),
            };
            let piece = rest.split_to(size.min(rest.len()));
            self.sender.send(Ok(piece)).await.map_err(|_| Ended)?;
            self.pause(self.reply.delay.chunk_ms).await?;
        }
        Ok(())
    }

    /// 1 to 40, by a linear congruential generator: the same for the same seed everywhere.
    fn random_size(&mut self) -> usize {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.random >> 33) % 40).unwrap_or(0) + 1
    }

    async fn break_off(&mut self, abort: Abort, error: Option<Vec<u8>>) -> Result<(), Ended> {
        // What was written so far should be on its way before the end.
        self.pause(10).await?;
        self.connection.aborted(self.number);
        match abort.how {
            AbortHow::Rst => {
                self.connection.order(Order::Reset);
                self.hold().await
            }
            AbortHow::Fin => {
                let broken = io::Error::new(io::ErrorKind::BrokenPipe, "broken off by script");
                self.sender.send(Err(broken)).await.map_err(|_| Ended)
            }
            AbortHow::Eof => Ok(()),
            AbortHow::ErrorEvent => self.write(error.unwrap_or_default()).await,
        }
    }

    async fn pause(&self, pause_ms: u64) -> Result<(), Ended> {
        if pause_ms == 0 {
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(pause_ms)) => Ok(()),
            () = self.sender.closed() => Err(Ended),
            () = self.connection.gone() => Err(Ended),
        }
    }

    async fn hold(&self) -> Result<(), Ended> {
        tokio::select! {
            () = self.sender.closed() => Err(Ended),
            () = self.connection.gone() => Err(Ended),
        }
    }
}
