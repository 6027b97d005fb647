//! What people may have to be told: small values that the binary derives from journal records.
//!
//! An alert event holds no prompt and no key; its texts are made harmless when a message is made of it.

use estop_core::guards::breaker::LimitUse;
use estop_core::ids::Name;
use estop_core::money::NanoUsd;
use serde::{Deserialize, Serialize};

/// What kind of thing a person is told about (AL-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertType {
    /// A guard switched an agent off.
    KillSwitch,
    /// A run reached a limit and needs a person.
    CircuitBreaker,
    /// A share of a budget was reached, or a budget refused.
    Budget,
    /// Many of an agent's requests fail.
    ErrorRate,
    /// An agent that should call does not.
    AgentDown,
    /// An agent's health fell.
    Health,
    /// The red button was pressed.
    SystemKill,
    /// The runaway watchdog stopped somebody.
    Watchdog,
    /// The stop was not tried out for too long, or did not work.
    ProoftestOverdue,
    /// A part of estop itself stopped running (KS-11).
    StuckWorker,
    /// Somebody made an admin token without having one, over the owner's socket.
    AdminToken,
    /// The journal's heads, for whoever keeps them elsewhere.
    Checkpoint,
}

impl AlertType {
    /// All of them.
    pub const ALL: [AlertType; 12] = [
        AlertType::KillSwitch,
        AlertType::CircuitBreaker,
        AlertType::Budget,
        AlertType::ErrorRate,
        AlertType::AgentDown,
        AlertType::Health,
        AlertType::SystemKill,
        AlertType::Watchdog,
        AlertType::ProoftestOverdue,
        AlertType::StuckWorker,
        AlertType::AdminToken,
        AlertType::Checkpoint,
    ];

    /// As rules and payloads write it.
    pub fn name(self) -> &'static str {
        match self {
            AlertType::KillSwitch => "kill_switch",
            AlertType::CircuitBreaker => "circuit_breaker",
            AlertType::Budget => "budget",
            AlertType::ErrorRate => "error_rate",
            AlertType::AgentDown => "agent_down",
            AlertType::Health => "health",
            AlertType::SystemKill => "system_kill",
            AlertType::Watchdog => "watchdog",
            AlertType::ProoftestOverdue => "prooftest_overdue",
            AlertType::StuckWorker => "stuck_worker",
            AlertType::AdminToken => "admin_token",
            AlertType::Checkpoint => "checkpoint",
        }
    }

    /// Whether it goes on until somebody does something: then people are reminded, and told when it is over.
    pub fn lasts(self) -> bool {
        !matches!(self, AlertType::Budget | AlertType::AdminToken | AlertType::Checkpoint)
    }

    /// Whether it may be about a single agent.
    pub(crate) fn has_agent(self) -> bool {
        !matches!(
            self,
            AlertType::SystemKill
                | AlertType::ProoftestOverdue
                | AlertType::StuckWorker
                | AlertType::AdminToken
                | AlertType::Checkpoint
        )
    }

    /// Types that are over when an agent is activated again, which is told as the end of `kill_switch`.
    pub(crate) fn ends_with_activation(self) -> bool {
        matches!(self, AlertType::KillSwitch | AlertType::Watchdog | AlertType::Health | AlertType::ErrorRate)
    }
}

/// Whether something began or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It is so now.
    Raised,
    /// It is over: the agent was activated, the button cleared, the escalation resolved.
    Cleared,
}

/// Something a person may have to be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertEvent {
    /// The same event has the same id, also when it is told again after a crash: record and place in it.
    pub id: Name,
    /// The journal record it comes from; 0 = none.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// What kind.
    pub alert: AlertType,
    /// Whether it began or ended.
    pub phase: Phase,
    /// Whose; `None` = the whole system's.
    #[serde(default)]
    pub agent: Option<Name>,
    /// In which run.
    #[serde(default)]
    pub run: Option<Name>,
    /// Why, in a word or two: `loop`, `max tool calls`, `runaway_agent`.
    #[serde(default)]
    pub cause: String,
    /// What proves it, in one line.
    #[serde(default)]
    pub evidence: String,
    /// By whom, where a person or a device did it.
    #[serde(default)]
    pub by: Option<Name>,
    /// The incident it opened or that is over with it: where its link leads.
    #[serde(default)]
    pub incident: Option<Name>,
    /// What it cost.
    #[serde(default)]
    pub cost: Cost,
    /// What only some types have.
    #[serde(default)]
    pub detail: Detail,
}

/// What was spent; what is not known is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// By the run.
    #[serde(default)]
    pub run: Option<NanoUsd>,
    /// By the agent, or all of them, today.
    #[serde(default)]
    pub today: Option<NanoUsd>,
}

/// What only some types have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// Nothing.
    #[default]
    None,
    /// Of a budget.
    Budget(BudgetSeen),
    /// Of an escalated run (seed 3).
    Escalation(Box<EscalationSeen>),
    /// Of a button that was pressed for some channels alone: which, in words. Of one that was lifted: what stays shut.
    Shut(String),
    /// Of a checkpoint: the last record and the digest of the journal.
    Checkpoint {
        /// The last record.
        last_seq: u64,
        /// Hex of the digest.
        digest: String,
    },
}

/// How a budget stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetSeen {
    /// 50, 80, 95 or 100.
    pub percent: u8,
    /// Which cap: `usd_per_day`, `tokens_per_day`, …
    pub account: Name,
    /// Nano-dollars, or tokens if the account counts those.
    pub spent: u64,
    /// The cap, in the same unit.
    pub cap: u64,
}

/// What a person needs to pick up an escalated run: the fields of the escalation issue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscalationSeen {
    /// The escalation's id.
    pub id: Name,
    /// The issue the run worked on, as the run names it: `12`, `#12` or a text.
    pub issue: Option<Name>,
    /// The agent's role.
    pub role: Option<Name>,
    /// Which limit, and how much of it was used.
    pub limit: LimitUse,
    /// What the agent said it had done.
    pub summary: Option<String>,
    /// The branch its work is on.
    pub branch: Option<Name>,
    /// The session that is kept on disk.
    pub session: Option<Name>,
    /// The commit its status is set on.
    pub commit: Option<Name>,
}
