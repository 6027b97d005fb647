//! `estop backup FILE`: copies everything estop keeps, while it runs or not (ST-1).

use std::path::{Path, PathBuf};

use estop_config::data_dir::database;
use estop_config::printable::escaped;
use estop_store::{StoreError, check_database};
use serde_json::json;

use super::data_dir::DataDirArgs;
use super::{Exit, refused, say, say_json};
use crate::backup_files::BACKUP_FILES;

/// Copy everything estop keeps into one file; estop may be running meanwhile
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The copy is a tar file. It holds hashes of tokens and keys, and the journal: keep it as safe as the data directory."
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
    // Before anything is read: a large journal takes its time.
    if args.file.symlink_metadata().is_ok() {
        return taken(&args.file);
    }
    // A pipe in its place would be waited for.
    if let Err(error) = check_database(&database) {
        return refused(format!("nothing was copied: {error}"));
    }
    let copy = match estop_store::backup(&database, &args.file) {
        Ok(copy) => copy,
        Err(StoreError::Exists { .. }) => return taken(&args.file),
        Err(StoreError::Corrupt(problem)) => {
            return refused(format!("nothing was copied, because what is there is damaged: {problem}"));
        }
        Err(error) => anyhow::bail!("{} cannot be written: {error}", args.file.display()),
    };
    for beside in BACKUP_FILES {
        if let Err(error) = beside.copy_beside(&folder, &args.file) {
            eprintln!("estop: {} could not be copied: {error}", beside.what);
        }
    }
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
    Ok(Exit::Fine)
}

fn taken(file: &Path) -> anyhow::Result<Exit> {
    refused(format!("{} is there already: name another file, or move that one away", file.display()))
}
