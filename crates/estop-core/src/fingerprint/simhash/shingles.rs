//! Three words in a row make a feature.
//!
//! The text is taken to stand between two edges on either side, so every word is in exactly three features:
//! texts of one or two words need no rule of their own, and a change of the last word weighs as much as one
//! in the middle.

use super::majority::Majority;
use super::word::fold;

/// Stands for the words before the first and after the last. More digits of π.
const EDGE: u64 = 0x9216_d5d9_8979_fb1b;
const FEATURE: u64 = 0x3f84_d5b5_b547_0917;

/// Collects the features of a text, word hash by word hash.
pub(super) struct Shingles {
    features: Majority,
    before_last: u64,
    last: u64,
}

impl Shingles {
    pub(super) fn new() -> Self {
        Self { features: Majority::new(), before_last: EDGE, last: EDGE }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, word: u64) {
        self.features.push(feature(self.before_last, self.last, word));
        self.before_last = self.last;
        self.last = word;
    }

    /// The majority of the features, or `None` when there was no word.
    #[inline]
    pub(super) fn finish(&mut self) -> Option<u64> {
        if self.features.is_empty() {
            return None;
        }
        self.push(EDGE);
        self.push(EDGE);
        Some(self.features.finish())
    }
}

/// Depends on the order: the middle word is turned differently in the two factors.
#[inline]
fn feature(first: u64, second: u64, third: u64) -> u64 {
    fold(first ^ second.rotate_left(21), third ^ second.rotate_left(42) ^ FEATURE)
}
