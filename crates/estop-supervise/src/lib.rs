//! Runs a command and ends it with everything it started: SIGTERM to the whole tree at once, SIGKILL after 2 s (TL-2, KS-2).
//!
//! Three ways find what belongs to the tree: the parents in `/proc`, with this process as the one that orphans fall back
//! to; a mark in the environment that children inherit; and, where cgroup v2 can be written, a cgroup of its own, which
//! nothing leaves by forking. It never signals a process that is not the one it looked at.

pub mod enter_cgroup;

mod cgroup;
mod tree;

use std::ffi::{OsStr, OsString};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use estop_config::is_own_secret;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, set_child_subreaper, waitid};

use cgroup::Cgroup;
use tree::Tree;

/// From SIGTERM to SIGKILL (KS-2).
pub const KILL_AFTER: Duration = Duration::from_secs(2);
/// Looked at again this often between the two: what was started meanwhile is told too, and a tree that is gone is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The same after SIGKILL, where whatever still forks must be outrun.
const HUNT_INTERVAL: Duration = Duration::from_millis(2);
/// Orphans that fell back to this process and ended are buried this often.
const BURY_INTERVAL: Duration = Duration::from_secs(5);
/// A process in the depths of a dead disk does not die; then it is said, not waited for.
const GIVE_UP_AFTER: Duration = Duration::from_secs(20);
/// Names of processes in a report.
const NAMED_MAX: usize = 8;
/// The mark in the environment.
const MARK: &str = "ESTOP_TREE";

static LAST: AtomicU64 = AtomicU64::new(0);

/// Which orphans belong to the tree: those whose parents ended, so that nobody can tell whose they are by parents alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orphans {
    /// All that fall back to this process: it runs this one tree and starts nothing else.
    All,
    /// Those that carry the tree's mark.
    Marked,
}

/// What to run, and how.
#[derive(Debug)]
pub struct Start<'a> {
    /// The program.
    pub program: &'a OsStr,
    /// Its arguments.
    pub args: &'a [OsString],
    /// For whom.
    pub agent: Option<&'a str>,
    /// Which orphans are its.
    pub orphans: Orphans,
    /// The estop binary, which enters a cgroup, holds no signal back and becomes the program; without it there is no cgroup,
    /// and the program holds back what this thread does.
    pub shim: Option<PathBuf>,
    /// With a shim: the program gets SIGTERM when the thread that starts it ends, however that comes about.
    pub leash: bool,
    /// It leads a process group of its own; otherwise it stays in the group of this process.
    pub own_group: bool,
}

/// A command that runs under supervision, with everything it started.
pub struct Supervised {
    shared: Arc<Shared>,
    agent: Option<Box<str>>,
}

/// What became of the command itself since somebody looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It ended, and is reaped.
    Ended(ExitStatus),
    /// It was stopped, by this signal.
    Stopped(i32),
}

struct Shared {
    state: Mutex<State>,
    bell: Condvar,
    /// The command; its number is free for others once it was reaped.
    root: i32,
    /// It leads a group.
    leads: bool,
}

#[derive(Default)]
struct State {
    /// When somebody asked for the end.
    ending: Option<Instant>,
    /// How the command itself ended.
    status: Option<ExitStatus>,
    /// What became of the tree after an end was asked for.
    ended: Option<Ended>,
}

/// What became of a tree that was to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// From the first SIGTERM until nothing was left.
    pub took: Duration,
    /// How many needed SIGKILL.
    pub killed: usize,
    /// Who is still there, in spite of SIGKILL: nobody, unless the kernel cannot end them.
    pub survivors: Vec<i32>,
    /// Who was told to end, by name and number: the first of them, and how many more there were.
    pub told: Vec<String>,
    /// How many were told beside those.
    pub told_more: usize,
}

/// Whether orphans of programs that estop starts fall back to it.
pub fn takes_orphans() -> bool {
    set_child_subreaper(Some(getpid())).is_ok()
}

/// Whether a tree can have a cgroup of its own, tried out.
pub fn has_cgroup() -> bool {
    Cgroup::make(&format!("{}-try", std::process::id())).is_some()
}

