//! Ids: UUIDs, long hex tokens, `0x` numbers. All-letter tokens are words, all-digit ones are numbers.

use super::Placeholder;
use super::patterns::Found;
use super::text::Text;

/// Shortest plain hex id: eight, as in a checksum or the first group of a UUID. At half, words of code and
/// quantities ("a1", "5e", "2cd") would be ids; at double, abbreviated commits would count as words.
const HEX_ID_MIN: usize = 8;
/// Shortest id after `0x`, where the prefix already says what it is; below are flags and small offsets.
const PREFIXED_HEX_ID_MIN: usize = 4;

/// The UUID or long hex id that begins with `hex`.
#[inline]
pub(super) fn id_at(text: &Text<'_>, hex: HexRun) -> Option<Found> {
    if hex.len() < HEX_ID_MIN {
        return None;
    }
    let is_hex_id = hex.has_digit && hex.has_letter;
    uuid_end(text, hex)
        .and_then(|end| found(text, end))
        .or_else(|| found(text, hex.end).filter(|_| is_hex_id))
}

/// The hex number with a prefix, if `zero` is the 0 of `0x`.
pub(super) fn prefixed_id_at(text: &Text<'_>, zero: HexRun) -> Option<Found> {
    if zero.len() != 1 || text.byte(zero.start) != b'0' {
        return None;
    }
    let hex = HexRun::at(text, zero.end + 1);
    found(text, hex.end).filter(|_| hex.len() >= PREFIXED_HEX_ID_MIN)
}

fn found(text: &Text<'_>, end: usize) -> Option<Found> {
    text.ends_word(end).then_some(Found { placeholder: Placeholder::Id, end })
}

/// The end of the UUID, 8-4-4-4-12, whose first group is `first`.
fn uuid_end(text: &Text<'_>, first: HexRun) -> Option<usize> {
    if first.len() != 8 {
        return None;
    }
    let mut end = first.end;
    let mut has_digit = first.has_digit;
    for len in [4, 4, 4, 12] {
        if text.byte(end) != b'-' {
            return None;
        }
        let group = HexRun::at_most(len, text, end + 1);
        if group.len() != len {
            return None;
        }
        end = group.end;
        has_digit |= group.has_digit;
    }
    // Without a digit anywhere (one random UUID in 10^13) it is left alone, so that a token without digits
    // never holds an id: `simhash` relies on that.
    has_digit.then_some(end)
}

/// A run of hexadecimal digits.
#[derive(Clone, Copy)]
pub(super) struct HexRun {
    pub(super) start: usize,
    pub(super) end: usize,
    has_digit: bool,
    has_letter: bool,
}

impl HexRun {
    /// All the hexadecimal digits from `at` on.
    #[inline]
    pub(super) fn at(text: &Text<'_>, at: usize) -> Self {
        Self::at_most(usize::MAX, text, at)
    }

    /// The decimal digits from `at` on, where one stands.
    #[inline]
    pub(super) fn of_digits(text: &Text<'_>, at: usize) -> Self {
        Self { start: at, end: text.digits_end(at), has_digit: true, has_letter: false }
    }

    /// The run and the hexadecimal digits that follow it.
    pub(super) fn with_letters(self, text: &Text<'_>) -> Self {
        Self { start: self.start, has_digit: true, ..Self::at(text, self.end) }
    }

    #[inline]
    fn at_most(len_max: usize, text: &Text<'_>, at: usize) -> Self {
        let mut run = Self { start: at, end: at, has_digit: false, has_letter: false };
        while run.len() < len_max {
            match text.byte(run.end) {
                b'0'..=b'9' => run.has_digit = true,
                b'a'..=b'f' | b'A'..=b'F' => run.has_letter = true,
                _ => break,
            }
            run.end += 1;
        }
        run
    }

    #[inline]
    pub(super) fn len(self) -> usize {
        self.end - self.start
    }
}
