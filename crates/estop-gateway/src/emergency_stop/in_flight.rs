//! Requests under way: each can be cut from any thread, in any phase, and its upstream connection really closes.
//!
//! A cut does not wait for the request's own task: it takes the upstream connection away at once, so that a client
//! which does not read cannot keep a model generating.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll};

use atomic_waker::AtomicWaker;
use estop_core::event::AbortedBy;
use estop_core::ids::{Name, RequestId};
use estop_core::system::Channel;
use estop_core::time::Millis;
use estop_wire::refusal::Kind;

use crate::emergency_stop::connection::Connection;
use crate::emergency_stop::registry::{Entry, Registry};
use crate::emergency_stop::socket::AbortableSocket;

/// Where a request is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Its body is being read from the client.
    Reading,
    /// It is judged.
    Judging,
    /// A connection to the upstream is being made.
    Connecting,
    /// It is sent, and the first byte of the answer awaited.
    Awaiting,
    /// The answer streams; the upstream's next bytes are awaited.
    Streaming,
    /// The answer streams; the client has bytes to take.
    Writing,
}

impl Phase {
    const ALL: [Phase; 6] = [
        Phase::Reading,
        Phase::Judging,
        Phase::Connecting,
        Phase::Awaiting,
        Phase::Streaming,
        Phase::Writing,
    ];
}

/// Why a request was ended early.
#[derive(Clone, Debug)]
pub struct Cut {
    /// Who ended it.
    pub by: AbortedBy,
    /// What kind of answer it gets.
    pub kind: Kind,
    /// For machines.
    pub code: &'static str,
    /// For people.
    pub message: String,
}

/// One request under way.
pub struct InFlightRequest {
    /// Its number.
    pub request: RequestId,
    /// What it goes through: a kill of that channel ends it.
    pub channel: Channel,
    /// What its client calls the upstream, at the beginning of a sentence.
    pub upstream_name: &'static str,
    /// The client's connection.
    pub connection: Arc<Connection>,
    phase: AtomicU8,
    /// When it last moved, in monotonic milliseconds.
    moved: AtomicU64,
    cut: OnceLock<Cut>,
    /// How often the sweeper found it here after its cut.
    lingered: AtomicU8,
    /// It was handed to an upstream connection.
    sent: AtomicBool,
    waker: AtomicWaker,
    /// Nobody waits for its answer any more.
    over: AtomicBool,
    /// Wakes whoever passes its body on.
    upload_waker: AtomicWaker,
    upstream: Mutex<Option<Weak<AbortableSocket>>>,
    /// Its run, once it is known; inside, `None` is the implicit one.
    run: OnceLock<Option<Name>>,
}

impl InFlightRequest {
    fn new(
        request: RequestId,
        channel: Channel,
        upstream_name: &'static str,
        connection: Arc<Connection>,
        now: Millis,
    ) -> InFlightRequest {
        InFlightRequest {
            request,
            channel,
            upstream_name,
            connection,
            phase: AtomicU8::new(Phase::Reading as u8),
            moved: AtomicU64::new(now.0),
            cut: OnceLock::new(),
            lingered: AtomicU8::new(0),
            sent: AtomicBool::new(false),
            waker: AtomicWaker::new(),
            over: AtomicBool::new(false),
            upload_waker: AtomicWaker::new(),
            upstream: Mutex::new(None),
            run: OnceLock::new(),
        }
    }

    /// Notes which run it belongs to, before the core is asked: an escalation finds it from here on.
    pub(crate) fn set_run(&self, run: Option<Name>) {
        // Said once; a second word could only be the same.
        let _ = self.run.set(run);
    }

    /// Whether it belongs to the run of this name.
    pub(crate) fn is_of_run(&self, run: &str) -> bool {
        matches!(self.run.get(), Some(Some(own)) if **own == *run)
    }

    /// Notes where the request is now.
    pub fn enter(&self, phase: Phase, now: Millis) {
        self.phase.store(phase as u8, Ordering::Relaxed);
        self.moved.store(now.0, Ordering::Relaxed);
    }

    /// Where the request is, and for how many milliseconds it has not moved.
    pub fn standing(&self, now: Millis) -> (Phase, u64) {
        let phase = Phase::ALL[usize::from(self.phase.load(Ordering::Relaxed)).min(Phase::ALL.len() - 1)];
        (phase, now.since(Millis(self.moved.load(Ordering::Relaxed))))
    }

