//! What was decided, and why: one verdict for each guard, each with its evidence.
//!
//! Decisions are written to the journal and compared byte for byte on replay, so everything in them is a
//! whole number, a name or a list in fixed order.

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeStruct};

use crate::breaker::{BreakerFinding, LimitName};
use crate::budget::{BudgetFinding, BudgetWarning};
use crate::chant::Chant;
use crate::health::HealthFinding;
use crate::hours::HoursFinding;
use crate::ids::{Hash64, Name, RequestId};
use crate::loop_detector::LoopFinding;
use crate::policy::Mode;
use crate::rate::RateFinding;
use crate::run::RunFinding;
use crate::safety_gate::GateFinding;
use crate::standing::{Cause, StandingFinding};
use crate::system::GateView;
use crate::watchdog::WatchdogFinding;

/// The guards, in the order they are asked (PO-1). The first that stops is the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// System and channel state: the red button.
    System,
    /// Whether the agent is active, inactive or paused.
    Agent,
    /// The state of its run.
    Run,
    /// Allowed hours.
    Hours,
    /// Rate limit.
    Rate,
    /// Budgets.
    Budget,
    /// Loop score and repetition (LD-1, LD-6 a–c).
    Loop,
    /// Same tool, same failure, other arguments (LD-6 d).
    Churn,
    /// Repetition inside an answer (LD-6 e).
    Chanting,
    /// Circuit breakers.
    Breaker,
    /// The safety gate.
    Gate,
    /// Health.
    Health,
    /// Runaway watchdog.
    Watchdog,
}

impl Guard {
    /// All of them, in order.
    pub const ALL: [Guard; 13] = [
        Guard::System,
        Guard::Agent,
        Guard::Run,
        Guard::Hours,
        Guard::Rate,
        Guard::Budget,
        Guard::Loop,
        Guard::Churn,
        Guard::Chanting,
        Guard::Breaker,
        Guard::Gate,
        Guard::Health,
        Guard::Watchdog,
    ];

    /// Its name in journals, policies and headers.
    pub fn name(self) -> &'static str {
        match self {
            Guard::System => "system",
            Guard::Agent => "agent",
            Guard::Run => "run",
            Guard::Hours => "hours",
            Guard::Rate => "rate",
            Guard::Budget => "budget",
            Guard::Loop => "loop",
            Guard::Churn => "churn",
            Guard::Chanting => "chanting",
            Guard::Breaker => "breaker",
            Guard::Gate => "gate",
            Guard::Health => "health",
            Guard::Watchdog => "watchdog",
        }
    }
}

/// The answer to an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to do.
    pub outcome: Outcome,
    /// What each guard that was asked said.
    pub verdicts: Verdicts,
    /// What the shell must carry out.
    pub effects: Vec<Effect>,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Let it through.
    Allow,
    /// Do not.
    Refuse {
        /// The first guard that stopped it.
        by: Guard,
        /// When trying again could make sense.
        retry: Retry,
    },
    /// Nothing was asked; it is written down.
    Noted,
}

/// When trying again could make sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// Only after a person did something.
    Never,
    /// By itself, after this many milliseconds.
    AfterMs(u64),
}

/// What one guard said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its ruling.
    pub ruling: Ruling,
    /// What it saw.
    pub finding: Finding,
}

/// A guard's ruling, its mode taken into account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// Nothing to say.
    Pass,
    /// Passes, with a word to the agent or a person.
    Warn,
    /// Stop.
    Stop,
    /// Would stop, if it were enforced.
    WouldStop,
    /// Switched off.
    Off,
    /// It has no say in this kind of event.
    Skip,
}

/// What a guard saw. Whole numbers only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Finding {
    /// Nothing worth a number.
    Nothing,
    /// The gate word.
    System(GateView),
    /// Inactive or paused.
    Standing(StandingFinding),
    /// The run's state.
    Run(RunFinding),
    /// The local time.
    Hours(HoursFinding),
    /// Use of the sliding minute.
    Rate(RateFinding),
    /// The tightest account.
    Budget(BudgetFinding),
    /// The score and its parts.
    Loop(LoopFinding),
    /// Failures in a row.
    Churn(crate::repetition::ChurnFinding),
    /// What repeats inside the answer.
    Chanting(Chant),
    /// Limits near or reached.
    Breaker(BreakerFinding),
    /// Activity, intent, vetoes.
    Gate(GateFinding),
    /// Health.
    Health(HealthFinding),
    /// Calls in the sliding minute.
    Watchdog(WatchdogFinding),
}

/// A judgement before the guard's mode is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// How bad it is.
    pub level: Level,
    /// What was seen.
    pub finding: Finding,
}

/// How bad a judgement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Nothing to say.
    Pass,
    /// Worth a word.
    Warn,
    /// Reason to stop.
    Stop,
}

