//! The binary's parts, as a library so that tests can call them: configuration and commands.

pub mod admin_plane;
pub mod alerting;
pub mod background_file;
pub mod backup_files;
pub mod button_log;
pub mod client;
pub mod commands;
pub mod config;
pub mod data_watch;
pub mod descriptors;
pub mod journal_writer;
pub mod latch_keeper;
mod latch_slots;
pub mod lines;
pub mod memory;
pub mod printable;
pub mod prooftest;
pub mod reload;
pub mod steer;
pub mod stuck;
pub mod supervise;
pub mod trace;
pub mod trace_run;
pub mod triggers;
pub mod wiring;
