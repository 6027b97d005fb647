//! Base64: private keys with or without the lines around them, and texts that have secrets in them.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use estop_core::steps;

use super::lines::{line_end, line_prefix};
use super::scan::run;
use super::{Found, JSON_INSIDE_MAX, Masker};

const DECODER: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A key in base64 has more characters.
const TEXT_MIN: usize = 24;
/// Lines of less than this are not the parts of one text.
const WIDTH_MIN: usize = 60;
/// The lines of PEM, and of OpenSSH's keys.
const KEY_WIDTHS: [usize; 2] = [64, 70];
/// What is looked at to say what a text in base64 is.
const HEAD: usize = 64;
/// Quotes, signs and spaces between two lines.
const GAP_MAX: usize = 160;
const LABEL_MAX: usize = 64;

/// What was seen of base64 in a text so far.
#[derive(Default)]
pub(super) struct Base64 {
    /// Up to where all is known.
    looked_to: usize,
    /// The newest block.
    last: Option<(usize, usize)>,
    /// Between the lines of a certificate or another thing that anybody may know.
    is_public: bool,
    /// The next block is a private key of PuTTY.
    is_putty: bool,
}

impl Base64 {
    /// Whether a secret begins with the word from `at` to `end`.
    pub(super) fn look(
        &mut self,
        masker: &Masker,
        text: &str,
        (at, end): (usize, usize),
        level: usize,
    ) -> Option<Found> {
        let word = &text[at..end];
        if word.ends_with("-----BEGIN") {
            self.is_public = true;
        } else if word.ends_with("-----END") {
            self.is_public = false;
            return self.end_of_key(text, at, end);
        }
        self.is_putty |= word == "Private-Lines";
        if at < self.looked_to {
            return None;
        }
        let block = Block::at(text, at);
        self.looked_to = block.to;
        if block.content.is_empty() {
            return None;
        }
        self.last = Some((block.from, block.to));
        let is_putty = self.is_putty && block.content.len() >= TEXT_MIN;
        let kind = if is_putty || self.is_private_key(&block) {
            "private_key"
        } else if level < JSON_INSIDE_MAX && block.has_secret(masker, level) {
            "base64"
        } else {
            return None;
        };
        self.is_putty = false;
        let padding = text.as_bytes()[block.to..].iter().take(2).take_while(|byte| **byte == b'=').count();
        Some(Found { kind, from: block.from, to: block.to + padding })
    }

    fn is_private_key(&self, block: &Block<'_>) -> bool {
        let is_part_of_key = block.full_lines >= 2
            && KEY_WIDTHS.contains(&block.width)
            && !self.is_public
            && is_mixed(&block.content[..block.width]);
        is_part_of_key || block.content.len() >= 16 && is_private_key(&block.head())
    }

    /// The lines before `-----END … PRIVATE KEY-----`, whose beginning was cut off.
    fn end_of_key(&self, text: &str, at: usize, end: usize) -> Option<Found> {
        let label = text.as_bytes()[end..].iter().take(LABEL_MAX).position(|byte| *byte == b'-')?;
        let (from, to) = self.last?;
        let between = text.as_bytes().get(to..at).filter(|between| between.len() <= GAP_MAX)?;
        let is_one = text[end..end + label].contains("PRIVATE KEY")
            && between.iter().all(|byte| is_between(*byte) || b"=+-nr".contains(byte));
        let dashes = text.as_bytes()[end + label..].iter().take(8).take_while(|byte| **byte == b'-').count();
        is_one.then_some(Found { kind: "private_key", from, to: end + label + dashes })
    }
}

/// Base64 on one line or, of equal lines, on several.
struct Block<'t> {
    from: usize,
    to: usize,
    content: Cow<'t, str>,
    width: usize,
    full_lines: usize,
}

