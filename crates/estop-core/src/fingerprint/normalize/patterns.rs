//! Where a placeholder begins and how far it reaches.
//!
//! Every look-ahead is either bounded or over characters that the caller passes over next, which keeps
//! normalising linear.

use super::id::{HexRun, id_at, prefixed_id_at};
use super::text::Text;
use super::{Placeholder, timestamp};

/// A placeholder and where the text that it stands for ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) placeholder: Placeholder,
    pub(crate) end: usize,
}

/// The placeholder that begins at `at`, where either a token begins or a `<` stands.
#[inline]
pub(crate) fn placeholder_at(text: &Text<'_>, at: usize) -> Option<Found> {
    match text.byte(at) {
        b'<' => literal_at(text, at),
        b'a'..=b'f' | b'A'..=b'F' => id_at(text, HexRun::at(text, at)),
        b'0'..=b'9' => Some(digits_at(text, at)),
        _ => None,
    }
}

/// A placeholder that the text itself contains.
#[inline]
fn literal_at(text: &Text<'_>, at: usize) -> Option<Found> {
    let placeholder = match text.byte(at + 1) {
        b'I' => Placeholder::Id,
        b'T' => Placeholder::Timestamp,
        b'N' => Placeholder::Number,
        _ => return None,
    };
    let name = placeholder.as_str();
    let stands_here = name.bytes().zip(at..).all(|(byte, at)| text.byte(at) == byte);
    stands_here.then_some(Found { placeholder, end: at + name.len() })
}

/// What the digit at `at` begins. The byte after the digits says what they could be besides a number.
fn digits_at(text: &Text<'_>, at: usize) -> Found {
    let digits = HexRun::of_digits(text, at);
    let special = match text.byte(digits.end) {
        b'a'..=b'f' | b'A'..=b'F' => id_at(text, digits.with_letters(text)),
        b'x' | b'X' => prefixed_id_at(text, digits),
        b'-' => id_at(text, digits).or_else(|| timestamp::extended_at(text, digits)),
        b't' | b'T' => timestamp::compact_at(text, digits),
        _ => None,
    };
    special.unwrap_or_else(|| Found { placeholder: Placeholder::Number, end: number_end(text, digits.end) })
}

/// The number that begins with the digit at `at`, inside a word.
#[inline]
pub(crate) fn number_in_word_at(text: &Text<'_>, at: usize) -> Found {
    Found { placeholder: Placeholder::Number, end: number_end(text, text.digits_end(at)) }
}

/// The end of the number whose first digits end at `end`: `7`, `3.14`, `10.0.0.1`, `1,234,567`, `6.02e23`.
///
/// A unit directly after it is not part of it: `10ms` is `<NUM>ms`.
fn number_end(text: &Text<'_>, mut end: usize) -> usize {
    loop {
        let group = end + 1;
        end = match text.byte(end) {
            b'.' if text.byte(group).is_ascii_digit() => text.digits_end(group),
            b',' if has_thousands(text, group) => group + 3,
            b'e' | b'E' => return exponent_end(text, end),
            _ => return end,
        };
    }
}

/// The end of the exponent at `at`, where an `e` stands; `at` if there is none.
fn exponent_end(text: &Text<'_>, at: usize) -> usize {
    let sign = usize::from(matches!(text.byte(at + 1), b'+' | b'-'));
    let digits = at + 1 + sign;
    if text.byte(digits).is_ascii_digit() { text.digits_end(digits) } else { at }
}

/// Whether exactly three digits start at `at`.
fn has_thousands(text: &Text<'_>, at: usize) -> bool {
    (at..at + 3).all(|at| text.byte(at).is_ascii_digit()) && !text.byte(at + 3).is_ascii_digit()
}
