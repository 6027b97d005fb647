//! The way out for events and decisions: a bounded queue between the data plane and whoever writes the journal.
//!
//! Nothing that was decided is dropped. When the writer falls behind, new requests are refused instead
//! ([`JournalQueue::is_full`]); what belongs to requests already let through still gets in. When the writer is gone
//! ([`JournalQueue::fail`]), nothing is let through any more.
//!
//! The writer comes later; a killed process never comes back to its memory. So each record also goes to a [`Tail`], a
//! file that has it before anybody is told what was decided ([`JournalQueue::flush`]).

mod checkpoint;
mod record;
mod trouble;

use std::cell::RefCell;
use std::io::Write;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use estop_core::decision::Decision;
use estop_core::event::Event;
use estop_core::ids::Name;
use estop_core::journal::{Happened, SYSTEM, Spans};
use estop_core::system::{SystemDecision, SystemEvent};
use estop_core::time::Now;

pub use record::{Decided, Handover, Recorded};

/// Records that may wait. Chosen: about 30 MB and three seconds of a busy machine; half sheds load at a slow disk's
/// hiccup, double only hides a dead one for longer.
const WAITING_MAX: usize = 65_536;

/// A file that has records before the journal's writer comes to them. What is written to it outlives the process;
/// what is synced outlives the machine's power.
pub trait Tail: Send + Sync + std::fmt::Debug {
    /// Appends lines.
    fn write(&self, lines: &[u8]) -> std::io::Result<()>;
    /// Syncs what was written, to earlier files too.
    fn sync(&self) -> std::io::Result<()>;
    /// Begins a new file, because the one before has grown. Quick: others wait to write.
    fn next_generation(&self) -> std::io::Result<()>;
    /// The store has all of the file before on the disk: it need not be synced any more.
    fn forget_before(&self) -> std::io::Result<()>;
}

/// A place in the tail: everything before it has been taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TailMark {
    /// Which file.
    pub generation: u64,
    /// Bytes from its beginning.
    pub offset: u64,
}

/// How records were taken.
#[derive(Clone, Copy, Debug)]
pub struct Portion {
    /// They stand in the tail before this.
    pub mark: TailMark,
    /// Somebody was stopped, or waits for the store, or a file of the tail is done, or nothing more will come: they are to
    /// be stored at once.
    pub hurries: bool,
}

/// Longest name of a model or a tool in a record. Chosen: ARNs and MCP's long names fit; whatever is longer is a text
/// that somebody put there, and does not belong in a journal.
const NAME_MAX: usize = 256;

/// A name as it is written down: the queue counts records, so that each must be small.
pub(crate) fn short_name(name: &str) -> Name {
    name[..name.floor_char_boundary(NAME_MAX)].into()
}

/// The same for a name that is at hand, and mostly short.
pub(crate) fn shorten(name: &mut Name) {
    if name.len() > NAME_MAX {
        *name = short_name(name);
    }
}

/// A tail is begun anew beyond this. Chosen: some 100,000 records; half only makes more files.
const TAIL_MAX: u64 = 64 << 20;

