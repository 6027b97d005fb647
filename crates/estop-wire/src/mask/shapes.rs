//! Secrets that are known by what they are made of, part by part.

use std::ops::RangeInclusive;

use estop_core::steps;

use super::Found;

enum Part {
    /// This text.
    Is(&'static str),
    /// So many characters of these, and not more.
    Of(fn(u8) -> bool, RangeInclusive<usize>),
    /// So many characters of these, whatever follows.
    First(fn(u8) -> bool, usize),
    /// One of these bytes.
    One(&'static [u8]),
}

use Part::{First, Is, Of, One};

const SHAPES: &[&[Part]] = &[
    // Telegram: the bot's number and 35 characters.
    &[Of(is_digit, 8..=10), Is(":"), Of(is_url_safe, 35..=35)],
    &[Is("bot"), Of(is_digit, 8..=10), Is(":"), Of(is_url_safe, 35..=35)],
    // Discord: the number of the bot in base64, the time, the signature.
    &[
        One(b"MNO"),
        Of(is_url_safe, 23..=27),
        Is("."),
        Of(is_url_safe, 6..=7),
        Is("."),
        Of(is_url_safe, 27..=40),
    ],
    // Keys of Azure: 64 bytes, of its AI services 84 characters that name the service.
    &[Of(is_standard, 86..=86), Is("==")],
    &[First(is_alphanumeric, 52), Is("JQQJ99"), Of(is_alphanumeric, 26..=26)],
];

/// The secret that begins at `at`, where a word does.
pub(super) fn find(text: &str, at: usize) -> Option<Found> {
    let bytes = text.as_bytes();
    SHAPES.iter().find_map(|shape| {
        let to = shape.iter().try_fold(at, |from, part| end_of(part, bytes, from))?;
        let is_border = bytes.get(to).is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'=');
        is_border.then_some(Found { kind: "key", from: at, to })
    })
}

fn end_of(part: &Part, bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    match part {
        Is(text) => rest.starts_with(text.as_bytes()).then_some(from + text.len()),
        One(of) => of.contains(rest.first()?).then_some(from + 1),
        First(is_in, len) => {
            let first = rest.get(..*len).filter(|first| first.iter().all(|byte| is_in(*byte)));
            steps::add(*len);
            first.map(|_| from + len)
        }
        Of(is_in, lengths) => {
            // The longest that still could be one, and one more, which says that it is none.
            let len = rest.iter().take(lengths.end() + 1).take_while(|byte| is_in(**byte)).count();
            steps::add(len);
            lengths.contains(&len).then_some(from + len)
        }
    }
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit()
}

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn is_url_safe(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_".contains(&byte)
}

fn is_standard(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/".contains(&byte)
}
