//! From a byte of a document to the path of what stands there, as people write it: `messages[3].content`.
//!
//! Only errors are told, so only errors pay for it: reading itself keeps no path.

use super::skip;

/// What encloses the place that is looked at.
enum Around<'a> {
    Key(&'a str),
    Index(usize),
}

/// The path of the key or value that starts at `target`. What comes after `target` may be broken.
///
/// One pass up to `target`: nested values are entered, never skipped and then read again, so that a deep document costs no
/// more than a flat one.
pub(super) fn path(document: &str, target: usize) -> String {
    let mut around = Vec::new();
    // `None` where the document is broken: what encloses that place is all that is known.
    let _ = walk(document, target, &mut around);
    let mut path = String::new();
    for part in around {
        match part {
            Around::Key(key) => {
                if !path.is_empty() {
                    path.push('.');
                }
                push_key(key, &mut path);
            }
            Around::Index(index) => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

fn walk<'a>(document: &'a str, target: usize, around: &mut Vec<Around<'a>>) -> Option<()> {
    let bytes = document.as_bytes();
    let mut at = skip::white_space(bytes, 0);
    while at < target {
        let (is_object, closing) = match bytes.get(at)? {
            b'{' => (true, b'}'),
            b'[' => (false, b']'),
            _ => {
                // A text or a number: one that is broken holds all that follows.
                at = skip::value(bytes, at, 0).ok()?.at;
                if target < at {
                    return Some(());
                }
                at = next(document, at, target, around)?;
                continue;
            }
        };
        at = skip::white_space(bytes, at + 1);
        at = match bytes.get(at)? {
            first if *first == closing && target > at => next(document, at + 1, target, around)?,
            _ if is_object => key(document, at, target, around)?,
            _ => {
                around.push(Around::Index(0));
                at
            }
        };
    }
    Some(())
}

/// Adds the key at `at`, and gives the start of its value; `None` if `target` stands before that.
fn key<'a>(document: &'a str, at: usize, target: usize, around: &mut Vec<Around<'a>>) -> Option<usize> {
    let end = skip::string(document.as_bytes(), at).ok()?.at;
    let value = skip::colon(document.as_bytes(), end).ok()?;
    around.push(Around::Key(document.get(at + 1..end - 1)?));
    (target >= value).then_some(value)
}

/// Leaves the value that ends at `at`, and all that end with it; gives the start of the next one.
fn next<'a>(document: &'a str, at: usize, target: usize, around: &mut Vec<Around<'a>>) -> Option<usize> {
    let bytes = document.as_bytes();
    let mut at = at;
    loop {
        at = skip::white_space(bytes, at);
        let left = around.pop()?;
        match (bytes.get(at)?, left) {
            (b',', Around::Key(_)) => {
                return key(document, skip::white_space(bytes, at + 1), target, around);
            }
            (b',', Around::Index(index)) => {
                around.push(Around::Index(index + 1));
                return Some(skip::white_space(bytes, at + 1));
            }
            (b'}', Around::Key(_)) | (b']', Around::Index(_)) if target > at => at += 1,
            _ => return None,
        }
    }
}

/// A client may call a key whatever it likes, at any length: an error shows its first characters, made safe to print.
fn push_key(key: &str, path: &mut String) {
    const KEY_CHARS_MAX: usize = 40;
    path.extend(key.chars().take(KEY_CHARS_MAX).flat_map(char::escape_default));
    if key.chars().nth(KEY_CHARS_MAX).is_some() {
        path.push('…');
    }
}
