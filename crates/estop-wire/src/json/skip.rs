//! Walks over one JSON value and checks its grammar on the way, without building anything.
//!
//! Accepts exactly what `serde_json` accepts when it ignores a value, but never more than [`DEPTH_MAX`] levels. Strings
//! are most of a request, so they are walked many bytes at a time.

use estop_core::steps;

use super::fault::{ParseError, ParseErrorKind};

/// Levels of nesting that are read. Real requests have fewer than 30 (deep JSON schemas of tools); the providers' own
/// parsers stop at 100 to 1000.
pub(crate) const DEPTH_MAX: usize = 128;

/// Where a value ends, and how many bytes its strings have once they are decoded, keys included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) at: usize,
    pub(super) said: usize,
}

/// The first byte from `at` on that is no white space.
#[inline]
pub(super) fn white_space(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        steps::add(1);
        at += 1;
    }
    at
}

/// Walks over the value that starts at `at`, inside `depth` open lists and objects.
pub(super) fn value(bytes: &[u8], mut at: usize, depth: usize) -> Result<End, ParseError> {
    let mut open = Open { kinds: 0, levels: depth };
    let mut said = 0;
    loop {
        steps::add(1);
        match bytes.get(at) {
            Some(b'"') => {
                let end = string(bytes, at)?;
                (at, said) = (end.at, said + end.said);
            }
            Some(b'{') => {
                open.enter(at, true)?;
                at = white_space(bytes, at + 1);
                if bytes.get(at) != Some(&b'}') {
                    let end = key(bytes, at)?;
                    (at, said) = (end.at, said + end.said);
                    continue;
                }
                open.leave();
                at += 1;
            }
            Some(b'[') => {
                open.enter(at, false)?;
                at = white_space(bytes, at + 1);
                if bytes.get(at) != Some(&b']') {
                    continue;
                }
                open.leave();
                at += 1;
            }
            Some(b'-' | b'0'..=b'9') => at = number(bytes, at)?,
            Some(b't') => at = word(bytes, at, b"true")?,
            Some(b'f') => at = word(bytes, at, b"false")?,
            Some(b'n') => at = word(bytes, at, b"null")?,
            Some(_) => return Err(ParseError::syntax(at, "a value is expected")),
            None => return Err(ParseError::ends_early(at)),
        }
        // A value has ended: close what ends with it, up to the comma before the next one.
        loop {
            steps::add(1);
            if open.levels == depth {
                return Ok(End { at, said });
            }
            at = white_space(bytes, at);
            match (bytes.get(at), open.in_object()) {
                (Some(b','), false) => {
                    at = white_space(bytes, at + 1);
                    break;
                }
                (Some(b','), true) => {
                    let end = key(bytes, white_space(bytes, at + 1))?;
                    (at, said) = (end.at, said + end.said);
                    break;
                }
                (Some(b'}'), true) | (Some(b']'), false) => {
                    open.leave();
                    at += 1;
                }
                (Some(_), true) => return Err(ParseError::syntax(at, "`,` or `}` is expected")),
                (Some(_), false) => return Err(ParseError::syntax(at, "`,` or `]` is expected")),
                (None, _) => return Err(ParseError::ends_early(at)),
            }
        }
    }
}

/// What is open around a value: one bit for each level entered here, 1 for an object.
struct Open {
    kinds: u128,
    levels: usize,
}

impl Open {
    fn enter(&mut self, at: usize, object: bool) -> Result<(), ParseError> {
        if self.levels == DEPTH_MAX {
            return Err(ParseError { at, what: ParseErrorKind::TooDeep });
        }
        self.levels += 1;
        self.kinds = self.kinds << 1 | u128::from(object);
        Ok(())
    }

    fn leave(&mut self) {
        self.levels -= 1;
        self.kinds >>= 1;
    }

    fn in_object(&self) -> bool {
        self.kinds & 1 == 1
    }
}

