//! Replay (TW-7): the same events through the same code must give the same decisions, byte for byte.
//!
//! Fed with lines; reads no files. Checks the journal on the way.

use std::collections::BTreeMap;

use estop_core::engine::Snapshot;
use estop_core::ids::Name;

use crate::check::{Checker, Found, JournalError};
use crate::record::{Record, SYSTEM};

/// Recomputes a journal, line by line.
#[derive(Default)]
pub struct Replay {
    checker: Checker,
    /// Each with its state and the policy in force.
    agents: BTreeMap<Name, Snapshot>,
}

/// What went wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The journal itself cannot be trusted.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The same event gives another decision.
    #[error(
        "record {seq} ({agent}) decides differently on replay\n  recorded:   {recorded}\n  recomputed: {recomputed}"
    )]
    Differs {
        /// The record.
        seq: u64,
        /// Whose.
        agent: Name,
        /// The decision as it was written.
        recorded: String,
        /// The decision as it comes out.
        recomputed: String,
    },
}

impl Replay {
    /// Takes the next line in, without its end.
    pub fn feed(&mut self, line: &[u8]) -> Result<(), ReplayError> {
        let mut system = self.checker.state().system.clone();
        match self.checker.take(line)? {
            Found::Header(_) | Found::End(_) => Ok(()),
            Found::Base(base) => {
                let state = Snapshot::read(base.state.get().as_bytes())
                    .ok()
                    .filter(|state| state.told == base.n)
                    .ok_or_else(|| {
                        let problem =
                            format!("the state of {} is not that of its {}. record", base.agent, base.n);
                        JournalError::Unreadable { after: 0, problem }
                    })?;
                self.agents.insert(base.agent.as_ref().into(), state);
                Ok(())
            }
            Found::System(record) => {
                let event = record.system.as_ref();
                let decision = event.map(|event| serde_json::to_string(&system.handle(record.now, event)));
                compare(&record, decision)
            }
            Found::Record(_) => {
                let after = self.checker.state().seq - 1;
                let record = Record::parse(line)
                    .map_err(|error| JournalError::Unreadable { after, problem: error.to_string() })?;
                let event = record.event.as_ref();
                let state = self.agents.entry(record.agent.as_ref().into()).or_default();
                let decision = event.map(|event| serde_json::to_string(&state.tell(record.now, event)));
                compare(&record, decision)
            }
        }
    }

    /// The journal as far as it was read.
    pub fn checker(&self) -> &Checker {
        &self.checker
    }

    /// How many agents took part.
    pub fn agents(&self) -> usize {
        self.agents.len()
    }
}

fn compare(
    record: &Record<'_>,
    recomputed: Option<Result<String, serde_json::Error>>,
) -> Result<(), ReplayError> {
    let recomputed = recomputed.and_then(Result::ok).unwrap_or_default();
    if recomputed == record.decision {
        return Ok(());
    }
    let recorded = record.decision.to_owned();
    Err(ReplayError::Differs { seq: record.seq, agent: record.agent.as_ref().into(), recorded, recomputed })
}

/// Whether a name may be an agent's.
pub fn is_agent_name(name: &str) -> bool {
    name != SYSTEM && !name.is_empty()
}
