//! What an agent's next request would get, why, and until when (EV-2): the one state that API, CLI and dashboard show.

use serde::Serialize;

use crate::agent::standing::{DeactivatedBy, Standing};
use crate::printed_command::Commands;
use crate::system::{Channel, GateView, SystemState};

/// What the next request would get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusKind {
    /// It passes.
    Active,
    /// Refused for seconds: too many requests or tokens in the last minute.
    RateLimited,
    /// Refused for seconds: the safety gate vetoed.
    CoolingDown,
    /// Refused until the allowed hours begin.
    OutsideHours,
    /// Refused until a person resumes the agent.
    Paused,
    /// Refused, or let through only to sum up: its run reached a limit.
    AtRunLimit,
    /// Refused: it does not fit into a budget.
    BudgetSpent,
    /// Refused until a person activates the agent.
    Stopped,
    /// Refused, as everybody's: the emergency stop, or a journal that cannot be written.
    Shut,
}

impl StatusKind {
    /// Its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            StatusKind::Active => "active",
            StatusKind::RateLimited => "rate_limited",
            StatusKind::CoolingDown => "cooling_down",
            StatusKind::OutsideHours => "outside_hours",
            StatusKind::Paused => "paused",
            StatusKind::AtRunLimit => "at_run_limit",
            StatusKind::BudgetSpent => "budget_spent",
            StatusKind::Stopped => "stopped",
            StatusKind::Shut => "shut",
        }
    }
}

/// What the next request would get, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentStatus {
    /// Which case.
    pub kind: StatusKind,
    /// A few words: `at run limit`, `outside hours until 08:00`.
    pub label: String,
    /// Why, and what a person can do.
    pub sentence: String,
    /// When it ends by itself, by the wall clock in milliseconds; `None` = it does not, or nobody knows.
    pub until: Option<i64>,
}

impl AgentStatus {
    pub(crate) fn new(
        kind: StatusKind,
        label: impl Into<String>,
        sentence: impl Into<String>,
    ) -> AgentStatus {
        AgentStatus { kind, label: label.into(), sentence: sentence.into(), until: None }
    }

    pub(crate) fn until(self, until: i64) -> AgentStatus {
        AgentStatus { until: Some(until), ..self }
    }

    /// Its next request passes.
    pub fn active() -> AgentStatus {
        AgentStatus::new(StatusKind::Active, "active", "Its next request passes.")
    }

    /// Everybody's requests are refused, for a reason that is not the emergency stop.
    pub fn shut(why: &str) -> AgentStatus {
        AgentStatus::new(StatusKind::Shut, "shut", why)
    }

    /// What the emergency stop does to a request; `None` = requests to models pass.
    pub fn of_gate(gate: GateView, commands: &Commands) -> Option<AgentStatus> {
        if gate.lets_pass(Channel::Llm) {
            return None;
        }
        let (restart, clear) = (commands.emergency_restart(), commands.emergency_clear());
        let (label, sentence) = match gate.state {
            SystemState::Starting => ("starting", "estop is starting: nothing passes yet.".to_owned()),
            SystemState::Shutdown => (
                "shut down",
                format!(
                    "The emergency stop is pressed: every request is refused. To go on: {restart}, then {clear}."
                ),
            ),
            SystemState::SafeMode => {
                ("safe mode", format!("Safe mode: every request is refused. To go on: {clear}."))
            }
            SystemState::Running => {
                let status = commands.emergency_status();
                (
                    "models shut",
                    format!(
                        "The channel llm is shut: every request to a model is refused. Who shut it: {status}."
                    ),
                )
            }
        };
        Some(AgentStatus::new(StatusKind::Shut, label, sentence))
    }

    /// What an agent's standing does to a request; `None` = it is active.
    pub fn of_standing(name: &str, standing: Standing, commands: &Commands) -> Option<AgentStatus> {
        let activate = format!("To let it work again: {}.", commands.activate(name));
        match standing {
            Standing::Active => None,
            Standing::Inactive { by: DeactivatedBy::Manual, .. } => Some(AgentStatus::new(
                StatusKind::Stopped,
                "deactivated",
                format!("A person deactivated it. {activate}"),
            )),
            Standing::Inactive { by: DeactivatedBy::KillSwitch(cause), .. } => Some(AgentStatus::new(
                StatusKind::Stopped,
                format!("deactivated by kill switch ({})", cause.name()),
                format!("The kill switch deactivated it ({}). {activate}", cause.name()),
            )),
            Standing::Paused { cause, .. } => {
                let (label, who) = match cause {
                    None => ("paused".to_owned(), "A person paused it.".to_owned()),
                    Some(cause) => (
                        format!("paused ({})", cause.name()),
                        format!("It was paused ({}): a person should look at it.", cause.name()),
                    ),
                };
                let sentence = format!("{who} To let it go on: {}.", commands.resume(name));
                Some(AgentStatus::new(StatusKind::Paused, label, sentence))
            }
        }
    }

    /// How soon a person should look; more is sooner. Who was stopped by a guard comes first, then who is refused, then who works; who
    /// was switched off by a person comes last.
    pub fn urgency(&self, standing: Standing) -> u32 {
        match standing {
            Standing::Inactive { by: DeactivatedBy::KillSwitch(_), .. } => 9,
            Standing::Inactive { by: DeactivatedBy::Manual, .. } => 0,
            Standing::Paused { .. } => 6,
            Standing::Active => match self.kind {
                StatusKind::Active | StatusKind::Shut => 1,
                StatusKind::RateLimited => 3,
                StatusKind::CoolingDown => 4,
                StatusKind::OutsideHours => 5,
                StatusKind::Paused => 6,
                StatusKind::AtRunLimit => 7,
                StatusKind::BudgetSpent => 8,
                StatusKind::Stopped => 9,
            },
        }
    }
}
