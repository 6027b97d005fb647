//! The latch file, changed by somebody else: `estop kill` writes it when no estop answers it (KS-5).

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use estop_core::system::GateView;
use estop_core::system::button::{Latched, Press};
use estop_store::{
    FoundLatch, FoundSlot, LatchFile, RequestedKill, SlotVersion, is_of_this_daemon, latch_path,
};

use super::folder::{Folder, Seen};
use super::watch::{Trigger, TriggerReport};
use crate::latch_writer::LatchStatus;

/// A slot that is not whole may be one that is just written: it is read again after this time.
const TORN_AGAIN: Duration = Duration::from_millis(50);
/// One that is still not whole is damaged, and fixed by the next write.
const DAMAGED_AGAIN: Duration = Duration::from_secs(1);

/// The latch, watched.
pub(super) struct LatchWatch {
    data_dir: PathBuf,
    folder: Folder,
    /// What the latch said when the start read it; only until the first look.
    seen: Option<Latched>,
    has_looked: bool,
    latch: LatchStatus,
    /// What was read of somebody else, and is pressed once this is heard.
    read: Option<SlotVersion>,
    is_torn: bool,
    again_at: Option<Instant>,
}

impl LatchWatch {
    pub(super) fn new(data_dir: &Path, seen: Option<Latched>, latch: LatchStatus) -> LatchWatch {
        LatchWatch {
            data_dir: data_dir.to_owned(),
            folder: Folder::of(&latch_path(data_dir)),
            seen,
            has_looked: false,
            latch,
            read: None,
            is_torn: false,
            again_at: None,
        }
    }

    fn read(&mut self, now: Instant, gate: GateView) -> Vec<TriggerReport> {
        let slot = LatchFile::look_at_slot(&self.data_dir);
        let was_torn = std::mem::take(&mut self.is_torn);
        self.again_at = None;
        match &slot.found {
            FoundLatch::Valid(_) => {
                let works = TriggerReport::Works(format!("reads {}", latch_path(&self.data_dir).display()));
                let pressed = self.presses(&slot, gate).into_iter().map(TriggerReport::Pressed);
                pressed.chain([works]).collect()
            }
            FoundLatch::Missing => {
                vec![TriggerReport::Lost(
                    "the latch file is gone: the next start would be shut down".to_owned(),
                )]
            }
            FoundLatch::Damaged(why) => {
                self.is_torn = true;
                self.again_at = Some(now + if was_torn { DAMAGED_AGAIN } else { TORN_AGAIN });
                let lost = || TriggerReport::Lost(format!("{why}: the next start would be shut down"));
                was_torn.then(lost).into_iter().collect()
            }
        }
    }

    /// What somebody else wants killed and this estop has not taken up.
    fn presses(&mut self, slot: &FoundSlot, gate: GateView) -> Vec<Press> {
        let seen = self.seen.take();
        let Some(mark) = slot.mark.clone() else { return Vec::new() };
        if is_of_this_daemon(&mark) || self.latch.is_taken_up(&mark) {
            return Vec::new();
        }
        self.read = Some(mark);
        let Some(kill) = RequestedKill::of(slot) else { return Vec::new() };
        match (&slot.found, seen) {
            // The start has joined its state already.
            (FoundLatch::Valid(latched), Some(seen)) if *latched == seen => kill.beside_the_state(),
            _ => kill.news_to(gate),
        }
    }
}

impl Trigger for LatchWatch {
    fn name(&self) -> &'static str {
        "latch"
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.folder.fd()
    }

    fn due(&self, _gate: GateView) -> Option<Instant> {
        self.folder.due().into_iter().chain(self.again_at).min()
    }

    fn look(&mut self, now: Instant, gate: GateView) -> Vec<TriggerReport> {
        let is_due = self.again_at.is_some_and(|at| at <= now);
        let is_first = !std::mem::replace(&mut self.has_looked, true);
        match self.folder.look(now) {
            Seen::Blind(why) => {
                // It can be read nevertheless, each time the folder is tried again.
                let read = self.read(now, gate).into_iter();
                let pressed = read.filter(|said| matches!(said, TriggerReport::Pressed(_)));
                pressed.chain([TriggerReport::Lost(why)]).collect()
            }
            Seen::Happened(happened) if happened.is_empty() && !is_due && !is_first => Vec::new(),
            Seen::Begun | Seen::Happened(_) => self.read(now, gate),
        }
    }

    fn acknowledge(&mut self) {
        if let Some(mark) = self.read.take() {
            self.latch.take_up(mark);
        }
    }
}

#[cfg(test)]
mod tests;
