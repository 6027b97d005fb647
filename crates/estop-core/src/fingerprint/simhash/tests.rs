//! FP-2 against its definition, written out slowly.

use proptest::prelude::*;

use super::*;

/// The definition: split, hash, shingle and count one bit at a time.
fn slow_simhash(text: &str) -> Option<SimHash> {
    const EDGE: u64 = 0x9216_d5d9_8979_fb1b;
    let words: Vec<u64> = text.split_whitespace().map(slow_word_hash).collect();
    if words.is_empty() {
        return None;
    }
    let padded = [&[EDGE, EDGE], words.as_slice(), &[EDGE, EDGE]].concat();
    let features: Vec<u64> = padded
        .windows(3)
        .map(|w| slow_fold(w[0] ^ w[1].rotate_left(21), w[2] ^ w[1].rotate_left(42) ^ 0x3f84_d5b5_b547_0917))
        .collect();
    let ones = |bit: &u64| features.iter().filter(|feature| *feature >> bit & 1 == 1).count();
    let bits = (0..64).filter(|bit| 2 * ones(bit) > features.len()).map(|bit| 1 << bit);
    Some(SimHash(bits.sum()))
}

fn slow_word_hash(word: &str) -> u64 {
    let mut padded = [word.as_bytes(), &[0x80]].concat();
    padded.resize(padded.len().next_multiple_of(8), 0);
    let mut state = 0x243f_6a88_85a3_08d3;
    for (i, chunk) in padded.chunks(8).enumerate() {
        let is_last = 8 * (i + 1) == padded.len();
        let factor = if is_last { 0xc0ac_29b7_c97c_50dd } else { 0x4528_21e6_38d0_1377 };
        let chunk = chunk.iter().rev().fold(0, |chunk, &byte| chunk << 8 | u64::from(byte));
        state = slow_fold(state ^ chunk, factor);
    }
    state
}

fn slow_fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product & u128::from(u64::MAX)) as u64 ^ (product >> 64) as u64
}

proptest! {
    #[test]
    fn fp_2_exact_simhash_is_as_defined(text in any::<String>()) {
        prop_assert_eq!(simhash_exact(&text), slow_simhash(&text));
    }

    #[test]
    fn fp_2_exact_simhash_of_many_words_is_as_defined(text in "([a-zA-Z0-9é中\0\u{1f}]{1,20}[ \t\r\n\u{b}\u{c}\u{85}\u{a0}\u{2028}]{1,3}){0,80}") {
        prop_assert_eq!(simhash_exact(&text), slow_simhash(&text));
    }

    #[test]
    fn fp_2_two_hashes_in_one_reading_are_those_of_two_readings(
        text in "([a-zA-Z]{1,12}|[0-9<>a-f:.,T-]{1,20}|2024-01-15 10:30:00|<NUM>|é|中|[ \t\n\u{85}\u{2028}]{1,3}| ){0,60}",
    ) {
        prop_assert_eq!(simhash_both(&text), [simhash(&text), simhash_exact(&text)]);
        prop_assert_eq!(simhash_and_hash(&text), (simhash(&text), normal_hash(&text)));
    }

    #[test]
    fn fp_2_simhash_is_written_as_16_hex_digits(bits in any::<u64>()) {
        let hash = SimHash(bits);
        let json = serde_json::to_string(&hash).expect("a string is always JSON");
        prop_assert_eq!(&json, &format!("\"{bits:016x}\""));
        prop_assert_eq!(&json, &format!("\"{hash}\""));
        prop_assert_eq!(serde_json::from_str::<SimHash>(&json).ok(), Some(hash));
    }
}

#[test]
fn fp_2_only_16_lower_case_hex_digits_are_read() {
    for json in [
        "\"00000000000000FF\"",
        "\"0000000000000ff\"",
        "\"000000000000000ff\"",
        "\"+00000000000000f\"",
        "\"0x0000000000000f\"",
        "\"000000000000000g\"",
        "\"00000000000000é\"",
        "\"\"",
        "255",
        "null",
    ] {
        assert!(serde_json::from_str::<SimHash>(json).is_err(), "{json} was read");
    }
}

#[test]
fn fp_2_similar_means_fewer_than_three_bits() {
    let hash = SimHash(0);
    let distances = [(0b0, true), (0b1, true), (0b11, true), (0b111, false), (u64::MAX, false)];
    for (bits, similar) in distances {
        assert_eq!(hash.distance(SimHash(bits)), bits.count_ones());
        assert_eq!(hash.is_similar(SimHash(bits)), similar, "{bits:b}");
        assert_eq!(SimHash(bits).is_similar(hash), similar, "{bits:b}");
    }
}
