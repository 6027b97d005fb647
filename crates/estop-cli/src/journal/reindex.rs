//! `estop journal reindex`: has the next start make the database anew from the journal (ST-1).

use std::path::Path;

use estop_config::data_dir::database;
use estop_config::printable::escaped;
use serde_json::json;

use super::{StoreArgs, verify};
use crate::open_store::lock;
use crate::set_aside::{beside, free_name, set_aside, sync};
use crate::{Exit, refused, say, say_json};

/// What the database is kept as, with the time behind it; in the data directory.
const KEPT: &str = "before-reindex-";

/// Have the next start make the database anew from the journal; no estop may be running there
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    store: StoreArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let folder = args.store.place.folder()?;
    let database = database(&folder);
    // Before the lock, which would make a database where there is none.
    let journal = args.store.journal()?;
    if !database.exists() {
        return refused("there is no database: start estop, which makes it from the journal");
    }
    let _lock = lock(&database)?;
    // Only a whole journal can take the place of what the database knows.
    let checked = verify::check(&journal)?;
    if !checked.ok {
        return refused(format!("{} The database was left as it is.", checked.text));
    }
    let kept = free_name(&folder, KEPT)?;
    // Its log and index first: without its database a log is nothing.
    for suffix in ["-wal", "-shm", ""] {
        set_aside(&beside(&database, suffix), &kept)?;
    }
    sync(&folder)?;
    print(args.json, checked.count, &kept)?;
    Ok(Exit::Fine)
}

fn print(as_json: bool, records: u64, kept: &Path) -> anyhow::Result<()> {
    let kept = kept.display().to_string();
    if as_json {
        return say_json(&json!({ "records": records, "kept_as": kept }));
    }
    say(&format!(
        "The database is set aside. The next start makes it anew from {records} records of the journal.\n\
         The old one is kept in {kept}. Only it has sessions, mutes, chosen passwords, notes on cases, alerts that wait and the delivery log: \
         to have them back, stop estop and move its files back.\n\
         Next: start estop with `estop serve`.",
        kept = escaped(&kept)
    ))
}
