//! `estop backup FILE`: copies everything estop keeps, while it runs or not (ST-1).

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use estop_config::data_dir::{database, socket};
use estop_config::printable::escaped;
use estop_store::{StoreError, StoredJournal, restore_check, tail_end, tail_rest};
use serde_json::json;

use super::data_dir::DataDirArgs;
use super::{Exit, Refused, refused, say, say_json};
use crate::backup_files::BACKUP_FILES;

/// A running estop stores what happened some 200 ms later; one that takes much longer has a disk in trouble.
const STORED_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Copy everything estop keeps into one file; estop may be running meanwhile
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The copy holds hashes of tokens and keys, and the journal: keep it as safe as the data directory."
)]
pub struct Args {
    /// The copy; there must be no such file yet
    file: PathBuf,
    #[command(flatten)]
    place: DataDirArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    let folder = args.place.folder()?;
    let database = database(&folder);
    anyhow::ensure!(
        database.exists(),
        "there is nothing to copy in {}: has estop run there?",
        folder.display()
    );
    // Before anything is opened: reading a large database takes its time.
    if args.file.symlink_metadata().is_ok() {
        return taken(&args.file);
    }
    let journal = StoredJournal::open(&database).map_err(|error| Refused(error.to_string()))?;
    let is_behind = !wait_for_tail(&folder, &journal, STORED_WITHIN)?;
    match estop_store::backup(&database, &args.file) {
        Ok(()) => {}
        Err(StoreError::Exists { .. }) => return taken(&args.file),
        Err(error) => anyhow::bail!("{} cannot be written: {error}", args.file.display()),
    }
    for beside in BACKUP_FILES {
        if let Err(error) = beside.copy_beside(&folder, &args.file) {
            eprintln!("estop: {} could not be copied: {error}", beside.what);
        }
    }
    let copy = restore_check(&args.file).map_err(|error| {
        Refused(format!(
            "{} was written, but the database is damaged, and so is this copy: {error}",
            args.file.display()
        ))
    })?;
    let bytes = std::fs::metadata(&args.file)?.len();
    let file = args.file.display().to_string();
    if args.json {
        let answer = json!({"file": file, "records": copy.last_seq, "bytes": bytes, "schema": copy.schema});
        say_json(&answer)?;
    } else {
        let (file, megabytes) = (escaped(&file), bytes as f64 / 1e6);
        say(&format!(
            "Copied {} records to {file} ({megabytes:.1} MB). `estop restore {file}` puts them back.",
            copy.last_seq
        ))?;
    }
    if is_behind {
        eprintln!(
            "estop: not everything that happened in {} is stored yet, and what is not is not in this copy. If no estop \
             runs there, start it once; then copy again.",
            escaped(&folder.display().to_string())
        );
    }
    Ok(Exit::Fine)
}

fn taken(file: &Path) -> anyhow::Result<Exit> {
    refused(format!("{} is there already: name another file, or move that one away", file.display()))
}

/// Waits until the store has what the tail had when the copy was asked for; whether it has.
pub(super) fn wait_for_tail(
    folder: &Path,
    journal: &StoredJournal,
    within: Duration,
) -> anyhow::Result<bool> {
    let end = tail_end(folder)?.unwrap_or_default();
    let is_running = UnixStream::connect(socket(folder)).is_ok();
    let begun = Instant::now();
    loop {
        let mark = journal.tail()?;
        if (mark.generation, mark.offset) >= (end.generation, end.offset)
            || tail_rest(folder, mark)?.lines.is_empty()
        {
            return Ok(true);
        }
        if !is_running || begun.elapsed() > within {
            return Ok(false);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
