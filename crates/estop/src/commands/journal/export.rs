//! `estop journal export`: the stored journal as lines, for `verify`, `replay` and other programs.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use estop_store::read_journal;

use super::StoreArgs;
use crate::commands::Exit;

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
    /// The last record
    #[arg(long, default_value_t = u64::MAX)]
    to: u64,
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let path = args.store.database()?;
    match &args.output {
        Some(file) => {
            let out = File::create_new(file).with_context(|| format!("cannot create {}", file.display()))?;
            copy(&path, args, BufWriter::new(out))
        }
        None => copy(&path, args, std::io::stdout().lock()),
    }
}

fn copy(path: &Path, args: &Args, mut out: impl Write) -> anyhow::Result<Exit> {
    let mut written = Ok(());
    read_journal(path, args.from, args.to, &mut |block| {
        written = out.write_all(&block.bytes);
        written.is_ok()
    })?;
    match written.and_then(|()| out.flush()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Exit::Fine),
        result => result.context("cannot write the journal").map(|()| Exit::Fine),
    }
}
