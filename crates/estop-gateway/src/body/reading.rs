//! Reading a request's body whole, within its limits: size, memory of all bodies together, and the client's patience
//! with us (the sweeper ends a body that does not move).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::clock::Clock;
use crate::emergency_stop::in_flight::{InFlightRequest, Phase};

/// Bytes of request bodies held at once, by all workers.
#[derive(Debug)]
pub(crate) struct BodyBudget {
    held: AtomicU64,
    max: AtomicU64,
}

impl BodyBudget {
    /// Room for `max` bytes.
    pub(crate) fn new(max: u64) -> BodyBudget {
        BodyBudget { held: AtomicU64::new(0), max: AtomicU64::new(max) }
    }

    /// Another room. What is held beyond it goes first.
    pub(crate) fn set_max(&self, max: u64) {
        self.max.store(max, Ordering::Relaxed);
    }

    fn take(&self, bytes: u64) -> bool {
        let max = self.max.load(Ordering::Relaxed);
        let fits = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= max);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }
}

/// A share of the memory, given back when dropped.
#[derive(Debug)]
pub(crate) struct BodyReservation {
    memory: Arc<BodyBudget>,
    bytes: u64,
}

impl BodyReservation {
    /// An empty share.
    pub(crate) fn of(memory: &Arc<BodyBudget>) -> BodyReservation {
        BodyReservation { memory: memory.clone(), bytes: 0 }
    }

    /// Makes sure that the share covers `bytes`.
    fn cover(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let taken = more == 0 || self.memory.take(more);
        if taken {
            self.bytes += more;
        }
        taken
    }
}

impl Drop for BodyReservation {
    fn drop(&mut self) {
        self.memory.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Why a body could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyProblem {
    /// Larger than allowed.
    TooLarge,
    /// No memory for it right now.
    NoMemory,
    /// The client broke off, or its framing is wrong.
    Broken,
    /// The request was cut while its body was read.
    Cut,
}

/// The most that is reserved on a client's word.
const RESERVE_MAX: usize = 1 << 20;

/// Reads a body of at most `max` bytes.
pub(crate) async fn read(
    mut body: Incoming,
    max: usize,
    share: &mut BodyReservation,
    flight: &InFlightRequest,
    clock: &Clock,
) -> Result<Bytes, BodyProblem> {
    let said = body.size_hint();
    let lower = usize::try_from(said.lower()).unwrap_or(usize::MAX);
    if lower > max {
        drain(body).await;
        return Err(BodyProblem::TooLarge);
    }
    // Only what came takes memory: a length is announced for nothing, and would keep others out.
    let mut first: Option<Bytes> = None;
    let mut all = BytesMut::new();
    while let Some(data) = next_data(&mut body, flight).await? {
        flight.enter(Phase::Reading, clock.now_coarse());
        let length = first.as_ref().map_or(all.len(), Bytes::len) + data.len();
        if length > max {
            return Err(BodyProblem::TooLarge);
        }
        if !share.cover(length as u64) {
            return Err(BodyProblem::NoMemory);
        }
        // Most requests arrive in one piece and are never copied.
        match first.take() {
            None if all.is_empty() => first = Some(data),
            None => all.extend_from_slice(&data),
            Some(before) => {
                // A length is announced for nothing; a large body grows by doubling.
                all.reserve(lower.min(RESERVE_MAX).max(length));
                all.extend_from_slice(&before);
                all.extend_from_slice(&data);
            }
        }
    }
    Ok(first.unwrap_or_else(|| all.freeze()))
}

/// Waits for the end of a body that has nothing in it.
pub(crate) async fn ends_empty(mut body: Incoming, flight: &InFlightRequest) -> Result<(), BodyProblem> {
    match next_data(&mut body, flight).await? {
        None => Ok(()),
        Some(_) => Err(BodyProblem::Broken),
    }
}

/// How long, and how much of, a refused body is read before its refusal is told. Closed with bytes unread, the connection
/// would be reset, and many clients would never see the answer.
const DRAIN_FOR: Duration = Duration::from_millis(300);
const DRAIN_MAX: usize = 64 << 20;

/// Reads what a client still sends, and forgets it.
pub(crate) async fn drain(mut body: Incoming) {
    let all = async {
        let mut left = DRAIN_MAX;
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                return;
            }
        }
    };
    // What is not there in time is not waited for.
    let _ = timeout(DRAIN_FOR, all).await;
}

/// The next bytes of a body; `None` at its end. Trailers are left out: nothing inspects them, so nothing forwards them.
async fn next_data(body: &mut Incoming, flight: &InFlightRequest) -> Result<Option<Bytes>, BodyProblem> {
    std::future::poll_fn(|cx| {
        loop {
            if flight.poll_cut(cx).is_ready() {
                return Poll::Ready(Err(BodyProblem::Cut));
            }
            return match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(None) => Poll::Ready(Ok(None)),
                Poll::Ready(Some(Err(_))) => Poll::Ready(Err(BodyProblem::Broken)),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => Poll::Ready(Ok(Some(data))),
                    Ok(_) | Err(_) => continue,
                },
            };
        }
    })
    .await
}
