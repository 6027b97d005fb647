//! Work that goes on at a provider after its request was answered, as people see it.

use crate::ids::Name;

/// Work that estop saw begin at providers, and what became of it after a stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackgroundWork {
    /// What is known of each, the newest first.
    pub jobs: Vec<BackgroundJob>,
    /// How many more there were than estop remembers: nothing was done about them.
    pub forgotten: u64,
}

/// Work at a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundJob {
    /// Whose.
    pub agent: Name,
    /// Of which run, if it was named.
    pub run: Option<Name>,
    /// At which provider.
    pub provider: Name,
    /// What it is: `batch`, `background response`, …
    pub kind: &'static str,
    /// Its id at the provider; `None` if the answer that names it was not seen.
    pub id: Option<String>,
    /// When it began, by the wall clock.
    pub created: i64,
    /// When it was stopped here; `None` = nobody stopped it.
    pub stopped: Option<i64>,
    /// How it stands.
    pub state: BackgroundState,
}

/// How work at a provider stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackgroundState {
    /// It waits or runs.
    Running,
    /// It was stopped, and estop is trying to cancel it.
    Cancelling,
    /// The provider cancelled it, or said that it will.
    Cancelled,
    /// It was over by itself when it was to be cancelled.
    Ended,
    /// It was stopped and could not be cancelled: why, and what a person can do.
    NotCancelled(String),
}

impl BackgroundState {
    /// For machines.
    pub fn name(&self) -> &'static str {
        match self {
            BackgroundState::Running => "running",
            BackgroundState::Cancelling => "cancelling",
            BackgroundState::Cancelled => "cancelled",
            BackgroundState::Ended => "ended",
            BackgroundState::NotCancelled(_) => "not_cancelled",
        }
    }

    /// Why it could not be cancelled.
    pub fn why(&self) -> Option<&str> {
        match self {
            BackgroundState::NotCancelled(why) => Some(why),
            BackgroundState::Running
            | BackgroundState::Cancelling
            | BackgroundState::Cancelled
            | BackgroundState::Ended => None,
        }
    }
}
