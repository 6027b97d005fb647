//! What `verify` and `replay` share: reading a journal to its end, and saying what is wrong with it.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use estop_config::printable::escaped;
use estop_core::backtest::Backtest;
use estop_core::journal::{Chains, JournalError};
use estop_core::policy::Policy;
use estop_core::replay::{Replay, ReplayError};

use crate::lines::Lines;

/// Which journal, and how to answer.
#[derive(Debug, clap::Args)]
pub(crate) struct JournalArgs {
    /// The journal; `-`, or nothing where something is piped in, is the standard input
    journal: Option<PathBuf>,
    /// Accept a journal that is still being written: its end cannot be vouched for
    #[arg(long)]
    pub(crate) allow_unsealed: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl JournalArgs {
    /// The file; `None` = the standard input.
    fn file(&self) -> Option<&Path> {
        self.journal.as_deref().filter(|file| *file != Path::new("-"))
    }

    fn open(&self, what: &'static str) -> anyhow::Result<Lines> {
        if let Some(file) = self.file() {
            return Lines::open(file, what);
        }
        let stdin = std::io::stdin();
        if self.journal.is_none() && stdin.is_terminal() {
            anyhow::bail!("name the journal's file, or pipe one in: `estop journal export | estop verify`");
        }
        Ok(Lines::of_stdin())
    }

    fn name(&self) -> String {
        self.file().map_or_else(|| "standard input".to_owned(), |file| file.display().to_string())
    }
}

/// Takes a journal in, line by line.
pub(crate) trait Reader {
    /// The next line.
    fn feed(&mut self, line: &[u8]) -> Result<(), ReplayError>;
    /// The chains as far as they were read.
    fn chains(&self) -> &Chains;
}

/// What is wrong with a journal, and in which line.
pub(crate) struct Broken {
    pub(crate) line: usize,
    pub(crate) error: ReplayError,
}

/// Reads the whole journal; ends at the first line that is wrong.
pub(crate) fn read(
    args: &JournalArgs,
    what: &'static str,
    reader: &mut impl Reader,
) -> anyhow::Result<Option<Broken>> {
    let mut lines = args.open(what)?;
    while let Some((line, bytes)) = lines.next_line()? {
        match reader.feed(bytes) {
            Ok(()) => {}
            // Still being written: what stands before it is the journal.
            Err(ReplayError::Journal(JournalError::NotARecord))
                if args.allow_unsealed && !bytes.ends_with(b"\n") => {}
            Err(error) => return Ok(Some(Broken { line, error })),
        }
    }
    let chains = reader.chains();
    match chains.confirm() {
        Ok(()) => {}
        Err(JournalError::BeginningUnconfirmed) if args.allow_unsealed => {}
        Err(error) => return Ok(Some(Broken { line: 1, error: error.into() })),
    }
    if chains.is_sealed() || args.allow_unsealed {
        return Ok(None);
    }
    let line = lines.count().max(1);
    Ok(Some(Broken { line, error: JournalError::NotSealed.into() }))
}

/// Where a journal begins whose first records are gone; empty if it is whole.
pub(crate) fn beginning_text(chains: &Chains) -> String {
    match chains.begins_after() {
        0 => String::new(),
        seq if chains.is_confirmed() => {
            format!(" Records up to {seq} were let go; the rest goes on from there.")
        }
        seq => format!(" Records up to {seq} were let go; no record confirms what the rest goes on from."),
    }
}

/// How far an unbroken journal can be trusted.
pub(crate) fn seal_text(chains: &Chains) -> &'static str {
    if chains.is_sealed() { "sealed" } else { "not sealed: a cut tail would not be noticed" }
}

impl Broken {
    /// What is wrong, safe to print.
    pub(crate) fn problem(&self) -> String {
        match &self.error {
            ReplayError::Journal(JournalError::NotSealed) => {
                let seal = "`estop journal export` of a running estop ends with one";
                format!("{}; {seal}, --allow-unsealed accepts it as it is", JournalError::NotSealed)
            }
            ReplayError::Journal(error) => escaped(&error.to_string()),
            ReplayError::Differs { seq, chain, recorded, recomputed } => ReplayError::Differs {
                seq: *seq,
                chain: escaped(chain).into(),
                recorded: escaped(recorded),
                recomputed: escaped(recomputed),
            }
            .to_string(),
        }
    }

    /// The same, with its place.
    pub(crate) fn text(&self, args: &JournalArgs) -> String {
        format!("{}:{}: {}", escaped(&args.name()), self.line, self.problem())
    }
}

impl Reader for Chains {
    fn feed(&mut self, line: &[u8]) -> Result<(), ReplayError> {
        Ok(self.take(line).map(drop)?)
    }

    fn chains(&self) -> &Chains {
        self
    }
}

impl Reader for Replay {
    fn feed(&mut self, line: &[u8]) -> Result<(), ReplayError> {
        Replay::feed(self, line)
    }

    fn chains(&self) -> &Chains {
        Replay::chains(self)
    }
}

impl<F: Fn(&str) -> Policy> Reader for Backtest<F> {
    fn feed(&mut self, line: &[u8]) -> Result<(), ReplayError> {
        Ok(Backtest::feed(self, line)?)
    }

    fn chains(&self) -> &Chains {
        Backtest::chains(self)
    }
}
