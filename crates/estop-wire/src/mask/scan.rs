//! One pass over a text: word by word, each looked at once, with what is assigned to it.

use std::borrow::Cow;

use estop_core::steps;

use super::rules::{
    is_bearer, is_capitals, is_email, is_jwt, is_key, is_no_secret, is_path, is_plain_value, is_secret_name,
};
use super::{Masked, Masker};

/// Spaces and quotes that may stand around a separator.
const AROUND_MAX: usize = 16;

/// Masks a text.
pub(super) fn mask<'t>(masker: &Masker, text: &'t str) -> Cow<'t, str> {
    let mut masked = Masked::new(text);
    mask_part(masker, &mut masked, 0, text.len());
    masked.finish()
}

/// Masks the part of a text from `from` to `to`.
pub(super) fn mask_part(masker: &Masker, masked: &mut Masked<'_>, from: usize, to: usize) {
    let Some(part) = masked.text.get(..to) else { return };
    let bytes = part.as_bytes();
    let mut at = from;
    while at < to {
        steps::add(1);
        if !is_word(bytes[at]) {
            at += 1 + usize::from(
                bytes[at] == b'\\' && bytes.get(at + 1).is_some_and(|next| b"nrt".contains(next)),
            );
            continue;
        }
        let end = run(bytes, at, is_word);
        let found = private_key(part, at, end).or_else(|| look(part, at, end));
        match found {
            Some(Found { kind, from, to }) => {
                let mark = masker.mark(kind, &part[from..to]);
                masked.replace(from, to, &mark);
                at = to;
            }
            None => at = end,
        }
    }
}

/// A secret, and where it stands.
struct Found {
    kind: &'static str,
    from: usize,
    to: usize,
}

/// What words are made of, names and most secrets among them.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.@+%".contains(&byte)
}

/// Where a run of such bytes ends.
fn run(bytes: &[u8], from: usize, is_in: impl Fn(u8) -> bool) -> usize {
    let len = bytes[from..].iter().position(|byte| !is_in(*byte));
    from + steps::found(len, bytes.len() - from).unwrap_or(bytes.len() - from)
}

const BEGIN: &str = "-----BEGIN";

/// `-----BEGIN … PRIVATE KEY-----` and all up to its end, or up to the end of the text.
fn private_key(text: &str, at: usize, end: usize) -> Option<Found> {
    let is_ssh2 = text[at..end].ends_with("----") && text[end..].starts_with(" BEGIN ");
    // A diff or a colour may stand before it.
    if !is_ssh2 && !text[at..end].ends_with(BEGIN) {
        return None;
    }
    let at = end - if is_ssh2 { "----".len() } else { BEGIN.len() };
    let label = text.as_bytes()[end..].iter().take(64).position(|byte| *byte == b'-')?;
    let label = text[end..end + label].trim_end();
    if !label.ends_with("PRIVATE KEY") && !label.ends_with("PRIVATE KEY BLOCK") {
        return None;
    }
    let rest = &text[end..];
    let closing = if is_ssh2 { "---- END" } else { "-----END" };
    let last = steps::found(rest.find(closing), rest.len());
    let to = match last {
        Some(last) => {
            let after = end + last + closing.len();
            let line = text.as_bytes()[after..].iter().take(64);
            after + line.take_while(|byte| !b"\n\\\"".contains(byte)).count()
        }
        None => text.len(),
    };
    Some(Found { kind: "private_key", from: at, to: text.ceil_char_boundary(to) })
}

/// Whether this word is a secret, or says that one follows.
fn look(text: &str, at: usize, end: usize) -> Option<Found> {
    let at = at + end_of_colour(&text[..at], &text[at..end]);
    let word = &text[at..end];
    steps::add(word.len());
    if let Some(from) = key_within(word) {
        return Some(Found { kind: "key", from: at + from, to: end });
    }
    if is_email(word) && !text[end..].starts_with("://") {
        // A password may stand before it, in a URL.
        return Some(Found { kind: "email", from: at, to: end });
    }
    let trimmed = word.trim_matches(['-', '.', '@', '+', '%']);
    if trimmed.eq_ignore_ascii_case("bearer") {
        return bearer(text, end);
    }
    let found = user_of_url(text, end).or_else(|| assigned(text, at, end, trimmed));
    found.or_else(|| webhook(text, word, end)).or_else(|| said_after(text, trimmed, end))
}

