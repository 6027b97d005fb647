//! The words of a text as small hashes, to tell what is new in it (LD-8).
//!
//! A feature is a word or two words in a row, in lower case. Ids and numbers of nine digits or more are no words. Of a long
//! text the features with the smallest hashes are kept: the same of equal texts, and nearly the same of similar ones. The
//! hashes are frozen: journals outlive a release.

use serde::de::{Deserialize, Deserializer, Error, Unexpected};
use serde::{Serialize, Serializer};

use crate::fingerprint::normalize::for_each_lower;
use crate::steps;

/// Features kept of one text. Measured on everyday traces: at 32, three times as many healthy agents look stuck; at 256,
/// two in a hundred stuck ones more are found.
pub const FEATURES_MAX: usize = 64;

/// Words of a call that are left out of its result. More are a file that is written, which no result repeats whole.
const CALL_WORDS_MAX: usize = 4096;

/// At most [`FEATURES_MAX`] features of a text. Written as four hex digits each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features(Box<[u16]>);

impl Features {
    /// The features of a text; with or without its numbers.
    pub fn of(text: &str, numbers: Numbers) -> Features {
        Features::beside(text, numbers, &CallWords::default())
    }

    /// The words of a text alone, without its numbers and what ends in one: what is said again in another order is said again.
    pub(crate) fn words_of(text: &str) -> Features {
        let mut kept = Smallest::default();
        for_each_word(text, Numbers::Ignore, |word| {
            if !is_number(word as u16) {
                kept.push(word);
            }
        });
        Features(kept.finish().into())
    }

    /// The words and numbers of a text that is written with a call: records differ in numbers alone.
    pub(crate) fn written(text: &str) -> Features {
        let mut kept = Smallest::default();
        for_each_word(text, Numbers::All, |word| kept.push(word));
        Features(kept.finish().into())
    }

    /// The features of a text that a call did not say itself: an error that quotes its argument is no news.
    pub(crate) fn beside(text: &str, numbers: Numbers, call: &CallWords) -> Features {
        let mut kept = Smallest::default();
        let mut before = None;
        for_each_word(text, numbers, |word| {
            let word = Some(word).filter(|word| !call.contains(*word));
            if let Some(word) = word {
                kept.push(word);
            }
            if let Some((before, word)) = before.zip(word) {
                kept.push(pair(before, word));
            }
            before = word;
        });
        Features(kept.finish().into())
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        self.0.iter().copied()
    }
}

/// A hash of all words of a text in their order, without its numbers: a failure is the same whatever its line numbers.
pub(crate) fn digest_of_words(text: &str) -> u32 {
    let mut digest = 0;
    for_each_word(text, Numbers::Ignore, |word| digest = pair(digest, word));
    digest as u32
}

/// Whether a feature is a number, or a pair with one: its lowest bit.
pub(crate) fn is_number(feature: u16) -> bool {
    feature & 1 == 1
}

/// Whether numbers are words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// They are: a result whose numbers move is news.
    Count,
    /// They are, also long ones: a person who says a number means it.
    All,
    /// They are not: a failure that differs in a number is the same failure.
    Ignore,
}

/// All words of a call's arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallWords(Vec<u64>);

impl CallWords {
    pub(crate) fn of(args: &str) -> CallWords {
        let mut words = Vec::new();
        for_each_word(args, Numbers::Count, |word| {
            if words.len() < CALL_WORDS_MAX {
                words.push(word);
            }
        });
        words.sort_unstable();
        words.dedup();
        CallWords(words)
    }

    /// Whether a text says nothing that the call did not say.
    pub(crate) fn says(&self, text: &str) -> bool {
        let mut says = true;
        for_each_word(text, Numbers::Count, |word| says &= self.contains(word));
        says
    }

    fn contains(&self, word: u64) -> bool {
        self.0.binary_search(&word).is_ok()
    }
}

fn for_each_word(text: &str, numbers: Numbers, mut each: impl FnMut(u64)) {
    steps::add(text.len());
    let mut word = Word::default();
    for c in text.chars() {
        if is_word_by_itself(c) {
            std::mem::take(&mut word).finish(numbers, &mut each);
            word.push(c);
            std::mem::take(&mut word).finish(numbers, &mut each);
        } else if c.is_alphanumeric() {
            for_each_lower(c, |c| word.push(c));
        } else {
            std::mem::take(&mut word).finish(numbers, &mut each);
        }
    }
    word.finish(numbers, &mut each);
}

