//! What every agent asked in the last hours, read from the journal as it grows: for charts.
//!
//! Nothing is written for it. It is in memory and bounded, it is read on when somebody looks, and it says since when it
//! knows.

use std::borrow::Cow;
use std::collections::BTreeMap;

use estop_core::guard::Guard;
use estop_core::ids::Name;
use estop_core::tripwire::activity::ActivityMode;
use estop_core::tripwire::health;
use estop_store::{Store, StoreError};
use jiff::Timestamp;
use serde::Deserialize;

/// Slots of the short view: an hour by minutes.
pub(crate) const MINUTES: usize = 60;
/// Slots of the long view: six hours, five minutes each.
pub(crate) const FIVES: usize = 72;
const MINUTE_MS: i64 = 60_000;
const FIVE_MS: i64 = 5 * MINUTE_MS;
const LONGEST_MS: i64 = FIVE_MS * FIVES as i64;
/// Records read at one look. At double, the first page after a start takes 40 ms longer; at half, a busy fleet knows half as
/// much of what was before.
const READ_MAX: u64 = 10_000;
/// Agents counted at once, about a kilobyte each. Further ones have no chart until others have been quiet for six hours.
const AGENTS_MAX: usize = 10_000;

/// What happened in one slot of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) passed: u16,
    pub(crate) refused: u16,
    /// The lowest health a request found, in thousandths, if it found one.
    pub(crate) health: Option<u16>,
    /// The most alarming mode a request found.
    pub(crate) mode: ActivityMode,
}

/// Both views of one agent, the oldest slot first.
pub(crate) struct AgentActivity {
    pub(crate) minutes: [Slot; MINUTES],
    pub(crate) fives: [Slot; FIVES],
}

/// The last hours of all agents.
#[derive(Default)]
pub(crate) struct RecentActivity {
    read_to: u64,
    /// Nothing older was read; `None` = there was nothing older.
    since: Option<i64>,
    agents: BTreeMap<Name, Rings>,
}

impl RecentActivity {
    /// Reads what was written since the last look, or the newest of it.
    pub(crate) fn read_on(&mut self, store: &dyn Store, now: i64) -> Result<(), StoreError> {
        let last = store.last_seq()?;
        let from = (self.read_to + 1).max(last.saturating_sub(READ_MAX - 1));
        if last < self.read_to || from > self.read_to + 1 {
            *self = RecentActivity::default();
        }
        store.blocks(from, last, &mut |lines| {
            self.take(lines, now);
            true
        })?;
        self.agents.retain(|_, rings| rings.fives.newest >= now.div_euclid(FIVE_MS) - FIVES as i64);
        Ok(())
    }

    fn take(&mut self, lines: &[u8], now: i64) {
        let text = str::from_utf8(lines).unwrap_or_default();
        let read = |line: &str| serde_json::from_str::<Head>(line).ok();
        let (Some(first), Some(last)) =
            (text.lines().next().and_then(read), text.lines().next_back().and_then(read))
        else {
            return;
        };
        if self.read_to == 0 && first.seq > 1 {
            self.since = Some(first.at.as_millisecond());
        }
        // One by one: a look that fails goes on here the next time.
        self.read_to = last.seq;
        if last.at.as_millisecond() < now - LONGEST_MS {
            return;
        }
        for line in text.lines().filter(|line| line.contains(DECIDES)) {
            // The system's records decide other things, and are no requests.
            if let Ok(line) = serde_json::from_str::<Line<'_>>(line) {
                self.count(&line);
            }
        }
    }

    fn count(&mut self, line: &Line<'_>) {
        let refused = match line.decision.outcome {
            Outcome::Allow => false,
            Outcome::Refuse { .. } => true,
            Outcome::Noted => return,
        };
        let is_judged = !line.decision.outcome.is_turned_away();
        let (chain, wall): (&str, i64) = (&line.agent, line.at.as_millisecond());
        if !self.agents.contains_key(chain) {
            if self.agents.len() >= AGENTS_MAX {
                return;
            }
            self.agents.insert(chain.into(), Rings::default());
        }
        if let Some(rings) = self.agents.get_mut(chain) {
            let gate = &line.decision.seen.gate;
            let one = Slot {
                passed: u16::from(!refused),
                refused: u16::from(refused),
                health: line.decision.health().filter(|_| is_judged),
                mode: gate.as_ref().filter(|_| is_judged).map(|seen| seen.mode).unwrap_or_default(),
            };
            rings.minutes.add(wall.div_euclid(MINUTE_MS), one);
            rings.fives.add(wall.div_euclid(FIVE_MS), one);
        }
    }

    /// What is known of an agent; all quiet if it asked nothing.
    pub(crate) fn of(&self, agent: &str, now: i64) -> AgentActivity {
        let quiet = Rings::default();
        let rings = self.agents.get(agent).unwrap_or(&quiet);
        AgentActivity {
            minutes: rings.minutes.last(now.div_euclid(MINUTE_MS)),
            fives: rings.fives.last(now.div_euclid(FIVE_MS)),
        }
    }

    /// When that lies within the view: since when it is known.
    pub(crate) fn since(&self, now: i64, view_ms: i64) -> Option<i64> {
        self.since.filter(|since| *since > now - view_ms)
    }
}

