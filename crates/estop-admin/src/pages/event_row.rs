//! An event as lists of pages show it.

use estop_store::{Store, StoreError, StoredEvent};

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

    /// Whether steps are kept of it is looked up.
    pub(super) fn with_steps(mut self, store: &dyn Store) -> Result<EventRow, StoreError> {
        if self.has_steps {
            let id = format!("{}-{}", self.agent.as_deref().unwrap_or_default(), self.seq);
            self.has_steps = store.evidence(&id)?.is_some_and(|kept| kept.steps.is_some());
        }
        Ok(self)
    }
}
