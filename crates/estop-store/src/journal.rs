//! What follows from the journal's records, stored with how far it goes; and the records themselves.

use std::sync::Arc;

use estop_core::agent::standing::Standing;
use estop_core::guard::Guard;
use estop_core::ids::{Hash64, Name};

use crate::cases::{CaseUpdate, Escalation, Incident};
use crate::error::StoreError;
use crate::ledger::Spend;
use crate::runs::Run;
use crate::segments::JournalReader;

/// What follows from the records since the last batch. It is stored as a whole or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalBatch {
    /// Events people look for.
    pub events: Vec<NewEvent>,
    /// Agents that called; unknown ones are added with origin `traffic`.
    pub seen: Vec<AgentSeen>,
    /// Agents that were switched on or off, paused or resumed.
    pub standings: Vec<StandingChange>,
    /// Agents' states.
    pub snapshots: Vec<Snapshot>,
    /// Runs that changed.
    pub runs: Vec<Run>,
    /// What was spent.
    pub spend: Vec<Spend>,
    /// The account of all agents together after this batch; the store does not look into it.
    pub fleet: Option<String>,
    /// Incidents that were opened.
    pub incidents: Vec<Incident>,
    /// Escalations that were opened.
    pub escalations: Vec<Escalation>,
    /// Incidents and escalations that people changed or answered, in the order of their records. Each changes only cases
    /// of records before it.
    pub case_updates: Vec<CaseUpdate>,
    /// Up to which record this is what follows.
    pub cursor: Option<Cursor>,
}

/// How far into which journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Which journal.
    pub journal: Hash64,
    /// The newest record.
    pub seq: u64,
}

/// When a write counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// The operating system has it: it survives kill -9, and may be lost with the power.
    Process,
    /// The disk has it: kills, deactivations, tokens, keys, policies.
    Disk,
}

/// An event people look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// The record it stands in.
    pub seq: u64,
    /// When.
    pub wall: i64,
    /// Whose; `None` = the system's.
    pub agent: Option<Name>,
    /// `kill_switch`, `policy_changed`, …
    pub event_type: Name,
    /// What there is to say, as a JSON object.
    pub detail: String,
}

/// All types of events, by which people look for them.
pub const EVENT_TYPES: &[&str] = &[
    "access_changed",
    "activated",
    "budget_refused",
    "budget_renewed",
    "budget_warning",
    "case_changed",
    "checkpoint",
    "configuration_read",
    "configuration_refused",
    "deactivated",
    "error_rate",
    "error_rate_over",
    "guard_snoozed",
    "guard_woken",
    "kill_switch",
    "nudge_ended",
    "nudged",
    "part_recovered",
    "part_stuck",
    "paused",
    "policy_changed",
    "preset_changed",
    "prooftest_failed",
    "prooftest_passed",
    "pruned",
    "refused",
    "reservation_expired",
    "restarted",
    "resumed",
    "run_completed",
    "run_escalated",
    "run_extended",
    "run_slept",
    "run_started",
    "run_tripped",
    "run_woke",
    "snooze_ended",
    "started",
    "system_clear",
    "system_kill",
    "system_restart",
    "trigger_lost",
    "trigger_works",
    "watchdog",
    "would_have_stopped",
];

/// An event as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its place among all events.
    pub key: EventKey,
    /// The event.
    pub event: NewEvent,
}

/// An event's place: its record, and which of the record's events it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventKey {
    /// The record.
    pub seq: u64,
    /// From 0.
    pub nth: u32,
}

/// Which events.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Of this agent.
    pub agent: Option<Name>,
    /// Of this type.
    pub event_type: Option<Name>,
    /// What this guard did or saw.
    pub guard: Option<Guard>,
    /// Older than this one: the last of the page before.
    pub before: Option<EventKey>,
    /// Newer than this one.
    pub after: Option<EventKey>,
    /// The oldest first; otherwise the newest.
    pub oldest_first: bool,
}

