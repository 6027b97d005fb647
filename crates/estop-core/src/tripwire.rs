//! The tripwire (TW-1..6): from what an agent does to its activity, from that to an intent, and from both and its health to
//! a veto.

pub mod activity;
pub mod health;
pub mod intent;
pub mod safety_gate;
