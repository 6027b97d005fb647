//! estop-core: the judgement.
//!
//! Pure: events and time come in, decisions come out. Nothing here reads a clock, draws a random
//! number, touches a file or iterates a hash map, so a recorded journal replays bit for bit.
//!
//! Read in this order: what comes in ([`event`], [`policy`]), what goes out ([`decision`]), who decides
//! ([`engine`]), then one detector after the other.
#![deny(clippy::float_arithmetic)]

// What comes in: events and the rules they are judged by.
pub mod event;
pub mod policy;
pub mod policy_file;
pub mod prices;

// What goes out.
pub mod decision;
pub mod escalation_text;
pub mod printed_command;

// State: one agent's, its runs', its money, and the red button's.
pub mod agent;
pub mod budget;
pub mod engine;
pub mod operator;
pub mod run;
pub mod system;

// Who judges, from text to verdict.
pub mod fingerprint;
pub mod guard;
pub mod guards;
pub mod judgement;
pub mod loop_detector;
pub mod tripwire;

// What is written down, and what comes of reading it again.
mod as_list;
mod json;

// What everything else is made of. These import nothing above.
pub mod ended;
pub mod hex;
pub mod ids;
mod minute;
pub mod money;
pub mod printable;
mod ring;
pub mod steps;
pub mod tags;
pub mod time;
pub mod trace_parent;
