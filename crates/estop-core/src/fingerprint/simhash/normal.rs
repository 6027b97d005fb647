//! Reading a text in its normal form, without building that form.

use super::eight;
use super::rules::{Rules, Token, is_space};
use super::word::WordHasher;
use crate::fingerprint::normalize::{
    Found, Text, for_each_lower, is_glue, number_in_word_at, placeholder_at,
};
use crate::steps;

/// The rules of [`super::simhash`]: those of [`crate::fingerprint::normalize`].
pub(super) struct Normal;

impl Rules for Normal {
    /// A token without digits holds no number, timestamp or id, and one without `<` no placeholder.
    #[inline]
    fn stops(chunk: u64) -> u64 {
        eight::unprintable(chunk) | eight::digits_and_less_than(chunk)
    }

    #[inline]
    fn plain(chunk: u64) -> u64 {
        eight::lower(chunk)
    }

    fn token(text: &str, start: usize) -> Token {
        let mut word = Word::new(text, start);
        while word.step() {}
        if word.at == start {
            let space = word.text.char(start).map_or(1, char::len_utf8);
            return Token { hash: None, end: start + space };
        }
        let end = word.at;
        Token { hash: Some(word.finish()), end }
    }
}

/// A word that is being read and hashed.
struct Word<'a> {
    text: Text<'a>,
    bytes: &'a [u8],
    at: usize,
    /// Whether what stands at `at` is part of the word before it, as in [`crate::fingerprint::normalize`].
    glued: bool,
    /// Up to here no byte may be skipped: there is a digit, or something else not plain.
    stop: usize,
    hasher: WordHasher,
    /// Up to where the text went into the hash. From there to `at` it is plain.
    hashed: usize,
}

impl<'a> Word<'a> {
    #[inline]
    fn new(text: &'a str, start: usize) -> Self {
        let bytes = text.as_bytes();
        let text = Text::new(text);
        Self { text, bytes, at: start, glued: false, stop: start, hasher: WordHasher::new(), hashed: start }
    }

    /// Reads on; false at the end of the word.
    #[inline]
    fn step(&mut self) -> bool {
        steps::add(1);
        let Some(&byte) = self.bytes.get(self.at) else { return false };
        match KINDS[usize::from(byte)] {
            Kind::Space => return false,
            Kind::LessThan => self.replace_or_pass(),
            Kind::Hex if !self.glued => self.replace_or_pass(),
            Kind::Hex if byte.is_ascii_digit() => {
                let found = number_in_word_at(&self.text, self.at);
                self.replace(&found);
                self.glued = true;
            }
            Kind::Hex | Kind::Plain => self.pass(),
            Kind::NotAscii => match self.text.char(self.at) {
                Some(c) if !c.is_whitespace() => self.push_lower(c),
                Some(_) | None => return false,
            },
        }
        true
    }

    /// Reads the placeholder that begins here, or passes over the byte.
    #[inline]
    fn replace_or_pass(&mut self) {
        let Some(found) = placeholder_at(&self.text, self.at) else {
            self.pass();
            return;
        };
        self.replace(&found);
        self.glued = false;
    }

    /// Reads a placeholder instead of what it stands for.
    #[inline]
    fn replace(&mut self, found: &Found) {
        self.push_passed();
        self.hasher.push_bytes(found.placeholder.as_str().as_bytes());
        self.at = found.end;
        self.hashed = found.end;
    }

    /// Passes over one ASCII byte, and over all that follow in which nothing can begin.
    #[inline]
    fn pass(&mut self) {
        self.at += 1;
        if self.at > self.stop {
            self.stop = plain_end(self.bytes, self.at);
            self.at = id_begin(self.bytes, self.at, self.stop);
        }
        self.glued = is_glue(char::from(self.bytes[self.at - 1]));
    }

    /// Adds a character that is not ASCII.
    #[inline]
    fn push_lower(&mut self, c: char) {
        self.push_passed();
        for_each_lower(c, |lower| {
            self.hasher.push_bytes(lower.encode_utf8(&mut [0; 4]).as_bytes());
            self.glued = is_glue(lower);
        });
        self.at += c.len_utf8();
        self.hashed = self.at;
    }

    /// Adds what was passed over.
    #[inline]
    fn push_passed(&mut self) {
        while self.hashed < self.at {
            steps::add(1);
            let len = (self.at - self.hashed).min(8);
            let chunk = Normal::plain(eight::load(self.bytes, self.hashed));
            self.hasher.push(eight::first(chunk, len), len as u32);
            self.hashed += len;
        }
    }

    #[inline]
    fn finish(mut self) -> u64 {
        self.push_passed();
        self.hasher.finish()
    }
}

/// Where the plain bytes from `at` on end.
#[inline]
fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    loop {
        steps::add(1);
        let stops = Normal::stops(eight::load(bytes, at));
        if stops != 0 {
            return at + (stops.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
}

/// Where, between `at` and `stop`, an id could begin whose first digit stands at `stop`.
#[inline]
fn id_begin(bytes: &[u8], at: usize, stop: usize) -> usize {
    let (Some(plain), Some(b'0'..=b'9')) = (bytes.get(at..stop), bytes.get(stop)) else { return stop };
    let is_id_part = |byte: &&u8| matches!(byte, b'a'..=b'f' | b'A'..=b'F' | b'-');
    let id_part = plain.iter().rev().take_while(is_id_part).count();
    steps::add(id_part);
    stop - id_part
}

/// What a byte can begin.
#[derive(Clone, Copy)]
enum Kind {
    /// White space, the end of the word.
    Space,
    /// A digit or a letter up to f: an id, a timestamp or a number, where a token begins.
    Hex,
    /// A placeholder.
    LessThan,
    NotAscii,
    /// Nothing.
    Plain,
}

const KINDS: [Kind; 256] = {
    let mut kinds = [Kind::Plain; 256];
    let mut byte = 0;
    while byte < kinds.len() {
        kinds[byte] = match byte as u8 {
            b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' => Kind::Hex,
            b'<' => Kind::LessThan,
            0x80.. => Kind::NotAscii,
            space if is_space(space) => Kind::Space,
            _ => Kind::Plain,
        };
        byte += 1;
    }
    kinds
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps per byte that no text may exceed.
    const STEPS_PER_BYTE_MAX: u64 = 9;

    #[test]
    fn fp_2_reading_is_linear_on_adversarial_texts() {
        for unit in crate::fingerprint::normalize::ADVERSARIAL {
            for end in ["", "g", "1", "-1", "\u{212a}", "<NUM>"] {
                let text = unit.trim().repeat(2_000) + end;
                let work = steps::counted(u64::MAX, || {
                    let mut word = Word::new(&text, 0);
                    while word.step() {}
                });
                assert!(
                    work <= STEPS_PER_BYTE_MAX * text.len() as u64 + 8,
                    "{work} for {unit:?} times 2000 + {end:?}"
                );
            }
        }
    }
}