/// Writing without spaces between words: Chinese, Japanese.
fn is_word_by_itself(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// A word that is being read.
#[derive(Default)]
struct Word {
    hash: u64,
    len: u32,
    digits: u32,
    hex: u32,
}

/// A number of so many digits is an id, or a time.
const LONG_NUMBER: u32 = 9;
/// Letters and digits mixed, so long, are an id.
const LONG_MIXED: u32 = 8;
const LONG_HEX: u32 = 6;

impl Word {
    fn push(&mut self, c: char) {
        // FNV-1a over characters.
        self.hash = (self.hash ^ u64::from(u32::from(c))).wrapping_mul(0x0000_0100_0000_01b3);
        self.len += 1;
        self.digits += u32::from(c.is_ascii_digit());
        self.hex += u32::from(c.is_ascii_hexdigit());
    }

    fn finish(self, numbers: Numbers, each: &mut impl FnMut(u64)) {
        let Word { hash, len, digits, hex } = self;
        // `e280`, `v2`: a name that ends in a number moves like one.
        let is_number = digits > 0;
        let is_id = digits > 0 && (hex == len && len >= LONG_HEX || len >= LONG_MIXED);
        let counts = match digits == len {
            true => numbers == Numbers::All || numbers == Numbers::Count && len < LONG_NUMBER,
            false => !is_id,
        };
        if len > 0 && counts {
            each(spread(hash) & !1 | u64::from(is_number));
        }
    }
}

fn pair(before: u64, word: u64) -> u64 {
    spread(before.rotate_left(21) ^ word) & !1 | (before | word) & 1
}

/// Makes each bit depend on all: the finaliser of SplitMix64.
fn spread(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

/// The smallest hashes of many, in linear time.
struct Smallest {
    kept: Vec<u64>,
    /// Those from here on are too large.
    below: u64,
}

impl Default for Smallest {
    fn default() -> Smallest {
        Smallest { kept: Vec::new(), below: u64::MAX }
    }
}

/// So many are gathered before the largest are given up.
const GATHERED: usize = 16 * FEATURES_MAX;

impl Smallest {
    fn push(&mut self, hash: u64) {
        if hash < self.below {
            self.kept.push(hash);
            if self.kept.len() == GATHERED {
                self.give_up();
            }
        }
    }

    fn give_up(&mut self) {
        self.kept.sort_unstable();
        self.kept.dedup();
        self.kept.truncate(FEATURES_MAX);
        if let Some(largest) = self.kept.last().filter(|_| self.kept.len() == FEATURES_MAX) {
            self.below = *largest;
        }
    }

    /// Their lower bits: the upper ones of the smallest are all alike.
    fn finish(mut self) -> Vec<u16> {
        self.give_up();
        self.kept.iter().map(|hash| *hash as u16).collect()
    }
}

impl Serialize for Features {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let bytes: Vec<u8> = self.0.iter().flat_map(|feature| feature.to_be_bytes()).collect();
        let mut digits = vec![0; 2 * bytes.len()];
        crate::hex::encode_into(&bytes, &mut digits);
        s.serialize_str(std::str::from_utf8(&digits).unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for Features {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Features, D::Error> {
        let text = String::deserialize(d)?;
        let feature = |digits: &[u8]| crate::hex::decode::<2>(digits).map(u16::from_be_bytes);
        let read: Option<Box<[u16]>> = text.as_bytes().chunks(4).map(feature).collect();
        read.filter(|features| features.len() <= FEATURES_MAX).map(Features).ok_or_else(|| {
            D::Error::invalid_value(Unexpected::Str(&text), &"at most 64 times four hex digits")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Features {
        Features::of(text, Numbers::Count)
    }

    #[test]
    fn ld_8_case_white_space_ids_and_long_numbers_are_no_news() {
        assert_eq!(of("Error in file_a: line 7"), of("error  in FILE a\nline (7)"));
        assert_eq!(of("csrf d7197782fa943d72 at 1772000033"), of("CSRF 72cb203d0f09a678 at 1772000052"));
        assert_ne!(of("line 7"), of("line 8"));
        let without = |text| Features::of(text, Numbers::Ignore);
        assert_eq!(without("line 7"), without("line 8"));
        assert_eq!(of("接続エラー").len(), 9, "each sign is a word, each two are a pair");
        assert!(of(" \n--- ~ ").is_empty());
    }

    #[test]
    fn ld_8_what_the_call_said_is_no_news() {
        let call = CallWords::of(r#"{"path": "/srv/missing.txt"}"#);
        let result = Features::beside("/srv/missing.txt: not found", Numbers::Count, &call);
        assert_eq!(result.len(), 3, "not, found, and the two");
    }

    #[test]
    fn ld_8_of_a_long_text_the_same_features_are_kept_wherever_they_stand() {
        let line = |n: u32| format!("word{} other{} third{}\n", n % 997, n % 1009, n % 1013);
        let long: String = (0..5_000).map(line).collect();
        let features = of(&long);
        assert_eq!(features.len(), FEATURES_MAX);
        let longer = of(&format!("{long}{}", line(4_999)));
        let same = features.iter().filter(|feature| longer.iter().any(|other| other == *feature)).count();
        assert!(same >= FEATURES_MAX - 2, "{same}");
        let text = serde_json::to_string(&features).expect("a string");
        assert_eq!(serde_json::from_str::<Features>(&text).expect("what was written"), features);
        for wrong in ["\"12\"", "\"123G\"", "7", &format!("\"{}\"", "0000".repeat(FEATURES_MAX + 1))] {
            assert!(serde_json::from_str::<Features>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ld_8_the_hashes_are_frozen() {
        let written = serde_json::to_string(&of("Hello, world: 42 is not 43.")).expect("a string");
        assert_eq!(written, GOLDEN);
    }

    const GOLDEN: &str = "\"efc2ca38d233d1d9a732fa18a1a37893360e85f879e9\"";
}
