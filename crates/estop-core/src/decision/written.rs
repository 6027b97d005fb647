//! How a decision is written to the journal. Every record carries one, so it is short.

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeStruct};

use super::{Decision, Finding, Guard, Outcome, Ruling, Verdicts};
use crate::budget::Fit;
use crate::canonical_json;
use crate::tripwire::health;

/// `{"outcome":…,"rulings":"ppp…","seen":{guard: what it saw},"effects":[…]}`, empty parts left out, and the outcome where
/// nothing was asked: half of all records say nothing else.
///
/// Rulings are one letter for each guard in order, and a guard that
/// passes shows its numbers as a bare list, unless they are as usual. `docs/journal.md` has the key.
impl Serialize for Decision {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.write(s, Usual::LeftOut)
    }
}

/// What becomes of numbers that are as usual: no repetition, no failure, all of its health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Usual {
    LeftOut,
    /// As journals of before have it.
    Shown,
}

/// A decision as it was written before.
struct Before<'a>(&'a Decision);

impl Serialize for Before<'_> {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.0.write(s, Usual::Shown)
    }
}

/// How a decision begins where nothing was asked, in journals of before.
const NOTED_BEFORE: &[u8] = br#"{"outcome":"noted""#;

impl Decision {
    /// Whether it is the one that was recorded, be it as it was written before. `room` is used to write it.
    pub(crate) fn is_recorded(&self, recorded: &[u8], room: &mut Vec<u8>) -> bool {
        room.clear();
        canonical_json::write(room, self);
        if room == recorded {
            return true;
        }
        room.clear();
        canonical_json::write(room, &Before(self));
        if room == recorded {
            return true;
        }
        // Exactly as it was: what follows stands behind a comma, if anything does.
        let comma: &[u8] = if room == b"{}" { b"" } else { b"," };
        let rest = recorded.strip_prefix(NOTED_BEFORE).and_then(|rest| rest.strip_prefix(comma));
        if self.outcome == Outcome::Noted && rest == room.get(1..) {
            return true;
        }
        // What is shown of it is how it is written.
        room.clear();
        canonical_json::write(room, self);
        false
    }

    fn write<S: serde::Serializer>(&self, s: S, usual: Usual) -> Result<S::Ok, S::Error> {
        let mut out = s.serialize_struct("Decision", 4)?;
        if self.outcome != Outcome::Noted {
            out.serialize_field("outcome", &self.outcome)?;
        }
        if !self.verdicts.is_empty() {
            let letters = self.verdicts.letters();
            out.serialize_field(
                "rulings",
                std::str::from_utf8(self.verdicts.shown(&letters)).unwrap_or_default(),
            )?;
            out.serialize_field("seen", &Seen(&self.verdicts, usual))?;
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

    /// The letters that are written: the last one is only there if its guard was asked, which came later than journals.
    fn shown<'l>(&self, letters: &'l [u8; Guard::ALL.len()]) -> &'l [u8] {
        let [usual @ .., last] = letters;
        if *last == b'.' { usual } else { letters }
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

struct Seen<'a>(&'a Verdicts, Usual);

impl Serialize for Seen<'_> {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        for (guard, verdict) in self.0.iter() {
            let name = guard.name();
            match (&verdict.finding, verdict.ruling) {
                (Finding::Nothing, _) => {}
                (finding, Ruling::Pass) if self.1 == Usual::LeftOut && finding.is_usual() => {}
                (finding, Ruling::Pass | Ruling::Skip) => finding.serialize_brief(name, &mut map)?,
                (finding, Ruling::Warn | Ruling::Stop | Ruling::WouldStop | Ruling::Off) => {
                    map.serialize_entry(name, finding)?;
                }
            }
        }
        map.end()
    }
}

impl Finding {
    /// Whether nearly every request has it.
    fn is_usual(&self) -> bool {
        match self {
            Finding::Loop(x) => (x.score, x.prompts, x.responses, x.calls, x.window) == (0, 0, 0, 0, 0),
            Finding::Churn(x) => x.failures == 0,
            Finding::Health(x) => x.health == health::FULL,
            Finding::Nothing
            | Finding::System(_)
            | Finding::Standing(_)
            | Finding::Run(_)
            | Finding::Hours(_)
            | Finding::Models(_)
            | Finding::Rate(_)
            | Finding::Budget(_)
            | Finding::Chanting(_)
            | Finding::Breaker(_)
            | Finding::Gate(_)
            | Finding::Watchdog(_) => false,
        }
    }

