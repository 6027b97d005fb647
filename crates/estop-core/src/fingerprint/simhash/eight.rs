//! Eight bytes of text at a time, in one 64-bit register, the first byte lowest.
//!
//! Comparing works on all eight at once because the top bit of each is set beforehand, so that none borrows
//! from its neighbour: `(byte | 0x80) - limit` keeps the top bit exactly when `byte >= limit`, for bytes
//! below 0x80. Answers about each byte are given in its top bit.

/// The eight bytes at `at`; past the end of the text there are spaces.
#[inline]
pub(super) fn load(bytes: &[u8], at: usize) -> u64 {
    let chunk = bytes.get(at..).and_then(|rest| rest.first_chunk());
    chunk.map_or_else(|| load_end(bytes, at), |chunk| u64::from_le_bytes(*chunk))
}

#[cold]
fn load_end(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes.get(at + i).copied().unwrap_or(b' ')))
}

/// The bytes that are a space, a control character or not ASCII.
#[inline]
pub(super) fn unprintable(chunk: u64) -> u64 {
    (chunk | !at_least(chunk, b'!')) & TOPS
}

/// The ASCII digits and `<`. Bytes from 0x80 on may be among them or not.
#[inline]
pub(super) fn digits_and_less_than(chunk: u64) -> u64 {
    let digits = at_least(chunk, b'0') & !at_least(chunk, b'9' + 1);
    (digits | !at_least(chunk ^ all(b'<'), 1)) & TOPS
}

/// ASCII capitals in lower case. Bytes from 0x80 on come out as anything.
#[inline]
pub(super) fn lower(chunk: u64) -> u64 {
    let capitals = at_least(chunk, b'A') & !at_least(chunk, b'Z' + 1) & TOPS;
    // 0x80 moved to 0x20, the bit that tells a from A.
    chunk | capitals >> 2
}

/// With how many bytes of ASCII white space the chunk begins.
#[inline]
pub(super) fn spaces(chunk: u64) -> usize {
    let breaks = at_least(chunk, b'\t') & !at_least(chunk, b'\r' + 1);
    let others = (chunk | (!breaks & at_least(chunk ^ all(b' '), 1))) & TOPS;
    (others.trailing_zeros() / 8) as usize
}

/// The first `len` (0 to 8) bytes, zeros after them.
#[inline]
pub(super) fn first(chunk: u64, len: usize) -> u64 {
    if len >= 8 { chunk } else { chunk & ((1 << (8 * len)) - 1) }
}

const TOPS: u64 = all(0x80);

#[inline]
fn at_least(chunk: u64, limit: u8) -> u64 {
    (chunk | TOPS) - all(limit)
}

const fn all(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte value at every place, among neighbours that could borrow or carry.
    #[test]
    fn fp_2_eight_bytes_at_once_equal_one_by_one() {
        let top = |yes: bool, at: usize| u64::from(yes) << (8 * at + 7);
        for neighbour in [0, b' ', b'!', b'"', b'\\', b'0', b'9', b'<', b'A', b'Z', b'z', 0x7f, 0x80, 0xff] {
            for (byte, at) in (0..=255_u8).flat_map(|byte| (0..8).map(move |at| (byte, at))) {
                let mut bytes = [neighbour; 8];
                bytes[at] = byte;
                let chunk = u64::from_le_bytes(bytes);
                let place = all(0) | 0xff << (8 * at);
                assert_eq!(unprintable(chunk) & place, top(!byte.is_ascii_graphic() && byte != 0x7f, at));
                if byte.is_ascii() {
                    let slow = byte.is_ascii_digit() || byte == b'<';
                    assert_eq!(digits_and_less_than(chunk) & place, top(slow, at));
                    assert_eq!(lower(chunk).to_le_bytes()[at], byte.to_ascii_lowercase());
                }
                let is_space = |byte: &u8| byte.is_ascii() && char::from(*byte).is_whitespace();
                assert_eq!(spaces(chunk), bytes.iter().take_while(|byte| is_space(byte)).count());
            }
        }
    }
}
