//! JSON, string by string: escapes are taken off before secrets are looked for, and everything else stays as it is written.

use std::borrow::Cow;

use estop_core::steps;

use super::commands::{TakesSecret, options_of, secret_of_option, takes_next};
use super::rules::{is_no_secret, is_secret_name};
use super::{Masked, Masker, is_mark, scan};

/// Masks JSON, or what begins like it.
pub(super) fn mask<'t>(masker: &Masker, text: &'t str, level: usize) -> Cow<'t, str> {
    let bytes = text.as_bytes();
    let mut masked = Masked::new(text);
    let (mut at, mut name, mut pair, mut listed) = (0, Name::Plain, Pair::None, Listed::default());
    while at < bytes.len() {
        if bytes[at] == b'"' {
            let Some(end) = end_of_string(bytes, at) else { break };
            let literal = &text[at..end];
            let said = decode(literal);
            let is_name = follows_colon(bytes, end);
            let is_value = !is_name && !is_no_secret(&said) && !is_mark(&said);
            let of_list = if is_name { None } else { listed.secret_in(&said) };
            let mark = match of_list {
                _ if is_value && name == Name::Secret => Some(masker.mark("value", &said)),
                Some(from) if is_value => {
                    Some(said[..from].to_owned() + &masker.mark("value", &said[from..]))
                }
                Some(_) | None => match masker.inside(&said, level + 1) {
                    Cow::Owned(masked) => Some(masked),
                    Cow::Borrowed(_) => None,
                },
            };
            if let Some(mark) = mark {
                masked.replace(at, end, &encode(&mark));
            }
            let is_secret =
                is_name && (is_secret_name(&said) || pair == Pair::Named && said.as_ref() == "value");
            name = if is_secret { Name::Secret } else { name.after(is_name) };
            pair = pair.after(&said, is_name);
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
            mask_part(masker, &mut masked, (at, end), level);
        }
        // The next value of a list is under the same name; the next name may stand without quotes.
        let own = between.trim_start().strip_prefix(':').unwrap_or(between);
        if own.contains(['}', ']', ':']) {
            name = Name::Plain;
        }
        if between.contains('}') {
            pair = Pair::None;
        }
        if between.contains(['}', ']']) {
            listed = Listed::default();
        }
        if scan::ends_with_secret_name(between) {
            name = Name::Secret;
        }
        at = end;
    }
    // A string that does not end: it is no JSON from here on, or it was cut off.
    match bytes.get(at + 1..) {
        Some(rest) if name == Name::Secret && !rest.is_empty() => {
            masked.replace(at + 1, bytes.len(), &masker.mark("value", &text[at + 1..]));
        }
        Some(_) | None => mask_part(masker, &mut masked, (at, bytes.len()), level),
    }
    masked.finish()
}

/// What is no string.
fn mask_part(masker: &Masker, masked: &mut Masked<'_>, (from, to): (usize, usize), level: usize) {
    if let Some(Cow::Owned(part)) = masked.text.get(from..to).map(|part| scan::mask(masker, part, level)) {
        masked.replace(from, to, &part);
    }
}

/// An object that gives a secret's name and its value apart: `{"name": "DB_PASSWORD", "value": "…"}`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pair {
    None,
    /// The next value is a name.
    Name,
    /// It was a secret's.
    Named,
}

impl Pair {
    fn after(self, said: &str, is_name: bool) -> Pair {
        match self {
            _ if is_name && matches!(said, "name" | "key") => Pair::Name,
            Pair::Name if !is_name && is_secret_name(said) => Pair::Named,
            Pair::Name => Pair::None,
            Pair::None | Pair::Named => self,
        }
    }
}

/// What values in a list are together: the arguments of a command, the lines of a private key.
#[derive(Default)]
struct Listed {
    options: Option<&'static [TakesSecret]>,
    /// The option before takes this argument as its secret.
    is_of_option: bool,
    is_in_key: bool,
}

impl Listed {
    /// Where in this value a secret begins that only those before it tell.
    fn secret_in(&mut self, said: &str) -> Option<usize> {
        steps::add(said.len());
        let is_line_of_key = self.is_in_key
            && said.trim().bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
        let was_of_option = self.is_of_option && !said.starts_with('-');
        let attached = self.options.filter(|_| said.starts_with('-')).and_then(|options| {
            let end = said.find(['=', ':', '\'', '"', ' ']).unwrap_or(said.len());
            secret_of_option(said, 0, end, options)
        });
        if said.contains("-----END") {
            self.is_in_key = false;
        } else if said.contains("-----BEGIN") {
            self.is_in_key = said.contains("PRIVATE KEY");
        }
        let program = said.rsplit('/').next().unwrap_or(said);
        self.options = options_of(program).or(self.options);
        self.is_of_option = self.options.is_some_and(|options| takes_next(said, options))
            || said.starts_with('-') && is_secret_name(said.trim_start_matches('-'));
        if was_of_option || is_line_of_key { Some(0) } else { attached.map(|found| found.from) }
    }
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
