//! A text under examination.

use crate::steps;

/// A text that is looked at byte by byte. Each look is a step.
pub(crate) struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    #[inline]
    pub(crate) fn new(text: &'a str) -> Self {
        Self(text)
    }

    /// The byte at `at`; NUL, which no pattern contains, past the end.
    #[inline]
    pub(super) fn byte(&self, at: usize) -> u8 {
        steps::add(1);
        self.0.as_bytes().get(at).copied().unwrap_or(0)
    }

    /// The character that starts at `at`, if one does.
    #[inline]
    pub(crate) fn char(&self, at: usize) -> Option<char> {
        steps::add(1);
        self.0.get(at..)?.chars().next()
    }

    /// Where the ASCII digits that start at `at` end.
    #[inline]
    pub(super) fn digits_end(&self, mut at: usize) -> usize {
        while self.byte(at).is_ascii_digit() {
            at += 1;
        }
        at
    }

    /// Whether a word that reaches up to `at` ends there.
    #[inline]
    pub(super) fn ends_word(&self, at: usize) -> bool {
        let byte = self.byte(at);
        if byte.is_ascii() {
            return !is_glue(char::from(byte));
        }
        // Lower-cased first, as everywhere: the Kelvin sign is the letter k.
        !self.char(at).and_then(|c| c.to_lowercase().next()).is_some_and(is_glue)
    }
}

/// Whether a digit directly after this (lower-case) character belongs to the same word, as in `utf8`.
///
/// Beyond ASCII these are the alphabets below U+2000. The scripts and symbols from there on are left out, so
/// that 第5章 holds a number. Written down here because the Unicode tables change with the compiler, and
/// fingerprints must not.
#[inline]
pub(crate) fn is_glue(c: char) -> bool {
    match c {
        '0'..='9' | 'a'..='z' | 'A'..='Z' | '_' => true,
        '×' | '÷' => false,
        _ => ('\u{C0}'..'\u{2000}').contains(&c),
    }
}
