//! `estop backup FILE`: copies everything estop keeps, while it runs or not (ST-1).

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use estop_store::{Journal, StoreError, restore_check, tail_rest};
use serde_json::json;

use super::data_dir::DataDirArgs;
use super::open_store::StoreBeside;
use super::{Exit, refused, say, say_json};
use crate::admin_plane::socket;
use crate::memory::database;
use crate::printable::escaped;

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
    let opened = StoreBeside::open(&database)?;
    match opened.store.backup(&args.file) {
        Ok(()) => {}
        Err(StoreError::Exists { .. }) => return taken(&args.file),
        Err(error) => anyhow::bail!("{} cannot be written: {error}", args.file.display()),
    }
    let is_behind = is_behind(&folder, &opened)?;
    let copy = restore_check(&args.file)?;
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
            "estop: the estop of {} ended before it had stored everything. The rest is not in this copy: start estop \
             there once, then copy again.",
            escaped(&folder.display().to_string())
        );
    }
    Ok(Exit::Fine)
}

fn taken(file: &Path) -> anyhow::Result<Exit> {
    refused(format!("{} is there already: name another file, or move that one away", file.display()))
}

/// Whether records wait that nobody is storing.
fn is_behind(folder: &Path, opened: &StoreBeside) -> anyhow::Result<bool> {
    if UnixStream::connect(socket(folder)).is_ok() {
        return Ok(false);
    }
    Ok(!tail_rest(folder, opened.store.tail()?)?.lines.is_empty())
}
