//! What a person records of an agent (LD-7): its requests and answers, masked, line by line, to whoever asked for them.
//!
//! Off unless somebody asked for this agent by name; then a worker hands over the bytes it has anyway and never waits. A
//! thread of its own reads and masks them. Nothing of it is written to the disk here: it goes to the command that asked, and
//! ends with it. What the queue has no room for is left out and counted.

mod lines;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use estop_core::ended::Ended;
use estop_core::event::AbortedBy;
use estop_core::ids::{Hash64, Name, RequestId};
use estop_core::operator::{
    NewRecording, OnLine, OperatorError, RECORDING_LINE_MAX, Recording, RecordingLine, RecordingView,
};
use estop_core::time::Millis;
use estop_wire::mask::Masker;
use estop_wire::protocol::Protocol;
use estop_wire::response::{CallIn, Observed};

use crate::engine::Engine;
use crate::names::is_agent_name;

/// Recordings at once. Each has a thread and a queue.
const RECORDINGS_MAX: usize = 4;
/// Requests and answers that wait to be read: some seconds of a busy agent.
const QUEUE_MAX: usize = 256;
/// Bytes that wait to be read. The bodies are those of requests under way, until they are answered.
const QUEUE_BYTES_MAX: usize = 32 << 20;
/// How often a word is said in any case, so that both sides notice when the other is gone.
const ALIVE_INTERVAL: Duration = Duration::from_secs(2);

/// All recordings under way.
#[derive(Default)]
pub struct Recorder {
    /// How many there are: all that is looked at while there are none.
    count: AtomicUsize,
    taps: Mutex<Vec<Arc<Tap>>>,
}

