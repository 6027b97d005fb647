//! What is remembered of each agent, and of the system, from record to record.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use estop_core::ids::Name;

use super::projections::AgentProjection;

/// All of them. As many as there were names of agents (`limits.agent_names`), also of those that were deleted since the
/// start.
#[derive(Default)]
pub(super) struct TrackedAgents {
    all: HashMap<Name, TrackedAgent>,
    /// Those with records their agent's kept state does not cover.
    unsaved: Vec<Name>,
}

/// What is remembered of one agent.
pub(super) struct TrackedAgent {
    pub(super) name: Name,
    /// Its records so far.
    pub(super) count: u64,
    /// What rows are made from.
    pub(super) rows: AgentProjection,
    /// Records its kept state does not cover: how many, and since when.
    unsaved: Option<(u32, Instant)>,
}

impl TrackedAgents {
    /// The agent of this name, made if it is not there.
    pub(super) fn named(&mut self, name: &str) -> &mut TrackedAgent {
        if !self.all.contains_key(name) {
            let agent =
                TrackedAgent { name: name.into(), count: 0, rows: AgentProjection::new(name), unsaved: None };
            self.all.insert(name.into(), agent);
        }
        self.all.get_mut(name).expect("it was just inserted if it was missing")
    }

    /// How many records there are of an agent.
    pub(super) fn count(&self, name: &str) -> u64 {
        self.all.get(name).map_or(0, |agent| agent.count)
    }

    /// The names behind what is counted by [`AgentProjection::key`].
    pub(super) fn counted(&self, counts: &BTreeMap<u64, usize>) -> Vec<(Name, usize)> {
        let count = |agent: &TrackedAgent| Some((agent.name.clone(), *counts.get(&agent.rows.key())?));
        if counts.is_empty() { Vec::new() } else { self.all.values().filter_map(count).collect() }
    }

    /// A record came that the agent's kept state does not cover.
    pub(super) fn note_unsaved(&mut self, name: &str) {
        let Some(agent) = self.all.get_mut(name) else { return };
        match &mut agent.unsaved {
            Some((count, _)) => *count += 1,
            unsaved @ None => {
                *unsaved = Some((1, Instant::now()));
                self.unsaved.push(agent.name.clone());
            }
        }
    }

    /// Whether there are records of an agent its kept state does not cover.
    pub(super) fn is_unsaved(&self, name: &str) -> bool {
        self.all.get(name).is_some_and(|agent| agent.unsaved.is_some())
    }

    /// Those whose state is due, in order of name; it counts as kept from here on.
    pub(super) fn take_due(&mut self, is_due: impl Fn(&(u32, Instant)) -> bool) -> Vec<Name> {
        let all = &mut self.all;
        let due = self.unsaved.extract_if(.., |name| {
            all.get_mut(name).is_some_and(|agent| agent.unsaved.take_if(|since| is_due(since)).is_some())
        });
        let mut names: Vec<Name> = due.collect();
        names.sort_unstable();
        names
    }
}
