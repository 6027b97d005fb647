//! `estop restore FILE`: puts a copy in the place of the journal and the database (ST-1). What was there is kept beside it.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use estop_config::data_dir::database;
use estop_config::printable::escaped;
use estop_core::printed_command::shell_word;
use estop_store::segments::JOURNAL_FOLDER;
use estop_store::{Backup, RESTORING, StoreError, check_unpacked, unpack};
use serde_json::json;

use super::data_dir::DataDirArgs;
use super::open_store::lock;
use super::{Exit, refused, say, say_json};
use crate::backup_files::BACKUP_FILES;
use crate::set_aside::{beside, free_name, set_aside, sync};

/// The folder that a copy is unpacked into, before it counts.
const UNPACKED: &str = ".unpacked";
/// What was there before, while it is replaced; in the folder of the copy.
const BEFORE: &str = "before";
/// And afterwards, with the time behind it; in the data directory.
const KEPT: &str = "before-restore-";

/// Restore a copy made by `estop backup`; no estop may be running there
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The copy
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
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.with_context(|| format!("cannot create {}", folder.display()))?;
    let database = database(&folder);
    let _lock = lock(&database)?;
    let ready = beside(&database, RESTORING);
    let copy = if ready.exists() {
        go_on(&args.file, &ready)?
    } else {
        unpack_copy(&args.file, &folder, &database)?
    };
    // From here on until all is in its place no estop starts.
    let kept = swap(&ready, &folder, &database).with_context(|| {
        format!("estop starts shut until this is done: run `estop restore {}`", ready.display())
    })?;
    print(args, &folder, copy, kept.as_deref())?;
    Ok(Exit::Fine)
}

/// One that was cut short is ended first: some of it may be in its place already.
fn go_on(file: &Path, ready: &Path) -> anyhow::Result<Option<Backup>> {
    let is_it = file.canonicalize().is_ok_and(|file| ready.canonicalize().is_ok_and(|ready| file == ready));
    if is_it {
        return Ok(None);
    }
    refused(format!(
        "an earlier restore was cut short: run `estop restore {}`, which ends it, then this one again",
        ready.display()
    ))
}

/// Unpacks a copy and reads all of it; everything is on the disk before the first name changes.
fn unpack_copy(file: &Path, folder: &Path, database: &Path) -> anyhow::Result<Option<Backup>> {
    anyhow::ensure!(file.is_file(), "there is no file {}", file.display());
    let draft = beside(database, UNPACKED);
    remove_folder(&draft)?;
    let copy = match unpack(file, &draft) {
        Ok(copy) => copy,
        Err(error) => {
            // The first error is the one to tell.
            let _ = remove_folder(&draft);
            if let StoreError::Corrupt(problem) = error {
                return refused(format!("{} cannot be trusted: {problem}", file.display()));
            }
            return Err(error).with_context(|| format!("{} cannot be unpacked", file.display()));
        }
    };
    for beside in BACKUP_FILES {
        if let Err(error) = beside.copy_back(file, folder) {
            eprintln!("estop: {} could not be put back: {error}. {}", beside.what, beside.next_step);
        }
    }
    std::fs::rename(&draft, beside(database, RESTORING))?;
    Ok(Some(copy))
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// What is ready takes the place of what is there. Cut short anywhere, it can be done again: a part that is still in the
/// folder of the copy has not taken its place.
fn swap(ready: &Path, folder: &Path, database: &Path) -> anyhow::Result<Option<PathBuf>> {
    sync(folder)?;
    let before = ready.join(BEFORE);
    let name = database.file_name().context("the database has no name")?;
    let journal = folder.join(JOURNAL_FOLDER);
    if ready.join(JOURNAL_FOLDER).exists() {
        set_aside(&journal, &before)?;
        std::fs::rename(ready.join(JOURNAL_FOLDER), &journal)?;
        sync(folder)?;
    }
    if ready.join(name).exists() {
        // Its log and index first: without its database a log is nothing.
        for suffix in ["-wal", "-shm", ""] {
            set_aside(&beside(database, suffix), &before)?;
        }
        std::fs::rename(ready.join(name), database)?;
        sync(folder)?;
    }
    let kept = before.exists().then(|| free_name(folder, KEPT)).transpose()?;
    if let Some(kept) = &kept {
        std::fs::rename(&before, kept)?;
        sync(folder)?;
    }
    std::fs::remove_dir(ready)?;
    sync(folder)?;
    Ok(kept)
}

fn print(args: &Args, folder: &Path, copy: Option<Backup>, kept: Option<&Path>) -> anyhow::Result<()> {
    let kept = kept.map(|kept| kept.display().to_string());
    let copy = copy.map_or_else(|| check_unpacked(folder), Ok)?;
    if args.json {
        return say_json(&json!({
            "data_dir": folder.display().to_string(), "records": copy.last_seq, "schema": copy.schema, "kept_as": kept,
        }));
    }
    let mut text =
        format!("Restored {} records to {}.", copy.last_seq, escaped(&folder.display().to_string()));
    if let Some(kept) = kept {
        text += &format!("\nWhat was there is kept in {}.", escaped(&kept));
    }
    if let Some(command) = gives_back(folder)? {
        text += &format!(
            "\nThe folder is another user's than the restored files. Before estop starts: {command}"
        );
    }
    text += "\nAgents, rules and tokens are as they were when the copy was made: a token revoked since then is accepted again. \
             The emergency stop stays pressed if it is pressed now, or was then.\nNext: start estop with `estop serve`, look at `estop status` and `estop token \
             list`.";
    say(&text)
}

/// What gives restored files to the owner of their folder, if they are another's: root restores what a service's user reads.
/// Not done here: whoever owns the folder could lead root to other files meanwhile.
fn gives_back(folder: &Path) -> io::Result<Option<String>> {
    let (owner, restored) = (std::fs::metadata(folder)?, std::fs::metadata(database(folder))?);
    let (uid, gid) = (owner.uid(), owner.gid());
    let folder = shell_word(&folder.display().to_string());
    Ok((restored.uid() != uid).then(|| format!("chown -R {uid}:{gid} {folder}")))
}