/// Types of events that are a guard's though they do not name it.
pub(crate) fn types_of(guard: Guard) -> &'static [&'static str] {
    match guard {
        Guard::Budget => &["budget_refused", "budget_warning"],
        Guard::Loop => &["nudge_ended", "nudged"],
        Guard::Breaker => &["run_escalated", "run_tripped"],
        Guard::Watchdog => &["watchdog"],
        Guard::System => &["system_clear", "system_kill", "system_restart"],
        Guard::Agent => &["activated", "deactivated", "paused", "resumed"],
        Guard::Run => &["run_completed", "run_extended", "run_slept", "run_started", "run_woke"],
        Guard::Hours
        | Guard::Models
        | Guard::Rate
        | Guard::Churn
        | Guard::Chanting
        | Guard::Gate
        | Guard::Health => &[],
    }
}

/// An agent called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSeen {
    /// Which.
    pub agent: Name,
    /// When.
    pub at: i64,
}

/// An agent's standing changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingChange {
    /// Which agent.
    pub agent: Name,
    /// What it may do from here on.
    pub standing: Standing,
    /// When, by the wall clock.
    pub at: i64,
}

/// An agent's state after a record; the store does not look into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Which agent.
    pub agent: Name,
    /// The last record it covers.
    pub seq: u64,
    /// The state.
    pub state: Vec<u8>,
}

/// Takes whole lines; `false` ends the reading.
pub type EachBlock<'a> = &'a mut dyn FnMut(&[u8]) -> bool;

/// The journal and what follows from it.
pub trait Journal: Send + Sync {
    /// The journal's files.
    fn journal(&self) -> &JournalReader;

    /// Stores a batch. An error means that nothing of it was stored; the same batch may be tried again.
    fn append(&self, batch: Arc<JournalBatch>, durability: Durability) -> Result<(), StoreError>;

    /// Waits until the disk has all rows so far.
    fn sync_rows(&self) -> Result<(), StoreError>;

    /// How far into which journal rows were made; `None` if none were.
    fn cursor(&self) -> Result<Option<Cursor>, StoreError>;

    /// The newest record of which rows were made; 0 if none were.
    fn last_seq(&self) -> Result<u64, StoreError> {
        Ok(self.cursor()?.map_or(0, |cursor| cursor.seq))
    }

    /// The record after which the journal begins; 0 = it is whole.
    fn begins_after(&self) -> Result<u64, StoreError>;

    /// Reads the records `from_seq..=to_seq`, some hundreds at a time, without holding anything back meanwhile.
    fn blocks(&self, from_seq: u64, to_seq: u64, each: EachBlock<'_>) -> Result<(), StoreError>;

    /// Reads all lines as they were written, also those that begin and end segments.
    fn lines(&self, each: EachBlock<'_>) -> Result<(), StoreError>;

    /// Reads the whole journal for people: the states it begins with if records are gone, all lines, and a last one that says
    /// that nothing was cut off.
    fn export(&self, each: EachBlock<'_>) -> Result<(), StoreError>;

    /// The same of one agent alone.
    fn export_agent(&self, agent: &str, each: EachBlock<'_>) -> Result<(), StoreError>;

    /// Lines of one agent older than `before_seq`, newest first, without their ends.
    fn records_of(
        &self,
        agent: &str,
        before_seq: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Vec<u8>>, StoreError>;

    /// Events, the newest first unless the filter says otherwise.
    fn events(&self, filter: &EventFilter, limit: usize) -> Result<Vec<StoredEvent>, StoreError>;

    /// Notes where agents have records in sealed segments that were not looked through yet.
    fn index_segments(&self) -> Result<(), StoreError>;

    /// Forgets where agents had records in segments that were pruned.
    fn forget_segments(&self, to_segment: u64) -> Result<(), StoreError>;

    /// An agent's state after the last record that was pruned; `None` if none of its records was.
    fn base_state(&self, agent: &str) -> Result<Option<Vec<u8>>, StoreError>;
}
