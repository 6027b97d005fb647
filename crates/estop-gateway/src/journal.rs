//! The way out for events and decisions: each record is numbered, written to the journal's file before anybody is told what
//! was decided ([`JournalQueue::flush`]), and handed to whoever makes rows of it.
//!
//! Nothing that was decided is dropped. When that reader falls behind, new requests are refused instead
//! ([`JournalQueue::is_full`]); what belongs to requests already let through still gets in. When the file cannot be written,
//! or the reader is gone ([`JournalQueue::fail`]), nothing is let through any more.

mod failure;
mod record;

use std::cell::RefCell;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use estop_core::decision::Decision;
use estop_core::event::Event;
use estop_core::ids::Name;
use estop_core::printable::{escaped, is_hiding};
use estop_core::system::{SystemDecision, SystemEvent};
use estop_core::time::Now;
use estop_journal::{Payload, RecordBody, SYSTEM, State, write_record};

pub use record::{Decided, Queued, Recorded};

/// Records that may wait. Chosen: about 30 MB and three seconds of a busy machine; half sheds load at a slow disk's
/// hiccup, double only hides a dead one for longer.
const WAITING_MAX: usize = 65_536;
/// How long a record waits for the file, if nobody is told sooner what was decided.
const WRITTEN_WITHIN: Duration = Duration::from_millis(50);
/// The reader is woken when so many wait. Chosen: less than a megabyte, which a processor's cache can hold until they are
/// taken; it comes to some fifty times a second on a busy machine.
const PORTION: usize = 1_024;
/// How long a caller waits for the rows of what it did.
const STORED_WITHIN: Duration = Duration::from_secs(2);
/// How long the reader waits for a record before it looks after other things.
const LOOK_UP: Duration = Duration::from_secs(1);
/// Room for records and lines that is kept: that of a burst is given back.
const ROOM_RECORDS: usize = 8_192;
const ROOM_BYTES: usize = 8 << 20;

/// The journal's newest file. What is written to it outlives the process; what is synced outlives the machine's power.
pub trait JournalFile: Send + Sync + std::fmt::Debug {
    /// Appends lines; `seq` is the last record among them. One thread at a time.
    fn write(&self, lines: &[u8], seq: u64) -> std::io::Result<()>;
    /// Syncs what was written.
    fn sync(&self) -> std::io::Result<()>;
    /// Whether it has grown enough for the next to begin.
    fn is_long(&self) -> bool {
        false
    }
    /// Begins the next file with what the records so far add up to. Others wait to write meanwhile.
    fn begin_next(&self, _state: &State) -> std::io::Result<()> {
        Ok(())
    }
    /// Whether the disk has no room for more than what is under way.
    fn is_short(&self) -> bool {
        false
    }
}

/// How records were taken.
#[derive(Clone, Copy, Debug)]
pub struct Portion {
    /// The newest record, of those that were taken now and before.
    pub seq: u64,
    /// Somebody was stopped, or waits for the rows, or nothing more will come: they are to be made at once.
    pub hurries: bool,
}

/// Longest name of a model or a tool in a record. Chosen: ARNs and MCP's long names fit; whatever is longer is a text
/// that somebody put there, and does not belong in a journal.
const NAME_MAX: usize = 256;

/// A name as it is written down: the queue counts records, so that each must be small. What hides in it is shown: names of models
/// and tools are their clients', and people read them in lists, logs, tables and exports.
pub(crate) fn short_name(name: &str) -> Name {
    let name = &name[..name.floor_char_boundary(NAME_MAX)];
    if !is_hiding(name) {
        return name.into();
    }
    let shown = escaped(name);
    shown[..shown.floor_char_boundary(NAME_MAX)].into()
}

/// The same for a name that is at hand, and mostly short.
pub(crate) fn shorten(name: &mut Name) {
    if name.len() > NAME_MAX || is_hiding(name) {
        *name = short_name(name);
    }
}

thread_local! {
    /// Room for a record: each thread writes its own, and only then asks for the queue.
    static BODY: RefCell<RecordBody> = RefCell::default();
}

