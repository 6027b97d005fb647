//! Records that were written and not linked yet. Where links are computed quicker side by side, some are gathered first.

use std::ops::Range;

use fearless_simd::Level;

use super::{ChainAt, Chains};
use crate::chain::{Digest, Heads, Strand, Wanted, is_quicker, link_all, wide_level};

/// Records that are linked together where that is quicker. Chosen: enough for chains to be as many as there are lanes most of
/// the time; and what was written is still near when it is read again.
const TOGETHER: usize = 512;

/// A record that was written up to its hashes, and is not linked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlinked {
    pub(super) at: ChainAt,
    pub(super) event: Range<usize>,
    pub(super) decision: Range<usize>,
    /// How many bytes stand after its number, chain and time.
    pub after_time: usize,
}

impl Chains {
    /// How many records are best linked together.
    pub fn linked_together() -> usize {
        // Tests show everywhere whether somebody looks before it is done.
        if wide_level().is_some() || cfg!(debug_assertions) { TOGETHER } else { 1 }
    }

    /// Links all records that were written since the last time, and adds their hashes, event and decision in turn.
    /// `text` is what they were written to.
    pub fn link(&mut self, unlinked: &[Unlinked], text: &[u8], digests: &mut Vec<u8>) {
        if let Some(level) = wide_level().filter(|_| unlinked.len() > 1) {
            let gathered = self.gather(unlinked);
            if is_quicker(&gathered.strands) {
                return self.link_together(level, gathered, text, digests);
            }
        }
        for record in unlinked {
            let heads = self.link_one(record, text);
            digests.extend_from_slice(&heads.events.0);
            digests.extend_from_slice(&heads.decisions.0);
        }
    }

    fn gather(&mut self, unlinked: &[Unlinked]) -> Gathered {
        let mut gathered = Gathered::default();
        for record in unlinked {
            let chain = &mut self.chains[record.at.0];
            let heads = &chain.heads;
            let nth = chain.gathered.get_or_insert_with(|| gathered.begin(record.at, heads));
            gathered.add(*nth, record);
        }
        for of_chain in &gathered.chains {
            self.chains[of_chain.at.0].gathered = None;
        }
        gathered
    }

    fn link_together(&mut self, level: Level, mut gathered: Gathered, text: &[u8], digests: &mut Vec<u8>) {
        let start = digests.len();
        digests.resize(start + gathered.wanted.len() * size_of::<Digest>(), 0);
        let digests = digests[start..].as_chunks_mut().0;
        link_all(level, text, &gathered.wanted, &mut gathered.strands, digests);
        for OfChain { at, count, last } in gathered.chains {
            let heads = &mut self.chains[at.0].heads;
            let [events, decisions] = [last, last + 1].map(|link| Digest(digests[link]));
            *heads = Heads { count: heads.count + count, events, decisions };
        }
        self.unlinked -= gathered.wanted.len() / 2;
    }

    pub(super) fn link_one(&mut self, record: &Unlinked, text: &[u8]) -> Heads {
        self.unlinked -= 1;
        let heads = &mut self.chains[record.at.0].heads;
        *heads = heads.link(&text[record.event.clone()], &text[record.decision.clone()]);
        *heads
    }
}

/// What is to be linked, two links for each record: its event's and its decision's.
#[derive(Default)]
struct Gathered {
    wanted: Vec<Wanted>,
    /// Two for each chain.
    strands: Vec<Strand>,
    chains: Vec<OfChain>,
}

/// What is to be linked of a chain.
struct OfChain {
    at: ChainAt,
    /// Records.
    count: u64,
    /// The event's link of its last record.
    last: usize,
}

impl Gathered {
    /// The next record is a chain's first; which chain it is here.
    fn begin(&mut self, at: ChainAt, heads: &Heads) -> usize {
        let first = self.wanted.len();
        self.strands.push(Strand::new(first, heads.events.0));
        self.strands.push(Strand::new(first + 1, heads.decisions.0));
        self.chains.push(OfChain { at, count: 0, last: first });
        self.chains.len() - 1
    }

    fn add(&mut self, chain: usize, record: &Unlinked) {
        let event = self.wanted.len();
        let OfChain { count, last, .. } = &mut self.chains[chain];
        *count += 1;
        let before = std::mem::replace(last, event);
        for (part, bytes) in [&record.event, &record.decision].into_iter().enumerate() {
            if before < event {
                self.wanted[before + part].next = Some(event + part);
            }
            self.strands[2 * chain + part].add(bytes.len());
            self.wanted.push(Wanted { bytes: bytes.clone(), next: None });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::levels;
    use crate::event::{Event, What};
    use crate::journal::{Happened, Spans, Written};
    use crate::time::Now;

    const NAMES: [&str; 10] =
        ["coder", "tester", "größe", "system", "five", "six", "seven", "eight", "nine", "ten"];

    /// Records of several chains, linked so many together; and the chains after them.
    fn digests(level: Level, together: usize) -> (Vec<u8>, Vec<crate::chain::ChainHead>) {
        let (mut chains, mut text, mut unlinked, mut digests) =
            (Chains::default(), Vec::new(), Vec::new(), Vec::new());
        for n in 0..300_usize {
            let (name, now) = (NAMES[(n + n / 3) % 10], Now { wall: n as i64, ..Now::default() });
            let mut tail = Vec::new();
            let decision = "long ".repeat(n * 7 % 90);
            let spans =
                Spans::write(&mut tail, name, now, Happened::Agent(&Event::open(What::Tick)), &decision);
            let at = chains.at(name);
            unlinked.push(chains.write_apart(at, now, Written::at(&tail, spans), &mut text));
            if unlinked.len() == together {
                let gathered = chains.gather(&unlinked);
                chains.link_together(level, gathered, &text, &mut digests);
                unlinked.clear();
            }
        }
        for record in unlinked {
            let heads = chains.link_one(&record, &text);
            digests.extend([heads.events.0, heads.decisions.0].as_flattened());
        }
        (digests, chains.heads())
    }

    #[test]
    fn tw_7_records_linked_together_are_linked_as_one_by_one() {
        let one_by_one = digests(Level::new(), usize::MAX);
        for level in levels() {
            for together in [1, 2, 7, 100, 300] {
                assert!(digests(level, together) == one_by_one, "{together} together, {level:?}");
            }
        }
    }
}
