//! The journal of a running estop: a thread that writes down what the data plane tells.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Context;
use estop_gateway::{JournalQueue, Recorded};
use jiff::Timestamp;

use crate::journal_writer::JournalWriter;

/// A journal that is being written.
pub struct LiveJournal {
    /// Where records go in.
    pub queue: Arc<JournalQueue>,
    /// The file.
    pub path: PathBuf,
    thread: JoinHandle<anyhow::Result<()>>,
    /// Held as long as this process writes there.
    _lock: File,
}

impl LiveJournal {
    /// Begins a journal in `data_dir`, named after the moment. Only one estop may use a data directory.
    pub fn start(data_dir: &Path) -> anyhow::Result<LiveJournal> {
        std::fs::create_dir_all(data_dir)
            .with_context(|| format!("data_dir: cannot create {}", data_dir.display()))?;
        let lock = lock(data_dir)?;
        let moment = Timestamp::now().strftime("%Y%m%dT%H%M%S%.3fZ");
        let path = data_dir.join(format!("journal-{moment}.jsonl"));
        let writer = JournalWriter::create(&path)?.keep();
        let queue = Arc::new(JournalQueue::default());
        let taken = Arc::clone(&queue);
        let write = move || write(&taken, writer);
        let thread = std::thread::Builder::new().name("estop-journal".into()).spawn(write)?;
        Ok(LiveJournal { queue, path, thread, _lock: lock })
    }

    /// Writes what is left, seals the journal and closes it.
    pub fn finish(self) -> anyhow::Result<()> {
        self.queue.close();
        self.thread.join().map_err(|_| anyhow::anyhow!("the journal's writer panicked"))?
    }

    /// Nothing happened that is worth a journal: removes it.
    pub fn discard(self) {
        let path = self.path.clone();
        // It was never used; what cannot be removed does no harm.
        let _ = self.finish();
        let _ = std::fs::remove_file(path);
    }
}

fn lock(data_dir: &Path) -> anyhow::Result<File> {
    let path = data_dir.join("lock");
    let file = File::options().create(true).append(true).open(&path);
    let file = file.with_context(|| format!("data_dir: cannot write {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => anyhow::bail!(
            "data_dir: another estop uses {}; stop it, or give this one another --data-dir",
            data_dir.display()
        ),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("data_dir: cannot lock {}", path.display()))
        }
    }
}

/// Writes until the queue is closed. However the writing ends, by an error or a panic, from then on nothing is let
/// through: what is not recorded does not happen.
fn write(queue: &JournalQueue, mut writer: JournalWriter) -> anyhow::Result<()> {
    let _gone = FailWhenGone(queue);
    let mut records = Vec::new();
    while queue.take(&mut records) {
        for record in records.drain(..) {
            match record {
                Recorded::Agent { agent, now, event, decision } => {
                    writer.write(&agent, now, &event, &decision);
                }
                Recorded::System { now, event, decision } => writer.write_system(now, &event, &decision),
            }
        }
        if let Err(error) = writer.flush() {
            eprintln!("estop: {error:#}. Every request is refused until estop can write again: restart it.");
            return Err(error);
        }
    }
    writer.seal()
}

struct FailWhenGone<'a>(&'a JournalQueue);

impl Drop for FailWhenGone<'_> {
    fn drop(&mut self) {
        self.0.fail();
    }
}