impl Judgement {
    pub(crate) const CLEAR: Judgement = Judgement { level: Level::Pass, finding: Finding::Nothing };

    pub(crate) fn pass(finding: Finding) -> Judgement {
        Judgement { level: Level::Pass, finding }
    }

    pub(crate) fn warn(finding: Finding) -> Judgement {
        Judgement { level: Level::Warn, finding }
    }

    pub(crate) fn stop(finding: Finding) -> Judgement {
        Judgement { level: Level::Stop, finding }
    }

    pub(crate) fn stop_if(stop: bool, finding: Finding) -> Judgement {
        Judgement { level: if stop { Level::Stop } else { Level::Pass }, finding }
    }

    /// The same finding as no more than a pass, for what already runs.
    pub(crate) fn softened(self) -> Judgement {
        Judgement { level: Level::Pass, ..self }
    }

    /// The ruling under a mode.
    pub(crate) fn under(self, mode: Mode) -> Verdict {
        let ruling = match (self.level, mode) {
            (_, Mode::Off) => Ruling::Off,
            (Level::Pass, Mode::Enforce | Mode::Shadow) => Ruling::Pass,
            (Level::Warn, Mode::Enforce | Mode::Shadow) => Ruling::Warn,
            (Level::Stop, Mode::Enforce) => Ruling::Stop,
            (Level::Stop, Mode::Shadow) => Ruling::WouldStop,
        };
        Verdict { ruling, finding: self.finding }
    }
}

/// The verdicts of one pass, in the order of [`Guard`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdicts(Vec<(Guard, Verdict)>);

impl Verdicts {
    pub(crate) fn with_room() -> Verdicts {
        Verdicts(Vec::with_capacity(Guard::ALL.len()))
    }

    /// Adds the next guard's verdict. Guards come in order.
    pub(crate) fn push(&mut self, guard: Guard, verdict: Verdict) {
        debug_assert!(self.0.last().is_none_or(|(last, _)| *last < guard), "guards are asked in order");
        self.0.push((guard, verdict));
    }

    /// Whether no guard was asked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What a guard said, if it was asked.
    pub fn get(&self, guard: Guard) -> Option<&Verdict> {
        self.0.iter().find(|(g, _)| *g == guard).map(|(_, verdict)| verdict)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Guard, &Verdict)> {
        self.0.iter().map(|(guard, verdict)| (*guard, verdict))
    }

    /// The first guard that stops.
    pub fn first_stop(&self) -> Option<Guard> {
        self.0.iter().find(|(_, v)| v.ruling == Ruling::Stop).map(|(guard, _)| *guard)
    }
}

/// What the shell must carry out. The core only says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// End every request and tool of this agent that is under way.
    AbortInFlight,
    /// The agent was switched off by a guard: `active = 0`, `deactivated_by = kill_switch`.
    Deactivated {
        /// Which guard's doing.
        cause: Cause,
    },
    /// The agent was paused by a guard; a person should look.
    Paused {
        /// Which guard's doing.
        cause: Cause,
    },
    /// The entries that made a loop, as evidence.
    LoopEvidence(Vec<MatchedEntry>),
    /// A guard in shadow would have stopped the agent here; reported once until it passes again.
    WouldHaveStopped {
        /// Which guard.
        guard: Guard,
    },
    /// A circuit breaker tripped: ask the agent to sum up.
    RunTripped {
        /// The run; `None` = the implicit one.
        run: Option<Name>,
        /// Which limit.
        limit: LimitName,
    },
    /// The time to sum up is over: a person is needed, and whatever of the run still moves must be ended.
    RunEscalated {
        /// The run; `None` = the implicit one.
        run: Option<Name>,
        /// Which limit.
        limit: LimitName,
        /// A person sits at it: refuse its calls, do not kill its process.
        attended: bool,
    },
    /// A streamed answer must be cut.
    CutStream {
        /// Which.
        request: RequestId,
    },
    /// A share of a budget was reached for the first time in its period.
    BudgetWarned(BudgetWarning),
    /// A reservation outlived its request; it was booked as spent.
    ReservationExpired {
        /// Whose.
        request: RequestId,
    },
    /// Press the red button (watchdog with scope `system`).
    PressButton,
}

/// One remembered request that is part of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MatchedEntry {
    /// How many requests back.
    pub back: u16,
    /// How long ago.
    pub ago_ms: u64,
    /// Its prompt was similar.
    pub prompt: bool,
    /// Its answer was similar.
    pub response: bool,
    /// The calls it brought that were repeated, if any.
    pub call: Option<Hash64>,
}

impl Decision {
    pub(crate) fn noted() -> Decision {
        Decision { outcome: Outcome::Noted, verdicts: Verdicts::default(), effects: Vec::new() }
    }

    /// Whether the shell may go on with what was asked.
    pub fn is_allowed(&self) -> bool {
        !matches!(self.outcome, Outcome::Refuse { .. })
    }

