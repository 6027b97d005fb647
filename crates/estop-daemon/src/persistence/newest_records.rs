//! The newest records of some agents, found by reading the journal from its end.

use std::collections::BTreeMap;

use anyhow::Context;
use estop_core::ids::Name;
use estop_store::segments::JournalReader;

/// The newest records of agents, the newest first.
pub(super) type RecordsByAgent = BTreeMap<Name, Vec<Vec<u8>>>;

/// How many records of each agent are wanted, and those that were found, newest first.
#[derive(Default)]
pub(super) struct NewestRecords {
    agents: BTreeMap<Name, (u64, Vec<Vec<u8>>)>,
    left: u64,
}

impl NewestRecords {
    /// The newest `count` records of an agent are wanted.
    pub(super) fn expect(&mut self, agent: &str, count: u64) {
        if count > 0 {
            self.agents.insert(agent.into(), (count, Vec::new()));
            self.left += count;
        }
    }

    /// Reads back from a record on until everything is found, or nothing is left.
    pub(super) fn read_back(&mut self, journal: &JournalReader, last_seq: u64) -> anyhow::Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        journal.back(last_seq + 1, |_| None, &mut |line, head| {
            if let Some((wanted, lines)) = self.agents.get_mut(head.agent)
                && (lines.len() as u64) < *wanted
            {
                lines.push(line.to_vec());
                self.left -= 1;
            }
            self.left > 0
        })?;
        Ok(())
    }

    /// What was found for each agent, newest first; an error if something is gone.
    pub(super) fn found(self) -> anyhow::Result<RecordsByAgent> {
        let whole = |(agent, (wanted, lines)): (Name, (u64, Vec<Vec<u8>>))| {
            (lines.len() as u64 == wanted).then_some(()).with_context(|| {
                let left = lines.len();
                format!(
                    "the state of agent {agent} cannot be rebuilt: it needs {wanted} records, {left} are left"
                )
            })?;
            Ok((agent, lines))
        };
        self.agents.into_iter().map(whole).collect()
    }
}
