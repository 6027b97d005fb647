//! One pass over a text: word by word, each looked at once, with what is assigned to it.

use std::borrow::Cow;

use estop_core::steps;

use super::base64::Base64;
use super::commands::{self, TakesSecret};
use super::lines::{line_end, pgpass, value_below};
use super::rules::{
    is_bearer, is_capitals, is_email, is_jwt, is_key, is_no_secret, is_of_hash, is_path, is_plain_value,
    is_secret_name, is_signature, is_signature_name,
};
use super::view::View;
use super::{Found, Masked, Masker, is_mark, shapes};

/// Spaces and quotes that may stand around a separator.
const AROUND_MAX: usize = 16;

/// Masks a text: first as a person reads it, then as it is written.
pub(super) fn mask<'t>(masker: &Masker, text: &'t str, level: usize) -> Cow<'t, str> {
    let Some(view) = View::of(text) else { return Scan::new(masker, text, level).masked() };
    let mut masked = Masked::new(text);
    for found in Scan::new(masker, &view.text, level).secrets() {
        let (from, to) = view.in_text(found.from, found.to);
        masked.replace(from, to, &masker.mark(found.kind, &view.text[found.from..found.to]));
    }
    match masked.finish() {
        Cow::Borrowed(_) => Scan::new(masker, text, level).masked(),
        Cow::Owned(masked) => Cow::Owned(Scan::new(masker, &masked, level).masked().into_owned()),
    }
}

/// One pass over a text.
struct Scan<'a, 't> {
    masker: &'a Masker,
    text: &'t str,
    level: usize,
    base64: Base64,
    /// The command whose options are read.
    options: Option<&'static [TakesSecret]>,
    /// A secret's name was given as `name: DB_PASSWORD`: its value comes as `value: …`.
    is_named: bool,
}

impl<'a, 't> Scan<'a, 't> {
    fn new(masker: &'a Masker, text: &'t str, level: usize) -> Scan<'a, 't> {
        Scan { masker, text, level, base64: Base64::default(), options: None, is_named: false }
    }

    fn masked(self) -> Cow<'t, str> {
        let (masker, mut masked) = (self.masker, Masked::new(self.text));
        for Found { kind, from, to } in self.secrets() {
            masked.replace(from, to, &masker.mark(kind, &masked.text[from..to]));
        }
        masked.finish()
    }

    /// In the order in which they stand; none overlaps another.
    fn secrets(mut self) -> Vec<Found> {
        let bytes = self.text.as_bytes();
        let (mut found, mut at, mut found_to) = (Vec::new(), 0, 0);
        let mut is_line_begin = true;
        while at < bytes.len() {
            steps::add(1);
            if std::mem::take(&mut is_line_begin)
                && let Some((from, to)) = pgpass(self.text, at)
            {
                found.push(Found { kind: "value", from, to });
                (at, found_to) = (to, to);
                continue;
            }
            if !is_word(bytes[at]) {
                let newline = line_end(&bytes[at..]);
                is_line_begin = newline > 0;
                let is_continued = at > 0 && bytes[at - 1] == b'\\';
                if is_line_begin && !is_continued || b";|&".contains(&bytes[at]) {
                    self.options = None;
                }
                let is_escape =
                    bytes[at] == b'\\' && bytes.get(at + 1).is_some_and(|next| b"nrt".contains(next));
                at += newline.max(1 + usize::from(is_escape));
                continue;
            }
            let end = run(bytes, at, is_word);
            match self.secret_at(at, end) {
                Some(secret) if secret.to > found_to => {
                    at = secret.to;
                    found_to = at;
                    // What was passed already and is found to be a part of it.
                    let from = secret.from.max(found.last().map_or(0, |last: &Found| last.to));
                    found.push(Found { from, ..secret });
                }
                Some(_) | None => at = end,
            }
        }
        found
    }

    /// The secret that begins with a word, or that the word says is there.
    fn secret_at(&mut self, at: usize, end: usize) -> Option<Found> {
        let text = self.text;
        private_key(text, at, end)
            .or_else(|| self.base64.look(self.masker, text, (at, end), self.level))
            .or_else(|| shapes::find(text, at))
            .or_else(|| self.of_command(at, end))
            .or_else(|| self.of_pair(at, end))
            .or_else(|| look(text, at, end))
    }

    fn of_command(&mut self, at: usize, end: usize) -> Option<Found> {
        let word = &self.text[at..end];
        if let Some(options) = commands::options_of(word) {
            self.options = Some(options);
        }
        let options = self.options.filter(|_| word.starts_with('-'))?;
        let found = commands::secret_of_option(self.text, at, end, options)?;
        // What `sshpass` starts has options of its own.
        self.options = None;
        Some(found)
    }
}

