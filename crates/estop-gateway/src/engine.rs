//! Agents and what decides about them: their states, policies and runs, the kill switch, and what a decision brings about.

pub(crate) mod agents;
pub(crate) mod background;
pub(crate) mod drill;
mod effects;
#[expect(clippy::module_inception, reason = "a stranger looks for the engine there")]
mod engine;
pub(crate) mod eviction;
pub(crate) mod fleet;
pub(crate) mod hook_memory;
pub(crate) mod incident;
pub(crate) mod last_output;
pub(crate) mod panic_guard;
pub(crate) mod policies;
pub(crate) mod previous_responses;
pub(crate) mod reasons;
pub(crate) mod recorder;
pub(crate) mod restored_state;
pub(crate) mod shards;
pub(crate) mod step_log;
mod supervised;
pub(crate) mod switch;
pub(crate) mod tickets;
pub(crate) mod tools;

pub use engine::Engine;
pub use engine::Stores;

#[cfg(test)]
pub(crate) mod tests;
