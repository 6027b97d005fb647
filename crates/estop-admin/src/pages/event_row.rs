//! An event as lists of pages show it.

use estop_store::StoredEvent;

use super::shown::{sentence, when};
use crate::evidence::WatchedEvent;
use crate::output::{kept_json, moment};

/// An event in a list.
pub(super) struct EventRow {
    pub(super) at: String,
    pub(super) when: String,
    pub(super) kind: String,
    pub(super) agent: Option<String>,
    pub(super) text: String,
    pub(super) seq: u64,
    /// Steps may be kept of it.
    pub(super) has_steps: bool,
}

impl EventRow {
    pub(super) fn of(StoredEvent { key, event }: StoredEvent, now: i64) -> EventRow {
        EventRow {
            at: moment(event.wall),
            when: when(event.wall, now),
            kind: event.event_type.replace('_', " "),
            has_steps: WatchedEvent::is_type(&event.event_type),
            agent: event.agent.map(Into::into),
            text: sentence(&kept_json(&event.detail)),
            seq: key.seq,
        }
    }
}