impl Start<'_> {
    /// Starts it. `configure` sets its folder, environment and streams.
    pub fn start(self, configure: impl FnOnce(&mut Command)) -> anyhow::Result<(Supervised, Child)> {
        // Orphans fall back to this process. Where that cannot be had, marks and groups are left.
        let _ = set_child_subreaper(Some(getpid()));
        let mark = format!("{}-{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed));
        let cgroup = self.shim.as_ref().and_then(|_| Cgroup::make(&mark));
        let mut command = match &self.shim {
            Some(shim) => {
                let mut command = Command::new(shim);
                command.arg(enter_cgroup::NAME);
                if self.leash {
                    command.arg(enter_cgroup::LEASH).arg(std::process::id().to_string());
                }
                let procs = cgroup.as_ref().map_or_else(|| enter_cgroup::NO_CGROUP.into(), Cgroup::procs);
                command.arg(procs).arg("--").arg(self.program);
                command
            }
            None => Command::new(self.program),
        };
        command.args(self.args);
        // Nothing that estop starts for an agent gets what opens estop itself.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_own_secret)) {
            command.env_remove(name);
        }
        configure(&mut command);
        command.env(MARK, &mark);
        if self.own_group {
            command.process_group(0);
        }
        let child = command.spawn();
        let mut child = child.with_context(|| format!("cannot start {}", self.program.display()))?;
        let root = i32::try_from(child.id()).context("the process has a number that is none")?;
        let leads = self.own_group;
        let shared = Arc::new(Shared { state: Mutex::default(), bell: Condvar::new(), root, leads });
        // Before anybody can reap it: from here on its start tells it from whoever has its number later.
        let tree = Tree::new(root, format!("{MARK}={mark}"), self.orphans, cgroup);
        let work = Arc::clone(&shared);
        // Now, not when it is needed: a tree that took all processes there are leaves none for a thread.
        let ender =
            std::thread::Builder::new().name("estop-end".into()).spawn(move || work.end_when_asked(tree));
        if let Err(error) = ender {
            // What nobody could end is not started.
            let _ = child.kill();
            let _ = child.wait();
            return Err(error).context("cannot start the thread that would end it");
        }
        Ok((Supervised { shared, agent: self.agent.map(Into::into) }, child))
    }
}

impl Supervised {
    /// The leader's process number.
    pub fn root(&self) -> i32 {
        self.shared.root
    }

    /// Waits for the command itself and reaps it; what it started may live on. To be called once, with the child that
    /// [`Start::start`] gave.
    pub fn wait(&self, mut child: Child) -> std::io::Result<ExitStatus> {
        // As the child's own wait does: who reads from us must not wait for us.
        drop(child.stdin.take());
        self.await_end();
        // Reaped while nobody can signal it: afterwards its number may be somebody else's.
        let mut state = self.shared.state();
        let status = child.wait();
        state.status = Some(*status.as_ref().unwrap_or(&ExitStatus::from_raw(0)));
        drop(state);
        self.shared.bell.notify_all();
        status
    }

    /// Until it is over; it is not reaped.
    fn await_end(&self) {
        let Some(pid) = Pid::from_raw(self.shared.root) else { return };
        let over = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // Any other error is one of reaping it, too, and told there.
        while waitid(WaitId::Pid(pid), over).is_err_and(|error| error == Errno::INTR) {}
    }

