//! SHA-256 of a link, from its blocks: what a record costs most. A hasher that takes parts as they come keeps a buffer, which
//! for parts this short takes as long as a block of hashing.

use sha2::block_api::compress256;

pub(super) const BLOCK: usize = 64;
/// What stands before the bytes: the link before it, and how many there are.
const BEFORE: usize = 40;
const IN_FIRST: usize = BLOCK - BEFORE;
/// FIPS 180-4, 5.3.3.
pub(super) const BEGIN: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// Blocks of a link that is put together before it is hashed: most are no longer.
const TOGETHER: usize = 7;
/// What stands behind the bytes at least: a one, and how many bits there were.
const BEHIND: usize = 9;
/// Bytes of such a link.
const TOGETHER_MAX: usize = TOGETHER * BLOCK - BEFORE - BEHIND;

/// SHA-256(`before` ‖ length of `bytes` ‖ `bytes`).
pub(super) fn link(before: &[u8; 32], bytes: &[u8]) -> [u8; 32] {
    let mut state = BEGIN;
    let mut first = [0; BLOCK];
    first[..32].copy_from_slice(before);
    first[32..BEFORE].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    match bytes.split_first_chunk::<IN_FIRST>() {
        Some((begin, rest)) => {
            first[BEFORE..].copy_from_slice(begin);
            compress256(&mut state, &[first]);
            let (blocks, rest) = rest.as_chunks();
            compress256(&mut state, blocks);
            let mut last = [0; BLOCK];
            last[..rest.len()].copy_from_slice(rest);
            end(&mut state, last, rest.len(), bytes.len());
        }
        None => {
            first[BEFORE..][..bytes.len()].copy_from_slice(bytes);
            end(&mut state, first, BEFORE + bytes.len(), bytes.len());
        }
    }
    digest(state)
}

/// Two links of different chains: each what [`link`] gives. A block of one is hashed while the other's is: a processor waits
/// for each step of a block, and has time for another's.
pub(super) fn link_both(
    (before_a, a): (&[u8; 32], &[u8]),
    (before_b, b): (&[u8; 32], &[u8]),
) -> ([u8; 32], [u8; 32]) {
    if a.len().max(b.len()) > TOGETHER_MAX {
        return (link(before_a, a), link(before_b, b));
    }
    let (mut room_a, mut room_b) = ([0; TOGETHER * BLOCK], [0; TOGETHER * BLOCK]);
    let (a, b) = (put_together(&mut room_a, before_a, a), put_together(&mut room_b, before_b, b));
    let (mut state_a, mut state_b) = (BEGIN, BEGIN);
    let in_turn = a.len().min(b.len());
    for (block_a, block_b) in a.iter().zip(b) {
        compress256(&mut state_a, std::slice::from_ref(block_a));
        compress256(&mut state_b, std::slice::from_ref(block_b));
    }
    compress256(&mut state_a, &a[in_turn..]);
    compress256(&mut state_b, &b[in_turn..]);
    (digest(state_a), digest(state_b))
}

/// All blocks of a link, in a room of zeros.
fn put_together<'r>(
    room: &'r mut [u8; TOGETHER * BLOCK],
    before: &[u8; 32],
    bytes: &[u8],
) -> &'r [[u8; BLOCK]] {
    let len = BEFORE + bytes.len();
    room[..32].copy_from_slice(before);
    room[32..BEFORE].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    room[BEFORE..len].copy_from_slice(bytes);
    room[len] = 0x80;
    let count = blocks_of(bytes.len());
    room[count * BLOCK - 8..count * BLOCK].copy_from_slice(&(len as u64 * 8).to_be_bytes());
    &room.as_chunks().0[..count]
}

/// How many blocks a link of so many bytes has.
pub(super) fn blocks_of(len: usize) -> usize {
    (BEFORE + len + BEHIND).div_ceil(BLOCK)
}

/// One block of a link.
pub(super) fn block_of(before: &[u8; 32], bytes: &[u8], nth: usize) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let (rest, at) = match nth.checked_sub(1) {
        Some(nth) => {
            let rest = bytes.get(IN_FIRST + nth * BLOCK..).unwrap_or_default();
            if let Some(whole) = rest.first_chunk() {
                return *whole;
            }
            (rest, 0)
        }
        None => {
            block[..32].copy_from_slice(before);
            block[32..BEFORE].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
            if let Some(begin) = bytes.first_chunk::<IN_FIRST>() {
                block[BEFORE..].copy_from_slice(begin);
                return block;
            }
            (bytes, BEFORE)
        }
    };
    block[at..at + rest.len()].copy_from_slice(rest);
    // A one behind the bytes, if it did not fit into the block before.
    let end = BEFORE + bytes.len();
    if end >= nth * BLOCK {
        block[at + rest.len()] = 0x80;
    }
    if nth + 1 == blocks_of(bytes.len()) {
        block[BLOCK - 8..].copy_from_slice(&(end as u64 * 8).to_be_bytes());
    }
    block
}

pub(super) fn digest(state: [u32; 8]) -> [u8; 32] {
    let mut out = [0; 32];
    for (four, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *four = word.to_be_bytes();
    }
    out
}

/// The last block, of which `used` bytes are taken: a one, zeros, and how many bits there were.
fn end(state: &mut [u32; 8], mut last: [u8; BLOCK], used: usize, len: usize) {
    last[used] = 0x80;
    if used >= BLOCK - 8 {
        compress256(state, &[last]);
        last = [0; BLOCK];
    }
    let bits = (BEFORE + len) as u64 * 8;
    last[BLOCK - 8..].copy_from_slice(&bits.to_be_bytes());
    compress256(state, &[last]);
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::{TOGETHER_MAX, link, link_both};

    #[test]
    fn tw_7_a_link_is_the_sha_256_of_all_its_parts() {
        let bytes: Vec<u8> = (0..1000_u32).map(|n| (n * n % 251) as u8).collect();
        let mut before = [7; 32];
        for len in (0..300).chain([999, 1000]) {
            let bytes = &bytes[..len];
            let whole = [&before[..], &(len as u64).to_le_bytes(), bytes].concat();
            let expected: [u8; 32] = Sha256::digest(whole).into();
            before = link(&before, bytes);
            assert_eq!(before, expected, "{len} bytes");
        }
    }

    #[test]
    fn tw_7_two_links_at_once_are_those_of_one_by_one() {
        let bytes: Vec<u8> = (0..1000_u32).map(|n| (n * n % 251) as u8).collect();
        let lengths: Vec<usize> = (0..12)
            .map(|n| n * 37)
            .chain(TOGETHER_MAX - 65..TOGETHER_MAX + 3)
            .chain([14, 15, 78, 79, 1000])
            .collect();
        let (mut a, mut b) = ([3; 32], [4; 32]);
        for first in &lengths {
            for second in &lengths {
                let both = [&bytes[..*first], &bytes[1000 - second..]];
                let expected = (link(&a, both[0]), link(&b, both[1]));
                (a, b) = link_both((&a, both[0]), (&b, both[1]));
                assert_eq!((a, b), expected, "{first} and {second} bytes");
            }
        }
    }
}
