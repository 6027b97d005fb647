//! The program while it runs: signals, the terminal, the line to the daemon and the latch, all in one loop.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::Context;
use estop_supervise::{Change, Ended, Orphans, Start, Supervised};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, Signal, getpgrp, kill_process_group};

use super::daemon_link::{DaemonLink, Message};
use super::environment::Environment;
use super::signals::{Came, Signals, be_stopped};
use super::terminal::{Terminal, wants_own_group};
use crate::latch::LatchWatch;
use crate::refused;

/// The latch is looked at this often, whether or not anybody says that it changed.
const LOOK_EVERY_MS: u16 = 1000;
/// SIGTERM, SIGKILL 2 s later, and as long as the kernel may take.
const GONE_TIMEOUT: Duration = Duration::from_secs(30);

/// A program to run.
pub(super) struct Job<'a> {
    pub(super) program: &'a OsStr,
    pub(super) environment: &'a Environment,
    pub(super) agent: &'a str,
    pub(super) signals: Signals,
    pub(super) latch: LatchWatch,
    pub(super) line: &'a DaemonLink,
}

/// How it went.
pub(super) struct Done {
    /// For the shell.
    pub(super) code: u8,
    pub(super) took: Duration,
    /// Why it was ended, if it was.
    pub(super) why_ended: Option<String>,
    /// What became of its tree.
    pub(super) ended: Option<Ended>,
    /// How often the daemon was gone.
    pub(super) lost: usize,
}

/// The program while it runs.
struct Running<'a> {
    job: &'a Job<'a>,
    supervised: Supervised,
    group: Option<Pid>,
    terminal: Option<Terminal>,
    why_ended: Option<String>,
    daemon: Daemon,
}

/// How often the daemon was gone.
#[derive(Default)]
struct Daemon {
    lost: usize,
    is_lost: bool,
}

impl Daemon {
    /// Why the program must end, if this says so.
    fn hear(&mut self, message: Message) -> Option<String> {
        match message {
            Message::End(why) => return Some(why),
            Message::Refused(refusal) => return Some(refusal.to_string()),
            Message::Lost => {
                self.lost += usize::from(!self.is_lost);
                self.is_lost = true;
            }
            Message::Watching(_) => self.is_lost = false,
            Message::Unreachable(_) => {}
        }
        None
    }
}

impl Job<'_> {
    /// Runs it to its end, and everything it started.
    pub(super) fn run(&self) -> anyhow::Result<Done> {
        let own_group = wants_own_group();
        // Much may have been said since the run began: getting ready takes seconds with some clients.
        let mut daemon = Daemon::default();
        let said = std::iter::from_fn(|| self.line.next_message()).find_map(|message| daemon.hear(message));
        if let Some(why) = said.or_else(|| self.latch.why_end()) {
            return refused(format!("the program was not started: {why}"));
        }
        let begun = Instant::now();
        let start = Start {
            program: self.program,
            args: &self.environment.args,
            agent: Some(self.agent),
            orphans: Orphans::All,
            shim: std::env::current_exe().ok(),
            leash: true,
            own_group,
        };
        let (supervised, child) = start.start(|command| {
            for name in &self.environment.removed {
                command.env_remove(name);
            }
            command.envs(&self.environment.variables);
        })?;
        let group = Pid::from_raw(supervised.root()).filter(|_| own_group);
        let terminal = if own_group { Terminal::open() } else { None };
        let mut running = Running { job: self, supervised, group, terminal, why_ended: None, daemon };
        running.give_terminal();
        match running.wait(child) {
            Ok(status) => Ok(running.close(status, begun)),
            Err(error) => {
                // Nobody watches it any more: it ends, as after a kill.
                let done = running.close(ExitStatus::from_raw(Signal::KILL.as_raw()), begun);
                let left = done.ended.is_none_or(|ended| !ended.survivors.is_empty());
                let what = if left { "some of what it started may still run" } else { "it was ended" };
                Err(error.context(format!("the program could not be watched any more, so {what}")))
            }
        }
    }
}

