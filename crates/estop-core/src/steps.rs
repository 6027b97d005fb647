//! Counts the work that is done on foreign text (SE-1), so that tests and fuzzers can prove that it is linear.
//!
//! Every loop over foreign bytes reports what it did: one step for each byte, character or element that it looks at, and
//! for a search of a library the distance that it covered. The count exists in tests of this crate and with the feature
//! `count-steps`; elsewhere every function here is empty and costs nothing.

#[cfg(any(test, feature = "count-steps"))]
mod counter;
#[cfg(test)]
mod tests;

#[cfg(any(test, feature = "count-steps"))]
pub use counter::{NotLinear, add, counted, growth, growth_from, patterns, taken};

/// So many steps were done.
#[cfg(not(any(test, feature = "count-steps")))]
#[inline(always)]
pub fn add(_steps: usize) {}

/// The answer of a search in `len` bytes: counts the distance to what it found, or all of them.
#[inline(always)]
pub fn found(at: Option<usize>, len: usize) -> Option<usize> {
    add(at.unwrap_or(len));
    at
}

/// An iterator that counts each of its elements.
#[derive(Clone, Debug)]
pub struct Counted<I>(pub I);

impl<I: Iterator> Iterator for Counted<I> {
    type Item = I::Item;

    #[inline(always)]
    fn next(&mut self) -> Option<I::Item> {
        add(1);
        self.0.next()
    }
}
