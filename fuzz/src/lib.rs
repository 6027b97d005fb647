//! What the targets share: the oracle that finds slow inputs.

use estop_core::steps::counted;
use estop_wire::protocol::Protocol;

/// Steps that every call may take, whatever its input is.
const BASE_STEPS: u64 = 4_000;

/// Runs one reader on `len` bytes. Panics, which the fuzzer reports, if it takes more than `per_byte` steps for a byte: the
/// same bounds and the same count as the tests `se_1_…`.
pub fn bounded(per_byte: u64, len: usize, read: impl FnOnce()) {
    counted(per_byte * len as u64 + BASE_STEPS, read);
}

/// The first byte, which chooses among variants, and the rest.
pub fn chosen(data: &[u8]) -> (usize, &[u8]) {
    data.split_first().map_or((0, data), |(first, rest)| (usize::from(*first), rest))
}

/// What was read is of no interest.
pub fn done<T>(_: T) {}

/// The protocol that a byte chooses.
pub fn protocol(chosen: usize) -> Protocol {
    let count = Protocol::all().count();
    Protocol::all().nth(chosen % count).unwrap_or(Protocol::OpenAiChat)
}
