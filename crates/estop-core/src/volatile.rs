//! Takes out of a tool's result what differs each time though nothing changed (FP-4): ids, timestamps,
//! durations, nonces. Plain numbers stay: a poll whose numbers move is progress.
//!
//! One pass over the bytes; whatever is not understood stays as it is.

/// Fields whose value says nothing about progress, compared without case, `_` and `-`.
const VOLATILE_KEYS: &[&str] = &[
    "id", "uuid", "guid", "messageid", "msgid", "requestid", "traceid", "spanid", "sessionid", "callid", "toolcallid",
    "eventid", "nonce", "etag", "pid", "ts", "timestamp", "time", "date", "createdat", "updatedat", "startedat",
    "finishedat", "duration", "durationms", "elapsed", "elapsedms", "latency", "latencyms", "took", "tookms",
];

/// Units that make a number a duration.
const DURATION_UNITS: &[&str] = &[
    "ns", "us", "µs", "ms", "s", "sec", "secs", "second", "seconds", "msec", "milliseconds",
];

/// The result without its volatile parts.
pub(crate) fn strip(result: &str) -> String {
    let mut out = String::with_capacity(result.len());
    let mut rest = result;
    let mut key_before = false;
    while let Some(first) = rest.chars().next() {
        if !is_word(first) {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            // `"key": "value"` and `key=value`: punctuation keeps the key in mind, a line end does not.
            key_before &= matches!(first, '"' | '\'' | ':' | '=' | ' ');
            continue;
        }
        if key_before {
            out.push('~');
            rest = &rest[value_len(rest)..];
            key_before = false;
            continue;
        }
        let (word, after) = rest.split_at(word_len(rest));
        rest = after;
        if let Some(tail) = volatile_tail(word, after) {
            out.push('~');
            rest = tail;
        } else {
            out.push_str(word);
            key_before = is_volatile_key(word) && is_assigned(after);
        }
    }
    out
}

/// A value ends where the next field, string or line may begin.
fn value_len(text: &str) -> usize {
    text.find(['"', '\'', ',', ';', ' ', '\t', '\r', '\n', '}', ')', ']']).unwrap_or(text.len())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A word goes on over `-`, `.` and `:` when another word character follows (uuids, decimals, timestamps).
fn word_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut len = 0;
    let mut digits_only_joins = true;
    for (at, c) in text.char_indices() {
        let joins = matches!(c, '-' | '.' | ':' | '+')
            && digits_only_joins
            && bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric);
        if !is_word(c) && !joins {
            break;
        }
        // Joining is for hex and digits only: `foo.bar` and `a:b` are separate words.
        digits_only_joins &= c.is_ascii_hexdigit() || matches!(c, '-' | '.' | ':' | '+' | 'T' | 'Z' | 't' | 'z');
        len = at + c.len_utf8();
    }
    len
}

/// Where the text goes on if `word` is an id, a timestamp or a duration.
fn volatile_tail<'a>(word: &str, after: &'a str) -> Option<&'a str> {
    if !word.bytes().any(|b| b.is_ascii_digit()) {
        return None;
    }
    if is_id(word) || is_timestamp(word) || is_duration(word) {
        return Some(after);
    }
    // `1.2 seconds`: the unit is the next word.
    let unit = after.strip_prefix(' ')?;
    let len = word_len(unit);
    (is_number(word) && DURATION_UNITS.contains(&&unit[..len])).then(|| &unit[len..])
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
    b.len() >= 10 && b[4] == b'-' && b[7] == b'-' && digits(0..4) && digits(5..7) && digits(8..10)
        && (b.len() == 10 || matches!(b[10], b'T' | b't'))
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// `12ms`, `0.35s`.
fn is_duration(word: &str) -> bool {
    let unit_at = word.find(|c: char| !c.is_ascii_digit() && c != '.');
    unit_at.is_some_and(|at| at > 0 && DURATION_UNITS.contains(&&word[at..]))
}

fn is_volatile_key(word: &str) -> bool {
    let plain = |w: &str| -> String { w.chars().filter(|c| *c != '_' && *c != '-').flat_map(char::to_lowercase).collect() };
    // The longest key has 12 letters; anything much longer is no key.
    word.len() <= 16 && VOLATILE_KEYS.contains(&plain(word).as_str())
}

/// What follows a key: `":`, `:` or `=`.
fn is_assigned(after: &str) -> bool {
    let after = after.strip_prefix(['"', '\'']).unwrap_or(after);
    after.starts_with([':', '='])
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
        same(r#"{"ok": true, "messageId": "91827364", "ts": 1700000000}"#, r#"{"ok": true, "messageId": "91835283", "ts": 1700000031}"#);
        same("sent, message_id=xyz-1\nok", "sent, message_id=wvu-2\nok");
        same("done in 1.25s", "done in 0.8s");
        same("took 12 ms", "took 9 ms");
        same("at 2024-01-15T10:30:00Z: refused", "at 2024-01-15T10:31:07.123Z: refused");
        same("run 550e8400-e29b-41d4-a716-446655440000 failed", "run 00000000-e29b-41d4-a716-44665544000a failed");
    }

    #[test]
    fn fp_4_what_counts_stays() {
        differ(r#"{"status": "in_progress", "done": 1}"#, r#"{"status": "in_progress", "done": 2}"#);
        differ("3 passed, 2 failed", "4 passed, 1 failed");
        differ("page 1 of 15", "page 2 of 15");
        differ("id: x\nstatus: open", "id: x\nstatus: closed");
        differ("identify 12", "identify 13");
    }

    #[test]
    fn fp_4_unicode_and_empty_results_are_fine() {
        assert_eq!(strip(""), "");
        assert_eq!(strip("größe: 5 µm — ok"), "größe: 5 µm — ok");
        assert_eq!(strip("µ12µs"), "µ12µs");
    }
}
