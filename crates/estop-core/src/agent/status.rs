//! What an agent's next request would get, why, and until when (EV-2): the one state that API, CLI and dashboard show.

use serde::Serialize;

use crate::agent::standing::{DeactivatedBy, Standing};
use crate::guard::Guard;
use crate::ids::Name;
use crate::printed_command::Commands;
use crate::system::button::Latched;
use crate::system::{Channel, GateView, SystemState};

/// What the next request would get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusKind {
    /// It passes.
    Active,
    /// It passes, and a guard that only watches would have stopped the agent.
    Watched,
    /// Refused for seconds: too many requests or tokens in the last minute.
    RateLimited,
    /// Refused for seconds: the safety gate vetoed.
    CoolingDown,
    /// Refused until the allowed hours begin.
    OutsideHours,
    /// Refused until a person resumes the agent.
    Paused,
    /// Refused: the policy does not allow the model it asks.
    ModelRefused,
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
            StatusKind::Watched => "watched",
            StatusKind::RateLimited => "rate_limited",
            StatusKind::CoolingDown => "cooling_down",
            StatusKind::OutsideHours => "outside_hours",
            StatusKind::Paused => "paused",
            StatusKind::ModelRefused => "model_refused",
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
    /// Whether it passes. At a run's limit it may, to sum up.
    pub passes: bool,
    /// A few words: `at run limit`, `outside hours until 08:00`.
    pub label: String,
    /// Why, and what a person can do.
    pub sentence: String,
    /// When it ends by itself, by the wall clock in milliseconds; `None` = it does not, or nobody knows.
    pub until: Option<i64>,
    /// The guard that refuses, would refuse if it were enforced, or lets through no more than a summary.
    pub guard: Option<Guard>,
    /// The person who stopped or paused the agent, or who or what pressed the emergency stop.
    pub by: Option<Name>,
}

impl AgentStatus {
    fn new(
        kind: StatusKind,
        passes: bool,
        label: impl Into<String>,
        sentence: impl Into<String>,
    ) -> AgentStatus {
        let (label, sentence) = (label.into(), sentence.into());
        AgentStatus { kind, passes, label, sentence, until: None, guard: None, by: None }
    }

    /// Its next request is refused.
    pub(crate) fn refused(
        kind: StatusKind,
        label: impl Into<String>,
        sentence: impl Into<String>,
    ) -> AgentStatus {
        AgentStatus::new(kind, false, label, sentence)
    }

    /// Its next request passes.
    pub fn active() -> AgentStatus {
        AgentStatus::new(StatusKind::Active, true, "active", "Its next request passes.")
    }

    /// Its next request passes; other channels may be shut.
    pub(crate) fn of_open_gate(gate: GateView, commands: &Commands) -> AgentStatus {
        let shut = match (gate.lets_pass(Channel::Tools), gate.lets_pass(Channel::Messaging)) {
            (true, true) => return AgentStatus::active(),
            (false, true) => "tools",
            (true, false) => "messages",
            (false, false) => "tools and messages",
        };
        let status = commands.emergency_status();
        AgentStatus::new(
            StatusKind::Active,
            true,
            format!("active, {shut} shut"),
            format!("Its next request to a model passes; {shut} are shut. Who shut them: {status}."),
        )
    }

    /// Its next request passes, and `guard`, which only watches, would have stopped the agent: for what it `saw`, or for what
    /// the agent did before.
    pub(crate) fn watched(
        agent: &str,
        guard: Guard,
        saw: Option<String>,
        commands: &Commands,
    ) -> AgentStatus {
        let saw = saw.map(|saw| format!(" {saw}")).unwrap_or_default();
        let turn_on = match guard {
            Guard::Loop | Guard::Churn | Guard::Chanting => {
                format!("To have loops stop it: {}.", commands.stop_loops(agent))
            }
            Guard::System
            | Guard::Agent
            | Guard::Run
            | Guard::Hours
            | Guard::Models
            | Guard::Rate
            | Guard::Budget
            | Guard::Breaker
            | Guard::Gate
            | Guard::Health
            | Guard::Watchdog => {
                format!("To have it stopped, set `guards.{}: enforce` in its policy.", guard.name())
            }
        };
        let sentence = format!(
            "Its next request passes, as the guard `{}` only watches; enforced, it would have stopped the agent.{saw} {turn_on}",
            guard.name()
        );
        let label = format!("watched: would have been stopped ({})", guard.name());
        let status = AgentStatus::new(StatusKind::Watched, true, label, sentence);
        AgentStatus { guard: Some(guard), ..status }
    }

