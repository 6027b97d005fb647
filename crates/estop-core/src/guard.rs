//! The guards and their order.

use serde::{Deserialize, Serialize};

/// The guards, in the order they are asked (PO-1). The first that stops is the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
    /// Which models may be asked (PO-7).
    Models,
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
    pub const ALL: [Guard; 14] = [
        Guard::System,
        Guard::Agent,
        Guard::Run,
        Guard::Hours,
        Guard::Models,
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
            Guard::Models => "models",
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

    /// The guard of this name.
    pub fn named(name: &str) -> Option<Guard> {
        Guard::ALL.into_iter().find(|guard| guard.name() == name)
    }

    /// Its place in the order.
    pub fn place(self) -> usize {
        self as usize
    }

    /// Whether a person may have it work as in shadow for a while (PO-7). The red button, a person's stop and the end
    /// of a run always hold.
    pub fn can_be_snoozed(self) -> bool {
        !matches!(self, Guard::System | Guard::Agent | Guard::Run)
    }
}
