//! Whether an agent may work at all: active, inactive or paused, and by whose hand (LD-3, LD-4, TW-5).

use serde::{Deserialize, Serialize};

use crate::guard::Guard;
use crate::judgement::Judgement;
use crate::time::Millis;

/// An agent's standing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    /// It may work.
    #[default]
    Active,
    /// It was switched off and stays off until a person switches it on.
    Inactive {
        /// Who or what.
        by: DeactivatedBy,
        /// Since when.
        since: Millis,
    },
    /// It was paused and stays so until a person lets it go on.
    Paused {
        /// Which guard's doing; `None` = a person's.
        cause: Option<Cause>,
        /// Since when.
        since: Millis,
    },
}

/// `deactivated_by`, with the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeactivatedBy {
    /// A person.
    Manual,
    /// A guard.
    KillSwitch(Cause),
}

/// Which guard switched an agent off or paused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Loop score or repetition.
    Loop,
    /// Argument churn.
    Churn,
    /// Chanting.
    Chanting,
    /// Health.
    Health,
    /// Runaway watchdog.
    Watchdog,
}

impl Cause {
    /// The guard behind it.
    pub fn guard(self) -> Guard {
        match self {
            Cause::Loop => Guard::Loop,
            Cause::Churn => Guard::Churn,
            Cause::Chanting => Guard::Chanting,
            Cause::Health => Guard::Health,
            Cause::Watchdog => Guard::Watchdog,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.guard().name()
    }
}

/// What the guard `agent` saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StandingFinding {
    /// Switched off.
    Inactive(DeactivatedBy),
    /// Paused, by a guard or (`None`) a person.
    Paused(Option<Cause>),
}

impl std::fmt::Display for StandingFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StandingFinding::Inactive(DeactivatedBy::Manual) => {
                f.write_str("This agent is inactive: a person deactivated it.")
            }
            StandingFinding::Inactive(DeactivatedBy::KillSwitch(cause)) => {
                write!(f, "This agent is inactive: the kill switch deactivated it ({}).", cause.name())
            }
            StandingFinding::Paused(None) => f.write_str("This agent is paused by a person."),
            StandingFinding::Paused(Some(cause)) => {
                write!(f, "This agent is paused ({}); a person should look at it.", cause.name())
            }
        }
    }
}

impl Standing {
    pub(crate) fn judge(self) -> Judgement<Option<StandingFinding>> {
        match self {
            Standing::Active => Judgement::CLEAR,
            Standing::Inactive { by, .. } => Judgement::stop(Some(StandingFinding::Inactive(by))),
            Standing::Paused { cause, .. } => Judgement::stop(Some(StandingFinding::Paused(cause))),
        }
    }

    /// Whether what already runs may go on: a pause only holds back what is new.
    pub(crate) fn judge_running(self) -> Judgement<Option<StandingFinding>> {
        match self {
            Standing::Inactive { .. } => self.judge(),
            Standing::Active | Standing::Paused { .. } => Judgement::CLEAR,
        }
    }

    /// Switches the agent off. What is off stays off by the first hand.
    pub(crate) fn deactivate(&mut self, by: DeactivatedBy, now: Millis) {
        if !matches!(self, Standing::Inactive { .. }) {
            *self = Standing::Inactive { by, since: now };
        }
    }

    /// Pauses an active agent; an inactive one stays inactive.
    pub(crate) fn pause(&mut self, cause: Option<Cause>, now: Millis) {
        if *self == Standing::Active {
            *self = Standing::Paused { cause, since: now };
        }
    }
}
