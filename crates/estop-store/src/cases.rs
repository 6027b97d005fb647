//! Cases a person should look at: incidents (what was stopped) and escalations (who is needed).

use estop_core::agent::standing::Standing;
use estop_core::event::{Event, EventKind};
use estop_core::ids::Name;
use estop_core::system::{CaseChange, CaseKind, CaseStep, SYSTEM};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;

/// Whether a case is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseStatus {
    /// Someone should look.
    Open,
    /// Someone looks at it.
    Acknowledged,
    /// It is done.
    Resolved,
}

/// Something somebody did with a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseEntry {
    /// The record it stands in.
    pub seq: u64,
    /// When.
    pub at: i64,
    /// Who.
    pub by: Name,
    /// What.
    pub step: CaseStep,
    /// Who looks after it from here on, if it was assigned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Name>,
    /// In someone's words, or what answered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Which cases an update is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseTarget {
    /// This incident.
    Incident(Name),
    /// This escalation.
    Escalation(Name),
    /// The agent's incidents that are not resolved.
    IncidentsOf(Name),
    /// The escalations of a run that are not resolved.
    EscalationsOf {
        /// Whose.
        agent: Name,
        /// Which run; `None` = the one without a name.
        run: Option<Name>,
    },
}

/// What follows from a record for cases that were opened before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseUpdate {
    /// Which.
    pub target: CaseTarget,
    /// What was done with them.
    pub entry: CaseEntry,
}

impl CaseUpdate {
    /// What a person did with one case.
    pub fn by_person(seq: u64, at: i64, by: &Name, change: &CaseChange) -> CaseUpdate {
        let CaseChange { kind, id, step, owner, note } = change.clone();
        let target = match kind {
            CaseKind::Incident => CaseTarget::Incident(id),
            CaseKind::Escalation => CaseTarget::Escalation(id),
        };
        let note = note.map(String::from);
        CaseUpdate { target, entry: CaseEntry { seq, at, by: by.clone(), step, owner, note } }
    }

    /// What is answered when an agent is activated or resumed, or a run of it extended. `before` is how the agent stood: a
    /// resume answers only a pause.
    pub fn answered(seq: u64, at: i64, agent: &str, event: &Event, before: Standing) -> Vec<CaseUpdate> {
        let resolved = |by: &Name, did: &str, target| {
            let note = Some(format!("{by} {did}."));
            let entry = CaseEntry { seq, at, by: by.clone(), step: CaseStep::Resolved, owner: None, note };
            CaseUpdate { target, entry }
        };
        let incidents = CaseTarget::IncidentsOf(agent.into());
        let escalations =
            |run: Option<&Name>| CaseTarget::EscalationsOf { agent: agent.into(), run: run.cloned() };
        if let EventKind::AgentActivated { by } = &event.what {
            // Its run without a name begins anew.
            let did = "activated the agent";
            return vec![resolved(by, did, incidents), resolved(by, did, escalations(None))];
        }
        if let EventKind::AgentResumed { by } = &event.what
            && matches!(before, Standing::Paused { .. })
        {
            return vec![resolved(by, "resumed the agent", incidents)];
        }
        if let EventKind::RunExtended { by } = &event.what {
            return vec![resolved(by, "extended the run", escalations(event.run.as_ref()))];
        }
        Vec::new()
    }

    /// What is answered when the emergency stop is cleared.
    pub fn cleared(seq: u64, at: i64, by: &Name) -> CaseUpdate {
        let note = Some(format!("{by} cleared the emergency stop."));
        let entry = CaseEntry { seq, at, by: by.clone(), step: CaseStep::Resolved, owner: None, note };
        CaseUpdate { target: CaseTarget::IncidentsOf(SYSTEM.into()), entry }
    }
}

/// Something was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Its id.
    pub id: Name,
    /// Whose.
    pub agent: Name,
    /// In which run.
    pub run: Option<Name>,
    /// The record that stopped it.
    pub seq: u64,
    /// `loop`, `watchdog`, …
    pub kind: Name,
    /// When.
    pub opened_at: i64,
    /// Whether it is done.
    pub status: CaseStatus,
    /// What resolved it, in the words of whoever did.
    pub resolution: Option<String>,
    /// When it was resolved.
    pub resolved_at: Option<i64>,
    /// Who did what with it, oldest first.
    pub history: Vec<CaseEntry>,
    /// The incident of the same kind that the same agent had within an hour before: this one reopens it.
    pub earlier: Option<Name>,
    /// The incident that reopened this one.
    pub later: Option<Name>,
    /// What proves it, as JSON; never a prompt or a key.
    pub evidence: String,
    /// In a sentence.
    pub summary: String,
    /// Grows with each change; 0 before it is stored.
    pub version: u64,
}

/// A person is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Escalation {
    /// Its id.
    pub id: Name,
    /// Whose.
    pub agent: Name,
    /// In which run.
    pub run: Option<Name>,
    /// Why.
    pub reason: String,
    /// The record that stopped it.
    pub seq: u64,
    /// When.
    pub opened_at: i64,
    /// Whether it is done.
    pub status: CaseStatus,
    /// Who looks after it.
    pub owner: Option<Name>,
    /// Who did what with it, oldest first.
    pub history: Vec<CaseEntry>,
    /// When it was done.
    pub resolved_at: Option<i64>,
    /// By whom.
    pub resolved_by: Option<Name>,
    /// The agent's last words.
    pub summary: Option<String>,
    /// What is known of the run, as JSON: its limit, issue, role, branch, session, what it used.
    pub facts: String,
    /// Grows with each change; 0 before it is stored.
    pub version: u64,
}

/// Which cases.
#[derive(Clone, Debug, Default)]
pub struct CaseFilter {
    /// Of this agent.
    pub agent: Option<Name>,
    /// In this status.
    pub status: Option<StatusFilter>,
    /// Older than this one, by time and id: the last of the page before.
    pub before: Option<(i64, Name)>,
}

/// In which status cases are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusFilter {
    /// In this one.
    Is(CaseStatus),
    /// In any but resolved.
    Unresolved,
}

/// How many cases are not resolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenCases {
    /// Incidents.
    pub incidents: u64,
    /// Escalations.
    pub escalations: u64,
}

/// What keeps cases. They are opened with the journal batch that caused them, or here.
pub trait Cases: Send + Sync {
    /// Opens an incident; one that is there already is left as it is.
    fn open_incident(&self, incident: &Incident) -> Result<(), StoreError>;
    /// One incident.
    fn incident(&self, id: &str) -> Result<Option<Incident>, StoreError>;
    /// How many incidents there are, whatever page is read.
    fn count_incidents(&self, filter: &CaseFilter) -> Result<u64, StoreError>;
    /// Incidents, newest first.
    fn incidents(&self, filter: &CaseFilter, limit: usize) -> Result<Vec<Incident>, StoreError>;

    /// Changes cases as a record says.
    fn update_case(&self, update: &CaseUpdate) -> Result<(), StoreError>;
    /// How many are not resolved, without reading any.
    fn open_cases(&self) -> Result<OpenCases, StoreError>;

    /// Opens an escalation; one that is there already is left as it is.
    fn open_escalation(&self, escalation: &Escalation) -> Result<(), StoreError>;
    /// One escalation.
    fn escalation(&self, id: &str) -> Result<Option<Escalation>, StoreError>;
    /// Escalations, newest first.
    fn escalations(&self, filter: &CaseFilter, limit: usize) -> Result<Vec<Escalation>, StoreError>;
}
