//! The latch file, watched beside the daemon: `estop kill` writes it when no daemon answers, and that must end the
//! program, too (KS-5).

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use estop_core::system::{Channel, SystemState};
use estop_store::{FoundLatch, FoundSlot, LatchFile, Mark, latch_path};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

/// The latch of a data directory.
pub(super) struct Latch {
    data_dir: PathBuf,
    /// Tells when it changes; without it, it is looked at now and then.
    watch: Option<Inotify>,
    /// What stood there before the daemon let the program begin: that one has spoken since.
    before: Option<Mark>,
}

impl Latch {
    /// Begins to watch. To be called before the daemon is asked whether the program may run.
    pub(super) fn begin(data_dir: &Path) -> Latch {
        let watch = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok();
        let latch =
            Latch { data_dir: data_dir.to_owned(), watch, before: LatchFile::look_at_slot(data_dir).mark };
        latch.look_for_changes();
        latch
    }

    /// What polls it.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(AsFd::as_fd)
    }

    /// Why the program must end, if the latch says so.
    pub(super) fn why_end(&self) -> Option<String> {
        if let Some(watch) = &self.watch {
            // Emptied; what happened is read from the file itself.
            let _ = watch.read_events();
            // One that was replaced is another file.
            self.look_for_changes();
        }
        let slot = LatchFile::look_at_slot(&self.data_dir);
        if slot.mark.is_some() && slot.mark == self.before {
            return None;
        }
        why(&slot)
    }

    /// The file itself, not its folder: the journal beside it is written all the time.
    fn look_for_changes(&self) {
        let flags = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_ATTRIB;
        if let Some(watch) = &self.watch {
            // A file that is not there is looked for now and then.
            let _ = watch.add_watch(&latch_path(&self.data_dir), flags);
        }
    }
}

fn why(slot: &FoundSlot) -> Option<String> {
    // A slot that is just written is read again a moment later; one that stays so is the daemon's business.
    let FoundLatch::Said(latched) = &slot.found else { return None };
    let is_shut = match latched.gate.state {
        SystemState::Shutdown | SystemState::SafeMode => true,
        SystemState::Running => latched.gate.shut.contains(Channel::Tools),
        SystemState::Starting => false,
    };
    let is_asked = slot.asked.contains(Channel::Tools);
    (is_shut || is_asked).then(|| format!("the emergency stop was pressed by {}", latched.by))
}