    /// Everybody's requests are refused, for a reason that is not the emergency stop.
    pub fn shut(why: &str) -> AgentStatus {
        AgentStatus::refused(StatusKind::Shut, "shut", why)
    }

    /// What the emergency stop does to a request; `None` = requests to models pass.
    pub fn of_gate(gate: GateView, button: Option<&Latched>, commands: &Commands) -> Option<AgentStatus> {
        if gate.lets_pass(Channel::Llm) {
            return None;
        }
        let (unlock, clear) = (commands.emergency_unlock(), commands.emergency_clear());
        let who = button.filter(|button| button.reason.is_some());
        let by = who.map(|button| format!(" by {} ({})", button.by, button.source)).unwrap_or_default();
        let (label, sentence) = match gate.state {
            SystemState::Starting => ("starting", "estop is starting: nothing passes yet.".to_owned()),
            SystemState::Shutdown => (
                "shut down",
                format!(
                    "The emergency stop was pressed{by}: every request is refused. To go on: {unlock}, then {clear}."
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
                        "The channel llm was shut{by}: every request to a model is refused. See {status}; to open it: {clear}."
                    ),
                )
            }
        };
        let by = who.map(|button| button.by.clone());
        Some(AgentStatus { by, ..AgentStatus::refused(StatusKind::Shut, label, sentence) })
    }

    /// What an agent's standing does to a request; `None` = it is active. `person` stopped or paused it, if a person did.
    pub fn of_standing(
        name: &str,
        standing: Standing,
        person: Option<&str>,
        commands: &Commands,
    ) -> Option<AgentStatus> {
        let activate = format!("To reactivate it: {}.", commands.activate(name));
        let who = person.unwrap_or("A person");
        let by = person.map(|person| format!(" by {person}")).unwrap_or_default();
        let (kind, label, sentence, is_by_person) = match standing {
            Standing::Active => return None,
            Standing::Inactive { by: DeactivatedBy::Manual, .. } => {
                let sentence = format!("{who} deactivated it. {activate}");
                (StatusKind::Stopped, format!("deactivated{by}"), sentence, true)
            }
            Standing::Inactive { by: DeactivatedBy::KillSwitch(cause), .. } => {
                let sentence = format!("The kill switch deactivated it ({}). {activate}", cause.name());
                (
                    StatusKind::Stopped,
                    format!("deactivated by kill switch ({})", cause.name()),
                    sentence,
                    false,
                )
            }
            Standing::Paused { cause: None, .. } => {
                let sentence = format!("{who} paused it. To let it go on: {}.", commands.resume(name));
                (StatusKind::Paused, format!("paused{by}"), sentence, true)
            }
            Standing::Paused { cause: Some(cause), .. } => {
                let cause = cause.name();
                let sentence = format!(
                    "It was paused ({cause}): a person should look at it. To let it go on: {}.",
                    commands.resume(name)
                );
                (StatusKind::Paused, format!("paused ({cause})"), sentence, false)
            }
        };
        let by = person.filter(|_| is_by_person).map(Name::from);
        Some(AgentStatus { by, guard: Some(Guard::Agent), ..AgentStatus::refused(kind, label, sentence) })
    }

    /// How soon a person should look; more is sooner. Who was stopped by a guard comes first, then who is refused, then who is
    /// watched, then who works; who was switched off by a person comes last.
    pub fn urgency(&self, standing: Standing) -> u32 {
        match standing {
            Standing::Inactive { by: DeactivatedBy::KillSwitch(_), .. } => 10,
            Standing::Inactive { by: DeactivatedBy::Manual, .. } => 0,
            Standing::Paused { .. } => 7,
            Standing::Active => match self.kind {
                StatusKind::Active | StatusKind::Shut => 1,
                StatusKind::Watched => 2,
                StatusKind::RateLimited => 3,
                StatusKind::CoolingDown => 4,
                StatusKind::OutsideHours => 5,
                StatusKind::ModelRefused => 6,
                StatusKind::Paused => 7,
                StatusKind::AtRunLimit => 8,
                StatusKind::BudgetSpent => 9,
                StatusKind::Stopped => 10,
            },
        }
    }
}
