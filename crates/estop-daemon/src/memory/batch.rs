//! A batch that is being made: the records, and what follows from them.

use estop_core::journal::{Chains, Written};
use estop_core::time::Now;
use estop_store::{JournalBatch, Records};

use super::desks::Desk;

/// A batch that is being made.
pub(super) struct Batch {
    /// No other of this process has it.
    number: u64,
    records: Records,
    pub(super) out: JournalBatch,
}

impl Batch {
    /// After all that is in the chains. Takes over the room of records that are done with.
    pub(super) fn new(number: u64, chains: &Chains, room: Records) -> Batch {
        let records = Records::from_seq(chains.seq() + 1, room);
        Batch { number, records, out: JournalBatch::default() }
    }

    /// Makes room for so many records of so many bytes: growing would copy all of them again and again.
    pub(super) fn reserve(&mut self, records: usize, bytes_each: usize) {
        self.records.reserve(records, bytes_each);
    }

    /// Adds the next record to its chain.
    pub(super) fn add(&mut self, chains: &mut Chains, desk: &mut Desk, now: Now, written: Written<'_>) {
        let chain = match desk.in_batch {
            Some((number, chain)) if number == self.number => chain,
            Some(_) | None => {
                let chain = self.records.add_chain(desk.name.clone());
                desk.in_batch = Some((self.number, chain));
                chain
            }
        };
        self.records.add(chain, (chains, desk.chain), now, written);
    }

    /// All of it, linked.
    pub(super) fn finish(mut self, chains: &mut Chains) -> JournalBatch {
        self.records.link(chains);
        self.out.records = Some(self.records).filter(|records| !records.is_empty());
        self.out
    }
}
