//! What waits for rows to be made of it: events and decisions.

use std::sync::Arc;

use estop_core::decision::{Decision, Outcome};
use estop_core::event::Event;
use estop_core::system::{SystemDecision, SystemEvent};
use estop_core::time::Now;

/// A record that has its number.
#[derive(Debug)]
pub struct Queued {
    /// Its number in the journal.
    pub seq: u64,
    /// Its number among its agent's.
    pub n: u64,
    /// What it says.
    pub record: Recorded,
}

/// What a record says.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all records are of agents")]
pub enum Recorded {
    /// Of an agent.
    Agent {
        /// Whose.
        agent: Arc<str>,
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
