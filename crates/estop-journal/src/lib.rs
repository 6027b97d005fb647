//! estop-journal: the form of the journal, and what its records add up to.
//!
//! The journal is the one truth: an append-only sequence of lines, cut into segments. Everything else (agents' states,
//! spend, runs, lists of keys) follows from it and can be made anew. `docs/journal.md` describes the format for people.
//!
//! Pure: it reads and writes no files, has no clock and judges nothing by itself; [`Replay`] asks the core.

mod backtest;
mod base;
mod check;
mod line;
mod lines;
mod manifest;
mod record;
mod replay;
mod segment;
mod state;
mod watermark;

pub use backtest::{
    AgentOutcome, Backtest, Ends, LoopBacktest, LoopOutcome, LoopStop, RunEnd, Saved, SettingOutcome, Stop,
    Traffic, TunedStop, Tuning,
};
pub use base::Base;
pub use check::{Checker, Found, JournalError};
pub use line::{LineError, check_line, seal_line};
pub use lines::LineWriter;
pub use manifest::{Manifest, ManifestError, Sealed};
pub use record::{Head, Payload, Record, RecordBody, SYSTEM, lines_of, records, write_record};
pub use replay::{Replay, ReplayError, is_agent_name};
pub use segment::{End, FORMAT, Header};
pub use state::{Settings, State};
pub use watermark::{Position, SLOT_LEN, Watermark};
