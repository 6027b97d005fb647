//! The red button as people and devices press it: who, why and from where (KS-4), and how it stands since.
//!
//! The rules are [`crate::system`]'s. What is here is what a person wants to know at three in the morning, and what a
//! restart must find on the disk.

use serde::{Deserialize, Serialize};

use crate::ids::Name;
use crate::system::{
    Channels, GateView, KillReason, SystemDecision, SystemEvent, SystemOutcome, SystemState,
};

/// Longest note and longest metadata that are kept. Chosen: a paragraph, and a small JSON object; the latch has one page
/// for all of it.
pub const NOTE_MAX: usize = 500;
/// See [`NOTE_MAX`].
pub const METADATA_MAX: usize = 1_000;

/// The button, pressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Press {
    /// What to shut; all channels = the whole system.
    pub channels: Channels,
    /// Why.
    pub reason: KillReason,
    /// Who or what pressed it.
    pub by: Name,
    /// From where: `api`, `cli`, `signal`, `gpio`, …
    pub source: Name,
    /// In someone's words.
    pub note: Option<Name>,
    /// What else came with it, as JSON.
    pub metadata: Option<Name>,
}

impl Press {
    /// The whole system.
    pub fn new(reason: KillReason, by: &str, source: &str) -> Press {
        Press {
            channels: Channels::ALL,
            reason,
            by: by.into(),
            source: source.into(),
            note: None,
            metadata: None,
        }
    }

    /// What happens to the system.
    pub fn event(self) -> SystemEvent {
        let Press { channels, reason, by, source, note, metadata } = self;
        // Too much to keep is no reason not to stop: a text is cut short, JSON cut short is none.
        let note = note.map(shortened);
        let metadata = metadata.filter(|metadata| metadata.len() <= METADATA_MAX);
        SystemEvent::KillRequested { channels, reason, by, source, note, metadata }
    }
}

fn shortened(note: Name) -> Name {
    if note.len() <= NOTE_MAX { note } else { note[..note.floor_char_boundary(NOTE_MAX)].into() }
}

/// A step towards running again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlock {
    /// Who.
    pub by: Name,
    /// The epoch the person saw.
    pub epoch: u64,
    /// Why, in someone's words.
    pub note: Option<Name>,
}

impl Unlock {
    /// With no more of a note than is kept.
    #[must_use]
    pub fn shortened(self) -> Unlock {
        Unlock { note: self.note.map(shortened), ..self }
    }
}

/// How the button stands, and who brought it about. This is what the latch file keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latched {
    /// State, epoch and channels that are shut.
    pub gate: GateView,
    /// Why it was pressed; gone once it is cleared.
    pub reason: Option<KillReason>,
    /// In someone's words.
    pub note: Option<String>,
    /// Who.
    pub by: Name,
    /// From where.
    pub source: Name,
    /// Since when, by the wall clock.
    pub since: i64,
    /// What else came with it, as JSON.
    pub metadata: Option<String>,
}

impl Latched {
    /// As a start found or made it.
    pub fn at_start(gate: GateView, wall: i64) -> Latched {
        let (by, source) = ("estop".into(), "start".into());
        Latched { gate, reason: None, note: None, by, source, since: wall, metadata: None }
    }

    /// How it stands after an event; the same if that event changes nothing.
    #[must_use]
    pub fn after(self, event: &SystemEvent, decision: &SystemDecision, wall: i64) -> Latched {
        let gate = decision.gate;
        match (decision.outcome, event) {
            // Who pressed the whole button is not forgotten for a channel more.
            (SystemOutcome::Applied, SystemEvent::KillRequested { channels, .. })
                if self.gate.state == SystemState::Shutdown && *channels != Channels::ALL =>
            {
                Latched { gate, ..self }
            }
            (
                SystemOutcome::Applied,
                SystemEvent::KillRequested { reason, by, source, note, metadata, .. },
            ) => Latched {
                gate,
                reason: Some(*reason),
                note: note.as_deref().map(str::to_owned),
                by: by.clone(),
                source: source.clone(),
                since: wall,
                metadata: metadata.as_deref().map(str::to_owned),
            },
            (SystemOutcome::Applied, SystemEvent::ClearRequested { by, note, .. }) => Latched {
                gate,
                reason: None,
                note: note.as_deref().map(str::to_owned),
                by: by.clone(),
                source: "unlock".into(),
                since: wall,
                metadata: None,
            },
            // A second kill changes nothing but the epoch: whoever clears must have seen it. And who pressed, and why, is what
            // somebody must know who decides to clear: a restart changes nothing of it.
            _ => Latched { gate, ..self },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::System;
    use crate::time::Now;

    fn happen(system: &mut System, latched: Latched, wall: i64, event: &SystemEvent) -> Latched {
        let decision = system.handle(Now { wall, ..Now::default() }, event);
        latched.after(event, &decision, wall)
    }

    #[test]
    fn ks_4_who_and_why_are_kept_until_it_is_cleared() {
        let mut system = System::default();
        let gate = system.handle(Now::default(), &SystemEvent::Started { found: None }).gate;
        let press = Press {
            note: Some("it deletes mail".into()),
            metadata: Some(r#"{"ticket":7}"#.into()),
            ..Press::new(KillReason::SecurityIncident, "ann", "api")
        };
        let killed = happen(&mut system, Latched::at_start(gate, 1), 2, &press.event());
        assert_eq!(killed.reason, Some(KillReason::SecurityIncident));
        assert_eq!((killed.note.as_deref(), killed.since), (Some("it deletes mail"), 2));

        let again = Press::new(KillReason::Manual, "bob", "signal").event();
        let again = happen(&mut system, killed.clone(), 3, &again);
        assert_eq!(again, Latched { gate: again.gate, ..killed.clone() }, "the first to press is named");
        assert!(again.gate.epoch > killed.gate.epoch);

        let epoch = again.gate.epoch;
        let restart = SystemEvent::RestartRequested { by: "ann".into(), epoch, note: None };
        let safe = happen(&mut system, again, 4, &restart);
        assert_eq!(
            safe,
            Latched { gate: safe.gate, ..killed.clone() },
            "who decides to clear knows who pressed"
        );
        assert_eq!(safe.gate.state, SystemState::SafeMode);
        let stale = SystemEvent::ClearRequested { by: "eve".into(), epoch, note: None };
        let still = happen(&mut system, safe.clone(), 5, &stale);
        assert_eq!(still, safe);
        let clear = SystemEvent::ClearRequested { by: "ann".into(), epoch: safe.gate.epoch, note: None };
        let clear = happen(&mut system, still, 6, &clear);
        assert_eq!((clear.gate.state, clear.reason, clear.metadata), (SystemState::Running, None, None));
    }

    #[test]
    fn ks_4_too_long_a_note_is_cut_and_does_not_stop_a_kill() {
        let long = "ä".repeat(NOTE_MAX);
        let press = Press {
            note: Some(long.as_str().into()),
            metadata: Some(format!("\"{long}\"").into()),
            ..Press::new(KillReason::Manual, "ann", "api")
        };
        let SystemEvent::KillRequested { note, metadata, .. } = press.event() else { unreachable!() };
        assert_eq!(note.map(|note| note.len()), Some(NOTE_MAX));
        assert_eq!(metadata, None);
    }
}
