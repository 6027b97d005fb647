//! `estop journal export`: the stored journal as lines, for `verify`, `replay` and other programs.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use estop_config::data_dir::socket;
use estop_core::journal::{Base, Beginning};
use estop_store::StoredJournal;
use http::Method;

use super::StoreArgs;
use crate::Exit;
use crate::client::{Ask, Client, path};

/// Print the stored journal, one record a line; estop may be running meanwhile
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    store: StoreArgs,
    /// Write here instead of to the standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The first record
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// The last record; without it, an estop that runs is asked for a checkpoint, and the export ends with that
    #[arg(long)]
    to: Option<u64>,
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let path = args.store.database()?;
    let to = args.to.or_else(|| checkpoint(&args.store)).unwrap_or(u64::MAX);
    match &args.output {
        Some(file) => {
            let out = File::create_new(file).with_context(|| format!("cannot create {}", file.display()))?;
            copy(&path, args.from, to, BufWriter::new(out))
        }
        None => copy(&path, args.from, to, std::io::stdout().lock()),
    }
}

/// Has a running estop store a checkpoint. Nobody answers where none runs: then the journal ends with one already, or its
/// estop was killed and `estop verify` says so.
fn checkpoint(store: &StoreArgs) -> Option<u64> {
    let client = Client::to_socket(&socket(&store.place.folder().ok()?)).ok()?;
    let answer = client.ask(&Ask::new(Method::POST, path(&["journal", "checkpoint"]))).ok()?;
    answer.json["seq"].as_u64()
}

fn copy(path: &Path, from: u64, to: u64, mut out: impl Write) -> anyhow::Result<Exit> {
    let journal = StoredJournal::open(path)?;
    let mut written = Ok(());
    let mut next = from;
    // What the first records are replayed from, if those before them are gone.
    let mut write = |bytes: &[u8]| {
        written = out.write_all(bytes);
        written.is_ok()
    };
    let (mut first, mut is_readable) = (1, true);
    journal.beginning(|pruned, chain| {
        first = pruned.to_seq + 1;
        if pruned.to_seq == 0 || from > first {
            return false;
        }
        let Some((head, state)) = chain else {
            return write(&Beginning::new(pruned.to_seq, pruned.heads.len() as u64).line());
        };
        is_readable = !state.is_empty();
        is_readable && write(&Base { head: head.clone(), state }.line())
    })?;
    anyhow::ensure!(is_readable, "a state is missing: what is left of the journal cannot be replayed");
    next = next.max(first);
    let mut gone = None;
    journal.blocks(next, to, &mut |block| {
        if block.first_seq != next {
            gone = Some(next);
            return false;
        }
        next = block.last_seq + 1;
        write(&block.bytes)
    })?;
    if let Some(seq) = gone {
        anyhow::bail!("record {seq} was let go meanwhile: export again");
    }
    match written.and_then(|()| out.flush()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Exit::Fine),
        result => result.context("cannot write the journal").map(|()| Exit::Fine),
    }
}
