//! Where the first router of a store begins.

use estop_store::{AlertCommit, AlertMemory, Alerts, StoreError};

use super::{AlertRouter, CURSOR};

impl AlertRouter {
    /// A store that has no such place yet begins here: whatever stands before was never to be told.
    pub(crate) fn begin_at(store: &dyn Alerts, now: i64, seq: u64) -> Result<(), StoreError> {
        let begun = store.alert_memory(CURSOR)?.iter().any(|(name, _)| &**name == CURSOR);
        if !begun {
            let cursor = AlertMemory { name: CURSOR.into(), value: Some(seq.max(1).to_string()) };
            store.commit_alerts(AlertCommit { at: now, alerts: Vec::new(), memory: vec![cursor] })?;
        }
        Ok(())
    }
}
