//! Reading a text as it is: words are what white space separates.

use super::eight;
use super::rules::{Rules, Token};
use super::word::WordHasher;
use crate::steps;

/// The rules of [`super::simhash_exact`].
pub(super) struct Exact;

impl Rules for Exact {
    #[inline]
    fn stops(chunk: u64) -> u64 {
        eight::unprintable(chunk)
    }

    #[inline]
    fn plain(chunk: u64) -> u64 {
        chunk
    }

    fn token(text: &str, at: usize) -> Token {
        let rest = text.get(at..).unwrap_or_default();
        let space = rest.char_indices().find(|(_, c)| c.is_whitespace());
        steps::add(space.map_or(rest.len(), |(len, _)| len));
        let Some((len, space)) = space else {
            return Token { hash: Some(hash(rest.as_bytes())), end: text.len() };
        };
        let hash = (len > 0).then(|| hash(&rest.as_bytes()[..len]));
        Token { hash, end: at + len + space.len_utf8() }
    }
}

fn hash(word: &[u8]) -> u64 {
    let mut hasher = WordHasher::new();
    steps::add(word.len() / 8);
    for at in (0..word.len()).step_by(8) {
        let len = (word.len() - at).min(8);
        hasher.push(eight::first(eight::load(word, at), len), len as u32);
    }
    hasher.finish()
}
