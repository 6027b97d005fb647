//! estop-core: the judgement.
//!
//! Pure: events and time come in, decisions come out. Nothing here reads a clock, draws a random
//! number, touches a file or iterates a hash map, so a recorded journal replays bit for bit.
//!
//! Read in this order: what comes in ([`event`], [`policy`]), what goes out ([`decision`]), who decides
//! ([`engine`]), then one detector after the other.
#![deny(clippy::float_arithmetic)]

// What comes in and goes out.
pub mod decision;
pub mod ended;
pub mod event;
pub mod guard;
pub mod ids;
pub mod judgement;
pub mod money;
pub mod operator;
pub mod policy;
pub mod policy_file;
pub mod prices;
pub mod tags;
pub mod time;

// Who decides.
pub mod agent;
pub mod engine;
pub mod run;
pub mod system;

// From text to prints.
pub mod fingerprint;
mod ring;
pub mod steps;

// The detectors, in the order they are asked.
pub mod budget;
pub mod guards;
pub mod loop_detector;
mod minute;
pub mod tripwire;

// What is written down, and what comes of reading it again.
mod as_list;
pub mod backtest;
mod canonical_json;
pub mod chain;
pub mod escalation_text;
pub mod hex;
pub mod journal;
pub mod printed_command;
pub mod replay;
