//! Alert rules, the outbox of alerts on their way, and the log of what became of them.

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

/// An alert that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueAlert {
    /// Its number.
    pub id: u64,
    /// The alert.
    pub alert: NewAlert,
    /// How often it was tried.
    pub attempts: u32,
}

/// Something the rules or a sink must know after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertMemory {
    /// Its name: a kind, a slash, and whatever the kind needs.
    pub name: Name,
    /// What, as JSON; `None` forgets it.
    pub value: Option<String>,
}

/// Alerts and what is remembered of them: stored together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlertCommit {
    /// When.
    pub at: i64,
    /// Alerts to be sent; those that are there already are left as they are.
    pub alerts: Vec<NewAlert>,
    /// What is to be remembered or forgotten.
    pub memory: Vec<AlertMemory>,
}

/// What waits for one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Where to.
    pub target: Name,
    /// How many.
    pub count: u64,
    /// When the first of them was made.
    pub oldest_at: i64,
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

/// A try that was made, as the log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedDelivery {
    /// Its number in the log.
    pub id: u64,
    /// The alert's dedupe text.
    pub dedupe: Name,
    /// Where to.
    pub target: Name,
    /// Which try it was, from 1.
    pub attempt: u32,
    /// When.
    pub at: i64,
    /// `delivered`, `retry` or `given_up`.
    pub outcome: Name,
    /// What the other side said.
    pub detail: String,
    /// What was sent, as JSON, as long as the alert itself is kept.
    pub payload: Option<String>,
}

/// Which tries.
#[derive(Clone, Debug, Default)]
pub struct DeliveryFilter {
    /// To this target.
    pub target: Option<Name>,
    /// Older than this one: the last of the page before.
    pub before: Option<u64>,
}

/// What keeps rules and alerts.
pub trait Alerts: Send + Sync {
    /// Adds a rule (version 0), or replaces the one of that version; the new version.
    fn put_rule(&self, rule: &AlertRule) -> Result<u64, StoreError>;
    /// All rules in order of id.
    fn rules(&self) -> Result<Vec<AlertRule>, StoreError>;
    /// Removes a rule.
    fn delete_rule(&self, id: &str) -> Result<(), StoreError>;

    /// Adds alerts that are not there yet, and remembers; how many alerts were added. On the disk before it returns.
    fn commit_alerts(&self, commit: AlertCommit) -> Result<usize, StoreError>;
    /// What is remembered under names that begin so, in order of name.
    fn alert_memory(&self, prefix: &str) -> Result<Vec<(Name, String)>, StoreError>;

    /// The first alert that waits for a target. Those behind it go out after it.
    fn next_alert(&self, target: &str) -> Result<Option<DueAlert>, StoreError>;
    /// What waits, in order of target.
    fn waiting_alerts(&self) -> Result<Vec<Waiting>, StoreError>;
    /// Writes down how a try ended.
    fn mark_alert(&self, id: u64, delivery: &Delivery) -> Result<(), StoreError>;
    /// Tries that were made, newest first. The log has a bounded size; the oldest go.
    fn deliveries(&self, filter: &DeliveryFilter, limit: usize) -> Result<Vec<LoggedDelivery>, StoreError>;

    /// Forgets alerts that are done and older than this, and what was remembered under `prefix` and not touched since;
    /// how many.
    fn sweep_alerts(&self, before: i64, prefix: &str) -> Result<usize, StoreError>;
}
