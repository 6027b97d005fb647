//! What `verify` and `replay` share: reading a journal to its end, and saying what is wrong with it.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use estop_config::printable::escaped;
use estop_core::policy::Policy;
use estop_journal::{Backtest, Checker, JournalError, Replay, ReplayError};

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
    /// A whole journal in a file.
    pub(crate) fn of_file(file: PathBuf) -> JournalArgs {
        JournalArgs { journal: Some(file), allow_unsealed: false, json: false }
    }

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
    /// The journal as far as it was read.
    fn checker(&self) -> &Checker;
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
        let Some(whole) = bytes.strip_suffix(b"\n") else {
            // Still being written: what stands before it is the journal.
            if args.allow_unsealed {
                break;
            }
            let error = JournalError::NoEnd.into();
            return Ok(Some(Broken { line, error }));
        };
        if let Err(error) = reader.feed(whole) {
            return Ok(Some(Broken { line, error }));
        }
    }
    let line = lines.count().max(1);
    if let Err(error) = reader.checker().has_states() {
        return Ok(Some(Broken { line: 1, error: error.into() }));
    }
    if reader.checker().is_ended() || args.allow_unsealed {
        return Ok(None);
    }
    Ok(Some(Broken { line, error: JournalError::NoEnd.into() }))
}

/// Where a journal begins whose first records are gone; empty if it is whole.
pub(crate) fn beginning_text(checker: &Checker) -> String {
    match checker.begins_after() {
        0 => String::new(),
        seq => format!(" Records up to {seq} were let go; the rest goes on from there."),
    }
}

/// How far an unbroken journal can be trusted.
pub(crate) fn seal_text(checker: &Checker) -> &'static str {
    if checker.is_ended() { "sealed" } else { "not sealed: a cut end would not be noticed" }
}

impl Broken {
    /// What is wrong, safe to print.
    pub(crate) fn problem(&self) -> String {
        match &self.error {
            ReplayError::Journal(JournalError::NoEnd) => {
                let seal = "`estop journal export` of a running estop ends with one";
                format!("{}; {seal}, --allow-unsealed accepts it as it is", JournalError::NoEnd)
            }
            ReplayError::Journal(error) => escaped(&error.to_string()),
            ReplayError::Differs { seq, agent, recorded, recomputed } => ReplayError::Differs {
                seq: *seq,
                agent: escaped(agent).into(),
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

impl Reader for Checker {
    fn feed(&mut self, line: &[u8]) -> Result<(), ReplayError> {
        Ok(self.take(line).map(drop)?)
    }

    fn checker(&self) -> &Checker {
        self
    }
}

impl Reader for Replay {
    fn feed(&mut self, line: &[u8]) -> Result<(), ReplayError> {
        Replay::feed(self, line)
    }

    fn checker(&self) -> &Checker {
        Replay::checker(self)
    }
}

impl<F: Fn(&str) -> Policy> Reader for Backtest<F> {
    fn feed(&mut self, line: &[u8]) -> Result<(), ReplayError> {
        Ok(Backtest::feed(self, line)?)
    }

    fn checker(&self) -> &Checker {
        Backtest::checker(self)
    }
}
