//! What was spent in a batch, added up by what it was spent on.

use std::collections::{BTreeMap, HashMap};

use estop_core::fingerprint::signature;
use estop_core::ids::Name;
use estop_store::{JournalBatch, Spend, SpendSum};

/// Where the batch's sums are.
#[derive(Default)]
pub(super) struct Sums {
    /// By the hash of what they are of.
    places: HashMap<u64, usize>,
}

impl Sums {
    /// Adds to a sum of the batch, or begins one; where it is. It may be the one at `at`. One that is not found is begun
    /// again: the store adds up the rest.
    pub(super) fn add(&mut self, of: &SumOf<'_>, more: SpendSum, at: usize, out: &mut JournalBatch) -> usize {
        if let Some(known) = out.spend.get_mut(at).filter(|known| of.is_that_of(known)) {
            add_up(&mut known.sum, &more);
            return at;
        }
        let place = self.places.entry(of.hash()).or_insert(usize::MAX);
        match out.spend.get_mut(*place).filter(|known| of.is_that_of(known)) {
            Some(known) => add_up(&mut known.sum, &more),
            None => {
                *place = out.spend.len();
                out.spend.push(of.begin(more));
            }
        }
        *place
    }

    /// The next batch has its own.
    pub(super) fn clear(&mut self) {
        self.places.clear();
    }
}

/// What a sum is of.
pub(super) struct SumOf<'a> {
    pub(super) day: i32,
    pub(super) agent: &'a str,
    pub(super) run: &'a str,
    pub(super) model: &'a str,
    pub(super) role: &'a str,
    pub(super) issue: &'a str,
    pub(super) labels: &'a BTreeMap<Name, Name>,
}

impl SumOf<'_> {
    fn hash(&self) -> u64 {
        let SumOf { day, agent, run, model, role, issue, labels } = self;
        let labels = labels.iter().flat_map(|(key, value)| [&**key, &**value]);
        let texts = [*agent, *run, *model, *role, *issue].into_iter().chain(labels);
        texts.fold(u64::from(day.cast_unsigned()), |sum, text| {
            sum.rotate_left(11).wrapping_mul(31) ^ signature::text(text).0
        })
    }

    fn is_that_of(&self, known: &Spend) -> bool {
        let SumOf { day, agent, run, model, role, issue, labels } = self;
        let texts = [(*agent, &known.agent), (*model, &known.model), (*run, &known.run)];
        let rest = [(*role, &known.role), (*issue, &known.issue)];
        // Comparing two texts that are empty takes long: some processors read for nothing at an address that is none.
        let is_same = |(text, known): &(&str, &Name)| {
            text.len() == known.len() && (text.is_empty() || ***known == **text)
        };
        *day == known.day && texts.iter().chain(&rest).all(is_same) && **labels == known.labels
    }

    fn begin(&self, sum: SpendSum) -> Spend {
        Spend {
            day: self.day,
            agent: self.agent.into(),
            run: self.run.into(),
            model: self.model.into(),
            role: self.role.into(),
            issue: self.issue.into(),
            labels: self.labels.clone(),
            sum,
        }
    }
}

pub(super) fn add_up(sum: &mut SpendSum, more: &SpendSum) {
    sum.requests += more.requests;
    sum.input_tokens += more.input_tokens;
    sum.output_tokens += more.output_tokens;
    sum.cache_read_tokens += more.cache_read_tokens;
    sum.cache_write_tokens += more.cache_write_tokens;
    sum.reasoning_tokens += more.reasoning_tokens;
    sum.usd.0 = sum.usd.0.saturating_add(more.usd.0);
    sum.unpriced += more.unpriced;
    sum.estimated += more.estimated;
}
