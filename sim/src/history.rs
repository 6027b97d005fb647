//! The journal of a run, written as the real one is and read again at once: what is replayed must be equal.

use estop_core::decision::Decision;
use estop_core::event::Event;
use estop_core::system::{SystemDecision, SystemEvent};
use estop_core::time::Now;
use estop_journal::{LineWriter, Replay};
use sha2::{Digest, Sha256};

use crate::broken::{Breach, Holds};
use crate::config::Replaying;

/// Lines are replayed in pieces of about this many bytes, so that memory does not grow with the run.
const CHUNK_BYTES: usize = 1 << 20;

/// The journal so far.
pub struct History {
    writer: LineWriter,
    lines: Vec<u8>,
    replay: Replay,
    replaying: Replaying,
    sha256: Sha256,
}

impl History {
    /// An empty journal.
    pub fn new(replaying: Replaying) -> History {
        let mut lines = Vec::new();
        let writer = LineWriter::begin(&mut lines);
        History { writer, lines, replay: Replay::default(), replaying, sha256: Sha256::new() }
    }

    /// Writes what happened to an agent.
    pub fn agent(&mut self, agent: &str, now: Now, event: &Event, decision: &Decision) -> Holds {
        self.writer.agent(agent, now, event, decision, &mut self.lines);
        self.replay_full_chunk()
    }

    /// Writes what happened to the system.
    pub fn system(&mut self, now: Now, event: &SystemEvent, decision: &SystemDecision) -> Holds {
        self.writer.system(now, event, decision, &mut self.lines);
        self.replay_full_chunk()
    }

    /// Writes the last line and replays the rest.
    pub fn end(&mut self) -> Holds {
        self.writer.end(&mut self.lines);
        self.replay_rest()
    }

    fn replay_full_chunk(&mut self) -> Holds {
        if self.lines.len() < CHUNK_BYTES { Ok(()) } else { self.replay_rest() }
    }

    /// Replays what was written and not read yet.
    fn replay_rest(&mut self) -> Holds {
        if self.replaying == Replaying::On {
            for line in self.lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                self.replay.feed(line).map_err(|error| Breach::new("replay_is_equal", error.to_string()))?;
            }
        }
        self.sha256.update(&self.lines);
        self.lines.clear();
        Ok(())
    }

    /// One number for all that happened and was decided.
    pub fn digest(&self) -> String {
        self.sha256.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
