//! One file to change: what it has, what it will have, and the copy that is kept of it.

use std::path::PathBuf;

use anyhow::Context;
use estop_config::printable::escaped_lines;
use estop_wire::hooks::HookClient;
use serde::{Serialize, Serializer};

use super::diff::unified;
use super::file::{self, Found};
use super::settings::{Removed, SettingsError, Target};
use super::{detect, shown, strict};

/// A change, not carried out yet.
pub(super) struct Edit {
    path: PathBuf,
    found: Found,
    /// What it will have; `None`: it goes.
    after: Option<String>,
    is_executable: bool,
    backup: Backup,
}

/// What happens to the copy beside the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backup {
    /// It is left alone: what the file has was edited by us before.
    Keep,
    /// The file as it is now becomes the copy.
    Make,
    /// The file is again as the copy says.
    Drop,
}

impl Edit {
    /// The file with our hooks.
    pub(super) fn to_add(client: HookClient, path: PathBuf, target: &Target) -> anyhow::Result<Edit> {
        let found = file::read(&path)?;
        let add = || -> Result<(String, bool), SettingsError> {
            let after = target.add(found.text())?;
            let is_ours = match found.text() {
                Some(text) => target.remove(text)? != Removed::Unchanged,
                None => false,
            };
            Ok((after, is_ours))
        };
        let (after, is_ours) = add().with_context(|| untouched(&path))?;
        strict::check(client, &path, found.text().unwrap_or_default())?;
        Ok(Edit { is_executable: target.is_executable, ..Edit::added(client, path, found, after, is_ours) })
    }

    /// The same for any text: `is_ours` says that the file has entries of ours of this kind already.
    pub(super) fn added(
        client: HookClient,
        path: PathBuf,
        found: Found,
        after: String,
        is_ours: bool,
    ) -> Edit {
        // Hooks and MCP servers may stand in one file: the copy is from before the first of them. One that is older than
        // that, from an install that was taken back by hand, is not the file as it was.
        let is_ours = is_ours || found.text().is_some_and(|text| detect::stand_in(client, &path, text));
        let backup = if is_ours || found.text().is_none() { Backup::Keep } else { Backup::Make };
        Edit { path, found, after: Some(after), is_executable: false, backup }
    }

    /// The file without our hooks.
    pub(super) fn to_remove(path: PathBuf, target: &Target) -> anyhow::Result<Edit> {
        let found = file::read(&path)?;
        let removed = match found.text() {
            Some(text) => target.remove(text).with_context(|| untouched(&path))?,
            None => Removed::Unchanged,
        };
        // What the copy would look like after the same way there and back. If that is what is left, nobody else
        // changed the file in between, and the copy is the file as it was, to the last space.
        let round = |copy: &str| target.remove(&target.add(Some(copy)).ok()?).ok();
        Edit::removed(path, found, &removed, round)
    }

    /// The same for any text; `round` is the way there and back for the copy.
    pub(super) fn removed(
        path: PathBuf,
        found: Found,
        removed: &Removed,
        round: impl Fn(&str) -> Option<Removed>,
    ) -> anyhow::Result<Edit> {
        let copy = found.backup()?;
        let left = match removed {
            Removed::Unchanged => {
                let after = found.text().map(str::to_owned);
                return Ok(Edit { path, found, after, is_executable: false, backup: Backup::Keep });
            }
            Removed::Text(text) => Some(text.clone()),
            Removed::Delete => None,
        };
        let (after, backup) = match copy {
            Some(copy) if round(&copy).as_ref() == Some(removed) => (Some(copy), Backup::Drop),
            Some(_) | None => (left, Backup::Keep),
        };
        Ok(Edit { path, found, after, is_executable: false, backup })
    }

    fn is_change(&self) -> bool {
        self.found.text() != self.after.as_deref()
    }

    /// What it changes, for people.
    pub(super) fn outcome(&self) -> Outcome {
        let change = match (self.found.text(), &self.after) {
            (before, after) if before == after.as_deref() => Change::Unchanged,
            (None, _) => Change::Created,
            (_, None) => Change::Deleted,
            (Some(_), Some(_)) => Change::Changed,
        };
        let name = shown(&self.path);
        let diff =
            unified(&name, self.found.text().unwrap_or_default(), self.after.as_deref().unwrap_or_default());
        let is_kept = self.is_change() && (self.backup == Backup::Make || self.found.has_backup());
        let backup = (is_kept && self.backup != Backup::Drop).then(|| self.found.backup_path());
        Outcome { path: self.path.clone(), change, backup, diff }
    }

    /// Writes it.
    pub(super) fn carry_out(&self) -> anyhow::Result<()> {
        if !self.is_change() {
            return Ok(());
        }
        if self.backup == Backup::Make {
            self.found.make_backup()?;
        }
        match &self.after {
            Some(text) => self.found.replace(text, self.is_executable)?,
            None => self.found.delete()?,
        }
        if self.backup == Backup::Drop {
            self.found.drop_backup()?;
        }
        Ok(())
    }
}

fn untouched(path: &std::path::Path) -> String {
    format!("{} was left as it is", shown(path))
}

/// What became of a file.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    #[serde(serialize_with = "as_text")]
    pub(super) path: PathBuf,
    change: Change,
    /// The copy of how it was.
    #[serde(serialize_with = "as_text_if_any")]
    backup: Option<PathBuf>,
    /// Unified; empty if nothing changes.
    diff: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Change {
    Unchanged,
    Created,
    Changed,
    Deleted,
}

impl Outcome {
    pub(super) fn is_change(&self) -> bool {
        self.change != Change::Unchanged
    }

    pub(super) fn text(&self) -> String {
        let kept = self.backup.as_ref().map(|path| format!("The file as it was: {}\n", shown(path)));
        if self.is_change() {
            // Tabs are how many people indent.
            let diff: Vec<String> = self.diff.split('\t').map(escaped_lines).collect();
            format!("{}{}", diff.join("\t"), kept.unwrap_or_default())
        } else {
            format!("{}: nothing to change", shown(&self.path))
        }
    }
}

fn as_text<S: Serializer>(path: &std::path::Path, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(&path.to_string_lossy())
}

fn as_text_if_any<S: Serializer>(path: &Option<PathBuf>, s: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => as_text(path, s),
        None => s.serialize_none(),
    }
}
