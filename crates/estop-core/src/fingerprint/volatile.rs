//! Takes out of a tool's result what differs each time though nothing changed (FP-4): ids, timestamps,
//! durations, nonces. Plain numbers stay: a poll whose numbers move is progress.
//!
//! One pass over the bytes; whatever is not understood stays as it is. Every look ahead is bounded, or over bytes that are
//! taken out or passed over next, so that the work is linear in the text (SE-1): at most [`STEPS_PER_BYTE_MAX`] each.

use crate::steps;

/// Fields whose value says nothing about progress: lower case, without `_` and `-`, sorted.
pub(crate) const VOLATILE_KEYS: &[&str] = &[
    "callid",
    "chunkid",
    "createdat",
    "date",
    "duration",
    "durationms",
    "durationseconds",
    "elapsed",
    "elapsedms",
    "elapsedseconds",
    "etag",
    "eventid",
    "finishedat",
    "guid",
    "id",
    "latency",
    "latencyms",
    "messageid",
    "msgid",
    "nonce",
    "pgid",
    "pid",
    "requestid",
    "sessionid",
    "shellid",
    "spanid",
    "startedat",
    "time",
    "timestamp",
    "took",
    "tookms",
    "toolcallid",
    "traceid",
    "ts",
    "updatedat",
    "uuid",
    "walltime",
    "walltimems",
    "walltimeseconds",
];

/// Units that make a number a duration.
pub(crate) const DURATION_UNITS: &[&str] = &[
    "ns",
    "us",
    "µs",
    "ms",
    "s",
    "sec",
    "secs",
    "second",
    "seconds",
    "msec",
    "milliseconds",
    "min",
    "mins",
    "minute",
    "minutes",
    "hour",
    "hours",
];

/// A key with its `_` and `-` is no longer than this.
const KEY_MAX: usize = 16;

/// A value in brackets is no longer than this, its brackets included: `(none)`, `(not started yet)`. A longer one ends
/// where any other value does.
const BRACKETED_MAX: usize = 64;

/// Steps for each byte of a text, at most: a word is read, may be tried as four things, and may be read once more as the
/// unit after a number; after `id=(` the nearest [`BRACKETED_MAX`] bytes are looked at.
#[cfg(test)]
pub(crate) const STEPS_PER_BYTE_MAX: u64 = 32;

/// The result without its volatile parts.
pub(crate) fn strip(result: &str) -> String {
    let mut out = String::with_capacity(result.len());
    let mut copied = 0;
    let mut at = 0;
    while let Some(word) = next_word(result.as_bytes(), at) {
        at = word.end;
        if let Some((from, to)) = volatile_part(result, &word) {
            out.push_str(&result[copied..from]);
            out.push('~');
            (copied, at) = (to, to);
        }
    }
    out.push_str(&result[copied..]);
    out
}

/// A run of letters, digits and `_`. One that begins like a number or an id goes on over `-`, `.`, `:` and `+`.
struct Word {
    start: usize,
    end: usize,
    has_digit: bool,
}

fn next_word(bytes: &[u8], from: usize) -> Option<Word> {
    let rest = &bytes[from..];
    let first = rest.iter().position(|b| CLASSES[usize::from(*b)] & WORD != 0);
    let start = from + steps::found(first, rest.len())?;
    let mut end = start;
    // What any of its bytes is, and what all of them are.
    let (mut any, mut all) = (0, JOINS);
    while let Some(&byte) = bytes.get(end) {
        let class = CLASSES[usize::from(byte)];
        if class & WORD != 0 {
            any |= class;
            all &= class;
        } else {
            let goes_on = all != 0 && any & DIGIT != 0 && class & JOINT != 0;
            if !goes_on || !bytes.get(end + 1).is_some_and(u8::is_ascii_alphanumeric) {
                break;
            }
        }
        end += 1;
    }
    steps::add(end - start);
    Some(Word { start, end, has_digit: any & DIGIT != 0 })
}

/// Part of a word. Bytes beyond ASCII are letters, so that a word never ends inside a character.
const WORD: u8 = 1;
const DIGIT: u8 = 2;
/// Words of these alone, with a digit, go on over a joint.
const JOINS: u8 = 4;
const JOINT: u8 = 8;

/// What each byte is: looked up, as results are long.
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut at = 0;
    while at < classes.len() {
        let byte = at as u8;
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80 {
            classes[at] |= WORD;
        }
        if byte.is_ascii_digit() {
            classes[at] |= DIGIT;
        }
        if byte.is_ascii_hexdigit() || matches!(byte, b'T' | b'Z' | b't' | b'z') {
            classes[at] |= JOINS;
        }
        if matches!(byte, b'-' | b'.' | b':' | b'+') {
            classes[at] |= JOINT;
        }
        at += 1;
    }
    classes
};

