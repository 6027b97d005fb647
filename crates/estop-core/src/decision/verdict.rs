//! What one guard said: its judgement under the policy's mode, and what it saw.

use serde::Serialize;

use crate::guard::Guard;
use crate::guards::Finding;
use crate::judgement::{Judgement, Level};
use crate::loop_detector::LoopFinding;
use crate::policy::Mode;

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