/// Where a value ends that stands alone.
fn end_of_value(text: &str, from: usize) -> usize {
    run(text.as_bytes(), from, |byte| !byte.is_ascii_whitespace() && !b"\"'`<>\\".contains(&byte))
}

/// The path of an incoming webhook: whoever knows it may write there.
fn webhook(text: &str, host: &str, end: usize) -> Option<Found> {
    let path = match host {
        "hooks.slack.com" => "/services/",
        "discord.com" | "discordapp.com" => "/api/webhooks/",
        _ => return None,
    };
    let from = end + text[end..].starts_with(path).then_some(path.len())?;
    let to = end_of_value(text, from);
    (to > from).then_some(Found { kind: "webhook", from, to })
}

/// `login me password x7Kq` of netrc files, `sshpass -p x7Kq`.
fn said_after(text: &str, word: &str, end: usize) -> Option<Found> {
    let is_sshpass = word == "sshpass" && text[end..].starts_with(" -p");
    let after = if is_sshpass { end + " -p".len() } else { end };
    let from = after + spaces(&text.as_bytes()[after..]);
    if !is_sshpass && (word != "password" || from == after) {
        return None;
    }
    let to = end_of_value(text, from);
    let value = text.get(from..to)?;
    let is_mixed = value.bytes().any(|byte| byte.is_ascii_digit())
        && value.bytes().any(|byte| byte.is_ascii_alphabetic())
        && value.len() >= 8;
    let is_secret = if is_sshpass { !value.is_empty() } else { is_mixed };
    (is_secret && !value.starts_with("[masked:")).then_some(Found { kind: "value", from, to })
}

/// Where a key or a JWT begins in a word, at a border.
fn key_within(word: &str) -> Option<usize> {
    let bytes = word.as_bytes();
    let is_border =
        |at: usize| at == 0 || !bytes[at - 1].is_ascii_alphanumeric() || ends_with_escape(&bytes[..at]);
    // Looked for once, and not after each prefix: a word may be made of prefixes.
    let last_digit = bytes.iter().rposition(u8::is_ascii_digit);
    (0..bytes.len()).filter(|at| is_border(*at)).find(|at| {
        steps::add(1);
        let rest = &word[*at..];
        is_jwt(rest) || is_key(rest, last_digit > Some(*at))
    })
}

/// How much of a word is the end of a terminal's colour before it: `ESC[31mword`.
fn end_of_colour(before: &str, word: &str) -> usize {
    let digits = word.bytes().take(4).take_while(u8::is_ascii_digit).count();
    let is_colour = before.ends_with(['[', ';']) && matches!(word.as_bytes().get(digits), Some(b'm' | b'K'));
    if is_colour { digits + 1 } else { 0 }
}

/// The length of a terminal's colour.
fn colour(bytes: &[u8]) -> usize {
    if !bytes.starts_with(b"\x1b[") {
        return 0;
    }
    bytes.iter().take(AROUND_MAX).position(u8::is_ascii_alphabetic).map_or(0, |at| at + 1)
}

/// Whether a byte that is written as `%22`, `\x22` or `\u0022` stands before.
fn ends_with_escape(before: &[u8]) -> bool {
    let is_hex = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
    match before {
        [.., b'%', a, b] | [b'x', a, b] => is_hex(&[*a, *b]),
        [b'u', digits @ ..] if digits.len() == 4 => is_hex(digits),
        _ => false,
    }
}

fn bearer(text: &str, end: usize) -> Option<Found> {
    let mut from = end + spaces(&text.as_bytes()[end..]);
    if from > end {
        from += colour(&text.as_bytes()[from..]);
    }
    let is_in = |byte: u8| byte.is_ascii_alphanumeric() || b"._~+/=-".contains(&byte);
    let to = run(text.as_bytes(), from, is_in);
    (from > end && is_bearer(&text[from..to])).then_some(Found { kind: "bearer", from, to })
}

