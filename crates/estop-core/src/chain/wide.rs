//! SHA-256 of eight blocks at once, each of a text of its own: for processors that have no instructions for SHA-256, but
//! wide registers.

use fearless_simd::{Bytes, Level, Simd, SimdBase, dispatch, u8x32, u32x8};

use super::link::BLOCK;

/// Blocks at once.
pub(super) const LANES: usize = 8;

/// A word of each lane.
pub(super) type Words = [u32; LANES];

/// Takes a block of each lane into its state.
pub(super) fn compress(level: Level, states: &mut [Words; 8], blocks: &[[u8; BLOCK]; LANES]) {
    dispatch!(level, simd => compress_with(simd, states, blocks));
}

/// FIPS 180-4, 6.2.2.
#[inline(always)]
fn compress_with<S: Simd>(simd: S, states: &mut [Words; 8], blocks: &[[u8; BLOCK]; LANES]) {
    let mut w = [u32x8::splat(simd, 0); 16];
    w[..8].copy_from_slice(&words::<S, 0>(simd, blocks));
    w[8..].copy_from_slice(&words::<S, 32>(simd, blocks));
    let mut before = [u32x8::splat(simd, 0); 8];
    for (before, state) in before.iter_mut().zip(&*states) {
        *before = u32x8::from_slice(simd, state);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = before;
    for (t, k) in K.into_iter().enumerate() {
        if t >= 16 {
            let (w15, w2) = (w[(t - 15) % 16], w[(t - 2) % 16]);
            let s0 = turned(w15, 7) ^ turned(w15, 18) ^ (w15 >> 3);
            let s1 = turned(w2, 17) ^ turned(w2, 19) ^ (w2 >> 10);
            w[t % 16] = w[t % 16] + s0 + w[(t - 7) % 16] + s1;
        }
        let s1 = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25);
        let choice = (e & (f ^ g)) ^ g;
        let t1 = h + s1 + choice + (w[t % 16] + u32x8::splat(simd, k));
        let s0 = turned(a, 2) ^ turned(a, 13) ^ turned(a, 22);
        let majority = (a & b) | (c & (a | b));
        (h, g, f, e, d, c, b, a) = (g, f, e, d + t1, c, b, a, t1 + s0 + majority);
    }
    for ((state, before), now) in states.iter_mut().zip(before).zip([a, b, c, d, e, f, g, h]) {
        (before + now).store_slice(state);
    }
}

/// Eight words of each block, from its byte `FROM` on: the first of all lanes, the second of all, and so on.
#[inline(always)]
fn words<S: Simd, const FROM: usize>(simd: S, blocks: &[[u8; BLOCK]; LANES]) -> [u32x8<S>; 8] {
    let big_endian = u8x32::from_slice(simd, &BIG_ENDIAN);
    let mut rows = [u32x8::splat(simd, 0); LANES];
    for (row, block) in rows.iter_mut().zip(blocks) {
        let bytes = u8x32::from_slice(simd, &block[FROM..FROM + 32]);
        *row = u32x8::from_bytes(simd.swizzle_dyn_within_blocks_u8x32(bytes, big_endian));
    }
    // Rows become columns: three times, the second half is dealt between the first.
    for _ in 0..3 {
        let dealt = rows;
        for n in 0..4 {
            (rows[2 * n], rows[2 * n + 1]) = simd.interleave_u32x8(dealt[n], dealt[n + 4]);
        }
    }
    rows
}

/// Where each byte of a word comes from, in sixteen bytes.
const BIG_ENDIAN: [u8; 32] = {
    let mut from = [0; 32];
    let mut at = 0;
    while at < from.len() {
        from[at] = (at as u8 % 16) ^ 3;
        at += 1;
    }
    from
};

#[inline(always)]
fn turned<S: Simd>(x: u32x8<S>, right: u32) -> u32x8<S> {
    (x >> right) | (x << (32 - right))
}

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes (4.2.2).
#[rustfmt::skip]
const K: [u32; 64] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];
