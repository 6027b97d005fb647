//! The lane of usual requests: a POST of HTTP/1.1 whose length is told, on a connection without TLS. Nearly all that
//! agents ask is that, and goes straight from the socket to the pipeline and back.
//!
//! Whatever is unusual in any way is left to hyper, and the connection with it, before anything of it is taken: the lane
//! understands less than hyper does, and nothing otherwise.

mod answer;
mod body;
mod head;
mod reader;

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderValue;
use http::header::CONNECTION;

use crate::connection::Connection;
use crate::inbound::Inbound;
use crate::pipeline;
use crate::turn::{Holding, Outbox};
use crate::worker::Worker;
use answer::Answer;
pub(crate) use body::LaneBody;
use reader::{Next, Reader, Reading};

/// A connection that is hyper's from here on.
pub(crate) struct Left {
    /// What came on it, and was not served.
    pub came: Bytes,
    /// The connection.
    pub stream: Holding,
}

/// Serves usual requests until the connection ends, or something unusual comes.
pub(crate) async fn serve(
    stream: Holding,
    worker: &Arc<Worker>,
    connection: &Arc<Connection>,
) -> Option<Left> {
    let outbox = Arc::clone(stream.outbox());
    let lane = Lane { reading: Reading::new(stream, worker, connection), outbox };
    loop {
        let head = match lane.next().await {
            Next::Usual(head) => head,
            Next::Unusual => return lane.leave(),
            Next::Gone => return None,
        };
        let mut response = {
            let inbound = Inbound { head, body: LaneBody::new(&lane.reading).into() };
            let serving = pin!(pipeline::serve(worker, inbound, connection));
            lane.unless_gone(serving).await?
        };
        if !lane.reading.is_being_read() && !lane.take_rest().await {
            // Nobody reads the body any more, and what follows it cannot be told from it.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let mut answer = Answer::new(response, &lane.outbox, &worker.host.clock);
        lane.unless_gone(pin!(poll_fn(|cx| answer.poll_write(cx)))).await?.ok()?;
        if answer.is_last() || lane.reading.is_being_read() || !lane.take_rest().await {
            // Nobody is left to hear that it did not work.
            let _ = poll_fn(|cx| lane.reader().poll_close(cx)).await;
            return None;
        }
    }
}

struct Lane {
    reading: Reading,
    outbox: Arc<Outbox>,
}

impl Lane {
    fn reader(&self) -> Reader<'_> {
        self.reading.lock()
    }

    async fn next(&self) -> Next {
        poll_fn(|cx| {
            if self.poll_lost(cx).is_ready() {
                return Poll::Ready(Next::Gone);
            }
            self.reader().poll_next(cx)
        })
        .await
    }

    /// Does something, unless the client goes away meanwhile: then nobody waits for it.
    async fn unless_gone<F: Future>(&self, mut work: Pin<&mut F>) -> Option<F::Output> {
        let poll = |cx: &mut Context<'_>| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            if self.poll_lost(cx).is_ready() || self.reader().poll_gone(cx).is_ready() {
                return Poll::Ready(None);
            }
            Poll::Pending
        };
        poll_fn(poll).await
    }

    /// Sends on what the answer before left: the end of its turn came when the socket was full. Ready if that cannot be.
    fn poll_lost(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self.outbox.poll_out(cx) {
            Poll::Ready(Err(_)) => Poll::Ready(()),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        }
    }

    /// Takes what came of a body that nobody reads to its end; whether that is all of it.
    async fn take_rest(&self) -> bool {
        poll_fn(|cx| Poll::Ready(self.reader().take_rest(cx))).await
    }

    fn leave(&self) -> Option<Left> {
        let (came, stream) = self.reader().leave()?;
        Some(Left { came, stream })
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // A body on its way to a provider may still hold the reading side: the connection ends here.
        drop(self.reader().leave());
    }
}