/// Walks over a key, its colon and the white space after it.
fn key(bytes: &[u8], at: usize) -> Result<End, ParseError> {
    let end = string(bytes, at)?;
    Ok(End { at: colon(bytes, end.at)?, said: end.said })
}

/// Walks over the colon after a key, with the white space around it.
#[inline]
pub(super) fn colon(bytes: &[u8], at: usize) -> Result<usize, ParseError> {
    let at = white_space(bytes, at);
    match bytes.get(at) {
        Some(b':') => Ok(white_space(bytes, at + 1)),
        Some(_) => Err(ParseError::syntax(at, "`:` is expected")),
        None => Err(ParseError::ends_early(at)),
    }
}

/// Walks over the string whose quotation mark stands at `at`.
#[inline]
pub(super) fn string(bytes: &[u8], at: usize) -> Result<End, ParseError> {
    // Most have no escapes.
    match plain_string(bytes, at) {
        Some(end) => Ok(end),
        None => string_with_escapes(bytes, at),
    }
}

/// The same for a string that has no escapes; `None` if there is none here.
#[inline]
pub(super) fn plain_string(bytes: &[u8], at: usize) -> Option<End> {
    if bytes.get(at) != Some(&b'"') {
        return None;
    }
    let start = at + 1;
    let end = special(bytes, start);
    (bytes.get(end) == Some(&b'"')).then_some(End { at: end + 1, said: end - start })
}

/// Walks over a whole number; `None` if there is none here, or if anything is unusual about it.
#[inline]
pub(super) fn plain_digits(bytes: &[u8], at: usize) -> Option<End> {
    let end = digits(bytes, at);
    let is_plain = end > at && (bytes.get(at) != Some(&b'0') || end == at + 1);
    // What may follow it in a document that goes on.
    let ends = matches!(bytes.get(end), Some(b',' | b'}' | b']'));
    (is_plain && ends).then_some(End { at: end, said: 0 })
}

#[inline(never)]
fn string_with_escapes(bytes: &[u8], at: usize) -> Result<End, ParseError> {
    match bytes.get(at) {
        Some(b'"') => {}
        Some(_) => return Err(ParseError::syntax(at, "a key in quotation marks is expected")),
        None => return Err(ParseError::ends_early(at)),
    }
    let mut said = 0;
    let mut at = at + 1;
    loop {
        let plain = special(bytes, at);
        said += plain - at;
        at = plain;
        match bytes.get(at) {
            Some(b'"') => return Ok(End { at: at + 1, said }),
            Some(b'\\') => {
                // Escapes come in rows: scripts other than Latin, line breaks with what indents the next line.
                while bytes.get(at) == Some(&b'\\') {
                    steps::add(1);
                    let (length, decoded) = escape(bytes, at)?;
                    at += length;
                    said += decoded;
                }
            }
            Some(_) => return Err(ParseError::syntax(at, "a control character in a text must be escaped")),
            None => return Err(ParseError::ends_early(at)),
        }
    }
}

/// Length of the escape at `at`, and of what it stands for in UTF-8. Half a surrogate pair counts 2, a pair is 4.
fn escape(bytes: &[u8], at: usize) -> Result<(usize, usize), ParseError> {
    match bytes.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok((2, 1)),
        Some(b'u') => {
            let unit = code_unit(bytes, at).ok_or(ParseError::syntax(at, "`\\u` takes four hex digits"))?;
            let decoded = match unit {
                0..0x80 => 1,
                0x80..0x800 | 0xd800..0xe000 => 2,
                0x800..0xd800 | 0xe000..=0xffff => 3,
            };
            Ok((6, decoded))
        }
        Some(_) => Err(ParseError::syntax(at, "unknown escape in a text")),
        None => Err(ParseError::ends_early(at + 1)),
    }
}

