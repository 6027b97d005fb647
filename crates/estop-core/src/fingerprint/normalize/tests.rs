//! FP-1 by example, and the count of bytes looked at.

use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(normalize(text), expected, "normal form of {text:?}");
    assert_eq!(normalize(expected), expected, "normal form of the normal form of {text:?}");
}

#[test]
fn fp_1_numbers_timestamps_and_ids_become_placeholders() {
    check("order #12345", "order #<NUM>");
    check("2024-01-15T10:30:00Z", "<TS>");
    check("550e8400-e29b-41d4-a716-446655440000", "<ID>");
    check(
        "User 550E8400-E29B-41D4-A716-446655440000 paid $1,234.50 on 2024-01-15 10:30:00.123+01:00.",
        "user <ID> paid $<NUM> on <TS>.",
    );
}

#[test]
fn fp_1_words_that_look_like_ids_stay_words() {
    for words in ["requests made", "identify", "user asked", "message thread", "deadbeef", "defaced facade"] {
        check(words, words);
    }
    check("abcdefab-cdef-abcd-abcd-abcdefabcdef", "abcdefab-cdef-abcd-abcd-abcdefabcdef");
}

#[test]
fn fp_1_numbers_glued_to_words_are_numbers() {
    check("file_803.txt v1.2.3 user12@example.com", "file_<NUM>.txt v<NUM> user<NUM>@example.com");
    check("utf8 day1 sha256 v2 x_5 é5", "utf<NUM> day<NUM> sha<NUM> v<NUM> x_<NUM> é<NUM>");
    check(
        "a1b2c3 x1deadbeef12 xa1b2c3d4e5",
        "a<NUM>b<NUM>c<NUM> x<NUM>deadbeef<NUM> xa<NUM>b<NUM>c<NUM>d<NUM>",
    );
    check("r2d2, c3po_7z", "r<NUM>d<NUM>, c<NUM>po_<NUM>z");
}

#[test]
fn fp_1_case_and_white_space_do_not_count() {
    check("  Fix\tTHE \r\n\r\n bug\u{a0}now\u{2028} ", "fix the bug now");
    check("ΣΟΦΊΑ Straße İ \u{212a}", "σοφία straße i\u{307} k");
    check("", "");
    check(" \n\t\u{3000}", "");
}

#[test]
fn fp_1_every_character_is_lower_cased_as_the_standard_library_does() {
    for c in '\0'..=char::MAX {
        let mut lower = String::new();
        for_each_lower(c, |c| lower.push(c));
        assert!(lower.chars().eq(c.to_lowercase()), "{c:?}");
    }
}

#[test]
fn fp_1_ids_are_long_hex_tokens_at_word_boundaries() {
    check("550e8400e29b41d4a716446655440000", "<ID>");
    check("12345678-1234-1234-1234-123456789012", "<ID>");
    check("commit 3f2a9c1b.", "commit <ID>.");
    check("abcdefa1 abcdef1 abcdefg1 1abcdefa_", "<ID> abcdef<NUM> abcdefg<NUM> <NUM>abcdefa_");
    check("0xdead 0XBEEF12 0x1f 0xdeadx", "<ID> <ID> <NUM>x<NUM>f <NUM>xdeadx");
    check("a1b2c3d4-550e8400-e29b-41d4-a716-446655440000", "<ID>-<ID>");
    check("550e8400-e29b-41d4-a716-4466554400001", "<ID>-e<NUM>b-<NUM>d<NUM>-a<NUM>-<NUM>");
    // The Kelvin sign is the letter k, so this token is not hex to its end.
    check("abcdefa1\u{212a}", "abcdefa<NUM>k");
}

#[test]
fn fp_1_timestamps_are_plausible_iso_dates() {
    for timestamp in [
        "2024-01-15",
        "2024-01-15T10:30",
        "2024-01-15 10:30:00",
        "2024-12-31t23:59:60.999999z",
        "2024-01-15T10:30:00,5-0800",
        "20240115T103000Z",
        "20240115T103000.25+01:00",
    ] {
        check(timestamp, "<TS>");
    }
    check("2024-13-15 2024-01-32", "<NUM>-<NUM>-<NUM> <NUM>-<NUM>-<NUM>");
    check("2024-01-15 25:00", "<TS> <NUM>:<NUM>");
    check("2024-01-15_log 2024-01-15Tuesday", "<TS>_log <TS>tuesday");
    check("2024-01-15  10:30", "<TS> <NUM>:<NUM>");
    check("2024-01-15T10:30:000", "<TS>:<NUM>");
    check("2024-01-150", "<NUM>-<NUM>-<NUM>");
    check("20240115", "<NUM>");
}

#[test]
fn fp_1_numbers_start_a_token_and_leave_their_unit() {
    check("3.14 10.0.0.1 1,234,567.89 6.02e23 1E-9", "<NUM> <NUM> <NUM> <NUM> <NUM>");
    check("10ms 5x -7 (42%) $9.99, 第5章", "<NUM>ms <NUM>x -<NUM> (<NUM>%) $<NUM>, 第<NUM>章");
    check("5. 1,2,3 12,3456 1e 1e+", "<NUM>. <NUM>,<NUM>,<NUM> <NUM>,<NUM> <NUM>e <NUM>e+");
    check("1.5abcdef12 1e5e5", "<NUM><ID> <NUM>e<NUM>");
    check("٣ ５", "٣ ５");
}

#[test]
fn fp_1_placeholders_in_the_text_are_kept() {
    check("<ID> a<TS>b 5<NUM>5 <num> <NUM", "<ID> a<TS>b <NUM><NUM><NUM> <num> <num");
    check("<<NUM>>", "<<NUM>>");
}

fn looks(text: &str) -> usize {
    crate::steps::counted(u64::MAX, || drop(normalize(text))) as usize
}

/// Looks per byte that no text may exceed: a byte can be seen as hex, as part of a date and as a digit,
/// from the start of its token and once more after a number; and it is passed over once.
const LOOKS_PER_BYTE_MAX: usize = 9;

/// Beginnings of what the patterns look for; repeated, they make a careless search look far ahead each time.
pub(crate) const ADVERSARIAL: [&str; 35] = [
    "1",
    "a",
    "f1",
    "-",
    "<",
    "<N",
    "<NUM",
    "1.",
    "1,",
    "1e",
    "1e5",
    "123,",
    "0x",
    "0x1",
    "12345678-",
    "a1b2c3d4-",
    "abcdefab-1234-",
    "2024-",
    "2024-01-",
    "2024-01-15",
    "2024-01-15T",
    "2024-01-15T10:30:00.",
    "20240115T",
    ":",
    "e",
    "_1",
    "g1",
    "ga1.",
    "ga1e",
    "g1,234,",
    "é1",
    "1é",
    "\u{212a}",
    " ",
    "1 ",
];

#[test]
fn fp_1_normalising_is_linear_on_adversarial_texts() {
    for unit in ADVERSARIAL {
        for end in ["", "g", "\u{212a}", "-", "<NUM>"] {
            let text = unit.repeat(2_000) + end;
            let looks = looks(&text);
            assert!(
                looks <= LOOKS_PER_BYTE_MAX * text.len() + 1,
                "{looks} looks at {unit:?} times 2000 + {end:?}"
            );
        }
    }
}

proptest! {
    #[test]
    fn fp_1_normalising_is_linear_on_random_texts(text in "[0-9a-f<>NUMIDTS.,:eTZ+\\-x_ gé\u{212a}]{0,300}") {
        prop_assert!(looks(&text) <= LOOKS_PER_BYTE_MAX * text.len() + 1, "{} looks", looks(&text));
    }
}
