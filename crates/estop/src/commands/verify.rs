//! `estop verify J.jsonl`: whether a journal is whole and unchanged.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use estop_core::journal::{Chains, JournalError, Record};

use super::Exit;
use crate::lines::Lines;

/// Check that a journal is whole and unchanged
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The journal
    journal: PathBuf,
    /// Accept a journal that is still being written: its end cannot be vouched for
    #[arg(long)]
    allow_unsealed: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    let mut lines = Lines::open(&args.journal, "verifying")?;
    let mut chains = Chains::default();
    let mut broken = None;
    while let Some((number, line)) = lines.next_line()? {
        if let Err(error) = Record::parse(line).and_then(|record| chains.check(&record)) {
            broken = Some((number, error));
            break;
        }
    }
    if broken.is_none() && !chains.is_sealed() && !args.allow_unsealed {
        broken = Some((chains.seq() as usize, JournalError::NotSealed));
    }
    print(args, &chains, broken.as_ref()).context("cannot write the answer")?;
    Ok(if broken.is_some() { Exit::No } else { Exit::Fine })
}

fn print(args: &Args, chains: &Chains, broken: Option<&(usize, JournalError)>) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if args.json {
        let answer = serde_json::json!({
            "whole": broken.is_none(),
            "records": chains.seq(),
            "sealed": chains.is_sealed(),
            "chains": chains.heads(),
            "line": broken.map(|(line, _)| line),
            "problem": broken.map(|(_, error)| error.to_string()),
        });
        writeln!(out, "{}", serde_json::to_string_pretty(&answer)?)?;
        return Ok(());
    }
    match broken {
        None => {
            let sealed =
                if chains.is_sealed() { "sealed" } else { "not sealed: a cut tail would not be noticed" };
            writeln!(out, "Whole: {} records in {} chains, {sealed}.", chains.seq(), chains.heads().len())?;
        }
        Some((line, error)) => writeln!(out, "{}:{line}: {error}", args.journal.display())?,
    }
    Ok(())
}
