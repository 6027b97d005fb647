//! The terminal, given to the program: it is in front, as if the shell had started it itself.

use std::fs::File;
use std::io::{IsTerminal, Write};

use rustix::process::{Pid, getpgrp};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

/// Leaves the second screen and shows the cursor: a program that was killed could not do it.
const LEAVE: &[u8] = b"\x1b[?1049l\x1b[?25h\x1b[0m";

/// The terminal this process was started in. SIGTTOU must be held back.
pub(super) struct Terminal {
    tty: File,
    own: Pid,
    /// How it was set before the program.
    before: Option<Termios>,
    is_given: bool,
}

/// Whether the program gets a process group of its own: with the terminal all to itself, or without any. In a pipeline
/// that shares the terminal, as `estop run -- CMD | less`, it stays with the others.
pub(super) fn wants_own_group() -> bool {
    let streams =
        [std::io::stdin().is_terminal(), std::io::stdout().is_terminal(), std::io::stderr().is_terminal()];
    streams.iter().all(|is| *is) || !has_terminal()
}

fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok_and(|tty| tcgetpgrp(&tty).is_ok_and(|front| front == getpgrp()))
}

impl Terminal {
    /// The terminal, if all of input, output and errors are there.
    pub(super) fn open() -> Option<Terminal> {
        let is_all = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let tty = File::options().read(true).write(true).open("/dev/tty").ok().filter(|_| is_all)?;
        let before = tcgetattr(&tty).ok();
        Some(Terminal { tty, own: getpgrp(), before, is_given: false })
    }

    /// Gives it to a group, if it is ours to give.
    pub(super) fn give(&mut self, group: Pid) {
        if tcgetpgrp(&self.tty).is_ok_and(|front| front == self.own) {
            self.is_given = tcsetpgrp(&self.tty, group).is_ok();
        }
    }

    /// Whether a group is in front.
    pub(super) fn is_with(&self, group: Pid) -> bool {
        tcgetpgrp(&self.tty).is_ok_and(|front| front == group)
    }

    /// Takes it back, if it was given.
    pub(super) fn take_back(&mut self) {
        if std::mem::take(&mut self.is_given) {
            // A terminal that is gone has nobody in front.
            let _ = tcsetpgrp(&self.tty, self.own);
        }
    }

    /// Sets it as it was, after a program that could not do so itself.
    pub(super) fn tidy(&mut self, was_killed: bool) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(&self.tty, OptionalActions::Drain, before);
        }
        if was_killed {
            let _ = self.tty.write_all(LEAVE);
        }
    }
}
