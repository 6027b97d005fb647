//! estop-sim: thousands of agents of different temperaments, random schedules, odd clocks, kills and restarts,
//! against the core; invariants are checked at each step.
//!
//! Deterministic: one thread, no clock, no hash maps, its own random numbers. A seed and a number of agents mean the
//! same run forever, in debug and in release; a failing seed becomes a line in `tests/seeds.rs`.
//!
//! ```
//! use estop_core::engine::AgentState;
//! let config = estop_sim::Config { seed: 1, agents: 20, events: 500, ..estop_sim::Config::default() };
//! let summary = estop_sim::run::<AgentState>(&config).map_err(|broken| broken.to_string());
//! assert_eq!(summary.map(|s| s.events), Ok(500));
//! ```

// The run, and what may break in it.
pub mod broken;
pub mod config;
pub mod invariants;
pub mod summary;
pub mod world;

// Who takes part.
pub mod button;
pub mod fleet;
pub mod judge;
pub mod policies;
pub mod temperament;

// Second opinions.
pub mod history;
pub mod model;

// What drives it.
pub mod agenda;
pub mod clock;
pub mod prng;

pub use broken::Broken;
pub use config::{Config, Replaying};
pub use judge::Judge;
pub use summary::Summary;
pub use world::run;