impl<'t> Block<'t> {
    fn at(text: &'t str, at: usize) -> Block<'t> {
        let bytes = text.as_bytes();
        let end = run(bytes, at, is_base64);
        let after_sign = end.saturating_sub(at + 1);
        // Of a diff. Whole lines of base64 have whole groups of four, or the width of OpenSSH's.
        let is_signed = matches!(bytes[at], b'+' | b'-')
            && (after_sign.is_multiple_of(4) || KEY_WIDTHS.contains(&after_sign));
        let from = at + usize::from(is_signed);
        let width = end - from;
        let mut block =
            Block { from, to: end, content: Cow::Borrowed(&text[from..end]), width, full_lines: 1 };
        while block.width >= WIDTH_MIN && block.content.len() == block.width * block.full_lines {
            let Some(next) = next_line(bytes, block.to) else { break };
            if bytes[next..].starts_with(b"--") {
                break;
            }
            let end = run(bytes, next, is_base64);
            let from = next + usize::from(is_signed && matches!(bytes[next], b'+' | b'-'));
            // A short line is the last one. A word alone is none.
            let is_part =
                end - from == width || end - from < width && is_last(&text[from..end], bytes.get(end));
            if from >= end || !is_part {
                // Looked at, and not a part of it: it is looked at once more by itself.
                break;
            }
            block.content.to_mut().push_str(&text[from..end]);
            block.full_lines += usize::from(end - from == width);
            block.to = end;
        }
        block
    }

    fn head(&self) -> Vec<u8> {
        decode(&self.content[..self.content.len().min(HEAD)])
    }

    fn has_secret(&self, masker: &Masker, level: usize) -> bool {
        if self.content.len() < TEXT_MIN || !is_text(&self.head()) {
            return false;
        }
        let decoded = decode(&self.content);
        matches!(masker.inside(&String::from_utf8_lossy(&decoded), level + 1), Cow::Owned(_))
    }
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte)
}

/// Of either alphabet, as far as it goes.
fn decode(content: &str) -> Vec<u8> {
    steps::add(content.len());
    let len = content.len() - usize::from(content.len() % 4 == 1);
    DECODER.decode(content[..len].replace('-', "+").replace('_', "/")).unwrap_or_default()
}

/// Where the next line's base64 begins, if nothing but quotes, signs and spaces is between.
fn next_line(bytes: &[u8], from: usize) -> Option<usize> {
    let (mut at, mut is_next) = (from, false);
    while at < bytes.len() && at - from < GAP_MAX {
        steps::add(1);
        let newline = line_end(&bytes[at..]);
        if newline > 0 {
            is_next = true;
            at += newline;
            let prefix = line_prefix(&bytes[at..]);
            at += if prefix > 1 { prefix } else { 0 };
        } else if is_between(bytes[at])
            || bytes[at] == b'+' && bytes.get(at + 1).is_none_or(|next| !is_base64(*next))
        {
            at += 1;
        } else {
            return (is_next && is_base64(bytes[at])).then_some(at);
        }
    }
    None
}

fn is_between(byte: u8) -> bool {
    byte.is_ascii_whitespace() || b"\\\"'`,.;()|>#*".contains(&byte)
}

fn is_text(head: &[u8]) -> bool {
    !head.is_empty() && head.iter().all(|byte| (0x20..0x7f).contains(byte) || byte.is_ascii_whitespace())
}

/// Capitals, small letters and digits, as keys have and hashes have not.
fn is_mixed(line: &str) -> bool {
    let has = |is: fn(&u8) -> bool| line.as_bytes().iter().any(is);
    has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit)
}

/// Whether the last line of a block may look so.
fn is_last(line: &str, next: Option<&u8>) -> bool {
    next == Some(&b'=') || line.bytes().any(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

/// OpenSSH's own format, or DER as PKCS #1, #8, #12 and SEC 1 have it: a sequence that begins with a small version and goes on
/// with a number, a sequence or a string; or, encrypted, with a sequence that begins with an algorithm of PKCS #5.
fn is_private_key(head: &[u8]) -> bool {
    const PKCS_5: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x05";
    if head.starts_with(b"openssh-key-v1") {
        return true;
    }
    match head.strip_prefix(b"\x30").and_then(after_length) {
        Some([0x02, 0x01, 0 | 1 | 3, 0x02 | 0x04 | 0x30, ..]) => true,
        Some([0x30, inside @ ..]) => after_length(inside).is_some_and(|inside| inside.starts_with(PKCS_5)),
        _ => false,
    }
}

fn after_length(bytes: &[u8]) -> Option<&[u8]> {
    match bytes {
        [0..=0x7f, rest @ ..] | [0x81, _, rest @ ..] | [0x82, _, _, rest @ ..] => Some(rest),
        _ => None,
    }
}
