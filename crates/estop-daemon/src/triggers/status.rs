//! What people see of the triggers: which there are, and whether each would press the button.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use estop_core::operator::TriggerView;
use jiff::Timestamp;

use super::heartbeat::LastHeartbeat;

/// The triggers, as people see them.
pub struct TriggerStatus {
    rows: Mutex<Vec<(&'static str, TriggerView)>>,
    file: Option<PathBuf>,
    heart: Option<Arc<LastHeartbeat>>,
}

impl TriggerStatus {
    /// Of these triggers; none of them has been looked at.
    pub fn new(
        names: impl IntoIterator<Item = &'static str>,
        file: Option<PathBuf>,
        heart: Option<Arc<LastHeartbeat>>,
    ) -> TriggerStatus {
        let row = |name: &'static str| {
            let what = "was not looked at so far".into();
            (name, TriggerView { name: name.into(), working: true, what, since: wall() })
        };
        TriggerStatus { rows: Mutex::new(names.into_iter().map(row).collect()), file, heart }
    }

    /// Each trigger.
    pub fn views(&self) -> Vec<TriggerView> {
        self.rows().iter().map(|(_, row)| row.clone()).collect()
    }

    /// Somebody is there; `false` if nobody waits for that.
    pub fn beat(&self) -> bool {
        self.heart.as_ref().is_some_and(|heart| {
            heart.beat();
            true
        })
    }

    /// Why the next start would press the button again, although it was cleared.
    pub fn lies_in_wait(&self) -> Option<String> {
        let file = self.file.as_ref().filter(|file| file.symlink_metadata().is_ok())?;
        Some(format!(
            "the trigger file {} is still there: the next start presses the button again. Remove the file",
            file.display()
        ))
    }

    /// How a trigger is; whether that is news.
    pub(super) fn set(&self, name: &'static str, working: bool, what: &str) -> bool {
        let mut rows = self.rows();
        let Some((_, row)) = rows.iter_mut().find(|(of, _)| *of == name) else { return true };
        let is_news = row.working != working;
        let since = if is_news { wall() } else { row.since };
        *row = TriggerView { working, what: what.into(), since, ..row.clone() };
        is_news
    }

    pub(super) fn is_lost(&self, name: &'static str) -> bool {
        self.rows().iter().any(|(of, row)| *of == name && !row.working)
    }

    /// Nothing is watched any more. Those for which that is news.
    pub(super) fn all_lost(&self, why: &str) -> Vec<&'static str> {
        let names: Vec<&'static str> = self.rows().iter().map(|(name, _)| *name).collect();
        names.into_iter().filter(|name| self.set(name, false, why)).collect()
    }

    fn rows(&self) -> MutexGuard<'_, Vec<(&'static str, TriggerView)>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wall() -> i64 {
    Timestamp::now().as_millisecond()
}
