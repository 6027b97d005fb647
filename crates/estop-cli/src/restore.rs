//! `estop restore FILE`: puts a copy in the place of the database (ST-1). What was there is kept beside it.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use estop_config::data_dir::database;
use estop_config::printable::escaped;
use estop_store::{RESTORING, Restorable, restore_check};
use jiff::Timestamp;
use serde_json::json;

use super::data_dir::DataDirArgs;
use super::open_store::lock;
use super::{Exit, Refused, refused, say, say_json};
use crate::backup_files::BACKUP_FILES;

/// What is added to the name of a database whose place was taken, before the time.
const KEPT: &str = ".before-restore-";

/// Put a copy made by `estop backup` in the place of the database; no estop may be running there
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
    let copy = check(&args.file)?;
    let draft = beside(&database, ".restored");
    let kept = place(&args.file, &draft, &database).with_context(|| {
        format!("{} could not be restored to {}", args.file.display(), database.display())
    })?;
    for beside in BACKUP_FILES {
        if let Err(error) = beside.copy_back(&args.file, &folder) {
            eprintln!("estop: {} could not be put back: {error}. {}", beside.what, beside.next_step);
        }
    }
    print(args, &folder, copy, kept.as_deref())?;
    Ok(Exit::Fine)
}

/// A copy is one file; one with a log beside it was taken in another way, and lacks what is in the log.
fn check(file: &Path) -> anyhow::Result<Restorable> {
    anyhow::ensure!(file.is_file(), "there is no file {}", file.display());
    let log = beside(file, "-wal");
    if std::fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        return refused(format!(
            "{} is not a copy made by `estop backup`: some of it is still in {}. Copy the data directory's database \
             with `estop backup`",
            file.display(),
            log.display()
        ));
    }
    Ok(restore_check(file).map_err(|error| Refused(error.to_string()))?)
}

/// Everything is on the disk before the first name changes; the last step puts the copy in its place at once.
fn place(file: &Path, draft: &Path, database: &Path) -> anyhow::Result<Option<PathBuf>> {
    write_draft(file, draft)?;
    // Made from the copy, so that nobody could have changed the file in between.
    restore_check(draft)?;
    // From here on until it is in its place no estop starts: the old one lacks more and more of what belongs to it.
    let ready = beside(database, RESTORING);
    std::fs::rename(draft, &ready)?;
    swap(&ready, database).with_context(|| {
        format!("estop starts shut until this is done: run `estop restore {}`", ready.display())
    })
}

/// What is ready takes the place of what is there.
fn swap(ready: &Path, database: &Path) -> anyhow::Result<Option<PathBuf>> {
    sync_folder(database)?;
    let kept = keep_old(database)?;
    sync_folder(database)?;
    std::fs::rename(ready, database)?;
    sync_folder(database)?;
    Ok(kept)
}

fn write_draft(file: &Path, draft: &Path) -> anyhow::Result<()> {
    let _ = std::fs::remove_file(draft);
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    std::io::copy(&mut File::open(file)?, &mut out)?;
    Ok(out.sync_all()?)
}

/// Gives the database a second name, and takes away from its first what belongs to it: its log and the tail of its
/// journal. Without them the first name would still be a database, so estop never finds none.
fn keep_old(database: &Path) -> anyhow::Result<Option<PathBuf>> {
    let mut has_kept = database.exists();
    // One that was cut short may have begun: what belongs together stays together.
    let begun = second_name(database)?;
    let kept = begun.clone().map_or_else(|| free_name(database), Ok)?;
    if has_kept && begun.is_none() {
        // Where a file cannot have two names it is moved.
        std::fs::hard_link(database, &kept).or_else(|_| std::fs::rename(database, &kept))?;
    }
    for suffix in ["-wal", "-shm"] {
        let from = beside(database, suffix);
        if from.exists() {
            std::fs::rename(from, beside(&kept, suffix))?;
        }
    }
    let folder = database.parent().context("the database is in no folder")?;
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let is_tail = name.to_str().is_some_and(|name| name.starts_with("tail-") && name.ends_with(".jsonl"));
        if is_tail {
            let mut suffix = OsString::from(".");
            suffix.push(&name);
            std::fs::rename(folder.join(&name), beside(&kept, suffix))?;
            has_kept = true;
        }
    }
    Ok(has_kept.then_some(kept))
}

/// The name a database that is there was given by a restore that was cut short.
fn second_name(database: &Path) -> anyhow::Result<Option<PathBuf>> {
    let Ok(about) = database.metadata() else { return Ok(None) };
    let folder = database.parent().context("the database is in no folder")?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let is_kept = entry.file_name().to_str().is_some_and(|name| name.contains(KEPT));
        if is_kept
            && entry.metadata().is_ok_and(|found| (found.dev(), found.ino()) == (about.dev(), about.ino()))
        {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

fn free_name(database: &Path) -> anyhow::Result<PathBuf> {
    let now = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    let names = (1..100).map(|number| match number {
        1 => beside(database, format!("{KEPT}{now}")),
        _ => beside(database, format!("{KEPT}{now}-{number}")),
    });
    let mut free = names.filter(|name| !name.exists());
    free.next().context("a hundred databases were replaced in this second")
}

fn sync_folder(database: &Path) -> anyhow::Result<()> {
    let folder = database.parent().context("the database is in no folder")?;
    Ok(File::open(folder)?.sync_all()?)
}

fn beside(path: &Path, suffix: impl AsRef<std::ffi::OsStr>) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn print(args: &Args, folder: &Path, copy: Restorable, kept: Option<&Path>) -> anyhow::Result<()> {
    let kept = kept.map(|kept| kept.display().to_string());
    if args.json {
        return say_json(&json!({
            "data_dir": folder.display().to_string(), "records": copy.last_seq, "schema": copy.schema, "kept_as": kept,
        }));
    }
    let mut text =
        format!("Restored {} records to {}.", copy.last_seq, escaped(&folder.display().to_string()));
    if let Some(kept) = kept {
        text += &format!("\nThe database that was there is kept as {}.", escaped(&kept));
    }
    text += "\nAgents, rules, tokens and the emergency stop are as they were when the copy was made: a token taken back \
             since then works again.\nNext: start estop with `estop serve`, look at `estop status` and `estop token \
             list`.";
    say(&text)
}
