//! SimHash (FP-2): 64 bits that stay close when texts stay close.
//!
//! Every three words in a row are one feature, hashed to 64 bits; a bit of the SimHash is what the majority
//! of the features have there. The words are those of the normal form ([`crate::normalize`]), so texts that
//! differ only in numbers, timestamps or ids have the same SimHash. The function is frozen: journals
//! outlive a release, and `tests/golden/simhash.txt` fails when a bit changes.
//!
//! ```
//! use estop_core::simhash::simhash;
//! assert_eq!(simhash("order #12345"), simhash("Order  #777\n"));
//! assert_eq!(simhash(" \n"), None);
//! ```

mod eight;
mod exact;
mod fused;
mod majority;
mod normal;
mod shingles;
mod word;

use std::fmt;

use serde::de::{Deserialize, Deserializer, Unexpected, Visitor};
use serde::ser::{Error as _, Serialize, Serializer};

use exact::Exact;
use fused::Rules;
use normal::Normal;
use shingles::Shingles;

/// Two texts are similar when their hashes differ in fewer bits than this. Specified (FP-2). Measured with one
/// word changed: at 3, one in 1000 texts of 20 words is still similar and two in three of 500 words; at double,
/// one in 25 of 20 words; at half, one in three of 500 words. Unrelated texts are 32 bits apart, give or take 4.
pub const SIMILAR_BELOW: u32 = 3;

/// The fingerprint of a text. Written as 16 lower-case hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SimHash(pub u64);

impl SimHash {
    /// In how many bits the two differ, 0 to 64.
    pub fn distance(self, other: Self) -> u32 {
        (self.0 ^ other.0).count_ones()
    }

    /// Whether the two texts count as the same thing said again.
    pub fn is_similar(self, other: Self) -> bool {
        self.distance(other) < SIMILAR_BELOW
    }
}

/// The SimHash of the normal form of `text`; `None` when there is nothing but white space.
///
/// Equals `simhash_exact(&normalize(text))`, computed in one pass without building the normal form.
pub fn simhash(text: &str) -> Option<SimHash> {
    of_words::<Normal>(text)
}

/// The SimHash of `text` as it is, for outputs where case and numbers matter; only white space is folded.
pub fn simhash_exact(text: &str) -> Option<SimHash> {
    of_words::<Exact>(text)
}

fn of_words<R: Rules>(text: &str) -> Option<SimHash> {
    let mut shingles = Shingles::new();
    fused::for_each_word::<R>(text, |word| shingles.push(word));
    shingles.finish().map(SimHash)
}

const HEX_DIGITS: usize = 16;

impl SimHash {
    fn to_hex(self) -> [u8; HEX_DIGITS] {
        let nibble = |i: usize| b"0123456789abcdef"[(self.0 >> (60 - 4 * i) & 0xf) as usize];
        std::array::from_fn(nibble)
    }

    fn from_hex(hex: &str) -> Option<Self> {
        let is_ours = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        if hex.len() != HEX_DIGITS || !hex.bytes().all(is_ours) {
            return None;
        }
        u64::from_str_radix(hex, 16).ok().map(Self)
    }
}

impl fmt::Display for SimHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for SimHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(std::str::from_utf8(&self.to_hex()).map_err(S::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for SimHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Hex;

        impl Visitor<'_> for Hex {
            type Value = SimHash;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("16 lower-case hex digits")
            }

            fn visit_str<E: serde::de::Error>(self, hex: &str) -> Result<SimHash, E> {
                SimHash::from_hex(hex).ok_or_else(|| E::invalid_value(Unexpected::Str(hex), &self))
            }
        }

        deserializer.deserialize_str(Hex)
    }
}

#[cfg(test)]
mod tests;