    /// What a passing guard saw, without names and without the limits, which the policy has.
    fn serialize_brief<M: SerializeMap>(&self, name: &str, map: &mut M) -> Result<(), M::Error> {
        match self {
            Finding::Nothing => Ok(()),
            Finding::System(x) => map.serialize_entry(name, x),
            Finding::Standing(x) => map.serialize_entry(name, x),
            Finding::Run(x) => map.serialize_entry(name, &x.state),
            Finding::Hours(x) => map.serialize_entry(name, &(x.weekday, x.minute)),
            Finding::Models(x) => map.serialize_entry(name, &x.model),
            Finding::Rate(x) => map.serialize_entry(name, &(x.requests, x.tokens)),
            Finding::Budget(x) if x.fit == Fit::Fits => {
                map.serialize_entry(name, &(x.account, x.spent, x.reserved, x.asked))
            }
            Finding::Budget(x) => {
                map.serialize_entry(name, &(x.account, x.spent, x.reserved, x.asked, x.fit))
            }
            Finding::Loop(x) => {
                map.serialize_entry(name, &(x.score, x.prompts, x.responses, x.calls, x.window))
            }
            Finding::Churn(x) => map.serialize_entry(name, &x.failures),
            Finding::Chanting(x) => map.serialize_entry(name, x),
            Finding::Breaker(x) => {
                let c = &x.counts;
                map.serialize_entry(name, &(c.tool_calls, c.iterations, c.turns, c.active_s))
            }
            Finding::Gate(x) => {
                map.serialize_entry(name, &(x.mode, x.intensity, x.confidence, x.tokens, x.tool_calls))
            }
            Finding::Health(x) => map.serialize_entry(name, &x.health),
            Finding::Watchdog(x) => map.serialize_entry(name, &x.calls),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Effect, Verdict};
    use super::*;
    use crate::loop_detector::LoopFinding;
    use crate::loop_detector::repetition::ChurnFinding;
    use crate::tripwire::health::HealthFinding;

    #[test]
    fn tw_7_of_what_was_written_before_only_the_very_spelling_is_taken() {
        let mut room = Vec::new();
        let noted = Decision::plain(Outcome::Noted);
        let with_effect = Decision { effects: vec![Effect::AbortInFlight], ..noted.clone() };
        let mut is =
            |decision: &Decision, recorded: &str| decision.is_recorded(recorded.as_bytes(), &mut room);
        assert!(is(&noted, "{}") && is(&noted, r#"{"outcome":"noted"}"#));
        let effects = r#""effects":["abort_in_flight"]}"#;
        assert!(is(&with_effect, &format!("{{{effects}")));
        assert!(is(&with_effect, &format!(r#"{{"outcome":"noted",{effects}"#)));
        for wrong in [
            "",
            "{",
            "{ }",
            r#"{"outcome":"noted""#,
            r#"{"outcome":"noted",}"#,
            r#"{"outcome":"noted",,}"#,
            r#"{"outcome":"noted","effects":[]}"#,
            r#"{"outcome":"noted""effects":["abort_in_flight"]}"#,
            r#"{"outcome":"allow"}"#,
        ] {
            assert!(!is(&noted, wrong) && !is(&with_effect, wrong), "{wrong}");
        }
        assert!(!is(&Decision::plain(Outcome::Allow), r#"{"outcome":"noted"}"#));
        assert!(is(&Decision::plain(Outcome::Allow), r#"{"outcome":"allow"}"#));
    }

    #[test]
    fn tw_7_what_is_as_usual_is_left_out_and_taken_where_it_stands() {
        let decided = |health: u16| {
            let mut decision = Decision::plain(Outcome::Allow);
            let findings = [
                (Guard::Loop, Finding::Loop(LoopFinding::default())),
                (Guard::Churn, Finding::Churn(ChurnFinding { failures: 0, max: 5 })),
                (
                    Guard::Health,
                    Finding::Health(HealthFinding {
                        health,
                        suspend_below: 600,
                        stop_below: 300,
                        losses: Default::default(),
                    }),
                ),
            ];
            for (guard, finding) in findings {
                decision.verdicts.push(guard, Verdict { ruling: Ruling::Pass, finding });
            }
            decision
        };
        let shown =
            |seen: &str| format!(r#"{{"outcome":"allow","rulings":"......pp...p.","seen":{{{seen}}}}}"#);
        let before = |health: u16| shown(&format!(r#""loop":[0,0,0,0,0],"churn":0,"health":{health}"#));
        let mut room = Vec::new();
        let mut is = |decision: &Decision, text: &str| decision.is_recorded(text.as_bytes(), &mut room);
        let (well, ill) = (decided(1000), decided(999));
        assert_eq!(serde_json::to_string(&well).ok(), Some(shown("")));
        assert!(is(&well, &shown("")) && is(&well, &before(1000)));
        assert!(is(&ill, &shown(r#""health":999"#)) && is(&ill, &before(999)));
        // No mixture of both was ever written.
        for wrong in [shown(r#""churn":0"#), shown(r#""health":1000"#), before(999), shown(r#""health":999"#)]
        {
            assert!(!is(&well, &wrong), "{wrong}");
        }
        assert!(!is(&ill, &shown("")) && !is(&ill, &before(1000)));
    }
}