thread_local! {
    /// Room for a line: each thread writes its own, and only then asks for the queue.
    static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The queue.
#[derive(Debug, Default)]
pub struct JournalQueue {
    waiting: Mutex<Waiting>,
    /// Lines on their way to the tail, and from there to the records that wait. Whoever holds it writes; taken before
    /// `waiting`.
    writing: Mutex<Vec<u8>>,
    /// As many records wait as may.
    crowded: AtomicBool,
    tail: Option<Box<dyn Tail>>,
    /// The writer sleeps until it is woken; while it is busy it looks by itself, and nobody pays for waking it.
    asleep: AtomicBool,
    closed: AtomicBool,
    /// The writer is gone: nothing can be written any more.
    failed: AtomicBool,
    /// The tail cannot be written: nothing new is let through, and what happens still goes to the writer.
    tail_failed: AtomicBool,
    /// Somebody was stopped: the writer does not wait for more.
    hurry: AtomicBool,
    /// How many records the store has on the disk.
    stored: AtomicU64,
    /// The writer is there, but what it writes to is not.
    stuck: AtomicBool,
    /// A file of the data directory is gone or was cut: what is written there is lost.
    files_lost: AtomicBool,
    bell: Condvar,
    /// Checkpoints somebody waits for.
    pub checkpoints: checkpoint::CheckpointRequests,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Those whose lines the tail does not have yet are the last.
    records: Handover,
    /// Lines the tail does not have yet.
    unwritten: Vec<u8>,
    /// Where the tail ends, with what is unwritten.
    end: TailMark,
    /// Records so far.
    pushed: u64,
    /// Bytes of their lines.
    pushed_bytes: u64,
}

impl Waiting {
    /// Takes the lines the tail does not have yet.
    fn next_lines(&mut self, lines: &mut Vec<u8>) {
        // Whoever panicked while it wrote has left those before.
        self.records.add_lines(lines);
        std::mem::swap(&mut self.unwritten, lines);
    }
}

/// How long a record waits for the tail, if nobody is told sooner what was decided.
const TAIL_WITHIN: Duration = Duration::from_millis(50);
/// The writer is woken when so many wait. Chosen: less than a megabyte, which a processor's cache can hold until they are
/// taken; it comes to some fifty times a second on a busy machine.
const PORTION: usize = 1_024;
/// How long a stop waits for a store that has no tail before it.
const STORED_WITHIN: Duration = Duration::from_secs(2);
/// How long the writer waits for a record before it looks after other things.
const LOOK_UP: Duration = Duration::from_secs(1);

impl JournalQueue {
    /// A queue whose records go to a tail, from `start` on.
    pub fn with_tail(tail: Box<dyn Tail>, start: TailMark) -> JournalQueue {
        let waiting = Mutex::new(Waiting { end: start, ..Waiting::default() });
        JournalQueue { waiting, tail: Some(tail), ..JournalQueue::default() }
    }

    /// Whether nothing more will come.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// The writer is gone: from here on every new request is refused, and what cannot be written is not kept.
    pub fn fail(&self) {
        let mut waiting = self.waiting();
        self.failed.store(true, Ordering::Relaxed);
        waiting.records = Handover::default();
        waiting.unwritten = Vec::new();
    }

    /// Records so far.
    pub fn pushed(&self) -> u64 {
        self.waiting().pushed
    }

    /// Bytes of all records so far, as they are before they are packed.
    pub fn pushed_bytes(&self) -> u64 {
        self.waiting().pushed_bytes
    }

    /// Writes down what happened to an agent and what was decided, and adds it.
    // Inlined: an event is large, and would be copied from call to call.
    #[inline(always)]
    pub(crate) fn write(
        &self,
        agent: &str,
        number: NonZeroU64,
        now: Now,
        event: Event,
        decision: &Arc<Decision>,
    ) {
        let mut line = LINE.take();
        line.clear();
        let spans = Spans::write(&mut line, agent, now, Happened::Agent(&event), &**decision);
        let record = Recorded::Agent { number, now, event, decision: decision.into() };
        self.push(record, &line, spans);
        LINE.set(line);
    }

    /// The same of the system.
    pub(crate) fn write_system(&self, now: Now, event: SystemEvent, decision: SystemDecision) {
        let mut line = Vec::new();
        let spans = Spans::write(&mut line, SYSTEM, now, Happened::System(&event), &decision);
        self.push(Recorded::System { now, event, decision }, &line, spans);
    }

    /// Adds a record and its line. Callers that must keep an order hold their own lock while they call.
    #[inline(always)]
    fn push(&self, record: Recorded, line: &[u8], spans: Spans) {
        let (is_urgent, mut waiting) = (record.is_urgent(), self.waiting());
        if self.failed.load(Ordering::Relaxed) {
            return;
        }
        waiting.pushed += 1;
        waiting.pushed_bytes += line.len() as u64;
        if self.has_tail() {
            waiting.end.offset += line.len() as u64;
        }
        waiting.unwritten.extend_from_slice(line);
        waiting.records.push(record, line.len(), spans);
        let count = waiting.records.len();
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
    }

    /// Gives the tail everything it does not have yet: from here on it outlives the process. If that fails, nothing is
    /// let through any more.
    pub fn flush(&self) {
        if !self.has_tail() {
            return;
        }
        let mut lines = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting().next_lines(&mut lines);
        self.write_tail(&lines);
        let mut waiting = self.waiting();
        if self.failed.load(Ordering::Relaxed) {
            // Their records are gone.
            lines.clear();
        }
        waiting.records.add_lines(&mut lines);
    }

    fn has_tail(&self) -> bool {
        self.tail.is_some() && !self.tail_failed.load(Ordering::Relaxed)
    }

    fn write_tail(&self, lines: &[u8]) {
        if let Some(tail) = self.tail.as_ref().filter(|_| self.has_tail() && !lines.is_empty())
            && let Err(error) = tail.write(lines)
        {
            self.give_up(&error);
        }
    }

    /// The same, and past the disk's cache: from here on it outlives the machine's power. Without a tail, waits for the
    /// store. Whether it is so.
    pub fn sync(&self) -> bool {
        let pushed = self.waiting().pushed;
        self.flush();
        if let Some(Err(error)) = self.tail.as_ref().map(|tail| tail.sync()) {
            self.give_up(&error);
        }
        !self.has_failed() || self.wait_stored(pushed)
    }

    /// The store has everything of earlier files on the disk: nobody need sync those any more.
    pub fn forget_before(&self) {
        if let Some(Err(error)) = self.tail.as_ref().map(|tail| tail.forget_before()) {
            self.give_up(&error);
        }
    }

    /// Waits until the store has all records so far; not for ever. Only a batch in which somebody was stopped or steered
    /// is known to be there: for whoever just did so.
    pub fn is_stored(&self) -> bool {
        let pushed = self.waiting().pushed;
        self.wait_stored(pushed)
    }

    /// Waits until the store has so many records; not for ever.
    fn wait_stored(&self, count: u64) -> bool {
        let begun = Instant::now();
        self.hurry.store(true, Ordering::Relaxed);
        while self.stored.load(Ordering::Acquire) < count {
            if self.failed.load(Ordering::Relaxed) || begun.elapsed() > STORED_WITHIN {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// The store has all records that were taken so far, on the disk.
    pub fn all_stored(&self, taken: u64) {
        self.stored.fetch_max(taken, Ordering::Release);
    }

    fn give_up(&self, error: &std::io::Error) {
        if !self.tail_failed.swap(true, Ordering::Relaxed) {
            let why = format!(
                "estop: the journal's tail cannot be written: {error}. Every request is refused: restart estop."
            );
            // Nobody may be listening, or not at once: that must neither end nor hold up this thread.
            let say = move || drop(writeln!(std::io::stderr(), "{why}"));
            drop(std::thread::Builder::new().name("estop-says".into()).spawn(say));
        }
    }

    /// Takes all records there are, if any. Waits for a portion of them for as long as told, or a while for a first one
    /// and then `None` once the queue is closed. What is taken stands in the tail before the mark that is returned.
    pub fn take(&self, into: &mut Handover, within: Option<Duration>) -> Option<Portion> {
        self.wait(within)?;
        into.clear();
        let mut lines = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut waiting = self.waiting();
        waiting.next_lines(&mut lines);
        std::mem::swap(&mut waiting.records, into);
        self.crowded.store(waiting.records.len() >= WAITING_MAX, Ordering::Relaxed);
        let is_long = waiting.end.offset >= TAIL_MAX;
        if is_long {
            // Nobody else writes: the new file begins with the next record.
            waiting.end = TailMark { generation: waiting.end.generation + 1, offset: 0 };
        }
        let mark = waiting.end;
        let hurries = self.hurry.swap(false, Ordering::Relaxed) || self.is_closed() || is_long;
        drop(waiting);
        self.write_tail(&lines);
        into.add_lines(&mut lines);
        if let Some(tail) = self.tail.as_ref().filter(|_| is_long)
            && let Err(error) = tail.next_generation()
        {
            self.give_up(&error);
        }
        Some(Portion { mark, hurries })
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

    /// Waits for a portion; the tail is written meanwhile.
    fn gather(&self, mut within: Duration) {
        let more = |waiting: &mut Waiting| {
            waiting.records.len() < PORTION && !self.hurry.load(Ordering::Relaxed) && !self.is_closed()
        };
        while !within.is_zero() {
            let step = within.min(TAIL_WITHIN);
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

    /// Nothing more will come: the writer takes what is there and ends.
    pub fn close(&self) {
        // Under the lock, so that a writer about to sleep does not miss it.
        let waiting = self.waiting();
        self.closed.store(true, Ordering::Relaxed);
        drop(waiting);
        self.bell.notify_all();
    }
}

#[cfg(test)]
mod tests;
