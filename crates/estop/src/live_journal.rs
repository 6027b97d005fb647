//! The journal of a running estop: a thread that writes down what the data plane tells.

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
}

impl LiveJournal {
    /// Begins a journal in `data_dir`, named after the moment.
    pub fn start(data_dir: &Path) -> anyhow::Result<LiveJournal> {
        std::fs::create_dir_all(data_dir)
            .with_context(|| format!("data_dir: cannot create {}", data_dir.display()))?;
        let moment = Timestamp::now().strftime("%Y%m%dT%H%M%S%.3fZ");
        let path = data_dir.join(format!("journal-{moment}.jsonl"));
        let writer = JournalWriter::create(&path)?.keep();
        let queue = Arc::new(JournalQueue::default());
        let taken = Arc::clone(&queue);
        let write = move || write(&taken, writer);
        let thread = std::thread::Builder::new().name("estop-journal".into()).spawn(write)?;
        Ok(LiveJournal { queue, path, thread })
    }

    /// Writes what is left, seals the journal and closes it.
    pub fn finish(self) -> anyhow::Result<()> {
        self.queue.close();
        self.thread.join().map_err(|_| anyhow::anyhow!("the journal's writer panicked"))?
    }
}

/// Until the queue is closed. A write that fails ends the writing: the queue then fills up, and new requests are
/// refused rather than let through unrecorded.
fn write(queue: &JournalQueue, mut writer: JournalWriter) -> anyhow::Result<()> {
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
            eprintln!("estop: {error:#}. Requests will be refused until estop can write again; restart it.");
            return Err(error);
        }
    }
    writer.seal()
}
