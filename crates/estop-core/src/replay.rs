//! Replay (TW-7): the same events through the same code must give the same decisions, byte for byte.
//!
//! Fed with lines; reads no files. Verifies the chains on the way.

use std::collections::BTreeMap;

use crate::canonical_json;
use crate::engine::AgentState;
use crate::event::{Event, What};
use crate::ids::Name;
use crate::journal::{Chains, JournalError, Record, SYSTEM};
use crate::policy::Policy;
use crate::system::System;
use crate::time::Now;

/// One agent on replay: its state and the policy in force.
#[derive(Default)]
struct Replayed {
    state: AgentState,
    policy: Box<Policy>,
}

/// Recomputes a journal, line by line.
#[derive(Default)]
pub struct Replay {
    chains: Chains,
    system: System,
    agents: BTreeMap<Name, Replayed>,
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
        let record = Record::parse(line)?;
        self.chains.check(&record)?;
        self.recomputed.clear();
        let now = Now { mono: record.head.mono, wall: record.head.wall };
        if let Some(event) = &record.head.system {
            let decision = self.system.handle(now, event);
            canonical_json::write(&mut self.recomputed, &decision);
        } else if let Some(event) = &record.head.event {
            let agent = self.agent(&record.head.chain);
            agent.learn_policy(event);
            let decision = agent.state.handle(now, event, &agent.policy);
            canonical_json::write(&mut self.recomputed, &decision);
        }
        if self.recomputed == record.decision_bytes {
            return Ok(());
        }
        Err(ReplayError::Differs {
            seq: record.head.seq,
            chain: record.head.chain.as_ref().into(),
            recorded: String::from_utf8_lossy(record.decision_bytes).into_owned(),
            recomputed: String::from_utf8_lossy(&self.recomputed).into_owned(),
        })
    }

    fn agent(&mut self, chain: &str) -> &mut Replayed {
        if !self.agents.contains_key(chain) {
            self.agents.insert(chain.into(), Replayed::default());
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

impl Replayed {
    /// New rules hold from the event that brings them on.
    fn learn_policy(&mut self, event: &Event) {
        if let What::PolicyChanged { policy, .. } = &event.what {
            self.policy.clone_from(policy);
        }
    }
}

/// Whether a chain's name may be an agent's.
pub fn is_agent_name(name: &str) -> bool {
    name != SYSTEM && !name.is_empty()
}
