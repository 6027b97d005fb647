//! Names of agents and runs: what can be one, and which are the same.

use std::borrow::Cow;

use estop_core::journal::SYSTEM;
use estop_core::proof_test::CANARY;

/// The agent that is meant when nobody says which.
pub(crate) const DEFAULT_AGENT: &str = "default";

/// Longest name of an agent or a run. Chosen: a UUID with a prefix fits; it stands in every record.
pub const NAME_MAX: usize = 64;

/// Whether a text can name an agent or a run: letters, digits, `.`, `_`, `-`, at most [`NAME_MAX`], not starting
/// with a dot, nor with a `-`, which commands would take for an option.
pub fn is_name(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    !text.is_empty() && text.len() <= NAME_MAX && !text.starts_with(['.', '-']) && text.bytes().all(fits)
}

/// Whether a text can name an agent: any name but the one of the system's own chain in the journal, and the canary's.
pub fn is_agent_name(text: &str) -> bool {
    let is_kept = |name: &str| text.eq_ignore_ascii_case(name);
    is_name(text) && !is_kept(SYSTEM) && !is_kept(CANARY)
}

/// What agents are found by: names that differ in case alone are one agent's, or a stopped agent would go on in capitals.
pub(crate) fn folded(name: &str) -> Cow<'_, str> {
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}