    /// What became of the command since the last look; does not wait. `None` once it was told to have ended.
    pub fn look(&self, child: &mut Child) -> std::io::Result<Option<Change>> {
        let Some(pid) = Pid::from_raw(self.shared.root).filter(|_| self.shared.state().status.is_none())
        else {
            return Ok(None);
        };
        let without_waiting = WaitIdOptions::NOHANG;
        // Looked at before it is reaped: until then the number is its own, and nobody else's is signalled.
        let is_over =
            waitid(WaitId::Pid(pid), without_waiting | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
        if is_over.is_some() {
            let mut state = self.shared.state();
            let status = child.wait()?;
            state.status = Some(status);
            drop(state);
            self.shared.bell.notify_all();
            return Ok(Some(Change::Ended(status)));
        }
        let stopped = waitid(WaitId::Pid(pid), without_waiting | WaitIdOptions::STOPPED)?;
        Ok(stopped.and_then(|status| status.stopping_signal()).map(Change::Stopped))
    }

    /// Signals the command, with its group if it leads one.
    pub fn signal(&self, signal: Signal) {
        let state = self.shared.state();
        if state.status.is_none() {
            self.shared.signal(signal);
        }
    }

    /// Begins to end it with everything it started, for this reason, and returns at once: a kill does not wait for it.
    pub fn end(&self, _why: &str) {
        self.shared.ask_to_end();
    }

    /// For which agent it runs.
    pub fn agent(&self) -> Option<&str> {
        self.agent.as_deref()
    }

    /// Whether it is to end.
    pub fn is_ending(&self) -> bool {
        self.shared.state().ending.is_some()
    }

    /// How the tree ended, once it has; waits no longer than `within`. Nobody must have asked for its end: then there is
    /// nothing to wait for.
    pub fn ended(&self, within: Duration) -> Option<Ended> {
        let is_open = |state: &mut State| state.ended.is_none();
        let woken = self.shared.bell.wait_timeout_while(self.shared.state(), within, is_open);
        woken.unwrap_or_else(PoisonError::into_inner).0.ended.clone()
    }
}

/// Nobody holds it any more: its thread ends. The tree stays: who drops it has seen it end, or lets it go.
impl Drop for Supervised {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if state.ending.is_none() && state.ended.is_none() {
            state.ended = Some(Ended::default());
        }
        drop(state);
        self.shared.bell.notify_all();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// While the command is not reaped.
    fn signal(&self, signal: Signal) {
        if self.leads {
            tree::signal_group(self.root, signal);
        } else {
            tree::signal_one(self.root, signal);
        }
    }

    fn ask_to_end(&self) {
        let mut state = self.state();
        if state.ending.is_some() || state.ended.is_some() {
            return;
        }
        state.ending = Some(Instant::now());
        if state.status.is_none() {
            // The whole group with one call, before anybody looks who else there is. The leader was not reaped: the number
            // is the group's. Whoever is stopped hears of it when it goes on.
            self.signal(Signal::TERM);
            self.signal(Signal::CONT);
        }
        drop(state);
        self.bell.notify_all();
    }

    fn end_when_asked(&self, mut tree: Tree) {
        let begun = loop {
            let is_quiet = |state: &mut State| state.ending.is_none() && state.ended.is_none();
            let woken = self.bell.wait_timeout_while(self.state(), BURY_INTERVAL, is_quiet);
            let (state, waited) = woken.unwrap_or_else(PoisonError::into_inner);
            if !waited.timed_out() {
                break state.ending;
            }
            drop(state);
            // Looking buries adopted dead, and remembers who belongs to it.
            tree.alive();
        };
        let Some(begun) = begun else { return };
        let ended = end(&mut tree, begun);
        // With its cgroup: whoever is told that it is over finds nothing of it.
        drop(tree);
        if !ended.survivors.is_empty() {
            eprintln!("estop: these processes do not die, not even by SIGKILL: {:?}", ended.survivors);
        }
        self.state().ended = Some(ended);
        self.bell.notify_all();
    }
}

/// SIGTERM to all, and to those that come; after a while SIGKILL, until nobody is left.
fn end(tree: &mut Tree, begun: Instant) -> Ended {
    let mut told = std::collections::BTreeSet::new();
    let mut ended = Ended::default();
    while begun.elapsed() < KILL_AFTER {
        let alive = tree.alive();
        if alive.is_empty() {
            return Ended { took: begun.elapsed(), ..ended };
        }
        for process in alive.iter().filter(|process| told.insert(process.key())) {
            ended.name(process);
            process.signal(Signal::TERM);
            process.signal(Signal::CONT);
        }
        let left = KILL_AFTER.saturating_sub(begun.elapsed());
        std::thread::sleep(left.min(POLL_INTERVAL));
    }
    let mut killed = std::collections::BTreeSet::new();
    loop {
        let alive = tree.alive();
        let is_late = begun.elapsed() > KILL_AFTER + GIVE_UP_AFTER;
        if alive.is_empty() || is_late {
            let survivors = alive.iter().map(|process| process.pid).collect();
            return Ended { took: begun.elapsed(), killed: killed.len(), survivors, ..ended };
        }
        tree.kill_at_once(&alive);
        killed.extend(alive.iter().map(tree::Process::key));
        std::thread::sleep(HUNT_INTERVAL);
    }
}

impl Ended {
    /// Notes who was told.
    fn name(&mut self, process: &tree::Process) {
        if self.told.len() < NAMED_MAX {
            self.told.push(process.shown());
        } else {
            self.told_more += 1;
        }
    }
}
