//! How a decision is written to the journal.

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeStruct};

use super::{Decision, Finding, Guard, Outcome, Ruling, Verdicts};

/// `{"outcome":…,"rulings":"ppp…","seen":{guard: what it saw},"effects":[…]}`, empty parts left out, and the outcome where
/// nothing was asked. Rulings are one letter for each guard in order: `docs/journal.md` has the key.
impl Serialize for Decision {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut out = s.serialize_struct("Decision", 4)?;
        if self.outcome != Outcome::Noted {
            out.serialize_field("outcome", &self.outcome)?;
        }
        if !self.verdicts.is_empty() {
            out.serialize_field(
                "rulings",
                std::str::from_utf8(&self.verdicts.letters()).unwrap_or_default(),
            )?;
            out.serialize_field("seen", &Seen(&self.verdicts))?;
        }
        if !self.effects.is_empty() {
            out.serialize_field("effects", &self.effects)?;
        }
        out.end()
    }
}

impl Verdicts {
    /// One letter for each guard; `.` = it was not asked.
    fn letters(&self) -> [u8; Guard::ALL.len()] {
        let mut letters = [b'.'; Guard::ALL.len()];
        for (guard, verdict) in &self.0 {
            letters[guard.place()] = verdict.ruling.letter();
        }
        letters
    }
}

impl Ruling {
    fn letter(self) -> u8 {
        match self {
            Ruling::Pass => b'p',
            Ruling::Warn => b'w',
            Ruling::Stop => b'x',
            Ruling::WouldStop => b's',
            Ruling::Off => b'o',
            Ruling::Skip => b'-',
        }
    }
}

struct Seen<'a>(&'a Verdicts);

impl Serialize for Seen<'_> {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        for (guard, verdict) in self.0.iter() {
            match (&verdict.finding, verdict.ruling) {
                (Finding::Nothing, _) => {}
                (finding, Ruling::Pass) if finding.is_usual() => {}
                (finding, _) => map.serialize_entry(guard.name(), finding)?,
            }
        }
        map.end()
    }
}