impl Scan<'_, '_> {
    /// `name: DB_PASSWORD` and `value: …` below or beside it, as Kubernetes and others write variables.
    fn of_pair(&mut self, at: usize, end: usize) -> Option<Found> {
        let word = &self.text[at..end];
        if !matches!(word, "name" | "key" | "value") {
            return None;
        }
        let (from, _) = value_after(self.text.as_bytes(), end, false, false)?;
        let to = end_of_value(self.text, from, quote_before(self.text, from));
        let value = self.text.get(from..to)?;
        let was_named = std::mem::replace(&mut self.is_named, word != "value" && is_secret_name(value));
        let is_secret = was_named && word == "value" && !is_no_secret(value) && !is_mark(value);
        is_secret.then_some(Found { kind: "value", from, to })
    }
}

/// What words are made of, names and most secrets among them.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.@+%".contains(&byte)
}

/// Where a run of such bytes ends.
pub(super) fn run(bytes: &[u8], from: usize, is_in: impl Fn(u8) -> bool) -> usize {
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

/// Where a value ends that stands alone, or in quotes.
pub(super) fn end_of_value(text: &str, from: usize, quote: Option<u8>) -> usize {
    run(text.as_bytes(), from, |byte| match quote {
        Some(quote) => byte != quote && byte != b'\n',
        None => !byte.is_ascii_whitespace() && !b"\"'`<>\\".contains(&byte),
    })
}

/// The quote that a value begins with.
pub(super) fn quote_before(text: &str, from: usize) -> Option<u8> {
    text.as_bytes()[..from].last().copied().filter(|byte| b"\"'`".contains(byte))
}

/// The path of an incoming webhook: whoever knows it may write there.
fn webhook(text: &str, host: &str, end: usize) -> Option<Found> {
    let path = match host {
        "hooks.slack.com" => "/services/",
        "discord.com" | "discordapp.com" => "/api/webhooks/",
        _ => return None,
    };
    let from = end + text[end..].starts_with(path).then_some(path.len())?;
    let to = end_of_value(text, from, None);
    (to > from).then_some(Found { kind: "webhook", from, to })
}

/// `login me password x7Kq` of netrc files, `PASSWORD 'x'` and `IDENTIFIED BY 'x'` of SQL.
fn said_after(text: &str, word: &str, end: usize) -> Option<Found> {
    let from = end + spaces(&text.as_bytes()[end..]);
    let before = text[..end - word.len()].trim_end_matches(' ');
    let is_identified = word.eq_ignore_ascii_case("by") && {
        let from = before.len().saturating_sub("identified".len());
        before.get(from..).is_some_and(|before| before.eq_ignore_ascii_case("identified"))
    };
    if !is_identified && !word.eq_ignore_ascii_case("password") || from == end {
        return None;
    }
    if text[from..].starts_with('\'') {
        let to = end_of_value(text, from + 1, Some(b'\''));
        let value = text.get(from + 1..to)?;
        return (!value.is_empty() && !is_mark(value)).then_some(Found { kind: "value", from: from + 1, to });
    }
    if word != "password" {
        return None;
    }
    let to = end_of_value(text, from, None);
    let value = text.get(from..to)?;
    let is_mixed = value.bytes().any(|byte| byte.is_ascii_digit())
        && value.bytes().any(|byte| byte.is_ascii_alphabetic())
        && value.len() >= 8;
    (is_mixed && !is_mark(value)).then_some(Found { kind: "value", from, to })
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
    let from = end + spaces(&text.as_bytes()[end..]);
    let is_in = |byte: u8| byte.is_ascii_alphanumeric() || b"._~+/=-".contains(&byte);
    let to = run(text.as_bytes(), from, is_in);
    (from > end && is_bearer(&text[from..to])).then_some(Found { kind: "bearer", from, to })
}

pub(super) fn spaces(bytes: &[u8]) -> usize {
    bytes.iter().take(AROUND_MAX).take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

pub(super) fn quotes(bytes: &[u8]) -> usize {
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
    (at_sign > 0 && !is_mark(authority)).then_some(Found { kind: "user", from, to: from + at_sign })
}

/// `KEY=value`, `"password": "value"`, `--token value`: the value.
fn assigned(text: &str, at: usize, end: usize, name: &str) -> Option<Found> {
    let (is_secret, is_variable) = (is_secret_name(name), is_capitals(name));
    let is_of_signature = is_signature_name(name);
    if !is_secret && !is_variable && !is_of_signature {
        return None;
    }
    let is_option = text[at..].starts_with('-');
    let is_element = text[..at].ends_with('<');
    let (from, separator) = value_after(text.as_bytes(), end, is_option, is_element)?;
    let rest = &text[from..];
    // A comparison in code says nothing of the value, unless it is written there.
    let is_compared = text[end..from].contains("==") && !text[..from].ends_with(['"', '\'']);
    let is_skipped = !is_secret && !is_of_signature && (separator != b'=' || is_path(rest));
    // What is kept must be short, or be known by its beginning: it is looked at again.
    if is_skipped || is_compared || is_mark(rest) {
        return None;
    }
    if is_secret
        && separator == b':'
        && let Some((from, to)) = value_below(text, at, from)
    {
        return Some(Found { kind: "value", from, to });
    }
    let quote = quote_before(text, from);
    let is_header = name.len() <= 32 && {
        let name = name.to_ascii_lowercase();
        name.ends_with("authorization") || name.ends_with("cookie")
    };
    let is_long = text[..from].ends_with("\"\"\"") || text[..from].ends_with("'''");
    let ends = |byte: u8| match quote {
        _ if is_of_signature && !is_secret => !is_of_hash(byte),
        Some(quote) => byte == quote || byte == b'\n' && !is_long,
        None if is_header => b"\n\"'`\\".contains(&byte),
        None => byte.is_ascii_whitespace() || b",;&\"'`<>)}]|\\".contains(&byte),
    };
    let to = run(text.as_bytes(), from, |byte| !ends(byte));
    // Inside a quoted text a quote is written with a backslash before it.
    let value = text.get(from..to)?.trim_end_matches('\\');
    // The first word of a private key.
    if value.contains(BEGIN) {
        return None;
    }
    if value == "[" {
        return list(text, from + 1);
    }
    let to = from + value.len();
    let is_kept = if is_secret {
        is_no_secret(value) || is_count(name, value)
    } else if is_of_signature {
        !is_signature(value)
    } else {
        is_plain_value(value)
    };
    (!is_kept).then_some(Found { kind: "value", from, to })
}

/// The values of a list under a secret's name, up to its end.
fn list(text: &str, from: usize) -> Option<Found> {
    let to = run(text.as_bytes(), from, |byte| !matches!(byte, b']' | b'\n'));
    let is_of_texts = text.get(from..to)?.trim_start_matches(['\\', ' ']).starts_with(['"', '\'']);
    is_of_texts.then_some(Found { kind: "value", from, to })
}

/// `max_tokens: 4096` is no secret, `pin: 4096` is one.
fn is_count(name: &str, value: &str) -> bool {
    let is_number = value.len() <= 12 && value.bytes().all(|byte| byte.is_ascii_digit());
    is_number && name.to_ascii_lowercase().ends_with("token")
}

/// Where the value begins that is assigned to a name, and by what.
fn value_after(bytes: &[u8], end: usize, is_option: bool, is_element: bool) -> Option<(usize, u8)> {
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
