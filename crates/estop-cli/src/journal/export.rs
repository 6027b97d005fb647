//! `estop journal export`: the journal as lines, for `verify`, `replay` and other programs.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::Context;
use estop_store::segments::JournalReader;

use super::{StoreArgs, flush};
use crate::Exit;

/// Print the journal, one record a line; estop may be running meanwhile
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    store: StoreArgs,
    /// Write here instead of to the standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The first record; with this or `--to`, only records are printed, and `estop verify` does not take them
    #[arg(long)]
    from: Option<u64>,
    /// The last record
    #[arg(long)]
    to: Option<u64>,
    /// Only this agent's records; `estop verify` and `estop replay` take them
    #[arg(long, value_name = "NAME", conflicts_with_all = ["from", "to"])]
    agent: Option<String>,
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let journal = args.store.journal()?;
    flush(&args.store.place.folder()?);
    match &args.output {
        Some(file) => {
            let out = File::create_new(file).with_context(|| format!("cannot create {}", file.display()))?;
            copy(&journal, args, BufWriter::new(out))
        }
        None => copy(&journal, args, std::io::stdout().lock()),
    }
}

fn copy(journal: &JournalReader, args: &Args, mut out: impl Write) -> anyhow::Result<Exit> {
    let mut written = Ok(());
    let mut write = |lines: &[u8]| {
        written = out.write_all(lines);
        written.is_ok()
    };
    match (&args.agent, args.from, args.to) {
        (Some(agent), _, _) => journal.export_agent(agent, |_| None, &mut write),
        (None, None, None) => journal.export(&mut write),
        (None, from, to) => journal.records(from.unwrap_or(1), to.unwrap_or(u64::MAX), &mut write),
    }
    .context("the journal cannot be read")?;
    match written.and_then(|()| out.flush()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Exit::Fine),
        result => result.context("cannot write the journal").map(|()| Exit::Fine),
    }
}
