//! Alert rules, and the outbox of alerts on their way.

use estop_core::ids::Name;

use crate::error::StoreError;

/// A rule that says who is told of what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertRule {
    /// Its id.
    pub id: Name,
    /// What it says, as JSON.
    pub rule: String,
    /// It is in force.
    pub enabled: bool,
    /// Grows with each change; 0 before it is stored.
    pub version: u64,
    /// When it was last changed.
    pub updated_at: i64,
}

/// An alert to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAlert {
    /// The same alert has the same text here, and is added once.
    pub dedupe: Name,
    /// Where to.
    pub target: Name,
    /// What, as JSON.
    pub payload: String,
    /// When it was made.
    pub created_at: i64,
    /// When to send it.
    pub due_at: i64,
}

/// An alert that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueAlert {
    /// Its number.
    pub id: u64,
    /// The alert.
    pub alert: NewAlert,
    /// How often it was tried.
    pub attempts: u32,
}

/// How a try to send ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When.
    pub at: i64,
    /// How.
    pub outcome: DeliveryOutcome,
    /// What the other side said, shortened by the caller.
    pub detail: String,
}

/// What becomes of the alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// It arrived.
    Delivered,
    /// It is tried again then.
    RetryAt(i64),
    /// It is not tried again.
    GivenUp,
}

/// What keeps rules and alerts.
pub trait Alerts: Send + Sync {
    /// Adds a rule (version 0), or replaces the one of that version; the new version.
    fn put_rule(&self, rule: &AlertRule) -> Result<u64, StoreError>;
    /// All rules in order of id.
    fn rules(&self) -> Result<Vec<AlertRule>, StoreError>;
    /// Removes a rule.
    fn delete_rule(&self, id: &str) -> Result<(), StoreError>;

    /// Adds alerts that are not there yet; how many.
    fn push_alerts(&self, alerts: Vec<NewAlert>) -> Result<usize, StoreError>;
    /// Alerts that are due by `now`, the longest waiting first.
    fn due_alerts(&self, now: i64, limit: usize) -> Result<Vec<DueAlert>, StoreError>;
    /// Writes down how a try ended.
    fn mark_alert(&self, id: u64, delivery: &Delivery) -> Result<(), StoreError>;
    /// Forgets alerts that are done and older than this; how many.
    fn sweep_alerts(&self, before: i64) -> Result<usize, StoreError>;
}
