//! One JSON array, read element by element as it passes: Gemini's stream without `alt=sse`.
//!
//! Only braces, brackets and strings are looked at; whether an element is JSON is for its reader to say.

use estop_core::steps;
use memchr::memchr2;

use crate::sse::{EVENT_MAX, emptied};

/// Finds the objects of an array in pieces of a stream.
#[derive(Debug, Default)]
pub(super) struct ElementReader {
    /// The element so far, where it does not lie in one piece.
    carried: Vec<u8>,
    depth: u64,
    at: At,
    /// The last thing between elements was an element, not a comma.
    after_element: bool,
    /// Something stands between elements that is neither an element, a comma nor white space.
    is_odd: bool,
    /// The element is too large to be read.
    oversized: bool,
    left_out: bool,
}

/// What the next byte is part of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Outside,
    Text,
    /// After a backslash.
    Escape,
}

impl ElementReader {
    /// Reads the next bytes and hands on each element that is complete.
    pub(super) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        let mut from = if self.depth > 1 { Some(0) } else { None };
        let mut i = 0;
        while let Some(&byte) = bytes.get(i) {
            steps::add(1);
            match (self.at, byte) {
                (At::Escape, _) => self.at = At::Text,
                (At::Text, b'\\') => self.at = At::Escape,
                (At::Text, b'"') => self.at = At::Outside,
                (At::Text, _) => {
                    let left = bytes.len() - i;
                    i += steps::found(memchr2(b'"', b'\\', &bytes[i..]), left).unwrap_or(left);
                    continue;
                }
                (At::Outside, b'"') => {
                    self.is_odd |= self.depth == 1;
                    self.at = At::Text;
                }
                (At::Outside, b'{' | b'[') => {
                    self.depth += 1;
                    if self.depth == 2 {
                        from = Some(i);
                    }
                }
                (At::Outside, b'}' | b']') => {
                    self.depth = self.depth.saturating_sub(1);
                    if let Some(start) = from.filter(|_| self.depth == 1) {
                        self.end(&bytes[start..=i], &mut each);
                        from = None;
                        self.after_element = true;
                    }
                }
                (At::Outside, b',') if self.depth == 1 => self.after_element = false,
                (At::Outside, other) => self.is_odd |= self.depth == 1 && !other.is_ascii_whitespace(),
            }
            i += 1;
        }
        if let Some(start) = from {
            self.carry(&bytes[start..]);
        }
    }

    /// Between two elements: whether a comma is due before another. `None` elsewhere.
    pub(super) fn gap(&self) -> Option<bool> {
        (self.depth == 1 && !self.is_odd).then_some(self.after_element)
    }

    /// The array was closed.
    pub(super) fn is_over(&self) -> bool {
        self.depth == 0
    }

    /// An element was too large and left out.
    pub(super) fn left_out(&self) -> bool {
        self.left_out
    }

    fn end(&mut self, last: &[u8], each: &mut impl FnMut(&[u8])) {
        if self.carried.is_empty() && !self.oversized && last.len() <= EVENT_MAX {
            each(last);
            return;
        }
        self.carry(last);
        if std::mem::take(&mut self.oversized) {
            self.left_out = true;
            return;
        }
        let element = std::mem::take(&mut self.carried);
        each(&element);
        self.carried = emptied(element);
    }

    fn carry(&mut self, part: &[u8]) {
        if self.carried.len() + part.len() > EVENT_MAX {
            self.oversized = true;
            self.carried = Vec::new();
        }
        if !self.oversized {
            steps::add(part.len());
            self.carried.extend_from_slice(part);
        }
    }
}
