//! Cases a person should look at: incidents (what was stopped) and escalations (who is needed).

use estop_core::ids::Name;

use crate::error::StoreError;

/// Whether a case is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseStatus {
    /// Someone should look.
    Open,
    /// Someone has.
    Closed,
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
    /// What was found out.
    pub resolution: Option<String>,
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
    /// When.
    pub opened_at: i64,
    /// Whether it is done.
    pub status: CaseStatus,
    /// Who looks after it.
    pub owner: Option<Name>,
    /// What people wrote.
    pub notes: String,
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
    pub status: Option<CaseStatus>,
    /// Older than this one, by time and id: the last of the page before.
    pub before: Option<(i64, Name)>,
}

/// How many cases are open.
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
    /// Incidents, newest first.
    fn incidents(&self, filter: &CaseFilter, limit: usize) -> Result<Vec<Incident>, StoreError>;
    /// Replaces status, resolution and summary, if the version is still `incident.version`; the new version.
    fn update_incident(&self, incident: &Incident) -> Result<u64, StoreError>;

    /// How many are open, without reading any.
    fn open_cases(&self) -> Result<OpenCases, StoreError>;

    /// Opens an escalation; one that is there already is left as it is.
    fn open_escalation(&self, escalation: &Escalation) -> Result<(), StoreError>;
    /// One escalation.
    fn escalation(&self, id: &str) -> Result<Option<Escalation>, StoreError>;
    /// Escalations, newest first.
    fn escalations(&self, filter: &CaseFilter, limit: usize) -> Result<Vec<Escalation>, StoreError>;
    /// Replaces status, owner, notes and who resolved it, if the version is still `escalation.version`; the new
    /// version.
    fn update_escalation(&self, escalation: &Escalation) -> Result<u64, StoreError>;
}
