//! Keeps the red button on the disk: a thread that writes the latch file and nothing else (KS-2, KS-3).
//!
//! Whoever presses the button hands over how it stands and goes on. A disk that hangs or is full holds up this thread
//! alone; what could not be written is tried again until it can. A kill that somebody else wrote stays on the disk until
//! this estop has pressed it too.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use estop_core::system::button::Latched;
use estop_gateway::{JournalQueue, LatchStore};
use estop_store::{LatchFile, SlotVersion};

/// How long the thread waits before it tries a disk again that failed.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// How long an answer waits for the disk; a disk that takes longer is as good as none.
pub(crate) const KEPT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long before it looks again whether somebody else's kill is taken up.
const TAKEN_UP_SOON: Duration = Duration::from_millis(50);

/// The latch's keeper. Dropping it waits for what is still to be written, not for ever.
pub struct LatchWriter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the keeper and those who ask it share.
#[derive(Default)]
struct Shared {
    work: Mutex<Work>,
    bell: Condvar,
}

#[derive(Default)]
struct Work {
    newest: Option<Latched>,
    /// How many were handed over, and how many of them the disk has.
    handed: u64,
    kept: u64,
    /// How many were handed over when a write failed the last time, if it did.
    problem: Option<u64>,
    /// Somebody else's kill is on the disk, and is not taken up yet.
    left: bool,
    /// The last slot of somebody else that was taken up.
    taken_up: Option<SlotVersion>,
    closed: bool,
}

impl LatchWriter {
    /// Begins to keep the latch of a data directory. The journal is synced after it.
    pub fn start(data_dir: &Path, journal: Arc<JournalQueue>) -> anyhow::Result<LatchWriter> {
        let shared: Arc<Shared> = Arc::default();
        let (data_dir, working) = (data_dir.to_owned(), Arc::clone(&shared));
        let work = move || working.run(&data_dir, &journal);
        let thread = std::thread::Builder::new().name("estop-latch".into()).spawn(work)?;
        Ok(LatchWriter { shared, thread: Some(thread) })
    }

    /// For the data plane.
    pub fn handle(&self) -> Arc<dyn LatchStore> {
        Arc::new(Handle(Arc::clone(&self.shared)))
    }

    /// For those who ask whether it is kept.
    pub fn status(&self) -> LatchStatus {
        LatchStatus(Arc::clone(&self.shared))
    }
}

impl Drop for LatchWriter {
    fn drop(&mut self) {
        LatchStatus(Arc::clone(&self.shared)).wait(RETRY_DELAY);
        self.shared.work().closed = true;
        self.shared.bell.notify_all();
        let is_idle = self.shared.work().is_kept();
        // A thread that hangs in a dead disk is left behind.
        if let Some(thread) = self.thread.take().filter(|_| is_idle) {
            let _ = thread.join();
        }
    }
}

struct Handle(Arc<Shared>);

impl LatchStore for Handle {
    fn keep(&self, latched: &Latched) {
        let mut work = self.0.work();
        work.newest = Some(latched.clone());
        work.handed += 1;
        self.0.bell.notify_all();
    }

    fn stage(&self, latched: &Latched) {
        self.keep(latched);
    }

    fn is_kept(&self) -> bool {
        LatchStatus(Arc::clone(&self.0)).wait(KEPT_TIMEOUT)
    }
}

/// Tells whether the disk has what was handed over.
#[derive(Clone, Default)]
pub struct LatchStatus(Arc<Shared>);

impl LatchStatus {
    /// Waits until the disk has everything that was handed over so far; not longer than `within`. Whether it has.
    pub fn wait(&self, within: Duration) -> bool {
        let begun = Instant::now();
        let mut work = self.0.work();
        let handed = work.handed;
        while work.kept < handed {
            let Some(left) = within.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) else {
                return false;
            };
            // A disk that said no to this very one will not say yes in time.
            if work.problem.is_some_and(|tried| tried >= handed) {
                return false;
            }
            let woken = self.0.bell.wait_timeout(work, left);
            work = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Somebody else's slot is dealt with: it may be written over.
    pub(crate) fn take_up(&self, mark: SlotVersion) {
        self.0.work().taken_up = Some(mark);
        self.0.bell.notify_all();
    }

    /// Whether this slot was dealt with before.
    pub(crate) fn is_taken_up(&self, mark: &SlotVersion) -> bool {
        self.0.work().taken_up.as_ref() == Some(mark)
    }

    /// Whether the disk has everything, without waiting.
    pub fn is_kept(&self) -> bool {
        self.0.work().is_kept()
    }
}

impl Work {
    fn is_kept(&self) -> bool {
        self.kept >= self.handed
    }
}

impl Shared {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, data_dir: &Path, journal: &JournalQueue) {
        let mut file = LatchFile::as_daemon(data_dir);
        while let Some((latched, handed)) = self.next() {
            match file.keep(&latched, |mark| self.work().taken_up.as_ref() == Some(mark)) {
                Ok(Some(_)) => {
                    self.succeeded(handed);
                    // The journal knows who and why for ever; the latch alone must not wait for it.
                    journal.sync();
                }
                Ok(None) => self.left(latched, handed),
                Err(error) => self.failed(latched, handed, &error),
            }
        }
    }

    /// What to write next, once there is something; `None` when there will be nothing more.
    fn next(&self) -> Option<(Latched, u64)> {
        let mut work = self.work();
        loop {
            if work.closed && (work.newest.is_none() || work.problem.is_some() || work.left) {
                return None;
            }
            if let Some(latched) = work.newest.take() {
                return Some((latched, work.handed));
            }
            work = self.bell.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn succeeded(&self, handed: u64) {
        let mut work = self.work();
        (work.kept, work.left) = (handed, false);
        let is_news = work.problem.take().is_some();
        self.bell.notify_all();
        drop(work);
        if is_news {
            tell("estop: the latch is written again.".to_owned());
        }
    }

    /// Puts it back unless there is something newer, and waits a moment for the kill to be taken up.
    fn left(&self, latched: Latched, handed: u64) {
        let mut work = self.work();
        work.left = true;
        let before = work.taken_up.clone();
        work.newest.get_or_insert(latched);
        let nothing_new = |work: &mut Work| !work.closed && work.handed == handed && work.taken_up == before;
        drop(self.bell.wait_timeout_while(work, TAKEN_UP_SOON, nothing_new));
    }

    /// Puts it back unless there is something newer, and waits a while.
    fn failed(&self, latched: Latched, handed: u64, error: &std::io::Error) {
        let mut work = self.work();
        let is_news = work.problem.replace(handed).is_none();
        work.left = false;
        work.newest.get_or_insert(latched);
        self.bell.notify_all();
        drop(work);
        if is_news {
            tell(format!(
                "estop: the latch CANNOT BE WRITTEN: {error}. The button holds as it is, but a restart would not know of \
                 it. Make room or fix the disk; it is tried again every second."
            ));
        }
        let nothing_new = |work: &mut Work| !work.closed && work.handed == handed;
        drop(self.bell.wait_timeout_while(self.work(), RETRY_DELAY, nothing_new));
    }
}

/// Says it on the standard error. From a thread of its own: a terminal nobody reads must not keep the next kill from the
/// disk, and one that is gone is no reason to break.
fn tell(what: String) {
    let say = move || drop(writeln!(std::io::stderr(), "{what}"));
    drop(std::thread::Builder::new().name("estop-latch-says".into()).spawn(say));
}

#[cfg(test)]
mod tests;
