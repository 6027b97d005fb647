//! SHA-256 of a link, from its blocks: what a record costs most. A hasher that takes parts as they come keeps a buffer, which
//! for parts this short takes as long as a block of hashing.

use sha2::block_api::compress256;

const BLOCK: usize = 64;
/// What stands before the bytes: the link before it, and how many there are.
const BEFORE: usize = 40;
const IN_FIRST: usize = BLOCK - BEFORE;
/// FIPS 180-4, 5.3.3.
const BEGIN: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

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

    use super::link;

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
}