/// The volatile part that begins with `word`, from and to; of a field only the value.
fn volatile_part(text: &str, word: &Word) -> Option<(usize, usize)> {
    let spelled = &text[word.start..word.end];
    // Each test below goes over the word once.
    steps::add(5 * spelled.len());
    if !word.has_digit {
        return value_of_key(text, word);
    }
    if is_clock(spelled) {
        return Some((word.start, word.end + fraction_len(&text[word.end..])));
    }
    if is_id(spelled) || is_timestamp(spelled) || is_duration(spelled) {
        return Some((word.start, word.end));
    }
    // `1.2 seconds`: the unit is the next word.
    let unit = next_word(text.as_bytes(), word.end).filter(|unit| unit.start == word.end + 1)?;
    let counts_time = is_number(spelled)
        && text.as_bytes()[word.end] == b' '
        && DURATION_UNITS.contains(&&text[unit.start..unit.end]);
    counts_time.then_some((word.start, unit.end))
}

/// `"key": "value"` and `key=value`, if the key is volatile; `last` is the last word of the key.
fn value_of_key(text: &str, last: &Word) -> Option<(usize, usize)> {
    let after = &text[last.end..];
    if !after.starts_with(['"', '\'', ':', '=']) {
        return None;
    }
    let unquoted = after.strip_prefix(['"', '\'']).unwrap_or(after);
    if !unquoted.starts_with([':', '=']) || !is_volatile_key(&text[key_start(text, last.start)..last.end]) {
        return None;
    }
    let value = after.trim_start_matches(['"', '\'', ':', '=', ' ']);
    let from = text.len() - value.len();
    steps::add(from - last.end);
    let quote = text[..from].chars().next_back().filter(|c| matches!(c, '"' | '\''));
    // A quoted value ends with its quote, any other where the next field, string or line may begin.
    let ends = |c: char| match quote {
        Some(quote) => c == quote || c == '\n',
        None => matches!(c, '"' | '\'' | ',' | ';' | '}' | ')' | ']') || c.is_ascii_whitespace(),
    };
    let bracketed =
        value.starts_with('(').then(|| bracketed_len(value)).flatten().filter(|_| quote.is_none());
    let len = bracketed.or_else(|| steps::found(value.find(ends), value.len())).unwrap_or(value.len());
    (len > 0).then_some((from, from + len))
}

/// The length of a value in brackets, with them: `pgid: (none)` is a value as well. Looks no further than
/// [`BRACKETED_MAX`]: a bracket that is never closed would have each key search all of the text.
fn bracketed_len(value: &str) -> Option<usize> {
    let near = &value.as_bytes()[..value.len().min(BRACKETED_MAX)];
    let end = steps::found(near.iter().position(|b| matches!(b, b')' | b'\n')), near.len())?;
    Some(end + 1)
}

/// Where a key begins whose last word begins at `at`: `created-at` is one key.
fn key_start(text: &str, at: usize) -> usize {
    let before = &text.as_bytes()[at.saturating_sub(KEY_MAX)..at];
    steps::add(before.len());
    let dashed = before.iter().rev().take_while(|b| b.is_ascii_alphabetic() || **b == b'-').count();
    at - dashed
}

fn is_volatile_key(key: &str) -> bool {
    let mut plain = [0; KEY_MAX];
    let mut len = 0;
    for byte in key.bytes().filter(|b| !matches!(b, b'_' | b'-')) {
        let Some(slot) = plain.get_mut(len) else { return false };
        *slot = byte.to_ascii_lowercase();
        len += 1;
    }
    VOLATILE_KEYS.binary_search_by(|known| known.as_bytes().cmp(&plain[..len])).is_ok()
}

/// A UUID, or at least 8 hex digits of which some are letters and some are not.
fn is_id(word: &str) -> bool {
    let hex = word.bytes().filter(u8::is_ascii_hexdigit).count();
    let dashes = word.bytes().filter(|b| *b == b'-').count();
    let letters = word.bytes().any(|b| b.is_ascii_alphabetic());
    hex + dashes == word.len() && hex >= 8 && letters && (dashes == 0 || (dashes == 4 && hex == 32))
}

/// `2024-01-15`, with or without a time behind it.
fn is_timestamp(word: &str) -> bool {
    let b = word.as_bytes();
    let digits = |range: std::ops::Range<usize>| b[range].iter().all(u8::is_ascii_digit);
    let is_date =
        b.len() >= 10 && b[4] == b'-' && b[7] == b'-' && digits(0..4) && digits(5..7) && digits(8..10);
    is_date && (b.len() == 10 || matches!(b[10], b'T' | b't'))
}

/// `10:30:00`, with or without a fraction.
fn is_clock(word: &str) -> bool {
    let b = word.as_bytes();
    let shape = b.len() >= 8 && b[2] == b':' && b[5] == b':';
    shape
        && b.iter()
            .enumerate()
            .all(|(at, b)| at == 2 || at == 5 || (at == 8 && *b == b'.') || b.is_ascii_digit())
}

