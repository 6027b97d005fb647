//! What was decided, and why: one verdict for each guard, each with its evidence.
//!
//! Decisions are written to the journal and compared byte for byte on replay, so everything in them is a
//! whole number, a name or a list in fixed order.

mod verdict;
mod written;

use serde::Serialize;

use crate::agent::standing::Cause;
use crate::budget::{BudgetFinding, BudgetWarning};
use crate::ids::{Name, RequestId};
use crate::loop_detector::{self, LoopEvidence};
use crate::printable::named;
use crate::run::LimitUse;
use crate::tripwire::health::HealthFinding;

pub use crate::guard::Guard;
pub use crate::guards::Finding;
pub use verdict::{Ruling, Verdict, Verdicts};

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
    /// What took the health of an agent that is paused or switched off for it, as evidence.
    HealthFell(HealthFinding),
    /// The entries that made a loop, as evidence.
    LoopEvidence(LoopEvidence),
    /// The agent was told that it repeats itself, before it is stopped (LD-9).
    Nudged {
        /// The tool it called last.
        tool: Name,
        /// Steps without news until then.
        steps: u16,
    },
    /// Whether news came within five steps after that.
    NudgeEnded {
        /// They did.
        helped: bool,
    },
    /// A guard in shadow would have stopped the agent here; reported once until it passes again.
    WouldHaveStopped {
        /// Which guard.
        guard: Guard,
        /// The tool that a loop is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        tool: Option<Name>,
    },
    /// A circuit breaker tripped: ask the agent to sum up.
    RunTripped {
        /// The run; `None` = the implicit one.
        run: Option<Name>,
        /// Which limit, and how much of it was used.
        used: LimitUse,
    },
    /// The time to sum up is over: a person is needed, and whatever of the run still moves must be ended.
    RunEscalated {
        /// The run; `None` = the implicit one.
        run: Option<Name>,
        /// Which limit, and how much of it was used.
        used: LimitUse,
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
    /// A budget refused a request for the first time in its period.
    BudgetRefused(BudgetFinding),
    /// A reservation outlived its request; it was booked as spent.
    ReservationExpired {
        /// Whose.
        request: RequestId,
    },
    /// Press the red button (watchdog with scope `system`).
    PressButton,
    /// A guard that a person had snoozed works again.
    SnoozeEnded {
        /// Which guard.
        guard: Guard,
    },
}

impl Effect {
    /// The limit that tripped or escalated a run, if that is what it says.
    pub fn tripped(&self) -> Option<&LimitUse> {
        if let Effect::RunTripped { used, .. } | Effect::RunEscalated { used, .. } = self {
            Some(used)
        } else {
            None
        }
    }
}

impl Decision {
    /// An outcome alone: no guard was asked, or nobody wants to know what it said.
    pub const fn plain(outcome: Outcome) -> Decision {
        Decision { outcome, verdicts: Verdicts(Vec::new()), effects: Vec::new() }
    }

    pub(crate) fn noted() -> Decision {
        Decision::plain(Outcome::Noted)
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

    /// Why the agent was switched off by this event, if it was.
    pub fn deactivated(&self) -> Option<Cause> {
        let off =
            |effect: &Effect| if let Effect::Deactivated { cause } = effect { Some(*cause) } else { None };
        self.effects.iter().find_map(off)
    }

    /// Why the agent was paused by this event, if it was.
    pub fn paused(&self) -> Option<Cause> {
        let pause = |effect: &Effect| if let Effect::Paused { cause } = effect { Some(*cause) } else { None };
        self.effects.iter().find_map(pause)
    }

    /// Why, in a sentence. Never empty.
    pub fn reason(&self) -> String {
        match self.outcome {
            Outcome::Allow => "Allowed: no enforced guard objects.".to_owned(),
            Outcome::Noted => self.noted_reason(),
            Outcome::Refuse { by, .. } => match self.verdicts.get(by) {
                Some(verdict) => verdict.finding.to_string(),
                None => format!("Refused by {}.", by.name()),
            },
        }
    }

    /// Nothing was asked, but something may have happened all the same.
    fn noted_reason(&self) -> String {
        match self.deactivated().or_else(|| self.paused()) {
            Some(cause) => self.cause(cause),
            None => "Noted: nothing was asked.".to_owned(),
        }
    }

    /// What the guard of `cause` said. Never empty.
    fn cause(&self, cause: Cause) -> String {
        let health = self.health_fell().filter(|_| cause == Cause::Health).map(HealthFinding::to_string);
        let said = || Some(self.verdicts.get(cause.guard())?.finding.to_string());
        health.or_else(said).unwrap_or_else(|| format!("The agent was stopped by {}.", cause.name()))
    }

    /// Why the agent was switched off or paused for `cause` by this event, as people are told: with what it wasted and the setting
    /// that would have spared it, which is none of the agent's business. Never empty.
    pub fn why(&self, cause: Cause) -> String {
        let why = self.cause(cause);
        let tool = self.evidence().and_then(|evidence| evidence.tool.as_deref());
        match (cause, self.verdicts.get(Guard::Loop).map(|verdict| &verdict.finding)) {
            (Cause::Loop, Some(Finding::Loop(finding))) => {
                format!("{why} {}", loop_detector::explain::more(finding, tool))
            }
            (Cause::Churn, _) => {
                tool.map_or_else(|| why.clone(), |tool| format!("{why} Tool: {}.", named(tool)))
            }
            _ => why,
        }
    }

    /// What speaks for a loop that was stopped.
    pub fn evidence(&self) -> Option<&LoopEvidence> {
        self.effects.iter().find_map(|effect| {
            if let Effect::LoopEvidence(evidence) = effect { Some(evidence) } else { None }
        })
    }

    /// How the health stood of an agent that was switched off or paused for it.
    pub fn health_fell(&self) -> Option<&HealthFinding> {
        self.effects
            .iter()
            .find_map(|effect| if let Effect::HealthFell(finding) = effect { Some(finding) } else { None })
    }

    /// What the agent should be told though it may go on.
    pub fn warnings(&self) -> Vec<String> {
        self.verdicts.iter().filter_map(|(_, verdict)| verdict.warning()).collect()
    }
}
