//! Looking after a store: what is let go with time, beside the journal's records, and files that others touched.

use crate::error::StoreError;

/// What is old. What has no bound stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionCutoffs {
    /// Sessions that ended before this go.
    pub now: i64,
    /// Events older than this go.
    pub events_before: Option<i64>,
    /// Closed incidents and escalations older than this go.
    pub cases_before: Option<i64>,
    /// Steps before stops, written before this, go.
    pub evidence_before: Option<i64>,
    /// Ended runs that began before this go.
    pub runs_before: Option<i64>,
    /// Spend of days before this one goes.
    pub spend_before_day: Option<i32>,
    /// Alerts older than this go, once they are delivered or given up.
    pub alerts_before: Option<i64>,
    /// Tokens and keys that were taken back, or ended, before this go.
    pub access_before: Option<i64>,
}

/// What keeps a store from growing for ever, and from losing what it stores unnoticed.
pub trait Upkeep: Send + Sync {
    /// Lets some of what is old go; how many rows. 0 = there is nothing more.
    fn sweep(&self, old: RetentionCutoffs) -> Result<usize, StoreError>;

    /// Gives some free room back to the system; whether there is more.
    fn give_back(&self) -> Result<bool, StoreError>;

    /// What became of the store's own files, if somebody removed, cut or replaced one: what is stored from then on is lost.
    fn lost_file(&self) -> Option<String>;
}
