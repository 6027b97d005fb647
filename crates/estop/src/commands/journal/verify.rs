//! `estop journal verify`: whether the stored journal is whole and unchanged, read straight from the database.

use std::path::Path;

use estop_core::chain::{ChainHead, Heads};
use estop_core::journal::{Chains, JournalError, Record};
use estop_store::{Journal, OpenError, StoreError, read_journal, restore_check};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::{StoreArgs, seal_text};
use crate::commands::open_store::StoreBeside;
use crate::commands::{Exit, say, say_json};
use crate::printable::escaped;

/// Check that the stored journal is whole and unchanged; estop may be running meanwhile
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    store: StoreArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The same as the API's `/api/journal/verify`.
#[derive(Serialize)]
struct Report {
    ok: bool,
    /// Records that were checked.
    count: u64,
    /// Records up to this one were pruned; what follows is checked against their heads.
    pruned_to: u64,
    /// The last record that was checked.
    to: u64,
    sealed: bool,
    problem: Option<Wrong>,
    #[serde(skip)]
    text: String,
}

#[derive(Serialize)]
struct Wrong {
    /// The record; null = the file itself.
    seq: Option<u64>,
    message: String,
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let path = args.store.database()?;
    let report = match restore_check(&path) {
        Ok(known) => check(&path, known.last_seq)?,
        Err(OpenError::Corrupt { detail, .. }) => Report::damaged(detail),
        Err(
            error @ (OpenError::Newer { .. }
            | OpenError::Foreign { .. }
            | OpenError::Locked { .. }
            | OpenError::Io { .. }),
        ) => return Err(error.into()),
    };
    if args.json { say_json(&report) } else { say(&report.text) }?;
    Ok(if report.ok { Exit::Fine } else { Exit::No })
}

/// Checks every record that is kept, and that none is missing up to `last_seq`.
fn check(path: &Path, last_seq: u64) -> anyhow::Result<Report> {
    let pruned_to = first_record(path)?.saturating_sub(1);
    let heads = if pruned_to == 0 { Vec::new() } else { pruned_heads(path)? };
    let heads = heads.into_iter().map(|head| {
        (head.chain, Heads { count: head.count, events: head.events, decisions: head.decisions })
    });
    let mut chains = Chains::resume(pruned_to, heads);
    let bar = ProgressBar::new(last_seq.saturating_sub(pruned_to))
        .with_style(ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}")?)
        .with_message("verifying");
    let mut wrong = None;
    let read = read_journal(path, pruned_to + 1, u64::MAX, &mut |block| {
        let lines = block.bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        wrong = lines.into_iter().find_map(|line| check_line(&mut chains, line).err());
        bar.set_position(chains.seq() - pruned_to);
        wrong.is_none()
    });
    bar.finish_and_clear();
    match read {
        Ok(()) => {}
        Err(StoreError::Corrupt(detail)) => return Ok(Report::damaged(detail)),
        Err(error) => return Err(error.into()),
    }
    if wrong.is_none() && chains.seq() < last_seq {
        wrong = Some(JournalError::OutOfOrder { expected: chains.seq() + 1, found: last_seq });
    }
    Ok(Report::of(&chains, pruned_to, wrong))
}

fn check_line(chains: &mut Chains, line: &[u8]) -> Result<(), JournalError> {
    chains.check(&Record::parse(line)?)
}

/// The number of the oldest record; 1 if there is none.
fn first_record(path: &Path) -> Result<u64, StoreError> {
    let mut first = 1;
    read_journal(path, 1, u64::MAX, &mut |block| {
        first = block.first_seq;
        false
    })?;
    Ok(first)
}

fn pruned_heads(path: &Path) -> anyhow::Result<Vec<ChainHead>> {
    Ok(StoreBeside::open(path)?.store.pruned()?.heads)
}

impl Report {
    fn damaged(detail: String) -> Report {
        let text = format!(
            "The database cannot be trusted: {}. Restore a backup with `estop restore`.",
            escaped(&detail)
        );
        let problem = Some(Wrong { seq: None, message: detail });
        Report { ok: false, count: 0, pruned_to: 0, to: 0, sealed: false, problem, text }
    }

    fn of(chains: &Chains, pruned_to: u64, wrong: Option<JournalError>) -> Report {
        let (to, sealed) = (chains.seq(), chains.is_sealed());
        let count = to.saturating_sub(pruned_to);
        let text = match &wrong {
            None => format!(
                "Whole: {count} records in {} chains, {}.{}",
                chains.heads().len(),
                seal_text(chains),
                if pruned_to > 0 {
                    format!(" Records up to {pruned_to} were pruned.")
                } else {
                    String::new()
                }
            ),
            Some(error) => {
                format!("Broken after {count} good records: {}.", escaped(&error.to_string()))
            }
        };
        let problem = wrong.map(|error| Wrong { seq: Some(to + 1), message: error.to_string() });
        Report { ok: problem.is_none(), count, pruned_to, to, sealed, problem, text }
    }
}
