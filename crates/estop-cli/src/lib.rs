//! The commands, one file each. A command prints its answer and says how the process should end.

// What commands share.
pub mod backup_files;
pub mod client;
mod clients;
mod confirm;
mod data_dir;
mod emergency_text;
pub mod journal_writer;
mod latch;
pub mod lines;
mod minutes;
mod open_store;
mod set_aside;
mod table;
pub mod trace;
pub mod trace_run;
mod urgency;

// Looking at records.
pub mod eval;
mod evidence;
pub mod journal;
pub mod replay;
pub mod tune;
pub mod verify;

// The daemon, and steering it.
pub mod agents;
pub mod alerts;
pub mod cases;
pub mod emergency;
pub mod kill;
pub mod policy;
pub mod prooftest;
pub mod record;
pub mod run;
pub mod runs;
pub mod sessions;
pub mod spend;
pub mod status;
pub mod token;
#[cfg(feature = "top")]
pub mod top;

// What coding agents start, and how they are told to.
pub mod hook;
pub mod install;
pub mod mcp;
pub mod uninstall;

// What estop starts itself.
pub mod detach;

// Looking after the machine.
pub mod background;
pub mod backup;
pub mod budgets;
pub mod completions;
pub mod config;
#[cfg(feature = "demo")]
pub mod demo;
pub mod doctor;
pub mod manual;
pub mod restore;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;

use client::ClientError;

/// How a command ended, as its exit code (SPEC §13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: fine.
    Fine,
    /// 1: the answer is "no": it differs, it was found, it was refused.
    No,
    /// 2: wrong usage or configuration.
    Usage,
    /// 3: the daemon cannot be reached.
    Unreachable,
}

impl Exit {
    /// What an error means for the exit code.
    pub fn of(error: &anyhow::Error) -> Exit {
        if error.is::<Refused>() {
            return Exit::No;
        }
        match error.downcast_ref::<ClientError>() {
            Some(ClientError::Refused(_)) => Exit::No,
            Some(ClientError::Unreachable(_)) => Exit::Unreachable,
            None => Exit::Usage,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Fine => 0,
            Exit::No => 1,
            Exit::Usage => 2,
            Exit::Unreachable => 3,
        })
    }
}

/// The answer is "no", and why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(String);

fn refused<T>(why: impl Into<String>) -> anyhow::Result<T> {
    Err(Refused(why.into()).into())
}

/// Prints a part of the answer. Whoever reads may have seen enough (`estop … | head`), which changes nothing in
/// how the command ends.
fn say(answer: &str) -> anyhow::Result<()> {
    match writeln!(std::io::stdout(), "{answer}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write the answer"),
    }
}

fn say_json(answer: &impl Serialize) -> anyhow::Result<()> {
    say(&serde_json::to_string_pretty(answer)?)
}
