//! From a JSON string to the text it stands for.

use std::borrow::Cow;

use estop_core::steps;

use super::Raw;
use super::fault::{ParseError, ParseErrorKind};
use super::skip::code_unit;

/// The text of a string; borrowed where nothing is escaped. `raw` must be a string.
#[inline(always)]
pub(super) fn decode<'a>(raw: &Raw<'a>) -> Result<Cow<'a, str>, ParseError> {
    let inner = raw.text.get(1..raw.text.len().saturating_sub(1)).unwrap_or_default();
    if raw.said == inner.len() {
        return Ok(Cow::Borrowed(inner));
    }
    let half = ParseError { at: raw.at, what: ParseErrorKind::HalfSurrogate };
    unescape(inner, raw.said).map(Cow::Owned).ok_or(half)
}

/// `None` if half of a surrogate pair stands alone. The escapes were checked before.
#[inline(never)]
fn unescape(text: &str, length: usize) -> Option<String> {
    let mut out = String::with_capacity(length);
    let mut rest = text;
    while let Some(at) = steps::found(memchr::memchr(b'\\', rest.as_bytes()), rest.len()) {
        steps::add(1);
        out.push_str(rest.get(..at)?);
        rest = rest.get(at..)?;
        let simple = match rest.as_bytes().get(1)? {
            b'b' => Some('\u{8}'),
            b'f' => Some('\u{c}'),
            b'n' => Some('\n'),
            b'r' => Some('\r'),
            b't' => Some('\t'),
            b'u' => None,
            &same => Some(char::from(same)),
        };
        let (decoded, after) = match simple {
            Some(decoded) => (decoded, rest.get(2..)?),
            None => code_point(rest)?,
        };
        out.push(decoded);
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

/// The character that one or two `\uXXXX` at the start of a text stand for, and what follows.
fn code_point(text: &str) -> Option<(char, &str)> {
    let first = code_unit(text.as_bytes(), 0)?;
    let after = text.get(6..)?;
    if !(0xd800..0xe000).contains(&first) {
        return Some((char::from_u32(first.into())?, after));
    }
    let second = after.starts_with("\\u").then(|| code_unit(after.as_bytes(), 0)).flatten()?;
    let both = char::decode_utf16([first, second]).next()?.ok()?;
    Some((both, after.get(6..)?))
}
