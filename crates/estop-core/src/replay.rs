//! Replay (TW-7): the same events through the same code must give the same decisions, byte for byte.
//!
//! Fed with lines; reads no files. Verifies the chains on the way.

use std::collections::BTreeMap;

use crate::engine::Snapshot;
use crate::ids::Name;
use crate::journal::{Base, Chains, JournalError, Line, SYSTEM};
use crate::json;
use crate::system::System;
use crate::time::Now;

/// Recomputes a journal, line by line.
#[derive(Default)]
pub struct Replay {
    chains: Chains,
    system: System,
    /// Each with its state and the policy in force.
    agents: BTreeMap<Name, Snapshot>,
    recomputed: Vec<u8>,
}

/// What went wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The journal itself cannot be trusted.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The same event gives another decision.
    #[error(
        "record {seq} (chain {chain}) decides differently on replay\n  recorded:   {recorded}\n  recomputed: {recomputed}"
    )]
    Differs {
        /// The record.
        seq: u64,
        /// Its chain.
        chain: Name,
        /// The decision as it was written.
        recorded: String,
        /// The decision as it comes out.
        recomputed: String,
    },
}

impl Replay {
    /// Takes the next line in.
    pub fn feed(&mut self, line: &[u8]) -> Result<(), ReplayError> {
        let record = match self.chains.take(line)? {
            Line::Record(record) => record,
            Line::Base(base) => return Ok(self.resume(&base)?),
            Line::Begins => return Ok(()),
        };
        let now = Now { mono: record.head.mono, wall: record.head.wall };
        let mut room = std::mem::take(&mut self.recomputed);
        let is_same = match (&record.head.system, &record.head.event) {
            (Some(event), _) => {
                room.clear();
                json::write(&mut room, &self.system.handle(now, event));
                room == record.decision_bytes
            }
            (None, Some(event)) => {
                let decision = self.agent(&record.head.chain).tell(now, event);
                {
                    room.clear();
                    json::write(&mut room, &decision);
                    room == record.decision_bytes
                }
            }
            (None, None) => false,
        };
        self.recomputed = room;
        if is_same {
            return Ok(());
        }
        Err(ReplayError::Differs {
            seq: record.head.seq,
            chain: record.head.chain.as_ref().into(),
            recorded: String::from_utf8_lossy(record.decision_bytes).into_owned(),
            recomputed: String::from_utf8_lossy(&self.recomputed).into_owned(),
        })
    }

    /// Goes on from where the records before were let go.
    fn resume(&mut self, base: &Base<'_>) -> Result<(), JournalError> {
        let unreadable = |error: &dyn std::fmt::Display| JournalError::Unreadable(error.to_string());
        if &*base.head.chain == SYSTEM {
            self.system = serde_json::from_slice(base.state).map_err(|error| unreadable(&error))?;
            return Ok(());
        }
        let state = Snapshot::read(base.state).map_err(|error| unreadable(&error))?;
        if state.told != base.head.count {
            return Err(unreadable(&"its state is that of another record"));
        }
        self.agents.insert(base.head.chain.clone(), state);
        Ok(())
    }

    fn agent(&mut self, chain: &str) -> &mut Snapshot {
        if !self.agents.contains_key(chain) {
            self.agents.insert(chain.into(), Snapshot::default());
        }
        self.agents.get_mut(chain).expect("it was just inserted if it was missing")
    }

    /// The chains as far as they were read.
    pub fn chains(&self) -> &Chains {
        &self.chains
    }

    /// How many agents took part.
    pub fn agents(&self) -> usize {
        self.agents.len()
    }
}

/// Whether a chain's name may be an agent's.
pub fn is_agent_name(name: &str) -> bool {
    name != SYSTEM && !name.is_empty()
}
