//! `estop verify J.jsonl`: whether a journal is whole and unchanged.

use estop_core::journal::Chains;

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
    let mut chains = Chains::default();
    let broken = read(&args.journal, "verifying", &mut chains)?;
    print(&args.journal, &chains, broken.as_ref())?;
    Ok(if broken.is_some() { Exit::No } else { Exit::Fine })
}

fn print(args: &JournalArgs, chains: &Chains, broken: Option<&Broken>) -> anyhow::Result<()> {
    if args.json {
        return say_json(&serde_json::json!({
            "whole": broken.is_none(),
            "records": chains.seq() - chains.begins_after(),
            "begins_after": chains.begins_after(),
            "sealed": chains.is_sealed(),
            "chains": chains.heads(),
            "line": broken.map(|broken| broken.line),
            "problem": broken.map(|broken| broken.error.to_string()),
        }));
    }
    match broken {
        None => say(&format!(
            "Whole: {} records in {} chains, {}.{}",
            chains.seq() - chains.begins_after(),
            chains.heads().len(),
            seal_text(chains),
            beginning_text(chains)
        )),
        Some(broken) => say(&broken.text(args)),
    }
}