impl Recorder {
    /// The recording of this agent, if there is one.
    pub(crate) fn of(&self, agent: &str) -> Option<Arc<Tap>> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let taps = self.taps.lock().unwrap_or_else(PoisonError::into_inner);
        taps.iter().find(|tap| tap.view.agent.eq_ignore_ascii_case(agent)).map(Arc::clone)
    }

    /// What is recorded.
    pub fn views(&self) -> Vec<RecordingView> {
        let taps = self.taps.lock().unwrap_or_else(PoisonError::into_inner);
        taps.iter().map(|tap| tap.view.clone()).collect()
    }

    fn add(&self, tap: &Arc<Tap>) -> Result<(), OperatorError> {
        let mut taps = self.taps.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = taps.iter().find(|other| other.view.agent.eq_ignore_ascii_case(&tap.view.agent))
        {
            let RecordingView { agent, by, .. } = other.view.clone();
            return Err(OperatorError::Recorded { agent, by });
        }
        if taps.len() == RECORDINGS_MAX {
            let why = format!("{RECORDINGS_MAX} agents are being recorded already: end one recording first");
            return Err(OperatorError::MustNotRun(why));
        }
        taps.push(Arc::clone(tap));
        self.count.store(taps.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Ends the recording of this agent; what was handed over is still told. Whether there is one.
    pub fn end(&self, agent: &str) -> bool {
        let tap = self.of(agent);
        tap.inspect(|tap| self.remove(tap)).is_some()
    }

    fn remove(&self, tap: &Arc<Tap>) {
        if !tap.ended.swap(true, Ordering::Relaxed) {
            // Full: its reader looks whether it has ended when nothing is left.
            let _ = tap.queue.try_send(Captured::Last);
        }
        let mut taps = self.taps.lock().unwrap_or_else(PoisonError::into_inner);
        taps.retain(|other| !Arc::ptr_eq(other, tap));
        self.count.store(taps.len(), Ordering::Relaxed);
    }
}

/// Where workers hand over what one agent says and does.
pub(crate) struct Tap {
    view: RecordingView,
    queue: SyncSender<Captured>,
    /// Bytes in the queue.
    queued: AtomicUsize,
    /// What the queue had no room for.
    dropped: AtomicU64,
    ended: AtomicBool,
}

/// What was handed over.
enum Captured {
    Request(Box<CapturedRequest>),
    Answer(Box<CapturedAnswer>),
    /// Nothing follows.
    Last,
}

/// A request that was let through.
pub(crate) struct CapturedRequest {
    pub(crate) request: RequestId,
    pub(crate) at: Millis,
    pub(crate) protocol: Protocol,
    pub(crate) body: Bytes,
    pub(crate) conversation: Hash64,
    pub(crate) run: Option<Name>,
}

struct CapturedAnswer {
    request: RequestId,
    at: Millis,
    text: String,
    calls: Vec<CallIn>,
    ended: AnswerEnd,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerEnd {
    Ok,
    /// The provider failed.
    Failed,
    /// Its client went away, or it was cut.
    Aborted,
}

impl Tap {
    pub(crate) fn request(&self, request: CapturedRequest) {
        self.offer(request.body.len(), || Captured::Request(Box::new(request)));
    }

    pub(crate) fn answer(&self, request: RequestId, at: Millis, said: &Observed, ended: Ended) {
        let ended = if ended == Ended::Failed { AnswerEnd::Failed } else { AnswerEnd::Ok };
        let bytes = said.text.len() + said.calls.iter().map(|call| call.args.len()).sum::<usize>();
        self.offer(bytes, || {
            let (text, calls) = (said.text.clone(), said.calls.clone());
            Captured::Answer(Box::new(CapturedAnswer { request, at, text, calls, ended }))
        });
    }

    pub(crate) fn aborted(&self, request: RequestId, at: Millis, by: AbortedBy) {
        let ended = if by == AbortedBy::Upstream { AnswerEnd::Failed } else { AnswerEnd::Aborted };
        let (text, calls) = (String::new(), Vec::new());
        self.offer(0, || Captured::Answer(Box::new(CapturedAnswer { request, at, text, calls, ended })));
    }

    /// Hands it over if there is room; never waits.
    fn offer(&self, bytes: usize, captured: impl FnOnce() -> Captured) {
        if self.ended.load(Ordering::Relaxed) {
            return;
        }
        let queued = self.queued.fetch_add(bytes, Ordering::Relaxed);
        if queued.saturating_add(bytes) > QUEUE_BYTES_MAX || self.queue.try_send(captured()).is_err() {
            self.queued.fetch_sub(bytes, Ordering::Relaxed);
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Captured {
    fn bytes(&self) -> usize {
        match self {
            Captured::Request(request) => request.body.len(),
            Captured::Answer(answer) => {
                answer.text.len() + answer.calls.iter().map(|call| call.args.len()).sum::<usize>()
            }
            Captured::Last => 0,
        }
    }
}

/// Ends a recording when it is dropped.
struct Listener {
    engine: Arc<Engine>,
    tap: Arc<Tap>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.engine.recorder.remove(&self.tap);
    }
}

impl Engine {
    /// Records an agent until what it gives is dropped, the time is over or there is enough. `key` is random and kept nowhere.
    pub fn record(
        self: &Arc<Self>,
        new: NewRecording,
        by: &str,
        key: [u8; 32],
        mut on_line: OnLine,
    ) -> Result<Recording, OperatorError> {
        if !is_agent_name(&new.agent) {
            return Err(OperatorError::BadName);
        }
        let (queue, receiver) = sync_channel(QUEUE_MAX);
        let since = self.clock.now().wall;
        let until = since.saturating_add_unsigned(new.for_ms);
        let view = RecordingView { agent: new.agent.clone(), by: by.into(), since, until };
        let (queued, dropped, ended) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let tap = Arc::new(Tap { view, queue, queued, dropped, ended });
        self.recorder.add(&tap)?;
        let seconds = new.for_ms / 1_000;
        self.access_changed(by, &format!("recording of {} began, for at most {seconds} s", new.agent));
        let listener = Listener { engine: Arc::clone(self), tap: Arc::clone(&tap) };
        let reader = Reader {
            tap,
            receiver,
            masker: Masker::new(key),
            told: lines::Told::default(),
            until: Instant::now() + Duration::from_millis(new.for_ms),
            bytes_max: new.bytes_max,
            requests: 0,
            unread: 0,
        };
        let (engine, by) = (Arc::clone(self), Name::from(by));
        let spawned = std::thread::Builder::new().name("recording".to_owned()).spawn(move || {
            let (tap, agent) = (Arc::clone(&reader.tap), new.agent);
            let told = reader.run(&mut *on_line);
            engine.recorder.remove(&tap);
            engine.access_changed(&by, &format!("recording of {agent} ended: {told}"));
        });
        if spawned.is_err() {
            return Err(OperatorError::MustNotRun("the system gave no thread for a recording".to_owned()));
        }
        Ok(Box::new(listener))
    }
}

/// Reads and masks what was handed over.
struct Reader {
    tap: Arc<Tap>,
    receiver: Receiver<Captured>,
    masker: Masker,
    told: lines::Told,
    until: Instant,
    bytes_max: u64,
    requests: u64,
    /// Requests that could not be read.
    unread: u64,
}

impl Reader {
    /// Until it is over. Gives what is written down about it.
    fn run(mut self, on_line: &mut dyn FnMut(RecordingLine) -> bool) -> String {
        let mut bytes = 0;
        let why = loop {
            let left = self.until.saturating_duration_since(Instant::now());
            let line = match self.receiver.recv_timeout(left.min(ALIVE_INTERVAL)) {
                Ok(Captured::Last) | Err(RecvTimeoutError::Disconnected) => break "asked",
                _ if left.is_zero() => break "time",
                Err(RecvTimeoutError::Timeout) if self.tap.ended.load(Ordering::Relaxed) => break "asked",
                Err(RecvTimeoutError::Timeout) => Some(lines::ALIVE.to_owned()),
                Ok(captured) => {
                    self.tap.queued.fetch_sub(captured.bytes(), Ordering::Relaxed);
                    self.line(&captured)
                }
            };
            let Some(line) = line else { continue };
            if line.len() > RECORDING_LINE_MAX {
                self.tap.dropped.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            bytes += line.len() as u64;
            if bytes > self.bytes_max {
                break "size";
            }
            if !on_line(RecordingLine::Next(line)) {
                // If its reader is gone, nobody hears this.
                break "slow";
            }
        };
        // From here on nothing is handed over.
        self.tap.ended.store(true, Ordering::Relaxed);
        let dropped = self.tap.dropped.load(Ordering::Relaxed);
        on_line(RecordingLine::Last(lines::end(why, self.requests, dropped, self.unread)));
        let slowly = if why == "slow" { ", its reader took no more" } else { "" };
        format!("{} requests, {dropped} left out{slowly}", self.requests)
    }

    fn line(&mut self, captured: &Captured) -> Option<String> {
        let dropped = self.tap.dropped.load(Ordering::Relaxed);
        match captured {
            Captured::Request(request) => {
                let line = lines::request(&self.masker, &mut self.told, request, dropped);
                self.requests += u64::from(line.is_some());
                self.unread += u64::from(line.is_none());
                line
            }
            Captured::Answer(answer) => Some(lines::answer(&self.masker, answer)),
            Captured::Last => None,
        }
    }
}
