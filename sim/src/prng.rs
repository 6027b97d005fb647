//! Random numbers of our own, so that a seed means the same run forever, whatever a crate does in its next release.
//!
//! SplitMix64 (Steele, Lea, Flood 2014): 64 bits of state, passes BigCrush, ten lines. Not for secrets.

/// A stream of numbers that depends on its seed alone.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Another stream, independent of what is drawn from this one afterwards.
    pub fn fork(&mut self) -> Rng {
        Rng(self.bits())
    }

    /// Any 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// The same for 32 bits.
    pub fn between_u32(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(u64::from(high.saturating_sub(low)) + 1) as u32
    }

    /// `true` in `n` of 1000 cases.
    pub fn per_mille(&mut self, n: u64) -> bool {
        self.below(1000) < n
    }

    /// One of a list that is not empty.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// Small numbers more often than large ones: each doubling between the bounds is equally likely.
    pub fn spread(&mut self, low: u64, high: u64) -> u64 {
        let doublings = u64::from((high / low.max(1)).max(1).ilog2());
        let floor = low << self.below(doublings + 1);
        self.between(floor, floor.saturating_mul(2).min(high).max(floor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_numbers_forever() {
        let mut rng = Rng::new(1_234_567);
        // The reference values of the algorithm's authors.
        assert_eq!([rng.bits(), rng.bits()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn bounds_are_kept() {
        let mut rng = Rng::new(7);
        for _ in 0..10_000 {
            assert!(rng.below(3) < 3);
            assert!((5..=9).contains(&rng.between(5, 9)));
            assert!((10..=5000).contains(&rng.spread(10, 5000)));
        }
        assert_eq!(rng.below(0), 0);
        assert!(rng.between(0, u64::MAX) > 0);
    }
}
