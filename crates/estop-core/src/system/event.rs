//! What happens to the system: people and devices that press the button or unlock it, and what is only written down.

use serde::{Deserialize, Serialize};

use super::{Channels, GateView};
use crate::budget::PeriodSpend;
use crate::ids::{Hash64, Name};
use crate::policy::Preset;

/// Why somebody pressed the button (KS-4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillReason {
    /// A person decided.
    #[default]
    Manual,
    /// Something was broken into.
    SecurityIncident,
    /// The watchdog saw a runaway.
    RunawayAgent,
    /// A provider's quota is used up.
    ApiQuotaExceeded,
    /// Hardware button or the like.
    Emergency,
}

/// What happens to the system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum SystemEvent {
    /// The process started and read what the latch said.
    Started {
        /// The persisted view; `None` on a first start.
        found: Option<GateView>,
    },
    /// The button, or one channel's.
    KillRequested {
        /// What to shut; all channels = the whole system.
        channels: Channels,
        /// Why.
        reason: KillReason,
        /// Who or what pressed it.
        by: Name,
        /// From where: `api`, `cli`, `signal`, `gpio`, …
        #[serde(default, skip_serializing_if = "str::is_empty")]
        source: Name,
        /// In someone's words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<Name>,
        /// What else came with it, as JSON.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Name>,
    },
    /// SHUTDOWN → SAFE_MODE.
    RestartRequested {
        /// Who.
        by: Name,
        /// The epoch the person saw.
        epoch: u64,
        /// Why, in someone's words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<Name>,
    },
    /// SAFE_MODE → RUNNING.
    ClearRequested {
        /// Who.
        by: Name,
        /// The epoch the person saw.
        epoch: u64,
        /// Why, in someone's words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<Name>,
    },
    /// A trigger of the button stopped working, or works again.
    TriggerChanged {
        /// Which: `gpio`, `evdev`, `file`, …
        trigger: Name,
        /// It would press the button.
        working: bool,
        /// What happened to it.
        what: Name,
    },
    /// A part of estop stopped running, or runs again (KS-11).
    PartChanged {
        /// Which: `worker 0`, `sweeper`, `timer`, `journal writer`.
        part: Name,
        /// It runs.
        running: bool,
        /// For how long it did not.
        silent_ms: u64,
    },
    /// The stop was tried out on a canary.
    ProofTested {
        /// Who asked for it.
        by: Name,
        /// Every step did what it must.
        passed: bool,
        /// From the trigger to the last step, in microseconds.
        took_us: u64,
    },
    /// The configuration was read again.
    ConfigurationRead {
        /// Who or what asked for it.
        by: Name,
        /// Of the file's text.
        digest: Hash64,
        /// It is in force; otherwise nothing of it is.
        applied: bool,
    },
    /// Everybody's preset was set, or left to the configuration again.
    PresetChanged {
        /// Who.
        by: Name,
        /// The preset; `None` = the configuration decides.
        preset: Option<Preset>,
    },
    /// A person has the account of all agents together begin the present day and month, because it has seen later ones
    /// while the clock was ahead (PO-2).
    FleetBudgetRenewed {
        /// Who.
        by: Name,
        /// What was spent in the present day and month.
        spent: PeriodSpend,
    },
    /// Somebody may come in, is told or records what an agent says, who could not or did not before; or does not any more.
    AccessChanged {
        /// Who did it.
        by: Name,
        /// What: which token or key, made or taken back; which alert rule or mute; which agent's recording. Never a secret.
        what: Name,
    },
    /// Settings were made, changed or removed, all of them at once. Who did it stands in the record of what was asked.
    SettingsChanged {
        /// What changed.
        changes: Vec<SettingChange>,
    },
    /// A person acknowledged, resolved or wrote down something about an incident or an escalation (EV-3).
    CaseChanged {
        /// Who.
        by: Name,
        /// What.
        change: CaseChange,
    },
    /// Old records are let go: from here on the journal may begin after one of them.
    Pruned {
        /// Who or what did it.
        by: Name,
        /// The last record that goes.
        to: u64,
    },
}

/// A setting that was made, changed or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingChange {
    /// What kind of setting: `agent_key`, `token`, `agent`, …
    pub kind: Name,
    /// Which of its kind.
    pub id: Name,
    /// What it is from here on; `None` = it is gone. Never a secret: of keys and passwords only hashes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<serde_json::Value>,
}

/// A change of an incident or an escalation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseChange {
    /// Which of the two it is.
    pub kind: CaseKind,
    /// Its id.
    pub id: Name,
    /// What was done.
    pub step: CaseStep,
    /// Who looks after it from here on, if it was assigned; `None` = nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Name>,
    /// In someone's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Name>,
}

/// What people look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseKind {
    /// Something was stopped.
    Incident,
    /// A run needs a person.
    Escalation,
}

/// A step of an incident or an escalation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseStep {
    /// Somebody looks at it.
    Acknowledged,
    /// It is done.
    Resolved,
    /// It is open again.
    Reopened,
    /// Somebody looks after it, or nobody does any more.
    Assigned,
    /// Somebody wrote down something.
    Noted,
}

impl CaseStep {
    /// As the API and the database write it.
    pub fn name(self) -> &'static str {
        match self {
            CaseStep::Acknowledged => "acknowledged",
            CaseStep::Resolved => "resolved",
            CaseStep::Reopened => "reopened",
            CaseStep::Assigned => "assigned",
            CaseStep::Noted => "noted",
        }
    }
}
