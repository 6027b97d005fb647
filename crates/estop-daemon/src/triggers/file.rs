//! The trigger file: whoever makes, touches or writes it presses the button (KS-5). estop never removes it.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use estop_config::printable::escaped;
use estop_core::system::button::{NOTE_MAX, Press};
use estop_core::system::{GateView, KillReason};
use nix::fcntl::OFlag;
use nix::sys::inotify::AddWatchFlags;

use super::folder::{Folder, Seen};
use super::watch::{Trigger, TriggerReport};

/// How long to wait for whoever made the file to close it: what they write is the note. Chosen: `echo why > KILL` closes
/// it within a millisecond; one who keeps it open presses the button nevertheless.
const NOTE_TIMEOUT: Duration = Duration::from_millis(20);

/// The trigger file.
pub(super) struct FileTrigger {
    path: PathBuf,
    folder: Folder,
    /// When somebody was first seen at the file who has not closed it.
    open_since: Option<Instant>,
    watched_before: bool,
}

impl FileTrigger {
    pub(super) fn new(path: &Path) -> FileTrigger {
        FileTrigger {
            path: path.to_owned(),
            folder: Folder::of(path),
            open_since: None,
            watched_before: false,
        }
    }

    fn exists(&self) -> bool {
        self.path.symlink_metadata().is_ok()
    }

    fn press(&self, by: &str) -> TriggerReport {
        let about = self.path.symlink_metadata().ok();
        let metadata = serde_json::json!({"path": self.path, "uid": about.map(|about| about.uid())});
        TriggerReport::Pressed(Press {
            note: first_line(&self.path).map(Into::into),
            metadata: Some(metadata.to_string().into()),
            ..Press::new(KillReason::Manual, by, "file")
        })
    }

    fn works(&self) -> TriggerReport {
        TriggerReport::Works(format!("touch {}", self.path.display()))
    }

    /// It may have been made while nobody watched.
    fn begun(&mut self) -> Vec<TriggerReport> {
        let by = if self.watched_before {
            "trigger file, found when its folder was back"
        } else {
            "trigger file, there at the start: remove it, or each start presses"
        };
        self.watched_before = true;
        if self.exists() { vec![self.works(), self.press(by)] } else { vec![self.works()] }
    }
}

impl Trigger for FileTrigger {
    fn name(&self) -> &'static str {
        "file"
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.folder.fd()
    }

    fn due(&self, _gate: GateView) -> Option<Instant> {
        let note = self.open_since.map(|since| since + NOTE_TIMEOUT);
        note.into_iter().chain(self.folder.due()).min()
    }

    fn look(&mut self, now: Instant, _gate: GateView) -> Vec<TriggerReport> {
        let happened = match self.folder.look(now) {
            Seen::Begun => return self.begun(),
            Seen::Blind(why) => return vec![TriggerReport::Lost(why)],
            Seen::Happened(happened) => happened,
        };
        let opened = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_ATTRIB | AddWatchFlags::IN_Q_OVERFLOW;
        let is_new = happened.contains(AddWatchFlags::IN_CREATE);
        if happened.intersects(opened) && (is_new || self.exists()) {
            self.open_since.get_or_insert(now);
        }
        let is_done = happened.intersects(AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_MOVED_TO);
        let is_overdue = self.open_since.is_some_and(|since| now >= since + NOTE_TIMEOUT);
        if !is_done && !is_overdue {
            return Vec::new();
        }
        self.open_since = None;
        vec![self.press("trigger file")]
    }
}

/// What somebody wrote, if it is a file one can read without waiting.
fn first_line(path: &Path) -> Option<String> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(NOTE_MAX as u64).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().next().unwrap_or_default().trim();
    (!line.is_empty()).then(|| escaped(line))
}

#[cfg(test)]
mod tests;
