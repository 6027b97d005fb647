//! Writes a journal to one file, in one go.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use estop_core::decision::Decision;
use estop_core::event::Event;
use estop_core::time::Now;
use estop_journal::LineWriter;

/// Some four hundred records: a busy estop writes so many in a few milliseconds.
const BUFFER: usize = 256 << 10;

/// An open journal file. It is removed again if it is dropped before it is sealed.
pub struct JournalWriter {
    out: BufWriter<File>,
    lines: LineWriter,
    line: Vec<u8>,
    failed: Option<std::io::Error>,
    // Dropped after `out`, which may still write.
    unfinished: Unfinished,
}

impl JournalWriter {
    /// Begins a new journal; an existing file is not overwritten.
    pub fn create(path: &Path) -> anyhow::Result<JournalWriter> {
        let name = path.display();
        let file = File::create_new(path).map_err(|error| {
            if error.kind() == ErrorKind::AlreadyExists {
                return anyhow::anyhow!("{name} already exists; choose another name or remove it");
            }
            anyhow::Error::new(error).context(format!("cannot create {name}"))
        })?;
        let mut line = Vec::new();
        let mut writer = JournalWriter {
            out: BufWriter::with_capacity(BUFFER, file),
            lines: LineWriter::begin(&mut line),
            line,
            failed: None,
            unfinished: Unfinished(Some(path.to_owned())),
        };
        writer.flush_line();
        Ok(writer)
    }

    /// Appends a record. An error is kept until [`JournalWriter::seal`].
    pub fn write(&mut self, agent: &str, now: Now, event: &Event, decision: &Decision) {
        self.lines.agent(agent, now, event, decision, &mut self.line);
        self.flush_line();
    }

    fn flush_line(&mut self) {
        if let Err(error) = self.out.write_all(&self.line) {
            self.failed.get_or_insert(error);
        }
        self.line.clear();
    }

    /// Ends the journal, so that a cut end is noticed.
    pub fn seal(mut self) -> anyhow::Result<()> {
        self.lines.end(&mut self.line);
        self.flush_line();
        if let Some(error) = self.failed {
            return Err(error).context("the journal could not be written");
        }
        let file = self.out.into_inner().context("the journal could not be written")?;
        file.sync_all().context("the journal could not be written")?;
        self.unfinished.0 = None;
        Ok(())
    }
}

/// Removes the file it names, so that a command that failed can simply be run again.
struct Unfinished(Option<PathBuf>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // It is on its way out with an error already; a second one would hide the first.
            let _ = std::fs::remove_file(path);
        }
    }
}
