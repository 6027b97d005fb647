//! The hash of one word, frozen with the golden vectors.
//!
//! The bytes of the word, then 0x80, then zeros up to a multiple of eight; every eight bytes, little-endian,
//! are folded into the state by one wide multiplication. The 0x80 tells "a" from "a\0".

/// Fractional digits of π: numbers with nothing up their sleeve. Any odd ones without a pattern would do.
const START: u64 = 0x243f_6a88_85a3_08d3;
const CHUNK: u64 = 0x4528_21e6_38d0_1377;
const LAST: u64 = 0xc0ac_29b7_c97c_50dd;

/// Multiplies to 128 bits and folds the halves: every input bit reaches every output bit.
#[inline]
pub(super) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Hashes a word that comes in whole chunks but for the last.
#[derive(Clone, Copy)]
pub(super) struct ChunkHasher(u64);

impl ChunkHasher {
    #[inline]
    pub(super) fn new() -> Self {
        Self(START)
    }

    #[inline]
    pub(super) fn push(&mut self, chunk: u64) {
        self.0 = fold(self.0 ^ chunk, CHUNK);
    }

    /// The hash, given the bytes (0 to 7) left over with 0x80 after them.
    #[inline]
    pub(super) fn finish(self, last: u64) -> u64 {
        fold(self.0 ^ last, LAST)
    }
}

/// Hashes a word that comes in pieces.
pub(super) struct WordHasher {
    chunks: ChunkHasher,
    /// The bytes that do not yet make a chunk, the first lowest, zero above.
    pending: u64,
    /// How many those are, in bits: 0, 8, … 56.
    pending_bits: u32,
}

impl WordHasher {
    pub(super) fn new() -> Self {
        Self { chunks: ChunkHasher::new(), pending: 0, pending_bits: 0 }
    }

    /// Adds the `len` (0 to 8) low bytes of `piece`, whose other bytes are zero.
    #[inline]
    pub(super) fn push(&mut self, piece: u64, len: u32) {
        let bits = self.pending_bits + 8 * len;
        let chunk = self.pending | (piece << self.pending_bits);
        if bits < 64 {
            self.pending = chunk;
            self.pending_bits = bits;
            return;
        }
        self.chunks.push(chunk);
        // What of the piece found no room in the chunk; nothing if it was shifted by 64.
        self.pending = piece.checked_shr(64 - self.pending_bits).unwrap_or(0);
        self.pending_bits = bits - 64;
    }

    /// Adds up to eight bytes.
    #[inline]
    pub(super) fn push_bytes(&mut self, bytes: &[u8]) {
        let piece = bytes.iter().rev().fold(0, |piece, &byte| piece << 8 | u64::from(byte));
        self.push(piece, bytes.len() as u32);
    }

    pub(super) fn finish(self) -> u64 {
        self.chunks.finish(self.pending | 0x80 << self.pending_bits)
    }
}
