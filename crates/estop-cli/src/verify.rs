//! `estop verify J.jsonl`: whether a journal is whole and unchanged.

use std::collections::BTreeMap;

use estop_journal::{Checker, SYSTEM};

use super::journal::{Broken, JournalArgs, beginning_text, read, seal_text};
use super::{Exit, say, say_json};

/// Check that a journal is whole and unchanged
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    journal: JournalArgs,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    let mut checker = Checker::default();
    let broken = read(&args.journal, "verifying", &mut checker)?;
    print(&args.journal, &checker, broken.as_ref())?;
    Ok(if broken.is_some() { Exit::No } else { Exit::Fine })
}

fn print(args: &JournalArgs, checker: &Checker, broken: Option<&Broken>) -> anyhow::Result<()> {
    if args.json {
        return say_json(&serde_json::json!({
            "whole": broken.is_none(),
            "records": checker.state().seq - checker.begins_after(),
            "begins_after": checker.begins_after(),
            "sealed": checker.is_ended(),
            "agents": counts(checker),
            "line": broken.map(|broken| broken.line),
            "problem": broken.map(|broken| broken.error.to_string()),
        }));
    }
    match broken {
        None => say(&format!(
            "Whole: {} records of {} agents, {}.{}",
            checker.state().seq - checker.begins_after(),
            counts(checker).len(),
            seal_text(checker),
            beginning_text(checker)
        )),
        Some(broken) => say(&broken.text(args)),
    }
}

/// How many records there are of each agent, in order of name.
fn counts(checker: &Checker) -> BTreeMap<&str, u64> {
    checker.state().counts().filter(|(agent, _)| *agent != SYSTEM).collect()
}
