//! JSON, string by string: escapes are taken off before secrets are looked for, and everything else stays as it is written.

use std::borrow::Cow;

use estop_core::steps;

use super::rules::{is_no_secret, is_secret_name};
use super::{Masked, Masker, scan};

/// Masks JSON, or what begins like it.
pub(super) fn mask<'t>(masker: &Masker, text: &'t str, level: usize) -> Cow<'t, str> {
    let bytes = text.as_bytes();
    let mut masked = Masked::new(text);
    let (mut at, mut name) = (0, Name::Plain);
    while at < bytes.len() {
        if bytes[at] == b'"' {
            let Some(end) = end_of_string(bytes, at) else { break };
            let literal = &text[at..end];
            let said = decode(literal);
            let is_name = follows_colon(bytes, end);
            let mark = if name == Name::Secret
                && !is_name
                && !is_no_secret(&said)
                && !said.starts_with("[masked:")
            {
                Some(masker.mark("value", &said))
            } else {
                match masker.inside(&said, level + 1) {
                    Cow::Owned(masked) => Some(masked),
                    Cow::Borrowed(_) => None,
                }
            };
            if let Some(mark) = mark {
                masked.replace(at, end, &encode(&mark));
            }
            name = if is_name && is_secret_name(&said) { Name::Secret } else { name.after(is_name) };
            at = end;
            continue;
        }
        let end =
            steps::found(memchr_quote(&bytes[at..]), bytes.len() - at).map_or(bytes.len(), |len| at + len);
        let between = &text[at..end];
        let value = between.trim_start_matches([':', ' ', '\n', '\t', '\r']);
        let number = value.split([',', '}', ']', ' ', '\n']).next().unwrap_or_default();
        if name == Name::Secret
            && number.bytes().next().is_some_and(|byte| byte.is_ascii_digit() || byte == b'-')
        {
            let from = at + between.len() - value.len();
            masked.replace(from, from + number.len(), &encode(&masker.mark("value", number)));
            name = Name::Plain;
        } else {
            scan::mask_part(masker, &mut masked, at, end);
        }
        if between.contains([',', '}']) {
            name = Name::Plain;
        }
        if scan::ends_with_secret_name(between) {
            name = Name::Secret;
        }
        at = end;
    }
    // A string that does not end: it is no JSON from here on.
    scan::mask_part(masker, &mut masked, at, bytes.len());
    masked.finish()
}

/// The name that the next value is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Name {
    Plain,
    Secret,
}

impl Name {
    /// After a string: values in a list under a secret's name are secrets, too.
    fn after(self, is_name: bool) -> Name {
        if is_name { Name::Plain } else { self }
    }
}

fn memchr_quote(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'"')
}

/// Where the string that begins at `at` is over.
fn end_of_string(bytes: &[u8], at: usize) -> Option<usize> {
    let mut end = at + 1;
    loop {
        steps::add(1);
        match bytes.get(end)? {
            b'"' => return Some(end + 1),
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
}

fn follows_colon(bytes: &[u8], end: usize) -> bool {
    // White space of some length is no JSON that anybody writes; looked at in full, it would be looked at twice.
    bytes[end..].iter().take(16).find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
}

/// What a literal says; as it is written where it is none.
fn decode(literal: &str) -> Cow<'_, str> {
    steps::add(literal.len());
    let inner = literal.get(1..literal.len() - 1).unwrap_or_default();
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    serde_json::from_str::<String>(literal).map_or(Cow::Borrowed(inner), Cow::Owned)
}

fn encode(text: &str) -> String {
    steps::add(text.len());
    serde_json::to_string(text).unwrap_or_default()
}
