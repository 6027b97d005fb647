//! Texts to measure on: prose, source code, logs, other scripts, and texts made to be slow.

use std::fmt::Write as _;

use crate::random::Random;

/// The length of every text.
pub const LEN: usize = 100_000;

/// All corpora, each `LEN` bytes long: usual ones first, then those made to be slow.
pub fn all() -> Vec<(&'static str, String)> {
    let mut random = Random(1);
    let mut corpora = vec![
        ("English prose", fill(|text| prose(&mut random, text))),
        ("Rust source", fill(|text| text.push_str(SOURCE))),
        ("JSON log, one line each", fill(|text| json_line(&mut random, text, ", ", ": "))),
        ("JSON log, compact", fill(|text| json_line(&mut random, text, ",", ":"))),
        (
            "accented prose",
            fill(|text| text.push_str("Où êtes-vous allé hier, à côté de la forêt près du château ? ")),
        ),
        ("Chinese", fill(|text| text.push_str("请修复登录页面上的错误，并为第5章添加测试。 "))),
    ];
    for (name, unit) in [
        ("one-letter words", "a "),
        ("white space", " \n"),
        ("digits", "1"),
        ("numbers", "1 "),
        ("hex", "f1"),
        ("dashes", "-"),
        ("less-than", "<"),
        ("cut placeholders", "<NUM"),
        ("cut UUIDs", "550e8400-e29b-41d4-a716-"),
        ("cut timestamps", "2024-01-15T10:3"),
        ("exponents", "1e"),
        ("one plain word", "x"),
    ] {
        corpora.push((name, fill(|text| text.push_str(unit))));
    }
    corpora
}

fn fill(mut add: impl FnMut(&mut String)) -> String {
    let mut text = String::with_capacity(2 * LEN);
    while text.len() < LEN {
        add(&mut text);
    }
    text.truncate(text.floor_char_boundary(LEN));
    text
}

/// Sentences of random words, so that no branch predictor learns them by heart.
fn prose(random: &mut Random, text: &mut String) {
    let words = 4 + random.below(20);
    for i in 0..words {
        // Squared, so that the short words at the start of the list come most often, as in English.
        let pick = random.below(WORDS.len() as u64) * random.below(WORDS.len() as u64) / WORDS.len() as u64;
        let word = WORDS[pick as usize];
        let (head, tail) = word.split_at(1);
        text.push_str(&if i == 0 { head.to_uppercase() } else { head.to_owned() });
        text.push_str(tail);
        text.push_str(match random.below(12) {
            0 => ", ",
            _ => " ",
        });
    }
    text.truncate(text.trim_end_matches([' ', ',']).len());
    text.push_str(if random.below(5) == 0 { ".\n\n" } else { ". " });
}

fn json_line(random: &mut Random, text: &mut String, comma: &str, colon: &str) {
    let (a, b) = (random.next(), random.next());
    let (hour, minute, second) = (a % 24, a % 60, b % 60);
    let level = ["info", "warn", "error", "debug"][(a >> 20) as usize % 4];
    let (ms, port) = (b >> 50, a >> 48);
    let word = WORDS[(b >> 8) as usize % WORDS.len()];
    let uuid =
        format!("{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}", a >> 32, a & 0xffff, b & 0xfff, b >> 52, b >> 16);
    let _ = writeln!(
        text,
        "{{\"ts\"{colon}\"2024-03-15T{hour:02}:{minute:02}:{second:02}.{ms:03}Z\"{comma}\"level\"{colon}\"{level}\"{comma}\
         \"request_id\"{colon}\"{uuid}\"{comma}\"duration_ms\"{colon}{ms}.{second}{comma}\"port\"{colon}{port}{comma}\
         \"message\"{colon}\"{word} request finished\"{comma}\"retries\"{colon}{second}}}"
    );
}

const SOURCE: &str = concat!(
    include_str!("../../crates/estop-core/src/fingerprint/normalize.rs"),
    include_str!("../../crates/estop-core/src/fingerprint/simhash.rs"),
    include_str!("../../crates/estop-core/src/engine/request.rs"),
    include_str!("../../crates/estop-core/src/budget.rs"),
    include_str!("../../crates/estop-core/src/run.rs"),
);

/// Common words first.
const WORDS: &[&str] = &[
    "the",
    "of",
    "and",
    "a",
    "to",
    "in",
    "is",
    "you",
    "that",
    "it",
    "he",
    "was",
    "for",
    "on",
    "are",
    "as",
    "with",
    "his",
    "they",
    "I",
    "at",
    "be",
    "this",
    "have",
    "from",
    "or",
    "one",
    "had",
    "by",
    "word",
    "but",
    "not",
    "what",
    "all",
    "were",
    "we",
    "when",
    "your",
    "can",
    "said",
    "there",
    "use",
    "an",
    "each",
    "which",
    "she",
    "do",
    "how",
    "their",
    "if",
    "will",
    "up",
    "other",
    "about",
    "out",
    "many",
    "then",
    "them",
    "these",
    "so",
    "some",
    "her",
    "would",
    "make",
    "like",
    "him",
    "into",
    "time",
    "has",
    "look",
    "two",
    "more",
    "write",
    "go",
    "see",
    "number",
    "no",
    "way",
    "could",
    "people",
    "my",
    "than",
    "first",
    "water",
    "been",
    "call",
    "who",
    "oil",
    "its",
    "find",
    "long",
    "down",
    "day",
    "did",
    "get",
    "come",
    "made",
    "may",
    "part",
    "message",
    "request",
    "response",
    "between",
    "important",
    "government",
    "different",
    "example",
    "children",
    "something",
    "understand",
    "information",
    "responsibility",
    "configuration",
    "nevertheless",
    "emergency",
    "implementation",
    "possible",
    "through",
    "because",
    "question",
];
