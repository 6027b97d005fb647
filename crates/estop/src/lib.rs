//! The binary's parts, as a library so that tests can call them: configuration and commands.

pub mod commands;
pub mod config;
pub mod journal_writer;
pub mod lines;
pub mod live_journal;
pub mod printable;
pub mod trace;
pub mod trace_run;
pub mod wiring;