fn spaces(bytes: &[u8]) -> usize {
    bytes.iter().take(AROUND_MAX).take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

fn quotes(bytes: &[u8]) -> usize {
    bytes.iter().take(4).take_while(|byte| b"\\\"'`".contains(byte)).count()
}

/// `scheme://user:password@host`: user and password.
fn user_of_url(text: &str, end: usize) -> Option<Found> {
    let rest = text[end..].strip_prefix("://")?;
    let from = end + 3;
    let ends = |byte: u8| byte.is_ascii_whitespace() || b"/?#\"'`<>\\".contains(&byte);
    let to = run(text.as_bytes(), from, |byte| !ends(byte));
    let authority = rest.get(..to - from)?;
    let at_sign = authority.rfind('@')?;
    (at_sign > 0 && !authority.starts_with("[masked:")).then_some(Found {
        kind: "user",
        from,
        to: from + at_sign,
    })
}

/// `KEY=value`, `"password": "value"`, `--token value`: the value.
fn assigned(text: &str, at: usize, end: usize, name: &str) -> Option<Found> {
    let (is_secret, is_variable) = (is_secret_name(name), is_capitals(name));
    if !is_secret && !is_variable {
        return None;
    }
    let is_option = text[at..].starts_with("--");
    let is_element = text[..at].ends_with('<');
    let (from, separator) = value_after(text.as_bytes(), end, is_option, is_element)?;
    let rest = &text[from..];
    // A comparison in code says nothing of the value, unless it is written there.
    let is_compared = text[end..from].contains("==") && !text[..from].ends_with(['"', '\'']);
    let is_skipped = !is_secret && (separator != b'=' || is_path(rest));
    // What is kept must be short, or be known by its beginning: it is looked at again.
    if is_skipped || is_compared || rest.starts_with("[masked:") {
        return None;
    }
    let quote = text.as_bytes()[..from].last().copied().filter(|byte| b"\"'`".contains(byte));
    let is_header = name.len() <= 32 && {
        let name = name.to_ascii_lowercase();
        name.ends_with("authorization") || name.ends_with("cookie")
    };
    let ends = |byte: u8| match quote {
        Some(quote) => byte == quote || byte == b'\n',
        None if is_header => b"\n\"'`\\".contains(&byte),
        None => byte.is_ascii_whitespace() || b",;&\"'`<>)}]|\\".contains(&byte),
    };
    let to = run(text.as_bytes(), from, |byte| !ends(byte));
    // Inside a quoted text a quote is written with a backslash before it.
    let value = text.get(from..to)?.trim_end_matches('\\');
    // A list, whose values come, or the first word of a private key.
    if value == "[" || value.contains(BEGIN) {
        return None;
    }
    let to = from + value.len();
    let is_kept =
        if is_secret { is_no_secret(value) || is_count(name, value) } else { is_plain_value(value) };
    (!is_kept).then_some(Found { kind: "value", from, to })
}

/// `max_tokens: 4096` is no secret, `pin: 4096` is one.
fn is_count(name: &str, value: &str) -> bool {
    let is_number = value.len() <= 12 && value.bytes().all(|byte| byte.is_ascii_digit());
    is_number && name.to_ascii_lowercase().ends_with("token")
}

/// Where the value begins that is assigned to a name, and by what.
fn value_after(bytes: &[u8], end: usize, is_option: bool, is_element: bool) -> Option<(usize, u8)> {
    let end = end + colour(&bytes[end..]);
    if is_element && bytes.get(end) == Some(&b'>') {
        return Some((end + 1, b'>'));
    }
    let mut at = end + quotes(&bytes[end..]);
    let gap = spaces(&bytes[at..]);
    let separator = match bytes.get(at + gap) {
        Some(byte @ (b'=' | b':')) => *byte,
        Some(_) if is_option && gap > 0 => b' ',
        Some(_) | None => return None,
    };
    at += gap;
    if separator != b' ' {
        at += bytes[at..].iter().take(2).take_while(|byte| b"=:>".contains(byte)).count();
        at += spaces(&bytes[at..]);
        at += colour(&bytes[at..]);
    }
    Some((at + quotes(&bytes[at..]), separator))
}

/// Whether a text ends with a secret's name and a separator: `password: `.
pub(super) fn ends_with_secret_name(text: &str) -> bool {
    let tail = text.trim_end_matches([' ', '\t', '[']);
    let Some(name) = tail.strip_suffix([':', '=']) else { return false };
    let name = name.trim_end_matches([' ', '\t', '=', ':']);
    let letters = name.bytes().rev().take(128).take_while(|byte| is_word(*byte)).count();
    steps::add(letters);
    is_secret_name(&name[name.len() - letters..])
}
