//! Files that are ours alone: scripts, plugins, a file of hooks in a folder of such files.

use super::{Removed, SettingsError};

/// One file.
#[derive(Clone, Debug)]
pub(super) struct OwnedFile {
    pub(super) text: String,
    /// What every version of it holds, and nobody else's file.
    pub(super) mark: String,
}

impl OwnedFile {
    pub(super) fn add(&self, existing: Option<&str>) -> Result<String, SettingsError> {
        match existing {
            Some(text) if !text.trim().is_empty() && !text.contains(&self.mark) => {
                Err(SettingsError::SomeoneElses)
            }
            Some(_) | None => Ok(self.text.clone()),
        }
    }

    pub(super) fn remove(&self, existing: &str) -> Removed {
        if existing.contains(&self.mark) { Removed::Delete } else { Removed::Unchanged }
    }
}
