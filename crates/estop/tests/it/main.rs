//! Everything the binary and its parts do together, in one test binary: linking it once is what takes time.

mod alerts;
mod alerts_command;
mod background;
mod breakers;
mod cli;
mod commands;
mod config_files;
mod config_fuzz;
mod config_mcp;
mod config_refusals;
mod config_relays;
mod config_resolution;
mod config_serve;
mod config_serve_refusals;
mod config_zones;
mod data_files;
mod descriptors;
mod doctor;
mod edits;
mod emergency;
mod emergency_history;
mod history;
mod hook_command;
mod hooks_api;
mod house;
mod install;
mod keeping;
mod lost_files;
mod mcp;
mod memory;
mod money;
mod presets;
mod printed_commands;
mod prooftest;
mod races;
mod ran;
mod record;
mod reload;
mod run_command;
mod secrets;
mod seed_words;
mod triggers;
mod tune;
#[path = "../../../estop-store/tests/support/written_journal.rs"]
#[allow(unreachable_pub, reason = "it is a module of several test binaries")]
mod written_journal;
