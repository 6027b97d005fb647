//! What people set while estop runs: tokens, keys, rules of agents, the preset, alert rules. The database has them in
//! tables; the journal has each change as a record, and has the last word at a start.

use std::sync::Arc;

use estop_core::ids::Name;
use estop_core::system::SettingChange;
use estop_journal::Settings;
use serde_json::Value;

use crate::error::StoreError;

/// Records changes of settings.
pub trait SettingsJournal: Send + Sync {
    /// Records them in one record; the disk has it when this returns.
    fn record(&self, changes: Vec<SettingChange>) -> Result<(), StoreError>;
}

/// What keeps the store's settings and the journal's records of them the same.
pub trait SettingsRepo: Send + Sync {
    /// Puts everything back that is not what the journal says; then nobody stays logged in.
    fn restore_settings(&self, wanted: &Settings) -> Result<RestoredSettings, StoreError>;

    /// From here on changes are recorded; what changed since [`SettingsRepo::restore_settings`] is at once.
    fn record_settings(&self, journal: Arc<dyn SettingsJournal>) -> Result<(), StoreError>;
}

/// What a start found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoredSettings {
    /// Settings that were not what the journal says, and are now.
    pub changed: usize,
    /// Names of tokens with a password that nobody has any more: they must be set anew.
    pub lost_passwords: Vec<Name>,
}

/// What leads from one to the other.
pub(crate) fn changes(from: &Settings, to: &Settings) -> Vec<SettingChange> {
    let mut changes = Vec::new();
    let all = |settings: &'_ Settings| {
        let of_kind = |(kind, values): (&Name, &std::collections::BTreeMap<Name, Value>)| {
            values.iter().map(|(id, value)| (kind.clone(), id.clone(), value.clone())).collect::<Vec<_>>()
        };
        settings.iter().flat_map(of_kind).collect::<Vec<_>>()
    };
    let get = |settings: &Settings, kind: &Name, id: &Name| settings.get(kind)?.get(id).cloned();
    for (kind, id, value) in all(to) {
        if get(from, &kind, &id).as_ref() != Some(&value) {
            changes.push(SettingChange { kind, id, value: Some(value) });
        }
    }
    for (kind, id, _) in all(from) {
        if get(to, &kind, &id).is_none() {
            changes.push(SettingChange { kind, id, value: None });
        }
    }
    changes
}
