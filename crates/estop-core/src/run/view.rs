//! What people see of a run.

use super::{Counts, Run, RunState};
use crate::budget::Amount;
use crate::ids::Name;
use crate::time::Millis;

/// What is seen of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunView {
    /// Its name; `None` = the implicit one.
    pub name: Option<Name>,
    /// Its state.
    pub state: RunState,
    /// A person sits at it.
    pub attended: bool,
    /// Test-then-fix cycles.
    pub iterations: u32,
    /// Tool calls.
    pub tool_calls: u32,
    /// Turns.
    pub turns: u32,
    /// Milliseconds in ACTIVE.
    pub active_ms: u64,
    /// What it spent.
    pub spent: Amount,
    /// It reached a limit.
    pub tripped: bool,
}

impl Run {
    /// What people see of it.
    pub(crate) fn view(&self, now: Millis) -> RunView {
        let Counts { tool_calls, iterations, turns, .. } = self.counts;
        RunView {
            name: self.name.clone(),
            state: self.state,
            attended: self.attended,
            iterations,
            tool_calls,
            turns,
            active_ms: self.active_ms(now),
            spent: self.spent.amount,
            tripped: self.trip.is_some(),
        }
    }
}
