//! A journal in a folder, written record by record as the daemon does, for tests that need one to read.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::io;
use std::path::Path;

use estop_core::event::Event;
use estop_core::ids::Hash64;
use estop_core::system::SystemEvent;
use estop_core::time::{Millis, Now};
use estop_journal::{Payload, RecordBody, SYSTEM, State, write_record};
use estop_store::Cursor;
use estop_store::segments::{JOURNAL_FOLDER, JournalReader, SegmentWriter, prune_oldest, recover, seal};
use serde::Serialize;

/// Which journal it is, and which start of the machine.
pub(crate) const JOURNAL: Hash64 = Hash64(0x9f3a_c01d_7be2_5544);
pub(crate) const BOOT: &str = "test";

/// A journal that is being written.
pub(crate) struct WrittenJournal {
    pub(crate) writer: SegmentWriter,
    pub(crate) state: State,
    body: RecordBody,
}

impl WrittenJournal {
    /// Begins one in a data directory, or goes on with the one that is there.
    pub(crate) fn open(data_dir: &Path) -> WrittenJournal {
        let folder = data_dir.join(JOURNAL_FOLDER);
        let now = Now { mono: Millis(0), wall: 1_767_225_600_000 };
        let (writer, state) = match recover(&folder, BOOT, &mut |_, _| {}).expect("a journal") {
            Some(found) => {
                (SegmentWriter::open(&folder, &found, BOOT, found.last).expect("written"), found.state)
            }
            None => (SegmentWriter::create(&folder, JOURNAL, BOOT, now).expect("begun"), State::default()),
        };
        WrittenJournal { writer, state, body: RecordBody::default() }
    }

    /// Writes what happened to an agent; gives the record's number.
    pub(crate) fn agent(&mut self, agent: &str, now: Now, event: &Event, decision: &impl Serialize) -> u64 {
        self.try_agent(agent, now, event, decision).expect("written")
    }

    /// The same on a disk that may refuse: then nothing has happened.
    pub(crate) fn try_agent(
        &mut self,
        agent: &str,
        now: Now,
        event: &Event,
        decision: &impl Serialize,
    ) -> io::Result<u64> {
        self.body.write(agent, now, Payload::Agent(event), decision);
        self.append(agent)
    }

    /// Writes what happened to the system; gives the record's number.
    pub(crate) fn system(&mut self, now: Now, event: &SystemEvent) -> u64 {
        let decision = self.state.apply(now, event);
        self.body.write(SYSTEM, now, Payload::System(event), &decision);
        self.append(SYSTEM).expect("written")
    }

    fn append(&mut self, agent: &str) -> io::Result<u64> {
        let (seq, n) = self.state.next(agent);
        let mut line = Vec::new();
        write_record(&mut line, seq, n, &self.body);
        self.writer.write(&line, seq)?;
        self.state.add(agent);
        Ok(seq)
    }

    /// Ends the segment and begins the next; packs it, and those that a crash left.
    pub(crate) fn seal(&mut self) {
        let segment = self.writer.position().segment;
        self.writer.begin_segment(&self.state).expect("begun");
        self.writer.sync().expect("synced");
        let folder = self.writer.folder();
        let mut manifest = JournalReader::new(folder).manifest().expect("a manifest");
        for segment in manifest.last_segment() + 1..=segment {
            seal(folder, segment, &mut manifest).expect("sealed");
        }
    }

    /// Lets the oldest sealed segment go.
    pub(crate) fn prune(&self) -> u64 {
        let folder = self.writer.folder();
        let mut manifest = JournalReader::new(folder).manifest().expect("a manifest");
        prune_oldest(folder, &mut manifest).expect("pruned")
    }

    /// Rows of everything so far were made.
    pub(crate) fn cursor(&self) -> Cursor {
        Cursor { journal: JOURNAL, seq: self.state.seq }
    }
}
