//! The daemon: `estop serve`, and everything it wires together.

pub mod serve;
pub mod wiring;

pub mod admin_plane;
pub mod alerting;
pub mod background_file;
pub mod button_log;
pub mod config_in_force;
pub mod control;
pub mod data_watch;
pub mod latch_writer;
mod logging;
pub mod metrics;
pub mod passed_sockets;
pub mod persistence;
pub mod prooftest;
pub mod reload;
mod request_ends;
mod service_manager;
mod span_export;
mod store;
pub mod stuck;
pub mod triggers;

use std::io::Write;

use anyhow::Context;

/// Prints a line. Whoever reads may have seen enough, which changes nothing in how the process ends.
fn say(line: &str) -> anyhow::Result<()> {
    match writeln!(std::io::stdout(), "{line}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write the answer"),
    }
}
