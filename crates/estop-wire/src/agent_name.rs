//! Names of agents and runs, as they stand in paths, headers, hooks and settings (ID-1).

use estop_core::system::SYSTEM;
use estop_core::system::proof_test::CANARY;

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
