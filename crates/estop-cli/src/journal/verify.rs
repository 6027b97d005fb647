//! `estop journal verify`: whether the stored journal is whole and unchanged, read straight from the database.

use std::path::Path;

use estop_config::printable::escaped;
use estop_core::journal::{Base, Beginning, Chains, JournalError};
use estop_store::{OpenError, StoreError, StoredJournal, restore_check};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::{StoreArgs, seal_text};
use crate::{Exit, say, say_json};

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

/// Old records may be let go while the rest is checked; then it is begun again.
const TRIES: u32 = 3;

/// Checks every record that is kept, and that none is missing up to `last_seq`.
fn check(path: &Path, last_seq: u64) -> anyhow::Result<Report> {
    let journal = StoredJournal::open(path)?;
    for _ in 1..TRIES {
        let report = check_once(&journal, last_seq)?;
        if report.ok || journal.pruned()?.to_seq == report.pruned_to {
            return Ok(report);
        }
    }
    check_once(&journal, last_seq)
}

fn check_once(journal: &StoredJournal, last_seq: u64) -> anyhow::Result<Report> {
    let mut chains = Chains::default();
    let mut wrong = None;
    let mut pruned_to = 0;
    let feed = |chains: &mut Chains, line: &[u8]| chains.take(line).map(drop);
    journal.beginning(|pruned, chain| {
        pruned_to = pruned.to_seq;
        let line = match chain {
            None => Beginning::new(pruned_to, pruned.heads.len() as u64).line(),
            Some((head, state)) => Base { head: head.clone(), state }.line(),
        };
        wrong = (pruned_to > 0).then(|| feed(&mut chains, &line).err()).flatten();
        pruned_to > 0 && wrong.is_none()
    })?;
    let bar = ProgressBar::new(last_seq.saturating_sub(pruned_to))
        .with_style(ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}")?)
        .with_message("verifying");
    if wrong.is_none() {
        let read = journal.blocks(pruned_to + 1, u64::MAX, &mut |block| {
            let mut lines = block.bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            wrong = lines.find_map(|line| feed(&mut chains, line).err());
            bar.set_position(chains.seq() - pruned_to);
            wrong.is_none()
        });
        bar.finish_and_clear();
        match read {
            Ok(()) => {}
            Err(StoreError::Corrupt(detail)) => return Ok(Report::damaged(detail)),
            Err(error) => return Err(error.into()),
        }
    }
    if wrong.is_none() && chains.seq() < last_seq {
        wrong = Some(JournalError::OutOfOrder { expected: chains.seq() + 1, found: last_seq });
    }
    wrong = wrong.or_else(|| chains.confirm().err());
    Ok(Report::of(&chains, pruned_to, wrong))
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
