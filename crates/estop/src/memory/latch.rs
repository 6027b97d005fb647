//! What a start believes of the red button (KS-3).

use std::path::Path;

use anyhow::Context;
use estop_core::button::Latched;
use estop_core::system::GateView;
use estop_store::{FoundLatch, LatchFile};

use crate::printable::escaped;

/// What the latch of a data directory says; `None` on a first start, which leaves a latch before anything else is
/// written: from then on a missing one is a pressed button.
pub(super) fn believed(data_dir: &Path, is_first_start: bool, wall: i64) -> anyhow::Result<Option<Latched>> {
    let found = LatchFile::look(data_dir);
    if is_first_start && found == FoundLatch::Missing {
        let first = Latched::at_start(GateView::OPEN, wall);
        let made = LatchFile::open(data_dir).and_then(|mut file| file.write(&first));
        made.context("data_dir: cannot make the latch file")?;
        return Ok(None);
    }
    let is_doubtful = !matches!(found, FoundLatch::Said(_));
    let believed = found.believed(is_first_start, wall);
    if let Some(why) = believed.as_ref().filter(|_| is_doubtful).and_then(|latched| latched.note.as_deref()) {
        eprintln!(
            "estop: SHUT DOWN, because {}. If nobody pressed the button: estop emergency restart, then estop emergency clear.",
            escaped(why)
        );
    }
    Ok(believed)
}
