//! Runs: one row for each task of an agent.

use estop_core::ids::Name;
use estop_core::money::NanoUsd;

use crate::error::StoreError;

/// A run as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its id, unique in the store.
    pub id: Name,
    /// Whose.
    pub agent: Name,
    /// What people call it.
    pub name: Option<Name>,
    /// `active`, `sleeping`, `tripped`, …: the core's word.
    pub state: Name,
    /// A person sits at it.
    pub attended: bool,
    /// The role it runs under.
    pub role: Option<Name>,
    /// The issue it works on.
    pub issue: Option<Name>,
    /// The branch it works on.
    pub branch: Option<Name>,
    /// The client's session.
    pub session: Option<Name>,
    /// Labels, as a JSON object of texts.
    pub labels: String,
    /// When it began.
    pub started_at: i64,
    /// When it ended.
    pub ended_at: Option<i64>,
    /// The core's counters, as a JSON object.
    pub counters: String,
    /// What it spent.
    pub spent: NanoUsd,
    /// The tokens it used.
    pub tokens: u64,
    /// What the agent said at its end.
    pub summary: Option<String>,
}

/// Which runs.
#[derive(Clone, Debug, Default)]
pub struct RunFilter {
    /// Of this agent.
    pub agent: Option<Name>,
    /// In this state.
    pub state: Option<Name>,
    /// Older than this one, by start and id: the last of the page before.
    pub before: Option<(i64, Name)>,
}

/// What keeps runs.
pub trait RunRepo: Send + Sync {
    /// Adds a run, or replaces what is known of it.
    fn put_run(&self, run: &Run) -> Result<(), StoreError>;

    /// Sets a run's state and when it ended, and leaves the rest as it is. A run that is not kept yet stays so.
    fn set_run_state(&self, id: &str, state: &str, ended_at: Option<i64>) -> Result<(), StoreError>;

    /// One run.
    fn run(&self, id: &str) -> Result<Option<Run>, StoreError>;

    /// Runs, newest first.
    fn runs(&self, filter: &RunFilter, limit: usize) -> Result<Vec<Run>, StoreError>;
}
