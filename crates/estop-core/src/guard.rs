//! The guards and their order.

use serde::Serialize;

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