/// Half of all lines only note something, answers above all, and have no outcome.
const DECIDES: &str = r#""decision":{"outcome""#;

struct Rings {
    minutes: Ring<MINUTES>,
    fives: Ring<FIVES>,
}

impl Default for Rings {
    fn default() -> Rings {
        Rings { minutes: Ring::empty(), fives: Ring::empty() }
    }
}

/// The newest slots, each at its number modulo `N`.
struct Ring<const N: usize> {
    newest: i64,
    slots: [Slot; N],
}

impl<const N: usize> Ring<N> {
    fn empty() -> Ring<N> {
        Ring { newest: i64::MIN / 2, slots: [Slot::default(); N] }
    }

    fn at(&mut self, number: i64) -> Option<&mut Slot> {
        self.slots.get_mut(usize::try_from(number.rem_euclid(N as i64)).ok()?)
    }

    fn add(&mut self, number: i64, one: Slot) {
        if number <= self.newest - N as i64 {
            return;
        }
        for between in (number - N as i64 + 1).max(self.newest + 1)..=number {
            if let Some(slot) = self.at(between) {
                *slot = Slot::default();
            }
        }
        self.newest = self.newest.max(number);
        if let Some(slot) = self.at(number) {
            slot.passed = slot.passed.saturating_add(one.passed);
            slot.refused = slot.refused.saturating_add(one.refused);
            slot.health = match (slot.health, one.health) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            if alarm(one.mode) > alarm(slot.mode) {
                slot.mode = one.mode;
            }
        }
    }

    /// The slots up to this one, the oldest first.
    fn last(&self, number: i64) -> [Slot; N] {
        std::array::from_fn(|place| {
            let wanted = number - N as i64 + 1 + place as i64;
            let known = wanted <= self.newest && wanted > self.newest - N as i64;
            let slot = usize::try_from(wanted.rem_euclid(N as i64)).ok().and_then(|at| self.slots.get(at));
            slot.filter(|_| known).copied().unwrap_or_default()
        })
    }
}

fn alarm(mode: ActivityMode) -> u8 {
    match mode {
        ActivityMode::Idle => 0,
        ActivityMode::Working => 1,
        ActivityMode::Looping => 2,
        ActivityMode::Runaway => 3,
    }
}

/// What is read of a journal's line.
#[derive(Deserialize)]
struct Line<'l> {
    #[serde(borrow)]
    agent: Cow<'l, str>,
    at: Timestamp,
    #[serde(borrow)]
    decision: Decided<'l>,
}

/// The part that all lines have.
#[derive(Deserialize)]
struct Head {
    seq: u64,
    at: Timestamp,
}

#[derive(Deserialize)]
struct Decided<'l> {
    #[serde(borrow, default)]
    outcome: Outcome<'l>,
    #[serde(borrow, default)]
    rulings: Cow<'l, str>,
    #[serde(default)]
    seen: Seen,
}

impl Decided<'_> {
    /// All of its health is left out where the guard passes.
    fn health(&self) -> Option<u16> {
        let passes = self.rulings.as_bytes().get(Guard::Health.place()) == Some(&b'p');
        self.seen.health.as_ref().map(|seen| seen.health).or(passes.then_some(health::FULL))
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome<'l> {
    Allow,
    /// Left out, since it is what most records say.
    #[default]
    Noted,
    Refuse {
        #[serde(borrow)]
        by: Cow<'l, str>,
    },
}

