//! `estop journal …`: the stored journal, exported, verified, searched and read into a new database; and what `verify` and `replay` share.

mod events;
mod export;
mod file;
mod reindex;
mod steps;
mod verify;

use std::path::Path;

use estop_config::data_dir::{database, socket};
use estop_store::check_restored;
use estop_store::segments::{JOURNAL_FOLDER, JournalReader};
use http::Method;

use super::Exit;
use super::client::{Ask, Client, path};
use super::data_dir::DataDirArgs;

pub(super) use file::{Broken, JournalArgs, beginning_text, read, seal_text};

/// Export, verify and search the journal, or make the database anew from it
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Export(export::Args),
    Verify(verify::Args),
    Events(events::Args),
    Steps(steps::Args),
    Reindex(reindex::Args),
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Export(args) => export::main(args),
        Command::Verify(args) => verify::main(args),
        Command::Events(args) => events::main(args),
        Command::Steps(args) => steps::main(args),
        Command::Reindex(args) => reindex::main(args),
    }
}

/// Which stored journal; estop need not run.
#[derive(Debug, clap::Args)]
struct StoreArgs {
    #[command(flatten)]
    place: DataDirArgs,
}

impl StoreArgs {
    /// The journal in it.
    fn journal(&self) -> anyhow::Result<JournalReader> {
        stored_in(&self.place.folder()?)
    }
}

/// The journal of a data directory.
pub(super) fn stored_in(folder: &Path) -> anyhow::Result<JournalReader> {
    let journal = folder.join(JOURNAL_FOLDER);
    check_restored(&database(folder))?;
    anyhow::ensure!(journal.exists(), "there is no journal in {}: has estop run there?", folder.display());
    Ok(JournalReader::new(&journal))
}

/// Has a running estop write what happened until now. Nobody answers where none runs.
pub(super) fn flush(folder: &Path) {
    let ask = |client: Client| client.ask(&Ask::new(Method::POST, path(&["journal", "checkpoint"]))).ok();
    let _ = Client::to_socket(&socket(folder)).ok().and_then(ask);
}
