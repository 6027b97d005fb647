//! FP-1 and FP-2 as properties of many texts, and the golden vectors that freeze the SimHash.

use estop_core::fingerprint::normalize::normalize;
use estop_core::fingerprint::simhash::{SimHash, simhash, simhash_exact};
use proptest::prelude::*;
use proptest::string::string_regex;

/// Anything: unicode, what the rules look at pieced together, and near misses letter by letter.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        prop::collection::vec(piece(), 0..24).prop_map(|pieces| pieces.concat()),
        "[0-9a-f<>NUMIDTS.,:eTZ+\\-x_ gé\u{212a}]{0,60}",
    ]
}

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[A-Za-z]{1,20}",
        1 => "[ -~]{0,12}",
        2 => "[0-9a-fA-F]{1,12}",
        2 => number(),
        2 => uuid(),
        2 => timestamp(),
        1 => "20[0-9]{2}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-9]{1,3}",
        1 => "0[xX][0-9a-f]{1,8}",
        2 => "<(ID|TS|NUM|id|NU|)>?",
        3 => "[ \t\n\u{a0}\u{3000}]{1,3}",
        1 => "[-.,:;<>_eE+/xTZ\0\u{1f}]{1,3}",
        1 => "[éÉİ\u{212a}ßΣ中٣５\u{307}“—]{1,3}",
    ]
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{1,12}",
        "[0-9]{1,6}\\.[0-9]{1,6}",
        "[0-9]{1,3}(,[0-9]{3}){1,3}",
        "[0-9]e[+-]?[0-9]{1,3}"
    ]
}

fn uuid() -> impl Strategy<Value = String> {
    "[0-9][0-9a-fA-F]{7}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![uuid(), "[0-9][a-f][0-9a-f]{6,30}", "[a-f][0-9][0-9A-F]{6,62}", "0[xX][0-9a-f]{4,16}"]
}

fn timestamp() -> impl Strategy<Value = String> {
    let date = "(19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])";
    let time = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]{1,9})?)?";
    let zone = "(Z|[+-](0[0-9]|1[0-4]):?[0-5][0-9])?";
    prop_oneof![
        date,
        string_regex(&format!("{date}[T ]{time}{zone}")).expect("the pattern is a regular expression"),
        "20[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9])T(0[0-9]|1[0-9])[0-5][0-9][0-5][0-9]Z?",
    ]
}

/// Two texts that say the same about other numbers, times and ids.
fn same_but_for_values() -> impl Strategy<Value = (String, String)> {
    let word = "[A-Za-z][A-Za-z.,'-]{0,11}";
    let part = prop_oneof![
        3 => word.prop_map(|word| (word.clone(), word)),
        1 => (number(), number()),
        1 => ("[0-9]{1,9}", "[0-9]{1,9}").prop_map(|(a, b)| (format!("(#{a}ms)"), format!("(#{b}ms)"))),
        1 => (timestamp(), timestamp()),
        1 => (id(), id()),
        1 => (uuid(), uuid()).prop_map(|(a, b)| (format!("{{\"id\":\"{a}\"}},"), format!("{{\"id\":\"{b}\"}},"))),
    ];
    prop::collection::vec(part, 1..40).prop_map(|parts| {
        let (a, b): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        (a.join(" "), b.join("\n"))
    })
}

fn sentence() -> impl Strategy<Value = String> {
    prop::collection::vec("[a-z]{2,10}", 20..60).prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn fp_1_normalising_twice_changes_nothing(text in any_text()) {
        let normal = normalize(&text);
        prop_assert_eq!(normalize(&normal), normal);
    }

    #[test]
    fn fp_1_normal_form_has_single_spaces_and_no_capitals(text in any_text()) {
        let normal = normalize(&text);
        prop_assert!(normal.split_whitespace().eq(normal.split(' ').filter(|word| !word.is_empty())));
        prop_assert!(!normal.contains("  ") && normal.trim() == normal);
        let words = normal.replace("<ID>", "").replace("<TS>", "").replace("<NUM>", "");
        prop_assert!(!words.contains(|c: char| c.is_ascii_uppercase()), "{}", words);
    }

    #[test]
    fn fp_1_other_numbers_timestamps_and_ids_have_the_same_normal_form((a, b) in same_but_for_values()) {
        prop_assert_eq!(normalize(&a), normalize(&b));
        prop_assert_eq!(simhash(&a), simhash(&b));
    }

    #[test]
    fn fp_2_fused_pass_equals_hash_of_normal_form(text in any_text()) {
        prop_assert_eq!(simhash(&text), simhash_exact(&normalize(&text)));
    }

    #[test]
    fn fp_2_only_white_space_has_no_simhash(text in any_text()) {
        prop_assert_eq!(simhash(&text).is_none(), text.trim().is_empty());
        prop_assert_eq!(simhash_exact(&text).is_none(), text.trim().is_empty());
    }

    /// 64 fair coins show five heads or fewer once in 10^12 throws, so this never fails by chance.
    #[test]
    fn fp_2_different_texts_are_more_than_five_bits_apart(a in sentence(), b in sentence()) {
        let distance = simhash(&a).zip(simhash(&b)).map(|(a, b)| a.distance(b));
        prop_assert!(distance > Some(5), "{:?}", distance);
    }
}

