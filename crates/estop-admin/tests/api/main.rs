//! The API as its callers see it: requests in, answers out, over the real store.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;
#[path = "../../../estop-store/tests/support/written_journal.rs"]
#[allow(unreachable_pub, reason = "it is a module of several test binaries")]
mod written_journal;

mod access;
mod agents;
mod alerts;
mod backtest;
mod budgets;
mod cases;
mod documents;
mod emergency;
mod evidence;
mod hooks;
mod journal;
mod pages;
mod policy;
mod presets;
mod roles;
mod runs;
mod snooze;
mod wall;
mod watch;