/// The queue.
#[derive(Debug, Default)]
pub struct JournalQueue {
    waiting: Mutex<Waiting>,
    /// Lines on their way to the file. Whoever holds it writes; taken before `waiting`.
    writing: Mutex<Vec<u8>>,
    /// As many records wait as may.
    crowded: AtomicBool,
    file: Option<Box<dyn JournalFile>>,
    /// The reader sleeps until it is woken; while it is busy it looks by itself, and nobody pays for waking it.
    asleep: AtomicBool,
    closed: AtomicBool,
    /// The reader is gone: no rows are made any more.
    failed: AtomicBool,
    /// The file cannot be written: nothing new is let through, and what happens still goes to the reader.
    file_failed: AtomicBool,
    /// Somebody was stopped: the reader does not wait for more.
    hurry: AtomicBool,
    /// The newest record whose rows are stored.
    stored: AtomicU64,
    /// The reader is there, but what it stores to is not.
    stuck: AtomicBool,
    /// A file of the data directory is gone or was cut: what is written there is lost.
    files_lost: AtomicBool,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    records: Vec<Queued>,
    /// Lines the file does not have yet.
    unwritten: Vec<u8>,
    /// What all records add up to.
    state: State,
}

impl JournalQueue {
    /// A queue whose records go to a file, after those that add up to `state`.
    pub fn with_file(file: Box<dyn JournalFile>, state: State) -> JournalQueue {
        let stored = AtomicU64::new(state.seq);
        let waiting = Mutex::new(Waiting { state, ..Waiting::default() });
        JournalQueue { waiting, file: Some(file), stored, ..JournalQueue::default() }
    }

    /// Whether nothing more will come.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// The reader is gone: from here on every new request is refused.
    pub fn fail(&self) {
        let mut waiting = self.waiting();
        self.failed.store(true, Ordering::Relaxed);
        waiting.records = Vec::new();
    }

    /// The newest record.
    pub fn seq(&self) -> u64 {
        self.waiting().state.seq
    }

    /// Writes down what happened to an agent and what was decided, and adds it; returns the record's number.
    pub(crate) fn write(&self, agent: &Arc<str>, now: Now, event: Event, decision: &Arc<Decision>) -> u64 {
        let mut body = BODY.take();
        body.write(agent, now, Payload::Agent(&event), &**decision);
        let record = Recorded::Agent { agent: Arc::clone(agent), now, event, decision: decision.into() };
        let seq = self.push(agent, record, &body);
        BODY.set(body);
        seq
    }

    /// The same of the system.
    pub(crate) fn write_system(&self, now: Now, event: SystemEvent, decision: SystemDecision) {
        let mut body = RecordBody::default();
        body.write(SYSTEM, now, Payload::System(&event), &decision);
        self.push(SYSTEM, Recorded::System { now, event, decision }, &body);
    }

    /// Numbers a record and adds it. Callers that must keep an order hold their own lock while they call.
    fn push(&self, agent: &str, record: Recorded, body: &RecordBody) -> u64 {
        let is_urgent = record.is_urgent();
        let mut waiting = self.waiting();
        let Waiting { records, unwritten, state } = &mut *waiting;
        let (seq, n) = state.next(agent);
        write_record(unwritten, seq, n, body);
        state.add(agent);
        if let Recorded::System { now, event, .. } = &record {
            state.apply(*now, event);
        }
        if self.failed.load(Ordering::Relaxed) {
            return seq;
        }
        records.push(Queued { seq, n, record });
        let count = records.len();
        if count == WAITING_MAX {
            self.crowded.store(true, Ordering::Relaxed);
        }
        if is_urgent {
            self.hurry.store(true, Ordering::Relaxed);
        }
        // Looked at first: writing it each time would take its cache line from the other threads.
        if self.asleep.load(Ordering::Relaxed) || is_urgent || count == PORTION {
            self.asleep.store(false, Ordering::Relaxed);
            self.bell.notify_one();
        }
        seq
    }

    /// Gives the file everything it does not have yet: from here on it outlives the process. If that fails, nothing is
    /// let through any more.
    pub fn flush(&self) {
        let mut lines = self.writing();
        self.write_waiting(&mut lines);
    }

    /// Writes all lines that wait.
    fn write_waiting(&self, lines: &mut Vec<u8>) {
        lines.clear();
        lines.shrink_to(ROOM_BYTES);
        let mut waiting = self.waiting();
        std::mem::swap(&mut waiting.unwritten, lines);
        let seq = waiting.state.seq;
        drop(waiting);
        if let Some(file) = self.file.as_ref().filter(|_| !lines.is_empty() && !self.has_file_failed())
            && let Err(error) = file.write(lines, seq)
        {
            self.give_up(&error);
        }
    }

