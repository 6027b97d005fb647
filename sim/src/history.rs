//! The journal of a run, written as the real one is and read again at once: what is replayed must be equal.

use estop_core::decision::Decision;
use estop_core::event::Event;
use estop_core::journal::{Chains, Happened, SYSTEM};
use estop_core::replay::Replay;
use estop_core::system::{SystemDecision, SystemEvent};
use estop_core::time::Now;

use crate::broken::{Breach, Holds};
use crate::config::Replaying;

/// Lines are replayed in pieces of about this many bytes, so that memory does not grow with the run.
const CHUNK_BYTES: usize = 1 << 20;

/// The journal so far.
pub struct History {
    chains: Chains,
    lines: Vec<u8>,
    replay: Replay,
    replaying: Replaying,
}

impl History {
    /// An empty journal.
    pub fn new(replaying: Replaying) -> History {
        History { chains: Chains::default(), lines: Vec::new(), replay: Replay::default(), replaying }
    }

    /// Writes what happened to an agent.
    pub fn agent(&mut self, agent: &str, now: Now, event: &Event, decision: &Decision) -> Holds {
        self.chains.append(agent, now, Happened::Agent(event), decision, &mut self.lines);
        self.replay_full_chunk()
    }

    /// Writes what happened to the system.
    pub fn system(&mut self, now: Now, event: &SystemEvent, decision: &SystemDecision) -> Holds {
        self.chains.append(SYSTEM, now, Happened::System(event), decision, &mut self.lines);
        self.replay_full_chunk()
    }

    /// The event that seals the journal.
    pub fn checkpoint(&self) -> SystemEvent {
        SystemEvent::Checkpointed { heads: self.chains.heads() }
    }

    fn replay_full_chunk(&mut self) -> Holds {
        if self.lines.len() < CHUNK_BYTES { Ok(()) } else { self.replay_rest() }
    }

    /// Replays what was written and not read yet.
    pub fn replay_rest(&mut self) -> Holds {
        if self.replaying == Replaying::On {
            for line in self.lines.split_inclusive(|byte| *byte == b'\n') {
                self.replay.feed(line).map_err(|error| Breach::new("replay_is_equal", error.to_string()))?;
            }
        }
        self.lines.clear();
        Ok(())
    }

    /// One number for all that happened and was decided: the head of the system's chain, once the journal is sealed.
    pub fn digest(&self) -> String {
        self.chains.head(SYSTEM).map_or_else(String::new, |head| head.events.to_string())
    }
}
