//! Secrets that are known by the line they stand on: values on lines of their own in YAML, lines of `.pgpass`.

use estop_core::steps;

use super::is_mark;

/// How far a line is looked at before a name.
const BEFORE_MAX: usize = 160;
/// The longest field of a line of `.pgpass`.
const FIELD_MAX: usize = 128;

/// The length of a line's end, as it is or as strings of JSON and of programs write it.
pub(super) fn line_end(bytes: &[u8]) -> usize {
    const ENDS: &[&[u8]] = &[b"\r\n", b"\n", b"\\r\\n", b"\\n", b"\\\\n"];
    ENDS.iter().find(|end| bytes.starts_with(end)).map_or(0, |end| end.len())
}

/// The length of what tools put before a line: its number (`12:`, `12→`), or the sign of a diff.
pub(super) fn line_prefix(bytes: &[u8]) -> usize {
    const AFTER_NUMBER: &[&[u8]] = &["→".as_bytes(), b"\t", b"\\t", b":", b"|"];
    let spaces = bytes.iter().take(8).take_while(|byte| **byte == b' ').count();
    let digits = bytes[spaces..].iter().take(6).take_while(|byte| byte.is_ascii_digit()).count();
    let rest = &bytes[spaces + digits..];
    if digits > 0 {
        let after = AFTER_NUMBER.iter().find(|after| rest.starts_with(after));
        return after.map_or(0, |after| spaces + digits + after.len());
    }
    usize::from(matches!(bytes.first(), Some(b'+' | b'-')))
}

/// Spaces and tabs at the beginning of a line.
fn indent(line: &[u8]) -> usize {
    let len = line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    steps::add(len);
    len
}

/// Where the line that begins at `from` is over. In a string its end is written as an escape, and the string ends, too.
fn end_of_line(bytes: &[u8], from: usize, is_escaped: bool) -> usize {
    let is_end = |at: &usize| {
        let rest = &bytes[*at..];
        matches!(rest[0], b'\n') || is_escaped && (rest[0] == b'"' || rest[0] == b'\\' && line_end(rest) > 0)
    };
    let end = (from..bytes.len()).find(is_end);
    from + steps::found(end.map(|end| end - from), bytes.len() - from).unwrap_or(bytes.len() - from)
}

/// The value of a YAML name that stands on the lines below it, further to the right: all lines after `|` or `>`, else those
/// that are one word each. `at` is where the name begins, `from` where its value would.
pub(super) fn value_below(text: &str, at: usize, from: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    // The backslash of an escaped line's end may have been taken for one before a quote.
    let from = from - usize::from(bytes[..from].ends_with(b"\\"));
    let before = &bytes[at.saturating_sub(BEFORE_MAX)..at];
    let line = steps::found(before.iter().rev().position(|byte| *byte == b'\n'), before.len());
    // In a string the line begins after an escape, whose letter must not be taken for the line's.
    let line = &before[before.len() - line.unwrap_or(before.len())..];
    let escape = line.windows(2).rposition(|pair| pair == b"\\n").map_or(0, |at| at + 2);
    steps::add(line.len());
    let column = |line: &[u8]| {
        let prefix = line_prefix(line);
        indent(&line[prefix..])
    };
    let column_of_name = column(&line[escape..]);
    let header = &bytes[from..];
    let is_block = matches!(header.first(), Some(b'|' | b'>'));
    let marks = header.iter().take(4).take_while(|byte| b"|>+-123456789".contains(byte)).count();
    let mut end = from + if is_block { marks } else { 0 };
    end += bytes[end..].iter().take(4).take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let newline = line_end(&bytes[end..]);
    let is_escaped = newline > 0 && bytes[end] == b'\\';
    let (mut at, mut found) = (end + newline, None);
    if newline == 0 {
        return None;
    }
    while at < bytes.len() {
        let prefix = line_prefix(&bytes[at..]);
        let column = indent(&bytes[at + prefix..]);
        let start = at + prefix + column;
        let is_end_of_line = line_end(&bytes[start..]) > 0 && (is_escaped || bytes[start] != b'\\');
        let is_blank = start == bytes.len() || is_end_of_line;
        if !is_blank && column <= column_of_name {
            break;
        }
        let end = end_of_line(bytes, start, is_escaped);
        let line = text.get(start..end)?;
        if !is_block && !is_one_word(line) {
            break;
        }
        if !is_blank && (found.is_some() || !is_mark(line.trim_start_matches("- "))) {
            let (from, _) = found.unwrap_or((start, end));
            found = Some((from, end));
        }
        let newline = line_end(&bytes[end..]);
        if newline == 0 {
            break;
        }
        at = end + newline;
    }
    found
}

/// `swordfish9`, `- "swordfish9"`; not `host: a` or prose.
fn is_one_word(line: &str) -> bool {
    steps::add(line.len());
    let word = line.trim_start_matches("- ").trim();
    !word.is_empty() && !word.contains(char::is_whitespace) && !word.ends_with(':')
}

/// The password of `host:port:database:user:password`, if the line that begins at `at` is one of `.pgpass`.
pub(super) fn pgpass(text: &str, at: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut from = at + line_prefix(&bytes[at..]);
    for field in 0..4 {
        let rest = bytes[from..].iter().take(FIELD_MAX);
        let len = rest.take_while(|byte| is_in_field(**byte)).count();
        steps::add(len);
        let value = &bytes[from..from + len];
        let is_number = value.iter().all(u8::is_ascii_digit);
        let fits = match field {
            1 => value == b"*" || is_number && (2..=5).contains(&len),
            0 | 2 => len > 0 && !is_number,
            _ => len > 0,
        };
        if !fits || bytes.get(from + len) != Some(&b':') {
            return None;
        }
        from += len + 1;
    }
    let rest = bytes[from..].iter().take(FIELD_MAX);
    let len = rest.take_while(|byte| !byte.is_ascii_whitespace() && !b":\"'`\\".contains(byte)).count();
    let to = from + len;
    let is_whole = bytes.get(to).is_none_or(|byte| b"\r\n\\\"'`".contains(byte));
    (len > 0 && is_whole && !is_mark(text.get(from..to)?)).then_some((from, to))
}

fn is_in_field(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"*._-@/".contains(&byte)
}
