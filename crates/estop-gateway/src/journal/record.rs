//! What waits to be written: events and decisions as the writer of rows wants them, and their lines.
//!
//! Whatever a thread allocates and another one frees comes back cold. So a record holds little, and its bytes stand
//! behind those of the one before.

use std::num::NonZeroU64;
use std::sync::Arc;

use estop_core::decision::{Decision, Outcome};
use estop_core::event::Event;
use estop_core::journal::{Spans, Written};
use estop_core::system::{SystemDecision, SystemEvent};
use estop_core::time::Now;

use super::WAITING_MAX;

/// Bytes of lines whose room is kept from batch to batch: that of a burst is given back.
const ROOM_MAX: usize = 8 << 20;
/// Pieces whose room is kept.
const PIECES_MAX: usize = 4_096;

/// One thing to write down. Its bytes stand in the batch's lines.
#[derive(Debug)]
pub enum Recorded {
    /// Of an agent.
    Agent {
        /// Whose: no other agent of this process has this number.
        number: NonZeroU64,
        /// When.
        now: Now,
        /// What happened.
        event: Event,
        /// What was decided.
        decision: Decided,
    },
    /// Of the system.
    System {
        /// When.
        now: Now,
        /// What happened.
        event: SystemEvent,
        /// What was decided.
        decision: SystemDecision,
    },
}

impl Recorded {
    /// Somebody was stopped, or the system was steered.
    pub(super) fn is_urgent(&self) -> bool {
        match self {
            Recorded::Agent { decision, .. } => decision.deactivated().is_some(),
            Recorded::System { .. } => true,
        }
    }
}

/// What was decided of an agent. Mostly nothing came of it, and whoever derives rows from it needs no more than the
/// outcome: the whole, with what every guard saw, stays with the thread that judged, and in the line.
#[derive(Debug)]
pub enum Decided {
    /// Let through, and nothing came of it.
    Allowed,
    /// Noted, and nothing came of it.
    Noted,
    /// Anything else.
    Whole(Arc<Decision>),
}

static ALLOWED: Decision = Decision::plain(Outcome::Allow);
static NOTED: Decision = Decision::plain(Outcome::Noted);

impl From<&Arc<Decision>> for Decided {
    fn from(decision: &Arc<Decision>) -> Decided {
        match decision.outcome {
            Outcome::Allow if decision.effects.is_empty() => Decided::Allowed,
            Outcome::Noted if decision.effects.is_empty() => Decided::Noted,
            Outcome::Allow | Outcome::Noted | Outcome::Refuse { .. } => Decided::Whole(Arc::clone(decision)),
        }
    }
}

impl std::ops::Deref for Decided {
    type Target = Decision;

    fn deref(&self) -> &Decision {
        match self {
            Decided::Allowed => &ALLOWED,
            Decided::Noted => &NOTED,
            Decided::Whole(decision) => decision,
        }
    }
}

/// Records that were taken, in their order, with their lines.
#[derive(Debug, Default)]
pub struct Handover {
    records: Vec<Recorded>,
    /// The line of each.
    places: Vec<Place>,
    /// The lines, one behind the other, in the pieces in which they went to the tail. None stands in two.
    pieces: Vec<Vec<u8>>,
    /// Room for more pieces.
    spare: Vec<Vec<u8>>,
}

/// A record's line: it stands behind the one before.
#[derive(Clone, Copy, Debug)]
struct Place {
    length: usize,
    spans: Spans,
}

impl Handover {
    /// How many.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Each with its bytes.
    pub fn iter(&self) -> impl Iterator<Item = (&Recorded, Written<'_>)> {
        let mut pieces = self.pieces.iter();
        let mut rest: &[u8] = &[];
        let written = move |place: &Place| {
            if rest.is_empty() {
                rest = pieces.next().map_or(&[], Vec::as_slice);
            }
            let (line, after) = rest.split_at_checked(place.length).unwrap_or_default();
            debug_assert_eq!(line.len(), place.length, "each record has its line");
            rest = after;
            Written::at(line, place.spans)
        };
        self.records.iter().zip(self.places.iter().map(written))
    }

    /// The records alone; none is left.
    pub fn drain(&mut self) -> impl Iterator<Item = Recorded> {
        self.pieces.clear();
        self.places.clear();
        self.records.drain(..)
    }

    /// None is left.
    pub fn clear(&mut self) {
        self.records.clear();
        self.places.clear();
        self.records.shrink_to(WAITING_MAX);
        self.places.shrink_to(WAITING_MAX);
        let mut room: usize = self.spare.iter().map(Vec::capacity).sum();
        for mut piece in self.pieces.drain(..) {
            if room + piece.capacity() <= ROOM_MAX && self.spare.len() < PIECES_MAX {
                room += piece.capacity();
                piece.clear();
                self.spare.push(piece);
            }
        }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, record: Recorded, length: usize, spans: Spans) {
        self.places.push(Place { length, spans });
        self.records.push(record);
    }

    /// Adds the lines of records that were pushed, in their order, and leaves room for the next.
    pub(super) fn add_lines(&mut self, lines: &mut Vec<u8>) {
        if !lines.is_empty() {
            let room = self.spare.pop().unwrap_or_default();
            self.pieces.push(std::mem::replace(lines, room));
        }
    }
}