    /// The guard that refused, if one did.
    pub fn refused_by(&self) -> Option<Guard> {
        match self.outcome {
            Outcome::Refuse { by, .. } => Some(by),
            Outcome::Allow | Outcome::Noted => None,
        }
    }

    /// Why, in a sentence. Never empty.
    pub fn reason(&self) -> String {
        match self.outcome {
            Outcome::Allow => "Allowed: no enforced guard objects.".to_owned(),
            Outcome::Noted => "Noted: nothing was asked.".to_owned(),
            Outcome::Refuse { by, .. } => match self.verdicts.get(by) {
                Some(verdict) => verdict.finding.to_string(),
                None => format!("Refused by {}.", by.name()),
            },
        }
    }

    /// What the agent should be told though it may go on.
    pub fn warnings(&self) -> Vec<String> {
        let warned = self.verdicts.iter().filter(|(_, v)| v.ruling == Ruling::Warn);
        warned.map(|(_, v)| v.finding.to_string()).collect()
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Finding::Nothing => f.write_str("Nothing to report."),
            Finding::System(gate) => match gate.state {
                crate::system::SystemState::Starting => f.write_str("estop is still starting: nothing passes yet."),
                crate::system::SystemState::Running => f.write_str("This channel is shut by an operator."),
                crate::system::SystemState::Shutdown => f.write_str("The emergency stop is pressed."),
                crate::system::SystemState::SafeMode => f.write_str("System is in safe mode. LLM is disabled."),
            },
            Finding::Standing(x) => x.fmt(f),
            Finding::Run(x) => x.fmt(f),
            Finding::Hours(x) => x.fmt(f),
            Finding::Rate(x) => x.fmt(f),
            Finding::Budget(x) => x.fmt(f),
            Finding::Loop(x) => x.fmt(f),
            Finding::Churn(x) => x.fmt(f),
            Finding::Chanting(x) => write!(
                f,
                "The answer repeats itself: {} characters, {} times in a row.",
                x.period_chars, x.repeats
            ),
            Finding::Breaker(x) => x.fmt(f),
            Finding::Gate(x) => x.fmt(f),
            Finding::Health(x) => x.fmt(f),
            Finding::Watchdog(x) => x.fmt(f),
        }
    }
}

/// `{"outcome":…,"rulings":"ppp…","seen":{guard: what it saw},"effects":[…]}`, empty parts left out.
///
/// Every record carries one, so it is short: rulings are one letter for each guard in order, and a guard that
/// passes shows its numbers as a bare list. `docs/journal.md` has the key.
impl Serialize for Decision {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut out = s.serialize_struct("Decision", 4)?;
        out.serialize_field("outcome", &self.outcome)?;
        if !self.verdicts.is_empty() {
            let letters = self.verdicts.letters();
            out.serialize_field("rulings", std::str::from_utf8(&letters).unwrap_or_default())?;
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
            letters[*guard as usize] = verdict.ruling.letter();
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
            let name = guard.name();
            match (&verdict.finding, verdict.ruling) {
                (Finding::Nothing, _) => {}
                (finding, Ruling::Pass | Ruling::Skip) => finding.serialize_brief(name, &mut map)?,
                (finding, Ruling::Warn | Ruling::Stop | Ruling::WouldStop | Ruling::Off) => map.serialize_entry(name, finding)?,
            }
        }
        map.end()
    }
}

impl Finding {
    /// What a passing guard saw, without names and without the limits, which the policy has.
    fn serialize_brief<M: SerializeMap>(&self, name: &str, map: &mut M) -> Result<(), M::Error> {
        match self {
            Finding::Nothing => Ok(()),
            Finding::System(x) => map.serialize_entry(name, x),
            Finding::Standing(x) => map.serialize_entry(name, x),
            Finding::Run(x) => map.serialize_entry(name, &x.state),
            Finding::Hours(x) => map.serialize_entry(name, &(x.weekday, x.minute)),
            Finding::Rate(x) => map.serialize_entry(name, &(x.requests, x.tokens)),
            Finding::Budget(x) => map.serialize_entry(name, &(x.account, x.spent, x.reserved, x.asked)),
            Finding::Loop(x) => map.serialize_entry(name, &(x.score, x.prompts, x.responses, x.calls, x.window)),
            Finding::Churn(x) => map.serialize_entry(name, &x.failures),
            Finding::Chanting(x) => map.serialize_entry(name, x),
            Finding::Breaker(x) => {
                let c = &x.counts;
                map.serialize_entry(name, &(c.tool_calls, c.iterations, c.turns, c.active_s))
            }
            Finding::Gate(x) => map.serialize_entry(name, &(x.mode, x.intensity, x.confidence, x.tokens, x.tool_calls)),
            Finding::Health(x) => map.serialize_entry(name, &x.health),
            Finding::Watchdog(x) => map.serialize_entry(name, &x.calls),
        }
    }
}
