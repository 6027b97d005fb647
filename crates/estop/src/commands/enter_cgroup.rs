//! `estop enter-cgroup`: enters a cgroup and becomes another program, so that everything that program starts is in it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

use super::Exit;

/// Enter a cgroup and become another program
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The cgroup's `cgroup.procs`
    procs: PathBuf,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Comes back only if the program cannot be started.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    // `0` is whoever writes it. Without the cgroup the supervisor still finds the tree by its parents and its mark.
    let _ = std::fs::write(&args.procs, "0");
    let (program, rest) = args.command.split_first().context("no program is named")?;
    let error = Command::new(program).args(rest).exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}