impl Running<'_> {
    fn wait(&mut self, mut child: Child) -> anyhow::Result<ExitStatus> {
        loop {
            self.sleep()?;
            while let Some(came) = self.job.signals.next() {
                self.handle(came);
            }
            while let Some(message) = self.job.line.next_message() {
                self.hear(message);
            }
            if let Some(why) = self.job.latch.why_end() {
                self.end(why);
            }
            while let Some(change) = self.supervised.look(&mut child).context("cannot look at the program")? {
                match change {
                    Change::Ended(status) => return Ok(status),
                    Change::Stopped(signal) => self.stopped(signal),
                }
            }
        }
    }

    /// Until something happens.
    fn sleep(&self) -> anyhow::Result<()> {
        let mut fds = vec![
            PollFd::new(self.job.signals.fd(), PollFlags::POLLIN),
            PollFd::new(self.job.line.bell().as_fd(), PollFlags::POLLIN),
        ];
        fds.extend(self.job.latch.fd().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        match poll(&mut fds, PollTimeout::from(LOOK_EVERY_MS)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error).context("cannot wait for the program"),
        }
    }

    fn handle(&mut self, came: Came) {
        match came {
            // Seen when the program is looked at.
            Came::Child => {}
            // The terminal told everybody in front, the program included.
            Came::Forward { by_kernel: true, .. } if self.group.is_none() => {}
            Came::Forward { signal, .. } => self.supervised.signal(signal),
            Came::Stop => {
                if self.group.is_some() {
                    self.supervised.signal(Signal::TSTP);
                } else {
                    be_stopped();
                }
            }
            Came::Continue => self.go_on(),
        }
    }

    fn hear(&mut self, message: Message) {
        if let Some(why) = self.daemon.hear(message) {
            self.end(why);
        }
    }

    /// SIGTERM to the whole tree, SIGKILL 2 s later.
    fn end(&mut self, why: String) {
        if self.why_ended.is_none() {
            self.supervised.end(&why);
            self.why_ended = Some(why);
        }
    }

    /// The program was stopped: whoever started us sees us stopped as well.
    fn stopped(&mut self, signal: i32) {
        let is_early = [Signal::TTIN.as_raw(), Signal::TTOU.as_raw()].contains(&signal)
            && self
                .group
                .zip(self.terminal.as_ref())
                .is_some_and(|(group, terminal)| terminal.is_with(group));
        // It asked for the terminal a moment before it had it; or it is to end, not to wait.
        if is_early || self.supervised.is_ending() {
            return self.supervised.signal(Signal::CONT);
        }
        if self.group.is_none() {
            // It shares our group: the terminal stops and continues both.
            return;
        }
        if let Some(terminal) = &mut self.terminal {
            terminal.take_back();
            // As the terminal would: everybody of our own job. Ours is held back until we are ready.
            let _ = kill_process_group(getpgrp(), Signal::TSTP);
            be_stopped();
            self.go_on();
        }
    }

    /// We go on, and with us the program: in front if we are.
    fn go_on(&mut self) {
        self.give_terminal();
        self.supervised.signal(Signal::CONT);
    }

    fn give_terminal(&mut self) {
        if let Some((group, terminal)) = self.group.zip(self.terminal.as_mut()) {
            terminal.give(group);
        }
    }

    /// Takes the terminal back and ends what the program left behind.
    fn close(mut self, status: ExitStatus, begun: Instant) -> Done {
        let took = begun.elapsed();
        if let Some(terminal) = &mut self.terminal {
            terminal.take_back();
            if status.signal().is_some() || self.why_ended.is_some() {
                terminal.tidy(status.signal() == Some(Signal::KILL.as_raw()));
            }
        }
        self.supervised.end("the program ended");
        let ended = self.supervised.ended(GONE_TIMEOUT);
        Done { code: code(status), took, why_ended: self.why_ended, ended, lost: self.daemon.lost }
    }
}

/// The exit code, as shells give it.
fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| 128 + signal);
    u8::try_from(status.code().or(signal).unwrap_or(1)).unwrap_or(1)
}
