//! `estop detach LOG -- WORDS…`: starts estop anew so that nothing ties it to whoever asked: no terminal, no parent, and
//! its output in a file. Prints the new process's number.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context;
use estop_config::OF_A_RUN;
use nix::sys::signal::SigSet;

use super::{Exit, say};

/// A log that has grown beyond this begins anew; the one before is kept.
const LOG_MAX: u64 = 4 << 20;

/// Start estop anew, tied to nobody
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where its output goes
    log: PathBuf,
    /// The command line
    #[arg(last = true, required = true)]
    words: Vec<OsString>,
}

/// Takes out of a command's environment what names a run.
pub(super) fn forget_run(command: &mut Command) {
    OF_A_RUN.iter().for_each(|variable| {
        command.env_remove(variable);
    });
}

/// Ends at once: what it started falls back to the system.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    // A session of its own: the end of a terminal does not reach it. The new process does not lead it, so it never gets
    // another terminal.
    rustix::process::setsid().context("cannot leave the session")?;
    // Whoever asked may hold back signals; what is started must hear them.
    let _ = SigSet::empty().thread_set_mask();
    if args.log.metadata().is_ok_and(|about| about.len() > LOG_MAX) {
        // A log that cannot be moved grows on.
        let _ = std::fs::rename(&args.log, args.log.with_extension("log.1"));
    }
    // What a daemon says is nobody else's to read.
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&args.log);
    let log = log.with_context(|| format!("cannot write {}", args.log.display()))?;
    let child = Command::new("/proc/self/exe")
        .args(&args.words)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("cannot start")?;
    say(&child.id().to_string())?;
    Ok(Exit::Fine)
}