    /// When it last moved.
    pub(crate) fn moved(&self) -> Millis {
        Millis(self.moved.load(Ordering::Relaxed))
    }

    /// Ends the request. The first cut counts; later ones change nothing.
    pub fn cut(&self, cut: Cut) {
        if self.cut.set(cut).is_ok() {
            self.abort_upstream();
            self.waker.wake();
            self.upload_waker.wake();
        }
    }

    /// Ends the request for good, on both sides (KS-11): its upstream socket is closed here and now; its client is told why by
    /// its worker, or cut off at once where that worker does not run. One that does not read is left to the sweeper.
    pub(crate) fn stop(&self, cut: Cut, now: Millis) {
        self.cut(cut);
        if self.connection.has_blocked_worker(now) {
            self.connection.abort();
        }
    }

    /// Why it was ended, if it was.
    pub fn why_cut(&self) -> Option<&Cut> {
        self.cut.get()
    }

    /// How often this was asked before since the request was cut, if it was.
    pub(crate) fn lingers(&self) -> u8 {
        if self.cut.get().is_none() {
            return 0;
        }
        let before = self.lingered.load(Ordering::Relaxed);
        self.lingered.store(before.saturating_add(1), Ordering::Relaxed);
        before
    }

    /// Notes whether it was handed to an upstream connection.
    pub(crate) fn set_sent(&self, sent: bool) {
        self.sent.store(sent, Ordering::Relaxed);
    }

    /// Whether it was handed to an upstream connection.
    pub(crate) fn was_sent(&self) -> bool {
        self.sent.load(Ordering::Relaxed)
    }

    /// Ready once the request is cut.
    pub fn poll_cut(&self, cx: &Context<'_>) -> Poll<()> {
        if self.cut.get().is_some() {
            return Poll::Ready(());
        }
        self.waker.register(cx.waker());
        if self.cut.get().is_some() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Ready once the rest of its body is of no use: the request was cut, or its answer is complete.
    pub fn poll_over(&self, cx: &Context<'_>) -> Poll<()> {
        let is_over = || self.over.load(Ordering::Acquire) || self.cut.get().is_some();
        if is_over() {
            return Poll::Ready(());
        }
        self.upload_waker.register(cx.waker());
        if is_over() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Hands over the upstream connection that is to end when the request is cut. If that has happened already, it ends here.
    pub(crate) fn hold_upstream(&self, socket: Weak<AbortableSocket>) {
        *self.upstream.lock().unwrap_or_else(PoisonError::into_inner) = Some(socket);
        if self.cut.get().is_some() {
            self.abort_upstream();
        }
    }

    /// Lets go of the upstream connection: the answer is complete, somebody else may use it. `false` if it was
    /// closed already.
    pub fn release_upstream(&self) -> bool {
        self.upstream.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }

    /// Closes the upstream connection, if there is one.
    pub fn abort_upstream(&self) {
        let socket = self.upstream.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(socket) = socket.and_then(|socket| socket.upgrade()) {
            socket.abort();
        }
    }
}

/// The requests of one agent that are under way.
#[derive(Default)]
pub struct InFlightRequests(Arc<Registry<InFlightRequest>>);

impl InFlightRequests {
    /// Registers a request; `None` if the agent has `max` under way already.
    pub fn register(
        &self,
        request: RequestId,
        channel: Channel,
        upstream_name: &'static str,
        connection: Arc<Connection>,
        now: Millis,
        max: usize,
    ) -> Option<Registered> {
        self.0
            .register(InFlightRequest::new(request, channel, upstream_name, connection, now), max)
            .map(Registered)
    }

    /// Does something with each of them.
    pub fn for_each(&self, act: impl FnMut(&InFlightRequest)) {
        self.0.for_each(act);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.count()
    }
}

/// A registered request. Dropping it takes it off the list and closes what it still holds upstream.
pub struct Registered(Entry<InFlightRequest>);

impl Registered {
    /// The request itself, for whoever must outlive this.
    pub fn handle(&self) -> Arc<InFlightRequest> {
        self.0.handle()
    }
}

impl std::ops::Deref for Registered {
    type Target = InFlightRequest;

    fn deref(&self) -> &InFlightRequest {
        &self.0
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.abort_upstream();
        self.over.store(true, Ordering::Release);
        self.upload_waker.wake();
    }
}
