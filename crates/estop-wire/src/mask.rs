//! Takes secrets out of texts that a person asked to keep: keys of providers, bearer tokens, JWTs, private keys, values of
//! `.env` lines and of names such as `password`, user and password in URLs, passwords among the options of commands, e-mail
//! addresses; also where colours or escapes stand in them, and in base64.
//!
//! A secret becomes `[masked:kind:digest]`. The digest depends on a key that is made for one recording and thrown away with
//! it: within the recording equal secrets stay equal and different ones stay different, and nobody can try out guesses.
//!
//! It errs on the side of masking: a harmless value of a suspicious name is masked, too. What it cannot know is a secret that
//! looks like any other word. Every pass is linear (SE-1), and builds no tree.
//!
//! ```
//! use estop_wire::mask::Masker;
//!
//! let masker = Masker::new([7; 32]);
//! let masked = masker.text("curl -H 'x-api-key: sk-ant-api03-0123456789abcdef'");
//! assert!(masked.starts_with("curl -H 'x-api-key: [masked:") && !masked.contains("0123456789"));
//! assert_eq!(masker.text("nothing to see"), "nothing to see");
//! ```

mod base64;
mod commands;
mod json;
mod lines;
mod rules;
mod scan;
mod shapes;
mod view;

use std::borrow::Cow;

use sha2::{Digest, Sha256};

/// JSON in strings of JSON, and texts in base64, that are looked into: what an agent writes with a tool call is JSON in JSON.
const JSON_INSIDE_MAX: usize = 3;
/// Hexadecimal digits of a digest.
const DIGEST_DIGITS: usize = 12;
/// No kind of secret has a longer name.
const KIND_MAX: usize = 16;

/// Masks texts, the same secret always in the same way.
#[derive(Clone)]
pub struct Masker {
    key: [u8; 32],
}

/// The key does not show itself.
impl std::fmt::Debug for Masker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Masker")
    }
}

impl Masker {
    /// With a random key that is kept nowhere.
    pub fn new(key: [u8; 32]) -> Masker {
        Masker { key }
    }

    /// A text without its secrets.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.inside(text, 0)
    }

    /// The same, and at most some `max` bytes of it: what is longer loses its middle, and carries a digest of the whole, so that
    /// equal texts stay equal and different ones different.
    pub fn excerpt<'t>(&self, text: &'t str, max: usize) -> Cow<'t, str> {
        let masked = self.text(text);
        if masked.len() <= max {
            return masked;
        }
        let half = max / 2;
        let head = &masked[..masked.floor_char_boundary(half)];
        let tail = &masked[masked.ceil_char_boundary(masked.len() - half)..];
        let cut = masked.len() - head.len() - tail.len();
        let digest = self.digest(text.as_bytes());
        Cow::Owned(format!("{head}\n[cut: {cut} bytes, digest {digest}]\n{tail}"))
    }

    fn inside<'t>(&self, text: &'t str, level: usize) -> Cow<'t, str> {
        let is_json = level < JSON_INSIDE_MAX && text.trim_start().starts_with(['{', '[', '"']);
        if is_json { json::mask(self, text, level) } else { scan::mask(self, text, level) }
    }

    /// What stands for a secret.
    fn mark(&self, kind: &str, secret: &str) -> String {
        format!("[masked:{kind}:{}]", self.digest(secret.as_bytes()))
    }

    /// A digest that nobody without the key can compare with a guess.
    pub fn digest(&self, bytes: &[u8]) -> String {
        estop_core::steps::add(bytes.len());
        let digest = Sha256::new().chain_update(self.key).chain_update(bytes).finalize();
        digest.iter().take(DIGEST_DIGITS / 2).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Whether a text begins with what stands for a secret, whole: a secret may begin like one.
fn is_mark(text: &str) -> bool {
    let Some(rest) = text.as_bytes().strip_prefix(b"[masked:") else { return false };
    let kind =
        rest.iter().take(KIND_MAX).take_while(|byte| matches!(byte, b'a'..=b'z' | b'_' | b'-')).count();
    let Some(rest) = rest[kind..].strip_prefix(b":") else { return false };
    let digits = rest.iter().take(DIGEST_DIGITS).take_while(|byte| byte.is_ascii_hexdigit()).count();
    kind > 0 && digits == DIGEST_DIGITS && rest.get(digits) == Some(&b']')
}

/// A secret, and where it stands.
struct Found {
    kind: &'static str,
    from: usize,
    to: usize,
}

/// A text with parts replaced.
struct Masked<'t> {
    text: &'t str,
    /// Everything before has been taken over.
    taken: usize,
    out: String,
}

impl<'t> Masked<'t> {
    fn new(text: &'t str) -> Masked<'t> {
        Masked { text, taken: 0, out: String::new() }
    }

    /// Puts `mark` in the place of these bytes, which follow all that were replaced before.
    fn replace(&mut self, from: usize, to: usize, mark: &str) {
        self.out.push_str(self.text.get(self.taken..from).unwrap_or_default());
        self.out.push_str(mark);
        self.taken = to;
    }

    fn finish(mut self) -> Cow<'t, str> {
        if self.taken == 0 {
            return Cow::Borrowed(self.text);
        }
        self.out.push_str(self.text.get(self.taken..).unwrap_or_default());
        Cow::Owned(self.out)
    }
}
