//! The red button's own file, read by those who must obey it whether or not estop answers: hooks, MCP gates and the
//! supervisor of a run (KS-3, KS-5).

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use estop_config::data_dir::database;
use estop_core::decision::Finding;
use estop_core::system::{Channel, SystemState};
use estop_store::{FoundLatch, FoundSlot, LatchFile, SlotVersion, latch_path};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

/// One that is not whole may be one that is just written: it is read so often, with a pause between. One that stays so
/// counts as pressed, as at a start.
const READS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);
/// How often a gate reads it. Chosen: a kill is carried out within a second; reading takes some 20 µs.
const GATE_INTERVAL: Duration = Duration::from_millis(200);
const AFTER: &str = "An admin must clear it before agents can go on.";

/// Why tools may not run, if the button says so or nobody can tell what it says.
pub(crate) fn why_tools_are_shut(data_dir: &Path) -> Option<String> {
    let mut slot = LatchFile::look_at_slot(data_dir);
    for _ in 1..READS {
        if !matches!(slot.found, FoundLatch::Damaged(_)) {
            break;
        }
        std::thread::sleep(PAUSE);
        slot = LatchFile::look_at_slot(data_dir);
    }
    let why = match &slot.found {
        FoundLatch::Valid(_) => return why_shut(&slot),
        FoundLatch::Damaged(why) => {
            format!("Its button counts as pressed, because {}.", why.trim_end_matches('.'))
        }
        // Every start leaves a latch before its database. Without both, there was none.
        FoundLatch::Missing if matches!(database(data_dir).try_exists(), Ok(false)) => return None,
        FoundLatch::Missing => "Its button counts as pressed, because the latch file is missing.".to_owned(),
    };
    Some(format!("Stopped by estop: {why} {AFTER}"))
}

/// Why tools may not run, if the button says so.
pub(crate) fn why_tools_are_killed(data_dir: &Path) -> Option<String> {
    why_shut(&LatchFile::look_at_slot(data_dir))
}

fn why_shut(slot: &FoundSlot) -> Option<String> {
    let FoundLatch::Valid(latched) = &slot.found else { return None };
    if !slot.shuts(Channel::Tools) {
        return None;
    }
    let why = if latched.gate.lets_pass(Channel::Tools) {
        "The emergency stop is pressed.".to_owned()
    } else {
        Finding::System(latched.gate).to_string()
    };
    Some(format!("Stopped by estop: {why} {AFTER}"))
}

/// Waits until the button is pressed; why, then.
pub(crate) async fn until_tools_are_shut(data_dir: &Path) -> String {
    let mut damaged = 0;
    loop {
        tokio::time::sleep(GATE_INTERVAL).await;
        let slot = LatchFile::look_at_slot(data_dir);
        if let Some(why) = why_shut(&slot) {
            return why;
        }
        damaged = if matches!(slot.found, FoundLatch::Damaged(_)) { damaged + 1 } else { 0 };
        if damaged >= READS {
            return format!("Stopped by estop: its latch cannot be read, so it counts as pressed. {AFTER}");
        }
    }
}

/// The latch beside a run: `estop kill` writes it when no daemon answers, and that must end the program, too.
pub(crate) struct LatchWatch {
    data_dir: PathBuf,
    /// Tells when it changes; without it, it is read now and then.
    watch: Option<Inotify>,
    /// What stood there before the daemon let the program begin: that one has spoken since.
    before: Option<SlotVersion>,
}

impl LatchWatch {
    /// Begins to watch. To be called before the daemon is asked whether the program may run.
    pub(crate) fn begin(data_dir: &Path) -> LatchWatch {
        let watch = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok();
        let before = LatchFile::look_at_slot(data_dir).mark;
        let latch = LatchWatch { data_dir: data_dir.to_owned(), watch, before };
        latch.add_watch();
        latch
    }

    /// What polls it.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(AsFd::as_fd)
    }

    /// Why the program must end, if the latch says so.
    pub(crate) fn why_end(&self) -> Option<String> {
        if let Some(watch) = &self.watch {
            // Emptied; what happened is read from the file itself.
            let _ = watch.read_events();
            // One that was replaced is another file.
            self.add_watch();
        }
        let slot = LatchFile::look_at_slot(&self.data_dir);
        if slot.mark.is_some() && slot.mark == self.before {
            return None;
        }
        // A slot that is just written is read again a moment later; one that stays so is the daemon's business.
        let FoundLatch::Valid(latched) = &slot.found else { return None };
        // A daemon that starts again has not pressed anything.
        let is_shut = latched.gate.state != SystemState::Starting && slot.shuts(Channel::Tools);
        let is_asked = slot.asked.contains(Channel::Tools);
        (is_shut || is_asked).then(|| format!("the emergency stop was pressed by {}", latched.by))
    }

    /// The file itself, not its folder: the journal beside it is written all the time.
    fn add_watch(&self) {
        let flags = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_ATTRIB;
        if let Some(watch) = &self.watch {
            // A file that is not there is looked for now and then.
            let _ = watch.add_watch(&latch_path(&self.data_dir), flags);
        }
    }
}
