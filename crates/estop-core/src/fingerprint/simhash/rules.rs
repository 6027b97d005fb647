//! How a text is read: where a plain word ends, and what a token is that is not plain.

/// How a text is read.
pub(super) trait Rules {
    /// The bytes that end a plain word, each marked in its top bit: white space at least, and whatever makes
    /// a token not plain.
    fn stops(chunk: u64) -> u64;

    /// Eight plain bytes as they are hashed.
    fn plain(chunk: u64) -> u64;

    /// The token at `at`, which is not plain.
    fn token(text: &str, at: usize) -> Token;
}

/// What was read.
pub(super) struct Token {
    /// The hash of the word; none if there was only white space.
    pub(super) hash: Option<u64>,
    /// Where to go on.
    pub(super) end: usize,
}

/// Whether a byte is ASCII white space, as `char::is_whitespace` has it.
#[inline]
pub(super) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}
