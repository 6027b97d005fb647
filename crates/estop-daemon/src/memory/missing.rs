//! The newest records of some agents, found by reading the journal from its end.

use std::collections::BTreeMap;

use anyhow::Context;
use estop_core::ids::Name;
use estop_store::{Journal, Sqlite};

/// Records read at once, from the end backwards.
const STEP: u64 = 20_000;

/// The newest records of agents, the newest first.
pub(super) type Newest = BTreeMap<Name, Vec<Vec<u8>>>;

/// How many records of each agent are wanted, and those that were found, newest first.
#[derive(Default)]
pub(super) struct Missing {
    agents: BTreeMap<Name, (u64, Vec<Vec<u8>>)>,
    left: u64,
}

impl Missing {
    /// The newest `count` records of an agent are wanted.
    pub(super) fn expect(&mut self, agent: &Name, count: u64) {
        if count > 0 {
            self.agents.insert(agent.clone(), (count, Vec::new()));
            self.left += count;
        }
    }

    /// Reads back until everything is found, or nothing is left.
    pub(super) fn read_back(&mut self, store: &Sqlite, last_seq: u64) -> anyhow::Result<()> {
        let first = store.pruned()?.to_seq + 1;
        let mut to = last_seq;
        while self.left > 0 && to >= first {
            let from = to.saturating_sub(STEP - 1).max(first);
            let mut lines = Vec::new();
            store.blocks(from, to, &mut |block| {
                lines.push(block.bytes.clone());
                true
            })?;
            for block in lines.iter().rev() {
                let newest_first = block.split(|byte| *byte == b'\n').rev().filter(|line| !line.is_empty());
                newest_first.for_each(|line| self.take(line));
            }
            to = from - 1;
        }
        Ok(())
    }

    fn take(&mut self, line: &[u8]) {
        let Some((wanted, lines)) = chain_of(line).and_then(|chain| self.agents.get_mut(chain)) else {
            return;
        };
        if (lines.len() as u64) < *wanted {
            lines.push(line.to_vec());
            self.left -= 1;
        }
    }

    /// What was found for each agent, newest first; an error if something is gone.
    pub(super) fn found(self) -> anyhow::Result<Newest> {
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

/// The chain a line belongs to. Names have no quotes in them.
fn chain_of(line: &[u8]) -> Option<&str> {
    const KEY: &[u8] = b",\"chain\":\"";
    let at = line.windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let name = line.get(at..)?.split(|byte| *byte == b'"').next()?;
    std::str::from_utf8(name).ok()
}
