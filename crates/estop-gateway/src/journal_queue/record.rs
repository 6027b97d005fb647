//! What waits to be written: events and decisions as the writer of rows wants them, and their lines in one piece.
//!
//! Whatever a thread allocates and another one frees comes back cold. So a record holds little, and its bytes stand
//! behind those of the one before.

use std::sync::Arc;

use estop_core::decision::{Decision, Outcome};
use estop_core::event::Event;
use estop_core::journal::{Spans, Written};
use estop_core::system::{SystemDecision, SystemEvent};
use estop_core::time::Now;

use super::WAITING_MAX;

/// Bytes of lines whose room is kept from batch to batch: that of a burst is given back.
const ROOM_MAX: usize = 8 << 20;

/// One thing to write down. Its bytes stand in the batch's lines.
#[derive(Debug)]
pub enum Recorded {
    /// Of an agent.
    Agent {
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
    /// Where the line of each stands.
    places: Vec<Place>,
    lines: Vec<u8>,
}

/// Where a record's line stands among the lines.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: usize,
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
        let line = |place: &Place| self.lines.get(place.at..place.at + place.length).unwrap_or_default();
        let written = move |place| Written::at(line(place), place.spans);
        self.records.iter().zip(self.places.iter().map(written))
    }

    /// The records alone; none is left.
    pub fn drain(&mut self) -> impl Iterator<Item = Recorded> {
        self.lines.clear();
        self.places.clear();
        self.records.drain(..)
    }

    /// None is left.
    pub fn clear(&mut self) {
        self.records.clear();
        self.places.clear();
        self.lines.clear();
        self.lines.shrink_to(ROOM_MAX);
        self.records.shrink_to(WAITING_MAX);
        self.places.shrink_to(WAITING_MAX);
    }

    #[inline(always)]
    pub(super) fn push(&mut self, record: Recorded, line: &[u8], spans: Spans) {
        self.places.push(Place { at: self.lines.len(), length: line.len(), spans });
        self.lines.extend_from_slice(line);
        self.records.push(record);
    }
}
