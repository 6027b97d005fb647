//! `estop enter-cgroup`: enters a cgroup and becomes another program, so that everything that program starts is in it. The
//! program begins as if a shell had started it: no signal is held back.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Context;
use nix::sys::signal::SigSet;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// Its name on the command line.
pub(crate) const NAME: &str = "enter-cgroup";
/// Given for the cgroup where there is none.
pub(crate) const NO_CGROUP: &str = "-";
/// The program ends with whoever started it; that one's number follows.
pub(crate) const LEASH: &str = "--leash";

/// Enter a cgroup and become another program
#[derive(Debug, clap::Args)]
pub struct Args {
    /// End with whoever started it, which has this number
    #[arg(long, value_name = "PID")]
    leash: Option<i32>,
    /// The cgroup's `cgroup.procs`; `-` for none
    procs: PathBuf,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Does it, if the command line is exactly as the supervisor writes it: it stands before every program, and building all of
/// estop's commands takes longer than everything else here.
pub fn if_asked(words: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let mut words = words.skip(1).peekable();
    words.next_if(|word| word == NAME)?;
    let leash = match words.next_if(|word| word == LEASH) {
        Some(_) => Some(words.next()?.to_str()?.parse().ok()?),
        None => None,
    };
    let procs = words.next()?.into();
    words.next_if(|word| word == "--")?;
    let args = Args { leash, procs, command: words.collect() };
    let Err(error) = main(&args);
    eprintln!("estop: {error:#}");
    // As shells say it.
    Some(ExitCode::from(127))
}

/// Comes back only if the program cannot be started.
pub fn main(args: &Args) -> anyhow::Result<Infallible> {
    if args.procs.as_os_str() != NO_CGROUP {
        // `0` is whoever writes it. Without the cgroup the supervisor still finds the tree by its parents and its mark.
        let _ = std::fs::write(&args.procs, "0");
    }
    if let Some(supervisor) = args.leash {
        // A supervisor that is killed cannot end anybody; the kernel does it. SIGTERM: a program that hears it ends what it
        // started itself, which SIGKILL would leave behind.
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
        // The kernel tells of no death that came before.
        let parent = getppid().map_or(0, Pid::as_raw_pid);
        anyhow::ensure!(parent == supervisor, "whoever started this is gone: nobody could end the program");
    }
    // It fails for sets that cannot be, which this is not.
    let _ = SigSet::empty().thread_set_mask();
    let (program, rest) = args.command.split_first().context("no program is named")?;
    let error = Command::new(program).args(rest).exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}