/// The UTF-16 code unit of the `\uXXXX` at `at`.
pub(super) fn code_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at + 2..at + 6)?.first_chunk::<4>()?;
    let [a, b, c, d] = digits.map(|digit| u16::from(HEX[usize::from(digit)]));
    // What is no digit has bits beyond the lowest four.
    (a | b | c | d < 16).then_some(a << 12 | b << 8 | c << 4 | d)
}

/// The value of each hex digit; 255 for any other byte.
const HEX: [u8; 256] = {
    let mut table = [255; 256];
    let mut value: u8 = 0;
    while value < 16 {
        table[b"0123456789abcdef"[value as usize] as usize] = value;
        table[b"0123456789ABCDEF"[value as usize] as usize] = value;
        value += 1;
    }
    table
};

/// The first byte from `at` on that means something inside a string: `"`, `\` or a control character.
#[inline]
fn special(bytes: &[u8], at: usize) -> usize {
    let (words, rest) = bytes.get(at..).unwrap_or_default().as_chunks::<8>();
    let mut at = at;
    for word in words.iter().take(SHORT_WORDS) {
        steps::add(1);
        let found = specials(u64::from_le_bytes(*word));
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    if words.len() > SHORT_WORDS {
        return special_far(bytes, at);
    }
    at + rest.iter().position(|&b| is_special(b)).unwrap_or(rest.len())
}

/// Words that are looked at one by one, before it pays to begin with more at a time.
const SHORT_WORDS: usize = 6;

/// The same in a long text.
#[inline(never)]
fn special_far(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    let mut from = 0;
    // By pieces, so that what follows a control character is not searched for a quotation mark that may be far.
    loop {
        let piece = rest.get(from..).unwrap_or_default();
        let piece = piece.get(..PIECE).unwrap_or(piece);
        let found = memchr::memchr2(b'"', b'\\', piece);
        let plain = piece.get(..found.unwrap_or(piece.len())).unwrap_or_default();
        steps::add(1 + plain.len() / 8);
        // Without an early end the compiler looks at many bytes at once.
        if plain.iter().fold(false, |any, b| any | (*b < b' ')) {
            return at + from + plain.iter().position(|&b| is_special(b)).unwrap_or_default();
        }
        from += plain.len();
        if found.is_some() || plain.is_empty() {
            return at + from;
        }
    }
}

/// Bytes that are looked at at once.
const PIECE: usize = 4096;

fn is_special(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..b' ')
}

/// The high bit of each byte that is special. Only the lowest bit set is exact: borrowing can mark bytes above it.
fn specials(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word;
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (below(word, b' ') | equal(b'"') | equal(b'\\')) & HIGHS
}

/// Walks over a number.
fn number(bytes: &[u8], at: usize) -> Result<usize, ParseError> {
    let fault = |at: usize| match bytes.get(at) {
        Some(_) => ParseError::syntax(at, "a digit is expected"),
        None => ParseError::ends_early(at),
    };
    let some_digits = |at: usize| {
        let end = digits(bytes, at);
        if end > at { Ok(end) } else { Err(fault(at)) }
    };
    let start = at + usize::from(bytes.get(at) == Some(&b'-'));
    let mut at = if bytes.get(start) == Some(&b'0') { start + 1 } else { some_digits(start)? };
    if bytes.get(at) == Some(&b'.') {
        at = some_digits(at + 1)?;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        at = some_digits(at)?;
    }
    Ok(at)
}

fn digits(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(u8::is_ascii_digit) {
        steps::add(1);
        at += 1;
    }
    at
}

fn word(bytes: &[u8], at: usize, word: &[u8]) -> Result<usize, ParseError> {
    let there = bytes.get(at..).unwrap_or_default();
    if there.starts_with(word) {
        return Ok(at + word.len());
    }
    if word.starts_with(there) {
        return Err(ParseError::ends_early(bytes.len()));
    }
    Err(ParseError::syntax(at, "a value is expected"))
}
