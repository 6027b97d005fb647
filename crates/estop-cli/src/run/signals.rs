//! Signals to `estop run`: kept by the kernel, read like a file. What the program inherits is untouched: nothing is
//! ignored, and a new program begins with nothing held back.

use std::os::fd::{AsFd, BorrowedFd};

use anyhow::Context;
use nix::sys::signal::{SigSet, Signal as Number};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::process::Signal;

/// Passed on.
const FORWARDED: &[Number] =
    &[Number::SIGINT, Number::SIGTERM, Number::SIGHUP, Number::SIGQUIT, Number::SIGUSR1, Number::SIGUSR2];
/// About the program and the terminal.
const JOB: &[Number] = &[Number::SIGCHLD, Number::SIGTSTP, Number::SIGCONT];
/// Held back and never read: the terminal is given to the program and taken back by whoever is not in front.
const TERMINAL: &[Number] = &[Number::SIGTTOU, Number::SIGTTIN];

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// To be passed on. `by_kernel`: the terminal sent it, to everybody in front.
    Forward { signal: Signal, by_kernel: bool },
    /// Something became of a child.
    Child,
    /// The terminal wants everybody in front to stop.
    Stop,
    /// Goes on.
    Continue,
}

/// The signals that were held back.
pub(super) struct Signals(SignalFd);

impl Signals {
    /// Has the kernel keep them. To be called before the first thread is started.
    pub(super) fn hold_back() -> anyhow::Result<Signals> {
        let read: SigSet = FORWARDED.iter().chain(JOB).copied().collect();
        let all: SigSet = read.iter().chain(TERMINAL.iter().copied()).collect();
        all.thread_block().context("cannot hold back signals")?;
        notice_children()?;
        let fd = SignalFd::with_flags(&read, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC);
        Ok(Signals(fd.context("cannot read signals")?))
    }

    /// What polls them.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// The next one, if there is one.
    pub(super) fn next(&self) -> Option<Came> {
        let came = self.0.read_signal().ok().flatten()?;
        let number = i32::try_from(came.ssi_signo).ok().and_then(|number| Number::try_from(number).ok())?;
        // Above 0 the kernel made it; from a process it is 0 or less.
        let by_kernel = came.ssi_code > 0;
        if number == Number::SIGCHLD {
            return Some(Came::Child);
        }
        if number == Number::SIGTSTP {
            return Some(Came::Stop);
        }
        if number == Number::SIGCONT {
            return Some(Came::Continue);
        }
        Some(Came::Forward { signal: Signal::from_named_raw(number as i32)?, by_kernel })
    }
}

/// Whoever started us may ignore ends of children, and we with them: then the kernel forgets how the program ended. A handler,
/// which never runs, undoes that; a new program begins without it.
fn notice_children() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    let child = tokio::signal::unix::SignalKind::child();
    tokio::signal::unix::signal(child).map(drop).context("cannot listen for SIGCHLD")
}

/// Lets this process be stopped as the terminal would stop it, and comes back when it goes on. Where nobody could let it
/// go on, the kernel does not stop it.
pub(super) fn be_stopped() {
    let set: SigSet = [Number::SIGTSTP].into_iter().collect();
    // Raised before it is let in: it stops us once, with any other that waits, and going on takes back the rest.
    let _ = nix::sys::signal::raise(Number::SIGTSTP);
    let _ = set.thread_unblock();
    let _ = set.thread_block();
}
