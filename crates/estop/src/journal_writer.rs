//! Writes a journal to a file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use estop_core::decision::Decision;
use estop_core::event::Event;
use estop_core::journal::{Chains, Happened, SYSTEM};
use estop_core::system::{System, SystemEvent};
use estop_core::time::Now;

/// An open journal file.
pub struct JournalWriter {
    out: BufWriter<File>,
    chains: Chains,
    line: Vec<u8>,
    last: Now,
    failed: Option<std::io::Error>,
}

impl JournalWriter {
    /// Begins a new journal; an existing file is not overwritten.
    pub fn create(path: &Path) -> anyhow::Result<JournalWriter> {
        let file = File::create_new(path).with_context(|| format!("cannot create {}", path.display()))?;
        let (out, chains) = (BufWriter::new(file), Chains::default());
        Ok(JournalWriter { out, chains, line: Vec::new(), last: Now::default(), failed: None })
    }

    /// Appends a record. An error is kept until [`JournalWriter::seal`].
    pub fn write(&mut self, agent: &str, now: Now, event: &Event, decision: &Decision) {
        self.line.clear();
        self.chains.append(agent, now, Happened::Agent(event), decision, &mut self.line);
        self.last = now;
        self.flush_line();
    }

    fn flush_line(&mut self) {
        if let Err(error) = self.out.write_all(&self.line) {
            self.failed.get_or_insert(error);
        }
    }

    /// Ends the journal with a checkpoint, so that a cut tail is noticed.
    pub fn seal(mut self) -> anyhow::Result<()> {
        let checkpoint = SystemEvent::Checkpointed { heads: self.chains.heads() };
        let decision = System::default().handle(self.last, &checkpoint);
        self.line.clear();
        self.chains.append(SYSTEM, self.last, Happened::System(&checkpoint), &decision, &mut self.line);
        self.flush_line();
        if let Some(error) = self.failed {
            return Err(error).context("the journal could not be written");
        }
        self.out.into_inner().context("the journal could not be written")?.sync_all()?;
        Ok(())
    }
}
