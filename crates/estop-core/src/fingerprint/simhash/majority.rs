//! What most of many 64-bit words have, bit by bit.
//!
//! The 64 counts are kept transposed: `planes[k]` holds bit k of every count, and one addition adds to all of
//! them at once (positional population count, after Harley and Seal).

/// Sixteen features are added up before the long counters are touched: beyond that little is left to gain,
/// and below the carries into `planes` begin to cost.
const BLOCK: usize = 16;
/// Counters up to 2^40, more features than a terabyte of text has.
const PLANES: usize = 40;

/// Counts, for each of 64 bits, how many words have it.
pub(super) struct Majority {
    block: [u64; BLOCK],
    /// How many words came; those that are not yet in `planes` lie in `block`.
    words: u64,
    planes: [u64; PLANES],
}

impl Majority {
    pub(super) fn new() -> Self {
        Self { block: [0; BLOCK], words: 0, planes: [0; PLANES] }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words == 0
    }

    #[inline(always)]
    pub(super) fn push(&mut self, word: u64) {
        let at = self.in_block();
        self.block[at] = word;
        self.words += 1;
        if at + 1 == BLOCK {
            self.add_block();
        }
    }

    /// The bits that strictly more than half of the words have; a tie is 0.
    #[inline]
    pub(super) fn finish(&mut self) -> u64 {
        let left = self.in_block();
        if left > 0 {
            // A word of zeros counts nowhere.
            self.block[left..].fill(0);
            self.add_block();
        }
        self.counts_above(self.words / 2)
    }

    /// How many words lie in the block.
    #[inline]
    fn in_block(&self) -> usize {
        self.words as usize % BLOCK
    }

    /// Adds the full block, pairing words of equal weight until one of each weight is left.
    #[inline(never)]
    fn add_block(&mut self) {
        let b = &self.block;
        let [ones, twos, fours, eights, ..] = self.planes;
        let (ones, twos_a) = add3(ones, b[0], b[1]);
        let (ones, twos_b) = add3(ones, b[2], b[3]);
        let (twos, fours_a) = add3(twos, twos_a, twos_b);
        let (ones, twos_a) = add3(ones, b[4], b[5]);
        let (ones, twos_b) = add3(ones, b[6], b[7]);
        let (twos, fours_b) = add3(twos, twos_a, twos_b);
        let (fours, eights_a) = add3(fours, fours_a, fours_b);
        let (ones, twos_a) = add3(ones, b[8], b[9]);
        let (ones, twos_b) = add3(ones, b[10], b[11]);
        let (twos, fours_a) = add3(twos, twos_a, twos_b);
        let (ones, twos_a) = add3(ones, b[12], b[13]);
        let (ones, twos_b) = add3(ones, b[14], b[15]);
        let (twos, fours_b) = add3(twos, twos_a, twos_b);
        let (fours, eights_b) = add3(fours, fours_a, fours_b);
        let (eights, sixteens) = add3(eights, eights_a, eights_b);
        self.planes[..4].copy_from_slice(&[ones, twos, fours, eights]);
        self.carry(4, sixteens);
    }

    /// Adds `word`, weighing 2^`plane`, to the counters.
    fn carry(&mut self, plane: usize, mut word: u64) {
        for plane in &mut self.planes[plane..] {
            if word == 0 {
                return;
            }
            (*plane, word) = (*plane ^ word, *plane & word);
        }
    }

    /// The bits whose count is above `limit`, comparing all 64 counts from their highest bit down.
    fn counts_above(&self, limit: u64) -> u64 {
        let (mut above, mut equal) = (0, u64::MAX);
        // No count is above the number of words: the planes beyond its highest bit are empty.
        let planes = PLANES.min((u64::BITS - self.words.leading_zeros()) as usize);
        for (k, plane) in self.planes[..planes].iter().enumerate().rev() {
            if limit >> k & 1 == 0 {
                above |= equal & plane;
                equal &= !plane;
            } else {
                equal &= plane;
            }
        }
        above
    }
}

/// A full adder on 64 bits at once: the sum and what it carries.
fn add3(a: u64, b: u64, c: u64) -> (u64, u64) {
    let half = a ^ b;
    (half ^ c, (a & b) | (half & c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fp_2_majority_equals_64_plain_counters() {
        let mut state = 1_u64;
        for words in [0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 100, 1_000, 5_000] {
            let mut majority = Majority::new();
            let mut counts = [0_i64; 64];
            for _ in 0..words {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Uneven odds per bit, so that long carries and ties both occur.
                let word = (state >> 13) & (state.rotate_left(29) | 0xffff_ffff) | 0xff;
                majority.push(word);
                for (bit, count) in counts.iter_mut().enumerate() {
                    *count += if word >> bit & 1 == 1 { 1 } else { -1 };
                }
            }
            let expected = (0..64).filter(|&bit| counts[bit] > 0).fold(0, |bits, bit| bits | 1_u64 << bit);
            assert_eq!(majority.finish(), expected, "{words} words");
        }
    }
}
