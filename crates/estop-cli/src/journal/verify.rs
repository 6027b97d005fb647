//! `estop journal verify`: whether the journal of a data directory is whole and unchanged.

use std::path::Path;

use estop_config::data_dir::database;
use estop_config::printable::escaped;
use estop_journal::{Checker, SYSTEM, lines_of};
use estop_store::database_cursor;
use estop_store::segments::{JournalReader, RecoverError, is_whole, look};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::StoreArgs;
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
pub(super) struct Report {
    pub(super) ok: bool,
    /// Records that were checked.
    pub(super) count: u64,
    /// Records up to this one were pruned.
    pub(super) pruned_to: u64,
    /// The last record that was checked.
    pub(super) to: u64,
    sealed: bool,
    /// What everything comes to: the same as long as nothing was added or changed.
    digest: Option<String>,
    problem: Option<Wrong>,
    #[serde(skip)]
    pub(super) text: String,
}

#[derive(Serialize)]
struct Wrong {
    /// The record; null = a file itself.
    seq: Option<u64>,
    message: String,
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let mut report = check(&args.store.journal()?)?;
    if report.ok
        && let Some(problem) =
            ahead(&database(&args.store.place.folder()?), &args.store.journal()?, report.to)
    {
        report = Report::damaged(problem);
    }
    if args.json { say_json(&report) } else { say(&report.text) }?;
    Ok(if report.ok { Exit::Fine } else { Exit::No })
}

/// What is wrong if the database knows of another journal, or of more than this one has: a start would refuse them.
pub(super) fn ahead(database: &Path, journal: &JournalReader, to: u64) -> Option<String> {
    let cursor = database_cursor(database).ok().flatten()?;
    if journal.id().ok().flatten().is_some_and(|id| id != cursor.journal) {
        return Some("the database belongs to another journal".to_owned());
    }
    // A running estop has written more since this was read.
    let newest = || look(journal.folder()).ok().flatten().map_or(to, |found| found.state.seq);
    (cursor.seq > to && cursor.seq > newest())
        .then(|| format!("the database knows of record {}, but the journal ends with {to}", cursor.seq))
}

/// How often a journal is read again that a running estop sealed or pruned meanwhile.
const TRIES: usize = 3;

/// Checks every file and every line that is kept, and that none is missing.
pub(super) fn check(journal: &JournalReader) -> anyhow::Result<Report> {
    for _ in 1..TRIES {
        let before = journal.manifest().ok();
        let report = check_once(journal);
        // Files of a list that changed meanwhile may be gone rightly.
        if report.as_ref().is_ok_and(|report| report.ok) || journal.manifest().ok() == before {
            return report;
        }
    }
    check_once(journal)
}

fn check_once(journal: &JournalReader) -> anyhow::Result<Report> {
    match look(journal.folder()) {
        Ok(_) => {}
        Err(RecoverError::Untrusted(problem)) => return Ok(Report::damaged(problem)),
        Err(error @ RecoverError::Io { .. }) => return Err(error.into()),
    }
    let manifest = journal.manifest()?;
    for sealed in &manifest.sealed {
        match is_whole(journal.folder(), sealed) {
            Ok(true) => {}
            Ok(false) => {
                return Ok(Report::damaged(format!(
                    "segment {} was changed after it was sealed",
                    sealed.segment
                )));
            }
            // Pruned meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    match journal.base_lines() {
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            return Ok(Report::damaged(error.to_string()));
        }
        read => drop(read?),
    }
    let last = manifest.sealed.last().map_or(0, |sealed| sealed.last_seq);
    let bar = ProgressBar::new(last)
        .with_style(ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}")?)
        .with_message("verifying");
    let (mut checker, mut wrong) = (Checker::default(), None);
    let read = journal.lines(&mut |lines| {
        let mut lines = lines_of(lines);
        wrong = lines.find_map(|line| checker.take(line).err());
        bar.set_position(checker.state().seq);
        wrong.is_none()
    });
    bar.finish_and_clear();
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            return Ok(Report::damaged(error.to_string()));
        }
        read => read?,
    }
    Ok(Report::of(&checker, journal.digest().ok(), wrong.map(|error| error.to_string())))
}

impl Report {
    fn damaged(message: String) -> Report {
        let text = format!(
            "The journal cannot be trusted: {}. Restore a backup with `estop restore`.",
            escaped(&message)
        );
        let problem = Some(Wrong { seq: None, message });
        Report { ok: false, count: 0, pruned_to: 0, to: 0, sealed: false, digest: None, problem, text }
    }

    fn of(checker: &Checker, digest: Option<String>, wrong: Option<String>) -> Report {
        let (to, pruned_to) = (checker.state().seq, checker.begins_after());
        let count = to.saturating_sub(pruned_to);
        let agents = checker.state().counts().filter(|(agent, _)| *agent != SYSTEM).count();
        let pruned =
            if pruned_to > 0 { format!(" Records up to {pruned_to} were pruned.") } else { String::new() };
        let text = match &wrong {
            None => format!(
                "Whole: {count} records of {agents} agents.{pruned}\nDigest: {}",
                digest.as_deref().unwrap_or("unknown")
            ),
            Some(error) => format!("Broken after {count} good records: {}.", escaped(error)),
        };
        let problem = wrong.map(|message| Wrong { seq: Some(to + 1), message });
        let ok = problem.is_none();
        Report { ok, count, pruned_to, to, sealed: ok, digest, problem, text }
    }
}
