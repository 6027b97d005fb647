//! The commands, one file each. A command prints its answer and says how the process should end.

pub mod eval;
mod journal;
pub mod replay;
pub mod serve;
pub mod verify;

use std::io::Write;

use anyhow::Context;
use serde::Serialize;

/// How a command ended, as its exit code (SPEC §13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: fine.
    Fine,
    /// 1: the answer is "no": it differs, it was found, it was refused.
    No,
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
