//! The journal: blocks of lines that only grow at the end and shrink at the beginning.
//!
//! The store takes records as they are. It checks that they follow one another, and knows of each no more than its
//! chain, its time and its two hashes; judging and verifying are the core's.

use std::sync::Arc;

use estop_core::agent::standing::Standing;
use estop_core::chain::{ChainHead, Digest};
use estop_core::ids::Name;

use crate::cases::{Escalation, Incident};
use crate::error::StoreError;
use crate::ledger::Spend;
use crate::records::Records;
use crate::runs::Run;

/// Everything that happened since the last batch. It is stored as a whole or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalBatch {
    /// The records, by whoever just linked them; `None` if only the rest is to be stored.
    pub records: Option<Records>,
    /// The records as lines, by whoever has no more than these.
    pub lines: Option<Lines>,
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
    /// How far the write-ahead tail was taken in with this batch.
    pub tail: Option<TailMark>,
}

/// Whole journal lines, each ended by `\n`, numbered without a gap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Number of the first record.
    pub first_seq: u64,
    /// Number of the last record.
    pub last_seq: u64,
    /// Wall-clock time of the first record.
    pub first_wall: i64,
    /// Wall-clock time of the last record.
    pub last_wall: i64,
    /// The lines.
    pub bytes: Vec<u8>,
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
    /// Older than this one: the last of the page before.
    pub before: Option<EventKey>,
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

/// A place in the write-ahead tail, a file of lines that are not in the store yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TailMark {
    /// Which file.
    pub generation: u64,
    /// How many of its bytes were taken in.
    pub offset: u64,
}

/// What goes. Either bound is enough; without any, nothing goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Records older than this go.
    pub before_wall: Option<i64>,
    /// The oldest records go beyond so many bytes.
    pub keep_bytes: Option<u64>,
    /// Nothing after this record goes.
    pub checkpoint: u64,
}

/// Records that go next, all at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prunable {
    /// The first of them.
    pub from_seq: u64,
    /// The last of them.
    pub to_seq: u64,
    /// The heads of all chains after the last.
    pub heads: Vec<ChainHead>,
}

/// A chain's state after the last record that was pruned; the store does not look into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseState {
    /// Whose.
    pub chain: Name,
    /// The state.
    pub state: Vec<u8>,
}

/// How far the journal was pruned, and what the rest verifies from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// The last record that is gone; 0 = none.
    pub to_seq: u64,
    /// The heads of all chains after that record.
    pub heads: Vec<ChainHead>,
}

/// Takes each block of a range in turn; `false` ends the reading.
pub type EachBlock<'a> = &'a mut dyn FnMut(&Lines) -> bool;

/// What keeps the journal.
pub trait Journal: Send + Sync {
    /// Stores a batch. An error means that nothing of it was stored; the same batch may be tried again.
    fn append(&self, batch: Arc<JournalBatch>, durability: Durability) -> Result<(), StoreError>;

    /// The newest record; 0 if there is none.
    fn last_seq(&self) -> Result<u64, StoreError>;

    /// The heads of all chains after the newest record, in order of name.
    fn heads(&self) -> Result<Vec<ChainHead>, StoreError>;

    /// How far the write-ahead tail was taken in.
    fn tail(&self) -> Result<TailMark, StoreError>;

    /// Reads the records `from_seq..=to_seq`, some hundreds at a time, without holding anything back meanwhile.
    fn blocks(&self, from_seq: u64, to_seq: u64, each: EachBlock<'_>) -> Result<(), StoreError>;

    /// Lines of one agent older than `before_seq`, newest first, without their ends.
    fn records_of(
        &self,
        agent: &str,
        before_seq: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Vec<u8>>, StoreError>;

    /// Events, newest first.
    fn events(&self, filter: &EventFilter, limit: usize) -> Result<Vec<StoredEvent>, StoreError>;

    /// Merges small blocks. The store does it by itself when many have gathered.
    fn compact(&self) -> Result<(), StoreError>;

    /// The records that go next, if any: a part that is written in one step.
    fn prunable(&self, retention: Retention) -> Result<Option<Prunable>, StoreError>;

    /// Lets the records go up to `to_seq`, as [`Journal::prunable`] gave it, and keeps the states of their chains after
    /// it, all at once.
    fn prune(&self, to_seq: u64, bases: Vec<BaseState>) -> Result<(), StoreError>;

    /// A chain's state after the last record that was pruned; `None` if none of its records was.
    fn base_state(&self, chain: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// The SHA-256 of each of these states, in order of name.
    fn base_digests(&self) -> Result<Vec<(Name, Digest)>, StoreError>;

    /// Gives some free room back to the system; whether there is more.
    fn give_back(&self) -> Result<bool, StoreError>;

    /// How far it was pruned.
    fn pruned(&self) -> Result<Pruned, StoreError>;
}
