//! A desk for each agent, and one for the system: all that the scribe remembers of it from record to record. It is found
//! once for each record.

use std::collections::HashMap;
use std::num::NonZeroU64;
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
    /// The desks used last, by the numbers of their agents.
    near: Vec<Near>,
    /// Those with records their agent's kept state does not cover.
    unsaved: Vec<usize>,
}

/// The desk of the agent that has this number.
#[derive(Clone, Copy, Default)]
struct Near {
    /// `None` = nobody's.
    number: Option<NonZeroU64>,
    at: usize,
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

    /// The same, for an agent that comes again and again and has this number; and where it stands.
    pub(super) fn of<'n>(
        &mut self,
        number: NonZeroU64,
        name: impl FnOnce() -> &'n str,
        chains: &mut Chains,
    ) -> (usize, &mut Desk) {
        if self.near.is_empty() {
            self.near.resize(NEAR, Near::default());
        }
        let place = number.get() as usize % NEAR;
        if self.near[place].number != Some(number) {
            self.near[place] = Near { number: Some(number), at: self.find(name(), chains) };
        }
        let at = self.near[place].at;
        (at, &mut self.all[at])
    }

    /// The desk that stands there.
    pub(super) fn at(&mut self, at: usize) -> &mut Desk {
        &mut self.all[at]
    }

    /// Where the desk of whoever is called so stands.
    pub(super) fn find(&mut self, name: &str, chains: &mut Chains) -> usize {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn st_1_each_agent_has_its_desk_whatever_its_number() {
        let (mut desks, mut chains) = (Desks::default(), Chains::default());
        let mut name_of = |number: u64, name: &'static str| {
            let number = NonZeroU64::new(number).expect("a number");
            let (at, desk) = desks.of(number, || name, &mut chains);
            (at, desk.name.to_string())
        };
        let one = name_of(1, "one");
        assert_eq!(one.1, "one");
        // The same place, in turn.
        for _ in 0..2 {
            assert_eq!(name_of(1 + NEAR as u64, "two").1, "two");
            assert_eq!(name_of(1, "one"), one);
        }
        assert_eq!(name_of(7, "one"), one, "it was deleted and came again");
        assert_eq!(name_of(NEAR as u64, "three").1, "three");
        assert_eq!(desks.named("three", &mut chains).name, "three".into());
    }
}
