//! Names of agents and runs: what can be one, and which are the same.

use std::borrow::Cow;

pub use estop_wire::agent_name::{NAME_MAX, is_agent_name, is_name};

/// The agent that is meant when nobody says which.
pub(crate) const DEFAULT_AGENT: &str = "default";

/// What agents are found by: names that differ in case alone are one agent's, or a stopped agent would go on in capitals.
pub(crate) fn folded(name: &str) -> Cow<'_, str> {
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}
