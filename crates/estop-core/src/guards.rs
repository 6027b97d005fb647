//! Guards that fit into a file each: what they compare, and what they saw. Which guards there are and in which order they are
//! asked says [`crate::guard`]; the loop detector and the tripwire have folders of their own.

pub mod breaker;
pub(crate) mod budget;
pub mod hours;
pub mod models;
pub mod rate;
pub mod watchdog;
