//! Who writes what over what: estop keeps how its button stands, `estop kill` adds a kill without it, and neither takes
//! away what the other one wrote and nobody has heard.

use std::io;
use std::path::Path;

use estop_core::system::button::{Latched, Press};
use estop_core::system::{GateView, System};
use estop_core::time::Now;

use super::requested_kill::{CLI, DAEMON, RequestedKill, is_of_daemon, is_of_this_daemon};
use super::{Entry, FoundSlot, LatchFile, SlotVersion};

impl LatchFile {
    /// To be written as the estop that holds the data directory.
    pub fn as_daemon(data_dir: &Path) -> LatchFile {
        LatchFile::of(data_dir, &DAEMON)
    }

    /// To be written without an estop.
    pub fn as_cli(data_dir: &Path) -> LatchFile {
        LatchFile::of(data_dir, &CLI)
    }

    /// Writes how the button stands; nothing while somebody else's kill that asks for more must stay on the disk. Slots
    /// that were `taken_up` may be written over.
    pub fn keep(
        &mut self,
        latched: &Latched,
        is_taken_up: impl Fn(&SlotVersion) -> bool,
    ) -> io::Result<Option<SlotVersion>> {
        self.update(|slot| {
            let is_news =
                slot.mark.as_ref().is_some_and(|mark| !is_of_this_daemon(mark) && !is_taken_up(mark));
            let stays = is_news && RequestedKill::of(&slot).is_some_and(|kill| kill.outranks(latched.gate));
            (!stays).then(|| latched.clone().into())
        })
    }

    /// Adds a kill by the core's own rules, so that a start finds what a running estop would have written. Gives the
    /// latch as it was written, and by which write.
    pub fn kill(
        &mut self,
        press: &Press,
        is_first_start: bool,
        wall: i64,
    ) -> io::Result<(Latched, SlotVersion)> {
        let mut after = None;
        let mark = self.update(|slot| {
            let entry = killed(slot, press, is_first_start, wall);
            after = Some(entry.latched.clone());
            Some(entry)
        })?;
        after.zip(mark).ok_or_else(|| io::Error::other("it was not written"))
    }
}

/// What a slot must say after a kill. Never less than it said before.
fn killed(slot: FoundSlot, press: &Press, is_first_start: bool, wall: i64) -> Entry {
    // What another one asked for who killed without estop, and no estop has heard so far.
    let is_unheard = slot.mark.is_some_and(|mark| !is_of_daemon(&mark));
    let asked = if is_unheard { slot.asked.union(press.channels) } else { press.channels };
    let found = slot.found.believed(is_first_start, wall);
    let before = found.unwrap_or_else(|| Latched::at_start(GateView::OPEN, wall));
    let event = press.clone().event();
    let decision = System::at(before.gate).handle(Now { wall, ..Now::default() }, &event);
    Entry { latched: before.after(&event, &decision, wall), asked }
}
