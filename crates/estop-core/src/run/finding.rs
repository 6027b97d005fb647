//! What the guard `run` saw.

use serde::{Deserialize, Serialize};

use super::{LimitUse, RUNS_MAX};
use crate::policy::LimitName;

/// The states of seed 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RunState {
    /// Working.
    Active,
    /// Waiting, for a person or a blocker.
    Sleeping,
    /// Done.
    Completed,
    /// A breaker tripped and a person is needed. Terminal.
    Escalated,
}

impl RunState {
    /// Its name, as seed 3 writes it.
    pub fn name(self) -> &'static str {
        match self {
            RunState::Active => "ACTIVE",
            RunState::Sleeping => "SLEEPING",
            RunState::Completed => "COMPLETED",
            RunState::Escalated => "ESCALATED",
        }
    }
}

/// What the guard `run` saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RunFinding {
    /// The run's state.
    pub state: RunState,
    /// The limit that tripped it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tripped: Option<LimitUse>,
    /// Requests left to sum up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_left: Option<u8>,
    /// What else is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<RunProblem>,
}

/// What can be wrong with an event of a run, beside the run's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunProblem {
    /// Too many runs are open.
    TooManyRuns,
    /// A request with this number is under way already.
    DuplicateRequest,
    /// The request is not under way, or was given up.
    UnknownRequest,
    /// There is no such run.
    UnknownRun,
    /// The run cannot do that in its state.
    IllegalTransition,
}

/// Seed 3, to an agent whose breaker tripped.
const TRIPPED: &str = "CIRCUIT BREAKER TRIPPED. Please summarize your progress immediately.";
/// Seed 3, to an agent whose time is up.
const TIME_IS_UP: &str = "TIME LIMIT REACHED. You must stop working now. Please summarize what you accomplished and what \
    remains, then call report_complete or report_blocked.";

impl RunFinding {
    /// What an agent that is to sum up is told, word for word as in seed 3.
    pub fn prompt(&self) -> Option<&'static str> {
        match (self.problem, self.state, self.tripped?.limit) {
            (Some(_), _, _) | (None, RunState::Escalated, _) => None,
            (None, _, LimitName::ActiveDuration) => Some(TIME_IS_UP),
            (None, _, _) => Some(TRIPPED),
        }
    }

    pub(crate) fn problem(state: RunState, problem: RunProblem) -> RunFinding {
        RunFinding { state, tripped: None, requests_left: None, problem: Some(problem) }
    }
}

impl std::fmt::Display for RunFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.problem {
            Some(RunProblem::TooManyRuns) => {
                let next = "complete some first, escalated ones after extending them";
                return write!(f, "This agent has {RUNS_MAX} open runs; {next}.");
            }
            Some(RunProblem::DuplicateRequest) => {
                return f.write_str("A request with this number is under way already.");
            }
            Some(RunProblem::UnknownRequest) => {
                return f
                    .write_str("This request is not known any more: nothing was heard of it for too long.");
            }
            Some(RunProblem::UnknownRun) => return f.write_str("There is no such run; start it first."),
            Some(RunProblem::IllegalTransition) => {
                return write!(f, "A run that is {} cannot do that.", self.state.name());
            }
            None => {}
        }
        if let Some(prompt) = self.prompt() {
            f.write_str(prompt)?;
        }
        if let Some(used) = &self.tripped {
            let reason = used.reason();
            return if self.state == RunState::Escalated {
                write!(f, "This run was escalated to a human: {reason}. Start a new run, or extend this one.")
            } else {
                write!(f, " Reached: {reason}.")
            };
        }
        match self.state {
            RunState::Active => f.write_str("The run is active."),
            RunState::Sleeping => f.write_str("The run is sleeping."),
            RunState::Completed => f.write_str("This run is completed; start a new one."),
            RunState::Escalated => f.write_str("This run was escalated to a human."),
        }
    }
}
