//! `estop journal reindex`: has the next start make the database anew from the journal (ST-1).

use std::path::Path;

use estop_config::data_dir::database;
use estop_config::printable::escaped;
use serde_json::json;

use super::StoreArgs;
use super::verify::{Report, ahead, check};
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
    let checked = check(&journal)?;
    if !checked.ok {
        return refused(format!("{} The database was left as it is.", checked.text));
    }
    if let Some(problem) = ahead(&database, &journal, checked.to) {
        return refused(format!(
            "{problem}: without this database nobody would know what is gone (stopped agents, revoked keys). Restore a backup with \
             `estop restore`. The database was left as it is."
        ));
    }
    let kept = free_name(&folder, KEPT)?;
    // Its log and index first: without its database a log is nothing.
    for suffix in ["-wal", "-shm", ""] {
        set_aside(&beside(&database, suffix), &kept)?;
    }
    sync(&folder)?;
    print(args.json, &checked, &kept)?;
    Ok(Exit::Fine)
}

fn print(as_json: bool, checked: &Report, kept: &Path) -> anyhow::Result<()> {
    let (records, pruned_to) = (checked.count, checked.pruned_to);
    let kept = kept.display().to_string();
    if as_json {
        return say_json(&json!({ "records": records, "pruned_to": pruned_to, "kept_as": kept }));
    }
    let pruned = if pruned_to > 0 {
        format!(
            " Records up to {pruned_to} were pruned: events, runs and spend of that time, and its part of the budget of all agents together, are in the \
             old database alone."
        )
    } else {
        String::new()
    };
    say(&format!(
        "The database is set aside. The next start makes it anew from {records} records of the journal.{pruned}\n\
         The old one is kept in {kept}. Only it has sessions, mutes, chosen passwords, notes on cases, alerts that wait and the delivery log: \
         to have them back, stop estop and move its files back.\n\
         Next: start estop with `estop serve`.",
        kept = escaped(&kept)
    ))
}
