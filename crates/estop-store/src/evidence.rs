//! The steps before a stop, kept beside its incident (EV-1): excerpts of what an agent said and did. They do not follow from the
//! journal, which has no words: a database that is made anew has none of them.

use estop_core::ids::Name;

use crate::error::StoreError;

/// What is kept of the steps before a stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Of which incident.
    pub incident: Name,
    /// Of which agent.
    pub agent: Name,
    /// When it was written.
    pub stored_at: i64,
    /// As JSON (`IncidentSteps`); `None` once somebody deleted it.
    pub steps: Option<String>,
    /// Who deleted it, and when.
    pub deleted: Option<(Name, i64)>,
}

/// What keeps it. Nothing that stops an agent waits for it.
pub trait EvidenceRepo: Send + Sync {
    /// Keeps the steps of an incident, or that somebody deleted them before they were kept; what is there already stays, deleted or
    /// not.
    fn put_evidence(&self, evidence: &Evidence) -> Result<(), StoreError>;
    /// What is kept of an incident.
    fn evidence(&self, incident: &str) -> Result<Option<Evidence>, StoreError>;
    /// Deletes the steps at once, and keeps who did it; `None` if nothing is kept of this incident.
    fn delete_evidence(&self, incident: &str, by: &str, now: i64) -> Result<Option<Evidence>, StoreError>;
}
