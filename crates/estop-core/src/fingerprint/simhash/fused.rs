//! The words of a text, hashed while it is read; nothing is built in memory.
//!
//! Most words are plain: ASCII, and nothing in them that the rules would have to look at. They go by eight
//! bytes at a time. A token with anything else in it is read again, from its start, byte by byte.

use super::eight;
use super::exact::Exact;
use super::normal::Normal;
use super::rules::{Rules, is_space};
use super::word::ChunkHasher;
use crate::steps;

/// Calls `each` with the hash of every word, in order.
#[inline]
pub(super) fn for_each_word<R: Rules>(text: &str, mut each: impl FnMut(u64)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        steps::add(1);
        let mut hasher = ChunkHasher::new();
        let mut chunk = eight::load(bytes, at);
        let mut stops = R::stops(chunk);
        while stops == 0 {
            hasher.push(R::plain(chunk));
            at += 8;
            steps::add(1);
            chunk = eight::load(bytes, at);
            stops = R::stops(chunk);
        }
        let stop = (stops.trailing_zeros() / 8) as usize;
        if !is_space((chunk >> (8 * stop)) as u8) {
            let token = R::token(text, start);
            if let Some(hash) = token.hash {
                each(hash);
            }
            at = token.end;
        } else if at + stop == start {
            at += eight::spaces(chunk);
        } else {
            // The top bit that marks the first stop is also the 0x80 that ends the word in its hash.
            let mark = stops & stops.wrapping_neg();
            each(hasher.finish(R::plain(chunk) & ((mark >> 7) - 1) | mark));
            at += stop + 1;
        }
    }
}

/// Calls `normal` with the hash of every word of the normal form, and `exact` with that of every word as it is: most of
/// the work is reading, and the text is read once.
#[inline]
pub(super) fn for_each_word_twice(text: &str, mut normal: impl FnMut(u64), mut exact: impl FnMut(u64)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        steps::add(1);
        let (mut lower, mut same) = (ChunkHasher::new(), ChunkHasher::new());
        let mut chunk = eight::load(bytes, at);
        let mut stops = Normal::stops(chunk);
        while stops == 0 {
            lower.push(Normal::plain(chunk));
            same.push(chunk);
            at += 8;
            steps::add(1);
            chunk = eight::load(bytes, at);
            stops = Normal::stops(chunk);
        }
        let stop = (stops.trailing_zeros() / 8) as usize;
        if !is_space((chunk >> (8 * stop)) as u8) {
            let token = Normal::token(text, start);
            if let Some(hash) = token.hash {
                normal(hash);
            }
            // A timestamp may be one word here and two there.
            for_each_word::<Exact>(text.get(start..token.end).unwrap_or_default(), &mut exact);
            at = token.end;
        } else if at + stop == start {
            at += eight::spaces(chunk);
        } else {
            let mark = stops & stops.wrapping_neg();
            let word = (mark >> 7) - 1;
            normal(lower.finish(Normal::plain(chunk) & word | mark));
            exact(same.finish(chunk & word | mark));
            at += stop + 1;
        }
    }
}
