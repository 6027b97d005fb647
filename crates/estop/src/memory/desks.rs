//! A desk for each agent, and one for the system: all that the scribe remembers of it from record to record. It is found
//! once for each record.

use std::collections::HashMap;
use std::time::Instant;

use estop_core::ids::Name;
use estop_core::journal::{ChainAt, Chains};
use estop_store::RecordsChain;

use super::rows::OfAgent;

/// Desks that are found without a search. Chosen: a busy fleet fits.
const NEAR: usize = 256;

/// All desks. As many as there were names of agents (`limits.agent_names`), also of those that were deleted since the
/// start.
#[derive(Default)]
pub(super) struct Desks {
    all: Vec<Desk>,
    by_name: HashMap<Name, usize>,
    /// The desks used last, by how their names end.
    near: Vec<Option<usize>>,
    /// Those with records their agent's kept state does not cover.
    unsaved: Vec<usize>,
}

/// What is remembered of one agent.
pub(super) struct Desk {
    pub(super) name: Name,
    /// Where its chain stands among all.
    pub(super) chain: ChainAt,
    /// Where its chain stands in a batch, and in which.
    pub(super) in_batch: Option<(u64, RecordsChain)>,
    /// What rows are made from.
    pub(super) rows: OfAgent,
    /// Records its kept state does not cover: how many, and since when.
    unsaved: Option<(u32, Instant)>,
}

impl Desks {
    /// The desk of whoever is called so.
    pub(super) fn named(&mut self, name: &str, chains: &mut Chains) -> &mut Desk {
        let at = self.find(name, chains);
        &mut self.all[at]
    }

    /// The same, for a name that comes again and again.
    pub(super) fn of(&mut self, name: &str, chains: &mut Chains) -> (usize, &mut Desk) {
        if self.near.is_empty() {
            self.near.resize(NEAR, None);
        }
        let place = place(name);
        let at = match self.near[place] {
            Some(at) if *self.all[at].name == *name => at,
            Some(_) | None => {
                let at = self.find(name, chains);
                self.near[place] = Some(at);
                at
            }
        };
        (at, &mut self.all[at])
    }

    fn find(&mut self, name: &str, chains: &mut Chains) -> usize {
        if let Some(at) = self.by_name.get(name) {
            return *at;
        }
        self.by_name.insert(name.into(), self.all.len());
        self.all.push(Desk {
            name: name.into(),
            chain: chains.at(name),
            in_batch: None,
            rows: OfAgent::new(name),
            unsaved: None,
        });
        self.all.len() - 1
    }

    /// A record came that the agent's kept state does not cover.
    pub(super) fn note_unsaved(&mut self, at: usize) {
        match &mut self.all[at].unsaved {
            Some((count, _)) => *count += 1,
            unsaved @ None => {
                *unsaved = Some((1, Instant::now()));
                self.unsaved.push(at);
            }
        }
    }

    /// Whether there are records of an agent its kept state does not cover.
    pub(super) fn is_unsaved(&self, name: &str) -> bool {
        self.by_name.get(name).is_some_and(|at| self.all[*at].unsaved.is_some())
    }

    /// Those whose state is due, in order of name; it counts as kept from here on.
    pub(super) fn take_due(&mut self, is_due: impl Fn(&(u32, Instant)) -> bool) -> Vec<Name> {
        let all = &mut self.all;
        let due = self.unsaved.extract_if(.., |at| all[*at].unsaved.take_if(|since| is_due(since)).is_some());
        let due: Vec<usize> = due.collect();
        let mut names: Vec<Name> = due.into_iter().map(|at| self.all[at].name.clone()).collect();
        names.sort_unstable();
        names
    }
}

/// Where a desk is looked for first. Names of a fleet differ at their ends.
fn place(name: &str) -> usize {
    let end = name.as_bytes().rchunks(8).next().unwrap_or_default();
    let word = end.iter().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
    usize::from(word.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0])
}
