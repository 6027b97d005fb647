//! What can be wrong with a document, and the sentence that says it.

use super::{Kind, place};

/// Why a request was not read. Each sentence names the place and what to send instead; none repeats a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// There is nothing to read.
    #[error("the body is empty: send a JSON object")]
    Empty,
    /// Not text at all.
    #[error("the body is not UTF-8 from byte {at} on: send JSON in UTF-8")]
    NotUtf8 {
        /// The first byte that is wrong, from 0.
        at: usize,
    },
    /// Text that starts with U+FEFF; readers disagree on whether that is JSON.
    #[error("the body starts with a byte order mark: send JSON without one")]
    ByteOrderMark,
    /// Not JSON.
    #[error("the body is not valid JSON: {what} at byte {at}")]
    Syntax {
        /// What is wrong.
        what: &'static str,
        /// Where, from 0.
        at: usize,
    },
    /// More than one document, or rubbish after it.
    #[error("the body goes on after its JSON document at byte {at}: send one document and nothing else")]
    Trailing {
        /// Where it goes on, from 0.
        at: usize,
    },
    /// Nested too deep.
    #[error("the body is nested deeper than 128 levels at byte {at}: send it flatter")]
    TooDeep {
        /// Where the level after the last begins, from 0.
        at: usize,
    },
    /// Another type than the protocol has there.
    #[error("{place}: expected {expected}, found {found}")]
    Shape {
        /// The path of the value.
        place: String,
        /// What the protocol has there.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// Something a request of this protocol cannot do without.
    #[error("{place} is missing: add it")]
    Missing {
        /// The path it would have.
        place: String,
    },
    /// Readers disagree on which of two equal keys counts.
    #[error("{place} is there twice: send each key once")]
    DuplicateKey {
        /// The path of the second one.
        place: String,
    },
    /// Some readers take it for the key it resembles, some do not.
    #[error("{place} is spelled in the wrong case: write `{expected}`")]
    KeyCase {
        /// The path of the key.
        place: String,
        /// The key it resembles.
        expected: &'static str,
    },
    /// `\ud83d` alone: no text.
    #[error("{place}: `\\u` with half of a surrogate pair is no character: send both halves, or neither")]
    HalfSurrogate {
        /// The path of the text.
        place: String,
    },
    /// A number beyond all bounds, such as `1e999`.
    #[error("{place}: the number is too large: send a whole number below 2^32")]
    OutOfRange {
        /// The path of the number.
        place: String,
    },
    /// More of something than is kept: refused, because what is left out would not be judged.
    #[error("{place}: more than {max} {what}: send fewer")]
    TooMany {
        /// The path of the first one that is too many.
        place: String,
        /// What there is too much of.
        what: &'static str,
        /// How many there may be.
        max: usize,
    },
}

/// What is wrong at some byte: cheap to make, explained only when it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParseError {
    pub(crate) at: usize,
    pub(crate) what: ParseErrorKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParseErrorKind {
    Syntax(&'static str),
    Trailing,
    TooDeep,
    Shape { expected: &'static str, found: Kind },
    Missing(&'static str),
    DuplicateKey,
    KeyCase(&'static str),
    HalfSurrogate,
    OutOfRange,
    TooMany { what: &'static str, max: usize },
}

impl ParseError {
    pub(crate) fn syntax(at: usize, what: &'static str) -> ParseError {
        ParseError { at, what: ParseErrorKind::Syntax(what) }
    }

    pub(crate) fn ends_early(at: usize) -> ParseError {
        ParseError::syntax(at, "the text ends too early")
    }

    /// The error to tell, with the path of the place in this document.
    pub(crate) fn explain(self, document: &str) -> ReadError {
        let at = self.at;
        let place = || match place::path(document, at) {
            path if path.is_empty() => "the body".to_owned(),
            path => format!("`{path}`"),
        };
        match self.what {
            ParseErrorKind::Syntax(what) => ReadError::Syntax { what, at },
            ParseErrorKind::Trailing => ReadError::Trailing { at },
            ParseErrorKind::TooDeep => ReadError::TooDeep { at },
            ParseErrorKind::Shape { expected, found } => {
                ReadError::Shape { place: place(), expected, found: found.words() }
            }
            ParseErrorKind::Missing(name) => {
                let path = place::path(document, at);
                let dot = if path.is_empty() { "" } else { "." };
                ReadError::Missing { place: format!("`{path}{dot}{name}`") }
            }
            ParseErrorKind::DuplicateKey => ReadError::DuplicateKey { place: place() },
            ParseErrorKind::KeyCase(expected) => ReadError::KeyCase { place: place(), expected },
            ParseErrorKind::HalfSurrogate => ReadError::HalfSurrogate { place: place() },
            ParseErrorKind::OutOfRange => ReadError::OutOfRange { place: place() },
            ParseErrorKind::TooMany { what, max } => ReadError::TooMany { place: place(), what, max },
        }
    }
}