/// Python's logs put a comma before the milliseconds.
fn fraction_len(after: &str) -> usize {
    let digits =
        after.strip_prefix(',').map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    steps::add(digits);
    if digits == 3 { 4 } else { 0 }
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// `12ms`, `0.35s`.
fn is_duration(word: &str) -> bool {
    let unit_at = word.find(|c: char| !c.is_ascii_digit() && c != '.');
    unit_at.is_some_and(|at| at > 0 && DURATION_UNITS.contains(&&word[at..]))
}

#[cfg(test)]
mod tests {
    use super::strip;

    fn same(a: &str, b: &str) {
        assert_eq!(strip(a), strip(b));
    }

    fn differ(a: &str, b: &str) {
        assert_ne!(strip(a), strip(b));
    }

    #[test]
    fn fp_4_volatile_fields_are_normalised_away() {
        same(
            r#"{"ok": true, "messageId": "91827364", "ts": 1700000000}"#,
            r#"{"ok": true, "messageId": "91835283", "ts": 1700000031}"#,
        );
        same("sent, message_id=xyz-1\nok", "sent, message_id=wvu-2\nok");
        same("2024-01-15 10:30:00,123 ERROR x", "2024-01-15 10:31:07,999 ERROR x");
        same("[10:30:00] waiting", "[10:30:05.250] waiting");
        same(r#"{"timestamp": "2024-01-15 10:30:00"}"#, r#"{"timestamp": "2024-01-15 11:31:01"}"#);
        same(r#"{"created-at": 5, "a": 1}"#, r#"{"created-at": 6, "a": 1}"#);
        same("duration_seconds=12", "duration_seconds=13");
        same("done in 1.25s", "done in 0.8s");
        same("took 12 ms", "took 9 ms");
        same("ok\n<shellId: 4 completed with exit code 0>", "ok\n<shellId: 5 completed with exit code 0>");
        same("ok\nProcess Group PGID: 17062", "ok\nProcess Group PGID: 17099");
        same("ok\nProcess Group PGID: 17062\n", "ok\nProcess Group PGID: (none)\n");
        same(
            r#"{"chunk_id":"074f18","wall_time_seconds":0.1,"output":"ok"}"#,
            r#"{"chunk_id":"9ac4e2","wall_time_seconds":0.2,"output":"ok"}"#,
        );
        same("at 2024-01-15T10:30:00Z: refused", "at 2024-01-15T10:31:07.123Z: refused");
        same(
            "run 550e8400-e29b-41d4-a716-446655440000 failed",
            "run 00000000-e29b-41d4-a716-44665544000a failed",
        );
    }

    #[test]
    fn fp_4_what_counts_stays() {
        differ(r#"{"status": "in_progress", "done": 1}"#, r#"{"status": "in_progress", "done": 2}"#);
        differ("3 passed, 2 failed", "4 passed, 1 failed");
        differ("page 1 of 15", "page 2 of 15");
        differ("id: x\nstatus: open", "id: x\nstatus: closed");
        differ("identify 12", "identify 13");
        differ("10:20", "10:21");
        differ(r#"{"id": "a", "n": "1"}"#, r#"{"id": "a", "n": "2"}"#);
    }

    /// As it is said in words.
    fn word_by_word(bytes: &[u8], from: usize) -> Option<(usize, usize, bool)> {
        let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80;
        let start = from + bytes[from..].iter().position(|b| is_word(*b))?;
        let (mut end, mut has_digit, mut joins) = (start, false, true);
        while let Some(&byte) = bytes.get(end) {
            if is_word(byte) {
                has_digit |= byte.is_ascii_digit();
                joins &= byte.is_ascii_hexdigit() || matches!(byte, b'T' | b'Z' | b't' | b'z');
            } else {
                let goes_on = joins && has_digit && matches!(byte, b'-' | b'.' | b':' | b'+');
                if !goes_on || !bytes.get(end + 1).is_some_and(u8::is_ascii_alphanumeric) {
                    break;
                }
            }
            end += 1;
        }
        Some((start, end, has_digit))
    }

    proptest::proptest! {
        #[test]
        fn fp_4_words_are_found_by_looking_up_each_byte(text in "[a-gT-Zt-z0-9_:.+ é\"=-]{0,40}", from in 0..8_usize) {
            let bytes = text.as_bytes();
            let from = from.min(bytes.len());
            let found = super::next_word(bytes, from).map(|word| (word.start, word.end, word.has_digit));
            proptest::prop_assert_eq!(found, word_by_word(bytes, from));
        }
    }

    #[test]
    fn fp_4_volatile_keys_are_sorted() {
        assert!(super::VOLATILE_KEYS.is_sorted());
    }

    #[test]
    fn fp_4_unicode_and_empty_results_are_fine() {
        assert_eq!(strip(""), "");
        assert_eq!(strip("größe: 5 µm — ok"), "größe: 5 µm — ok");
        assert_eq!(strip("µ12µs"), "µ12µs");
        assert_eq!(strip("took 5 µs"), "took ~");
        assert_eq!(strip("id="), "id=");
        assert_eq!(strip("5 "), "5 ");
    }
}
