//! Settings and the journal: each change is a record, and at a start the journal has the last word.

use std::sync::Arc;

use estop_config::printable::escaped;
use estop_core::system::SettingChange;
use estop_gateway::Engine;
use estop_journal::Settings;
use estop_store::{SettingsJournal, Store, StoreError};

/// Records changes of settings in the journal.
pub(super) struct RecordSettings(pub(super) Arc<Engine>);

impl SettingsJournal for RecordSettings {
    fn record(&self, changes: Vec<SettingChange>) -> Result<(), StoreError> {
        self.0.settings_changed(changes);
        if self.0.journal.sync() {
            return Ok(());
        }
        Err(StoreError::Io("the journal cannot be written".to_owned()))
    }
}

/// Puts the database's settings back to what the journal says. They differ where the database is new, was replaced, or lost
/// its last writes with the power.
pub(super) fn restore(store: &dyn Store, wanted: &Settings) -> Result<(), StoreError> {
    let is_new = store.cursor()?.is_none();
    let restored = store.restore_settings(wanted)?;
    if restored.changed > 0 && is_new {
        tracing::warn!(target: "storage", "there was no database: it is made anew from the journal.");
    } else if restored.changed > 0 {
        tracing::warn!(
            target: "storage", "{} tokens, keys or rules in the database were not what the journal says. They are now, and whoever was \
             logged in to the dashboard has to log in again.",
            restored.changed
        );
    }
    for name in restored.lost_passwords {
        tracing::warn!(
            target: "storage", "the password of the token {} is lost: set it anew, or use another token.",
            escaped(&name)
        );
    }
    Ok(())
}
