//! The latch file, changed by somebody else: `estop kill` writes it when no estop answers it (KS-5).

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use estop_core::button::{Latched, Press};
use estop_core::system::{Channels, GateView, KillReason, SystemState};
use estop_store::{FoundLatch, LatchFile, latch_path};

use super::folder::{Folder, Seen};
use super::watch::{Said, Trigger};

/// The latch, watched.
pub(super) struct LatchWatch {
    data_dir: PathBuf,
    folder: Folder,
    /// What the latch said when this estop read it.
    epoch: u64,
    /// A kill that was written between that and now; a start would write over it.
    early: Option<Press>,
}

impl LatchWatch {
    pub(super) fn new(data_dir: &Path, epoch: u64) -> LatchWatch {
        let early = match LatchFile::look(data_dir) {
            FoundLatch::Said(latched) if latched.gate.epoch > epoch => press(latched),
            FoundLatch::Said(_) | FoundLatch::Missing | FoundLatch::Damaged(_) => None,
        };
        let folder = Folder::of(&latch_path(data_dir));
        LatchWatch { data_dir: data_dir.to_owned(), folder, epoch, early }
    }

    fn works(&self) -> Said {
        Said::Works(format!("reads {}", latch_path(&self.data_dir).display()))
    }

    fn read(&self, gate: GateView) -> Vec<Said> {
        let latched = match LatchFile::look(&self.data_dir) {
            FoundLatch::Said(latched) => latched,
            FoundLatch::Missing => {
                return vec![Said::Lost(
                    "the latch file is gone: the next start would be shut down".to_owned(),
                )];
            }
            FoundLatch::Damaged(why) => {
                return vec![Said::Lost(format!("{why}: the next start would be shut down"))];
            }
        };
        let mut said = vec![self.works()];
        let epoch = latched.gate.epoch;
        // Ours is never behind what we wrote ourselves.
        if epoch > self.epoch.max(gate.epoch) {
            said.extend(press(latched).map(Said::Pressed));
        }
        said
    }
}

/// The kill that somebody wrote; `None` if it was something else: nobody unlocks in this way.
fn press(latched: Latched) -> Option<Press> {
    let channels = match latched.gate.state {
        SystemState::Shutdown => Channels::ALL,
        SystemState::Running => latched.gate.shut,
        SystemState::Starting | SystemState::SafeMode => Channels::NONE,
    };
    (!channels.is_empty()).then(|| Press {
        channels,
        note: latched.note.map(Into::into),
        metadata: latched.metadata.map(Into::into),
        ..Press::new(latched.reason.unwrap_or(KillReason::Manual), &latched.by, "latch")
    })
}

impl Trigger for LatchWatch {
    fn name(&self) -> &'static str {
        "latch"
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.folder.fd()
    }

    fn due(&self, _gate: GateView) -> Option<Instant> {
        self.folder.due()
    }

    fn look(&mut self, now: Instant, gate: GateView) -> Vec<Said> {
        let early = self.early.take().map(Said::Pressed);
        let said = match self.folder.look(now) {
            Seen::Blind(why) => vec![Said::Lost(why)],
            Seen::Happened(happened) if happened.is_empty() => Vec::new(),
            Seen::Begun | Seen::Happened(_) if early.is_none() => self.read(gate),
            // Read and pressed already.
            Seen::Begun | Seen::Happened(_) => vec![self.works()],
        };
        said.into_iter().chain(early).collect()
    }
}