impl Outcome<'_> {
    /// Whether it was refused before anybody asked how the agent behaves: its health and mode stay as they were.
    fn is_turned_away(&self) -> bool {
        match self {
            Outcome::Allow | Outcome::Noted => false,
            Outcome::Refuse { by } => {
                ["system", "agent", "run", "hours", "models", "rate", "budget"].contains(&&**by)
            }
        }
    }
}

#[derive(Default, Deserialize)]
struct Seen {
    gate: Option<GateSeen>,
    health: Option<HealthSeen>,
}

#[derive(Deserialize)]
struct GateSeen {
    mode: ActivityMode,
}

#[derive(Deserialize)]
struct HealthSeen {
    health: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(health: u16) -> Slot {
        Slot { passed: 1, refused: 0, health: Some(health), mode: ActivityMode::Working }
    }

    #[test]
    fn ui_1_a_ring_forgets_what_is_older_than_its_view() {
        let mut ring = Ring::<3>::empty();
        for (number, health) in [(10, 900), (10, 800), (12, 700), (9, 1), (13, 600)] {
            ring.add(number, one(health));
        }
        let passed: Vec<u16> = ring.last(13).iter().map(|slot| slot.passed).collect();
        assert_eq!(passed, [0, 1, 1], "11 was quiet, 10 is too old");
        assert_eq!(ring.last(12).map(|slot| slot.passed), [0, 0, 1], "nothing is taken for what it is not");
        assert_eq!(ring.last(15).map(|slot| slot.health), [Some(600), None, None]);
        assert_eq!(ring.last(99), [Slot::default(); 3]);
    }

    #[test]
    fn ui_1_lines_are_read_as_the_journal_writes_them() {
        let line = |seq: u64, agent: &str, rest: &str| {
            format!(
                r#"{{"seq":{seq},"n":1,"agent":"{agent}","at":"1970-01-01T00:01:00.00{seq}Z","mono":0,{rest},"crc":""}}"#
            )
        };
        let of_a = |seq, decision: &str| line(seq, "a", &format!(r#""event":{{"type":"tick"}}{decision}"#));
        let lines = [
            line(1, "system", r#""system":{"type":"x"},"decision":{"outcome":"applied"}"#),
            of_a(
                2,
                r#","decision":{"outcome":"allow","rulings":"p","seen":{"gate":{"mode":"WORKING"},"health":{"health":1000}}}"#,
            ),
            of_a(3, ""),
            of_a(
                4,
                r#","decision":{"outcome":{"refuse":{"by":"gate","retry":"never"}},"seen":{"gate":{"mode":"LOOPING","intensity":"HIGH"},"health":{"health":250,"suspend_below":600}}}"#,
            ),
            of_a(
                5,
                r#","decision":{"outcome":{"refuse":{"by":"agent","retry":"never"}},"seen":{"gate":{"mode":"RUNAWAY"},"health":{"health":1}}}"#,
            ),
        ];
        let lines = lines.join("\n");
        let mut hours = RecentActivity::default();
        hours.take(lines.as_bytes(), 60_100);
        let last = Slot { passed: 1, refused: 2, health: Some(250), mode: ActivityMode::Looping };
        assert_eq!(hours.of("a", 60_100).minutes.last(), Some(&last));
        assert_eq!(hours.of("a", 60_100).fives.last(), Some(&last));
        // What is as usual is left out, and none was told where nobody was asked.
        for (rulings, health) in [("ppppppp-pppppp", Some(1000)), ("ppppppp-ppppop", None), ("", None)] {
            let seen = r#"{"gate":{"mode":"WORKING"}}"#;
            let decided = format!(r#"{{"outcome":"allow","rulings":"{rulings}","seen":{seen}}}"#);
            assert_eq!(serde_json::from_str::<Decided<'_>>(&decided).expect("a decision").health(), health);
        }
        assert_eq!((hours.agents.len(), hours.since(60_100, LONGEST_MS)), (1, None));
    }
}
