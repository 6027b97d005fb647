//! The binary's parts, as a library so that tests can call them: configuration and commands.

pub mod admin_plane;
pub mod alerting;
pub mod background_file;
pub mod backup_files;
pub mod button_log;
pub mod client;
pub mod commands;
pub mod data_watch;
pub mod journal_writer;
pub mod latch_keeper;
pub mod lines;
pub mod memory;
pub mod prooftest;
pub mod reload;
pub mod steer;
pub mod stuck;
pub mod trace;
pub mod trace_run;
pub mod triggers;
pub mod wiring;
