//! A batch on its way: records are gathered as they come, a portion at a time, linked and stored together.

use std::time::{Duration, Instant};

use estop_core::journal::SYSTEM;
use estop_gateway::{Handover, Recorded, TailMark};

use super::Scribe;
use crate::memory::batch::Batch;
use crate::memory::rows::{Facts, Told};

/// How long records are gathered before they are stored. The tail has them already: this only makes batches. What a batch
/// changes is written once, so longer ones cost less; people who look should not notice. Pages are told to look again a
/// little later.
const GATHER_FOR: Duration = Duration::from_millis(200);
/// So many records are enough for a batch: the room of larger ones would be given back and taken again each time.
const BATCH_MAX: usize = 16_384;
/// Bytes of a record's line without its hashes, mostly.
const LINE_USUAL: usize = 512;
/// Room for the lines of a batch.
pub(super) const ROOM_USUAL: usize = BATCH_MAX * LINE_USUAL;

/// A batch that is being made, portion by portion.
pub(super) struct Making {
    pub(super) facts: Facts,
    pub(super) batch: Batch,
    /// Records so far.
    count: usize,
    /// When it was begun.
    since: Instant,
    /// Up to where the tail has been taken.
    pub(super) mark: TailMark,
    /// Somebody was stopped or steered: it must be on the disk once it is stored.
    pub(super) urgent: bool,
    /// The system was steered.
    pub(super) steered: bool,
}

impl Making {
    /// How long more records may be waited for.
    pub(super) fn left(&self) -> Duration {
        GATHER_FOR.saturating_sub(self.since.elapsed())
    }

    pub(super) fn is_due(&self) -> bool {
        self.count >= BATCH_MAX || self.left().is_zero()
    }
}

impl Scribe {
    /// Begins a batch.
    pub(super) fn begin(&mut self, mark: TailMark) -> Making {
        let facts = self.facts();
        let mut batch = self.batch();
        batch.reserve(BATCH_MAX, LINE_USUAL);
        Making { facts, batch, count: 0, since: Instant::now(), mark, urgent: false, steered: false }
    }

    /// Gathers a portion of records, and notes what follows from them.
    pub(super) fn gather(&mut self, making: &mut Making, records: &Handover, mark: TailMark) {
        // What holds may have changed since the portion before.
        making.facts = self.facts();
        let Making { facts, batch, urgent, steered, .. } = making;
        for (record, written) in records.iter() {
            match record {
                Recorded::Agent { number, now, event, decision } => {
                    let (at, desk) = self.desks.of(*number, || written.chain(), &mut self.chains);
                    batch.add(&mut self.chains, desk, *now, written);
                    self.last = *now;
                    let told = Told { agent: &desk.name, now: *now, event, decision };
                    *urgent |= told.is_urgent();
                    self.rows.agent(&mut desk.rows, self.chains.seq(), &told, facts, &mut batch.out);
                    self.desks.note_unsaved(at);
                }
                Recorded::System { now, event, decision } => {
                    self.system.handle(*now, event);
                    let desk = self.desks.named(SYSTEM, &mut self.chains);
                    batch.add(&mut self.chains, desk, *now, written);
                    self.last = *now;
                    self.rows.system(self.chains.seq(), *now, event, decision, facts, &mut batch.out);
                    (*urgent, *steered) = (true, true);
                }
            }
        }
        self.taken_so_far += records.len() as u64;
        making.count += records.len();
        making.mark = mark;
    }
}
