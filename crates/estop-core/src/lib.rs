//! estop-core: the judgement.
//!
//! Pure: events and time come in, decisions come out. Nothing here reads a clock, draws a random
//! number, touches a file or iterates a hash map, so a recorded journal replays bit for bit.
//!
//! Read in this order: what comes in ([`event`], [`policy`]), what goes out ([`decision`]), who decides
//! ([`engine`]), then one detector after the other.
#![deny(clippy::float_arithmetic)]

// What comes in and goes out.
pub mod ids;
pub mod time;
pub mod money;
pub mod event;
pub mod policy;
pub mod policy_file;
pub mod decision;

// Who decides.
pub mod engine;
pub mod system;
pub mod standing;
pub mod run;

// From text to prints.
pub mod fingerprint;
pub mod normalize;
pub mod simhash;
pub mod signature;
mod volatile;
mod window;

// The detectors, in the order they are asked.
pub mod hours;
mod minute;
pub mod rate;
pub mod budget;
pub mod loop_detector;
pub mod repetition;
pub mod chant;
pub mod breaker;
pub mod iteration;
pub mod activity;
pub mod intent;
pub mod safety_gate;
pub mod health;
pub mod watchdog;

// What is written down, and what comes of reading it again.
pub mod hex;
pub mod journal;
pub mod replay;
pub mod backtest;
