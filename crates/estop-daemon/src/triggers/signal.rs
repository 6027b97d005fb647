//! SIGUSR1 presses the button, from the first line of `main` on.
//!
//! It is held back before any thread exists, so no thread is interrupted by it and none is needed to catch it: the
//! kernel keeps it until the triggers are watched. What comes while estop starts is pressed before anything may pass.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use estop_core::system::button::Press;
use estop_core::system::{GateView, KillReason};
use nix::sys::signal::{SigSet, Signal as Number};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::watch::{Trigger, TriggerReport};

/// Has the kernel keep SIGUSR1 until it is asked for. Call it before the first thread is started.
pub fn hold_back() {
    // It fails for sets that cannot be, which this is not.
    let _ = set().thread_block();
}

fn set() -> SigSet {
    let mut set = SigSet::empty();
    set.add(Number::SIGUSR1);
    set
}

/// The signal.
pub(super) struct Signal(SignalFd);

impl Signal {
    pub(super) fn new() -> std::io::Result<Signal> {
        Ok(Signal(SignalFd::with_flags(&set(), SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?))
    }
}

impl Trigger for Signal {
    fn name(&self) -> &'static str {
        "signal"
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }

    fn look(&mut self, _now: Instant, _gate: GateView) -> Vec<TriggerReport> {
        let mut said = vec![TriggerReport::Works(format!("kill -USR1 {}", std::process::id()))];
        match self.0.read_signal() {
            Ok(Some(from)) => {
                let metadata = format!("{{\"pid\":{},\"uid\":{}}}", from.ssi_pid, from.ssi_uid);
                let press = Press::new(KillReason::Manual, "SIGUSR1", "signal");
                said.push(TriggerReport::Pressed(Press { metadata: Some(metadata.into()), ..press }));
            }
            Ok(None) => {}
            Err(error) => return vec![TriggerReport::Lost(format!("SIGUSR1 cannot be read: {error}"))],
        }
        said
    }
}
