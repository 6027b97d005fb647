//! `estop prooftest`: tries out the stop on a canary in the running estop.

use std::time::Duration;

use http::Method;
use serde_json::Value;

use super::Exit;
use super::table::{cell, list as table_of};
use crate::client::{DaemonArgs, path};

/// It takes two seconds until SIGKILL, and some patience for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Test the stop on a canary agent, all others keep running; exit code 1 if it did not work
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    let daemon = args.daemon.daemon()?.within(TIMEOUT);
    let test = daemon.send(Method::POST, path(&["emergency", "prooftest"]), None)?;
    daemon.say(&test, text)?;
    Ok(if test["passed"] == true { Exit::Fine } else { Exit::No })
}

fn text(test: &Value) -> String {
    let steps =
        table_of(&test["steps"], "Nothing was tried.", ["step", "", "after", "what was seen"], |step| {
            let passed = if step["passed"] == true { "ok" } else { "FAILED" };
            [cell(&step["name"]), passed.to_owned(), millis(&step["took_us"]), cell(&step["what"])]
        });
    let end = if test["passed"] == true {
        format!("Passed: the stop works, in {}. Nobody but the canary was stopped.", millis(&test["took_us"]))
    } else {
        "FAILED: the stop does not do what it must. See the steps above; do not rely on it until this passes."
            .to_owned()
    };
    format!("{steps}\n{end}")
}

/// Microseconds, as milliseconds for people.
pub(super) fn millis(us: &Value) -> String {
    let us = us.as_u64().unwrap_or_default();
    format!("{}.{:03} ms", us / 1000, us % 1000)
}