/// The bits behave like fair coins: unrelated texts are 32 bits apart on average.
#[test]
fn fp_2_unrelated_texts_are_half_the_bits_apart() {
    let text = |i: u32| {
        format!(
            "{} {} {} {} {}",
            word(i),
            word(i + 10_000),
            word(i + 20_000),
            word(i + 30_000),
            word(i + 40_000)
        )
    };
    let total: u32 = (0..1_000).map(|i| distance(&text(2 * i), &text(2 * i + 1))).sum();
    assert!((31_500..32_500).contains(&total), "{total} bits in 1000 pairs");
}

/// Chosen: one in a hundred short texts may fall below, as the bits fall. The texts are always the same ones.
#[test]
fn fp_2_another_word_in_a_short_text_is_another_text() {
    for words in 1..=8 {
        let pairs = (0..1_000).map(|i| {
            let mut text: Vec<String> = (0..words).map(|at| word(i * 8 + at)).collect();
            let before = text.join(" ");
            text[(i % words) as usize] = word(1_000_000 + i);
            distance(&before, &text.join(" "))
        });
        let (mut near, mut similar) = (0, 0);
        for distance in pairs {
            near += u32::from(distance <= 5);
            similar += u32::from(distance < 3);
        }
        assert!(near <= 10 && similar == 0, "{words} words: {near} near, {similar} similar of 1000");
    }
}

#[test]
fn fp_2_the_order_of_words_counts() {
    assert!(distance("delete the file", "the file delete") > 5);
    assert!(distance("yes no", "no yes") > 5);
    assert!(distance("stop", "stop stop") > 5);
}

#[test]
fn fp_2_a_long_text_with_one_other_word_is_similar() {
    let text: Vec<String> = (0..3_000).map(word).collect();
    let mut other = text.clone();
    other[1_500] = "something".to_owned();
    assert!(distance(&text.join(" "), &other.join(" ")) < 3);
}

/// The i-th of many invented words.
fn word(i: u32) -> String {
    let scrambled = i.wrapping_mul(2_654_435_761);
    let letter = |at: u32| char::from(b'a' + (scrambled.rotate_left(5 * at) % 26) as u8);
    (0..3 + scrambled % 8).map(letter).chain(format!("-{i}").chars().map(digit_letter)).collect()
}

/// Letters for digits, so that normalising does not make all words one.
fn digit_letter(digit: char) -> char {
    digit.to_digit(10).map_or(digit, |digit| char::from(b'k' + digit as u8))
}

#[track_caller]
fn distance(a: &str, b: &str) -> u32 {
    let hash = |text| simhash(text).expect("the text has words");
    hash(a).distance(hash(b))
}

/// Seed 1: texts that differ only in numbers, wherever the numbers stand.
#[test]
fn fp_2_texts_that_differ_only_in_numbers_inside_words_are_similar() {
    for (one, other) in [
        ("open file_803.txt and tell me what is in it", "open file_7124.txt and tell me what is in it"),
        ("install release v1.2.3 on the server please", "install release v10.20.30 on the server please"),
        (
            "write a mail to user12@example.com about the bill",
            "write a mail to user7451@example.com about the bill",
        ),
        ("node4x of rack17b is down again", "node88x of rack2b is down again"),
    ] {
        assert!(distance(one, other) < 3, "{one}: {}", distance(one, other));
    }
    assert!(distance("open file_803.txt and read it", "delete every branch of the repository") > 5);
}

/// Lines of `simhash exact "text"`, a dash for none. A line that fails means that stored fingerprints no
/// longer compare: undo the change, or bring it as a new kind of fingerprint.
const GOLDEN: &str = include_str!("golden/simhash.txt");

#[test]
fn fp_2_golden_vectors_hold() {
    let hex = |hash: Option<SimHash>| hash.map_or("-".to_owned(), |hash| hash.to_string());
    let lines: Vec<&str> = GOLDEN.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(lines.len() >= 25, "only {} golden vectors", lines.len());
    let actual: Vec<String> = lines
        .iter()
        .map(|line| {
            let json = line.splitn(3, ' ').nth(2).expect("a line has three columns");
            let text: String = serde_json::from_str(json).expect("the text is a JSON string");
            format!("{} {} {json}", hex(simhash(&text)), hex(simhash_exact(&text)))
        })
        .collect();
    assert_eq!(actual.join("\n"), lines.join("\n"));
}
