//! What a start believes of the red button (KS-3).

use std::path::Path;

use anyhow::Context;
use estop_core::system::button::Latched;
use estop_core::system::{Channels, GateView, SystemState};
use estop_store::{FoundLatch, LatchFile};

use estop_config::printable::escaped;

/// What the latch of a data directory says; `None` on a first start, which leaves a latch before anything else is
/// written: from then on a missing one is a pressed button.
pub(super) fn believed(data_dir: &Path, is_first_start: bool, wall: i64) -> anyhow::Result<Option<Latched>> {
    let found = LatchFile::look(data_dir);
    if is_first_start && found == FoundLatch::Missing {
        let first = Latched::at_start(GateView::OPEN, wall);
        let made = LatchFile::as_daemon(data_dir).write(&first);
        made.context("data_dir: cannot make the latch file")?;
        return Ok(None);
    }
    let is_doubtful = !matches!(found, FoundLatch::Valid(_));
    let believed = found.believed(is_first_start, wall);
    if let Some(why) = believed.as_ref().filter(|_| is_doubtful).and_then(|latched| latched.note.as_deref()) {
        let commands = estop_config::commands(data_dir, &estop_config::Env::of_process());
        let (unlock, clear) = (commands.emergency_unlock(), commands.emergency_clear());
        tracing::warn!(
            target: "emergency", "SHUT DOWN, because {}. If nobody pressed the button: {unlock}, then {clear}.",
            escaped(why)
        );
    }
    Ok(believed)
}

/// What holds when the database cannot be trusted: everything is shut; who pressed the button, if somebody did, stays.
pub(super) fn without_database(data_dir: &Path, problem: Option<String>, wall: i64) -> Latched {
    let found = match LatchFile::look(data_dir) {
        FoundLatch::Valid(latched) => Some(latched),
        FoundLatch::Missing | FoundLatch::Damaged(_) => None,
    };
    let epoch = found.as_ref().map_or(0, |latched| latched.gate.epoch);
    let shut = GateView { epoch, state: SystemState::Shutdown, shut: Channels::ALL };
    match found.filter(|latched| latched.gate.state == SystemState::Shutdown) {
        Some(pressed) => Latched { gate: shut, ..pressed },
        None => Latched { note: problem, ..Latched::at_start(shut, wall) },
    }
}
