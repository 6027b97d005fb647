//! The guards that fit into a file each, and what all of them can see. Which guards there are, and in which order they are asked,
//! says [`crate::guard`]; the loop detector and the tripwire have folders of their own.

pub mod breaker;
pub(crate) mod budget;
pub mod hours;
pub mod models;
pub mod rate;
pub mod watchdog;

use std::fmt;

use serde::Serialize;

use crate::agent::standing::StandingFinding;
use crate::budget::BudgetFinding;
use crate::loop_detector::LoopFinding;
use crate::loop_detector::chant::Chant;
use crate::loop_detector::repetition::ChurnFinding;
use crate::run::RunFinding;
use crate::system::{GateView, SystemState};
use crate::tripwire::health::{self, HealthFinding};
use crate::tripwire::safety_gate::SafetyGateFinding;
use breaker::BreakerFinding;
use hours::HoursFinding;
use models::ModelsFinding;
use rate::RateFinding;
use watchdog::WatchdogFinding;

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
    Gate(SafetyGateFinding),
    /// Health.
    Health(HealthFinding),
    /// Calls in the sliding minute.
    Watchdog(WatchdogFinding),
}

impl Finding {
    /// Whether nearly every request has it: no repetition, no failure, full health. A guard that passes leaves it out of the
    /// journal.
    pub(crate) fn is_usual(&self) -> bool {
        if let Finding::Loop(x) = self {
            return (x.score, x.prompts, x.responses, x.calls, x.window) == (0, 0, 0, 0, 0);
        }
        matches!(self, Finding::Churn(ChurnFinding { failures: 0, .. }))
            || matches!(self, Finding::Health(x) if x.health == health::FULL)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
    SafetyGateFinding => Gate,
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
