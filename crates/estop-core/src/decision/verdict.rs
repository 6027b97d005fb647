//! What one guard said: its judgement, its ruling under the policy's mode, and what it saw.

use serde::Serialize;

use crate::agent::standing::StandingFinding;
use crate::budget::BudgetFinding;
use crate::guard::Guard;
use crate::guards::breaker::BreakerFinding;
use crate::guards::hours::HoursFinding;
use crate::guards::models::ModelsFinding;
use crate::guards::rate::RateFinding;
use crate::guards::watchdog::WatchdogFinding;
use crate::judgement::{Judgement, Level};
use crate::loop_detector::LoopFinding;
use crate::loop_detector::chant::Chant;
use crate::loop_detector::repetition::ChurnFinding;
use crate::policy::Mode;
use crate::run::RunFinding;
use crate::system::{GateView, SystemState};
use crate::tripwire::health::HealthFinding;
use crate::tripwire::safety_gate::GateFinding;

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
    /// The model that was asked.
    Models(ModelsFinding),
    /// Use of the sliding minute.
    Rate(RateFinding),
    /// The tightest account.
    Budget(BudgetFinding),
    /// The score and its parts.
    Loop(LoopFinding),
    /// Failures in a row.
    Churn(ChurnFinding),
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

impl Verdict {
    /// A judgement under a mode.
    pub(crate) fn under<T>(judgement: Judgement<T>, mode: Mode) -> Verdict
    where
        Finding: From<T>,
    {
        let ruling = match (judgement.level, mode) {
            (_, Mode::Off) => Ruling::Off,
            (Level::Pass, Mode::Enforce | Mode::Shadow) => Ruling::Pass,
            (Level::Warn, Mode::Enforce | Mode::Shadow) => Ruling::Warn,
            (Level::Stop, Mode::Enforce) => Ruling::Stop,
            (Level::Stop, Mode::Shadow) => Ruling::WouldStop,
        };
        Verdict { ruling, finding: judgement.seen.into() }
    }
}

impl Verdict {
    /// What the agent should be told though it may go on: limits that are near, also where reaching them stops nobody.
    pub fn warning(&self) -> Option<String> {
        match (self.ruling, &self.finding) {
            (Ruling::Warn, Finding::Loop(LoopFinding { stretch: Some(stretch), .. })) => {
                Some(stretch.nudge_text())
            }
            (Ruling::Warn, finding) => Some(finding.to_string()),
            (Ruling::WouldStop, Finding::Breaker(finding)) => Some(finding.shadow_warning()),
            (Ruling::Pass | Ruling::Stop | Ruling::WouldStop | Ruling::Off | Ruling::Skip, _) => None,
        }
    }
}

macro_rules! finding_from {
    ($($seen:ident => $finding:ident),* $(,)?) => {
        $(impl From<$seen> for Finding {
            fn from(seen: $seen) -> Finding {
                Finding::$finding(seen)
            }
        })*
    };
}

finding_from! {
    GateView => System,
    StandingFinding => Standing,
    RunFinding => Run,
    HoursFinding => Hours,
    ModelsFinding => Models,
    RateFinding => Rate,
    BudgetFinding => Budget,
    LoopFinding => Loop,
    ChurnFinding => Churn,
    Chant => Chanting,
    BreakerFinding => Breaker,
    GateFinding => Gate,
    HealthFinding => Health,
    WatchdogFinding => Watchdog,
}

impl<T> From<Option<T>> for Finding
where
    Finding: From<T>,
{
    fn from(seen: Option<T>) -> Finding {
        seen.map_or(Finding::Nothing, Finding::from)
    }
}

/// The verdicts of one pass, in the order of [`Guard`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdicts(pub(super) Vec<(Guard, Verdict)>);

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

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Finding::Nothing => f.write_str("Nothing to report."),
            Finding::System(gate) => match gate.state {
                SystemState::Starting => f.write_str("estop is still starting: nothing passes yet."),
                SystemState::Running => f.write_str("This channel is shut."),
                SystemState::Shutdown => f.write_str("The emergency stop is pressed."),
                SystemState::SafeMode => f.write_str("System is in safe mode. LLM is disabled."),
            },
            Finding::Standing(x) => x.fmt(f),
            Finding::Run(x) => x.fmt(f),
            Finding::Hours(x) => x.fmt(f),
            Finding::Models(x) => x.fmt(f),
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