    fn has_file_failed(&self) -> bool {
        self.file_failed.load(Ordering::Relaxed)
    }

    /// The same, and past the disk's cache: from here on it outlives the machine's power. Whether it is so.
    pub fn sync(&self) -> bool {
        self.flush();
        if let Some(Err(error)) =
            self.file.as_ref().filter(|_| !self.has_file_failed()).map(|file| file.sync())
        {
            self.give_up(&error);
        }
        !self.has_failed()
    }

    /// Waits until the rows of all records so far are stored; not for ever.
    pub fn is_stored(&self) -> bool {
        let (seq, begun) = (self.seq(), Instant::now());
        self.hurry.store(true, Ordering::Relaxed);
        self.bell.notify_one();
        while self.stored.load(Ordering::Acquire) < seq {
            if self.failed.load(Ordering::Relaxed) || begun.elapsed() > STORED_WITHIN {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// The rows of all records up to this one are stored.
    pub fn all_stored(&self, seq: u64) {
        self.stored.fetch_max(seq, Ordering::Release);
    }

    fn give_up(&self, error: &std::io::Error) {
        if !self.file_failed.swap(true, Ordering::Relaxed) {
            let why = format!(
                "estop: the journal cannot be written: {error}. Every request is refused: restart estop."
            );
            // Nobody may be listening, or not at once: that must neither end nor hold up this thread.
            let say = move || drop(writeln!(std::io::stderr(), "{why}"));
            drop(std::thread::Builder::new().name("estop-says".into()).spawn(say));
        }
    }

    /// Takes all records there are, if any. Waits for a portion of them for as long as told, or a while for a first one
    /// and then `None` once the queue is closed. The file has what is taken.
    pub fn take(&self, into: &mut Vec<Queued>, within: Option<Duration>) -> Option<Portion> {
        self.wait(within)?;
        into.clear();
        into.shrink_to(ROOM_RECORDS);
        let mut lines = self.writing();
        let ends_file = self.file.as_ref().is_some_and(|file| file.is_long()) && !self.has_file_failed();
        lines.clear();
        let mut waiting = self.waiting();
        std::mem::swap(&mut waiting.records, into);
        std::mem::swap(&mut waiting.unwritten, &mut *lines);
        let seq = waiting.state.seq;
        // Nobody else writes: the next file begins with the next record.
        let state = ends_file.then(|| waiting.state.clone());
        self.crowded.store(false, Ordering::Relaxed);
        drop(waiting);
        let hurries = self.hurry.swap(false, Ordering::Relaxed) || self.is_closed();
        if let Some(file) = self.file.as_ref().filter(|_| !self.has_file_failed()) {
            let written = if lines.is_empty() { Ok(()) } else { file.write(&lines, seq) };
            let begun = written.and_then(|()| state.as_ref().map_or(Ok(()), |state| file.begin_next(state)));
            if let Err(error) = begun {
                self.give_up(&error);
            }
        }
        Some(Portion { seq, hurries })
    }

    fn wait(&self, within: Option<Duration>) -> Option<()> {
        if let Some(within) = within {
            self.gather(within);
            return Some(());
        }
        let waiting = self.waiting();
        if waiting.records.is_empty() {
            if self.is_closed() {
                return None;
            }
            self.asleep.store(true, Ordering::Relaxed);
            drop(self.bell.wait_timeout(waiting, LOOK_UP).unwrap_or_else(PoisonError::into_inner));
        }
        Some(())
    }

    /// Waits for a portion; the file is written meanwhile.
    fn gather(&self, mut within: Duration) {
        let more = |waiting: &mut Waiting| {
            waiting.records.len() < PORTION && !self.hurry.load(Ordering::Relaxed) && !self.is_closed()
        };
        while !within.is_zero() {
            let step = within.min(WRITTEN_WITHIN);
            let waited = self.bell.wait_timeout_while(self.waiting(), step, more);
            let (waiting, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            drop(waiting);
            if !waited.timed_out() {
                return;
            }
            within -= step;
            self.flush();
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writing(&self) -> MutexGuard<'_, Vec<u8>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing more will come: the reader takes what is there and ends.
    pub fn close(&self) {
        // Under the lock, so that a reader about to sleep does not miss it.
        let waiting = self.waiting();
        self.closed.store(true, Ordering::Relaxed);
        drop(waiting);
        self.bell.notify_all();
    }
}

#[cfg(test)]
mod tests;
