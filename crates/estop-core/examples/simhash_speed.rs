//! How fast texts are normalised and fingerprinted, in MB/s on one core.
//!
//! `cargo run --release -p estop-core --example simhash_speed [FILE…]`: the built-in corpora, then the first
//! 100 kB of every file named. With `ESTOP_ROUNDS=1` it does each once, for counting instructions under
//! `valgrind --tool=callgrind`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use estop_core::normalize::normalize;
use estop_core::simhash::{simhash, simhash_exact};

const LEN: usize = 100_000;

fn main() {
    let rounds = std::env::var("ESTOP_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(400);
    println!("{:<28}{:>10}{:>10}{:>10}   MB/s, best of {rounds}", "corpus", "normalize", "simhash", "exact");
    for (name, text) in corpora().into_iter().chain(std::env::args().skip(1).filter_map(file)) {
        let normalize_speed = speed(rounds, &text, |text| normalize(text).len());
        let simhash_speed = speed(rounds, &text, simhash);
        let exact_speed = speed(rounds, &text, simhash_exact);
        println!("{name:<28}{normalize_speed:>10}{simhash_speed:>10}{exact_speed:>10}");
    }
}

/// The best round counts: the machine is shared, and only ever makes a round slower.
fn speed<T>(rounds: u32, text: &str, work: impl Fn(&str) -> T) -> u64 {
    let mut best = Duration::MAX;
    for _ in 0..rounds {
        let start = Instant::now();
        black_box(work(black_box(text)));
        best = best.min(start.elapsed());
    }
    text.len() as u64 * 1_000 / (best.as_nanos() as u64).max(1)
}

fn corpora() -> Vec<(String, String)> {
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
    corpora.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
}

fn file(path: String) -> Option<(String, String)> {
    let bytes = std::fs::read(&path).ok()?;
    Some((path, String::from_utf8_lossy(&bytes[..bytes.len().min(LEN)]).into_owned()))
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
    use std::fmt::Write as _;
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

/// A linear congruential generator: the corpora are the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ (self.0 >> 33)
    }

    fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 16) % limit
    }
}

const SOURCE: &str = concat!(
    include_str!("../src/normalize.rs"),
    include_str!("../src/normalize/patterns.rs"),
    include_str!("../src/normalize/timestamp.rs"),
    include_str!("../src/normalize/tests.rs"),
    include_str!("../src/simhash.rs"),
    include_str!("../src/simhash/fused.rs"),
    include_str!("../src/simhash/majority.rs"),
    include_str!("../src/simhash/word.rs"),
    include_str!("simhash_speed.rs"),
);

/// Common words first.
const WORDS: [&str; 120] = [
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
