//! From a byte of a document to the path of what stands there, as people write it: `messages[3].content`.
//!
//! Only errors are told, so only errors pay for it: reading itself keeps no path.

use super::skip;

/// The path of the key or value that starts at `target`. What comes after `target` may be broken.
pub(super) fn path(document: &str, target: usize) -> String {
    let bytes = document.as_bytes();
    let mut path = String::new();
    let mut at = skip::white_space(bytes, 0);
    while at < target {
        let inside = match bytes.get(at) {
            Some(b'{') => into_object(document, at, target, &mut path),
            Some(b'[') => into_list(bytes, at, target, &mut path),
            Some(_) | None => None,
        };
        let Some(inside) = inside else { break };
        at = inside;
    }
    path
}

/// Adds the key around `target`, and gives the start of its value, unless `target` is the key itself.
fn into_object(document: &str, at: usize, target: usize, path: &mut String) -> Option<usize> {
    let bytes = document.as_bytes();
    let mut at = skip::white_space(bytes, at + 1);
    loop {
        let key_end = skip::string(bytes, at).ok()?.at;
        let key = document.get(at + 1..key_end - 1)?;
        let value = skip::colon(bytes, key_end).ok()?;
        let end = end_of(bytes, value);
        if target < end {
            if !path.is_empty() {
                path.push('.');
            }
            push_key(key, path);
            return (target >= value).then_some(value);
        }
        at = next(bytes, end)?;
    }
}

/// Adds the index around `target`, and gives the start of that element.
fn into_list(bytes: &[u8], at: usize, target: usize, path: &mut String) -> Option<usize> {
    let mut at = skip::white_space(bytes, at + 1);
    for index in 0.. {
        let end = end_of(bytes, at);
        if target < end {
            path.push_str(&format!("[{index}]"));
            return Some(at);
        }
        at = next(bytes, end)?;
    }
    None
}

/// Where a value ends; one that is broken holds all that follows.
fn end_of(bytes: &[u8], at: usize) -> usize {
    skip::value(bytes, at, 0).map_or(usize::MAX, |end| end.at)
}

/// The start of what follows the comma after `end`.
fn next(bytes: &[u8], end: usize) -> Option<usize> {
    let comma = skip::white_space(bytes, end);
    (bytes.get(comma) == Some(&b',')).then(|| skip::white_space(bytes, comma + 1))
}

/// A client may call a key whatever it likes, at any length: an error shows its first characters, made safe to print.
fn push_key(key: &str, path: &mut String) {
    const KEY_CHARS_MAX: usize = 40;
    path.extend(key.chars().take(KEY_CHARS_MAX).flat_map(char::escape_default));
    if key.chars().nth(KEY_CHARS_MAX).is_some() {
        path.push('…');
    }
}
