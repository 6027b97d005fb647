//! One thing wrong with a file, and how it is shown.

use std::fmt;
use std::string::FromUtf8Error;

use serde_saphyr::Location;

use super::redact;
use crate::printable::{escaped_within, hides};

/// What is wrong, and where. Displayed like a compiler's message:
///
/// ```text
/// estop.yaml:4:5: unknown key `max_tool_call` in circuit_breakers.defaults
///   4 |     max_tool_call: 50
///     |     ^
///   did you mean `max_tool_calls`? Known keys: …
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, as the user named it, or `environment variable NAME`.
    pub file: String,
    /// Where in it; `None` if the whole file is meant.
    pub spot: Option<Spot>,
    /// What is wrong, in one sentence.
    pub message: String,
    /// What to do instead.
    pub help: Option<String>,
}

/// A place in a text, and the line it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    /// The line's text, shortened around the column; empty: it is not shown.
    excerpt: String,
    /// Characters of `excerpt` before the column.
    caret: usize,
}

/// Longest excerpt: fits a terminal of 100 columns with the line number before it.
const EXCERPT_CHARS_MAX: usize = 90;

impl Problem {
    pub(super) fn at(file: &str, spot: Option<Spot>, message: String) -> Problem {
        Problem { file: printable_sentence(file), spot, message, help: None }
    }

    pub(super) fn whole_file(file: &str, message: String) -> Problem {
        Problem::at(file, None, message)
    }

    pub(super) fn not_utf8(file: &str, error: &FromUtf8Error) -> Problem {
        let (bytes, valid) = (error.as_bytes(), error.utf8_error().valid_up_to());
        let before = String::from_utf8_lossy(&bytes[..valid]);
        let (line, column) =
            (lines(&before).count(), lines(&before).last().unwrap_or("").chars().count() + 1);
        let spot = Spot::new(&before, line, column);
        Problem::at(file, Some(spot), "the file is not UTF-8 text; save it as UTF-8".into())
    }

    /// Without the line it is about, which may be a secret.
    pub(super) fn without_text(self) -> Problem {
        let spot = self.spot.map(|spot| Spot { excerpt: String::new(), ..spot });
        Problem { spot, ..self }
    }

    pub(super) fn with_help(self, help: Option<String>) -> Problem {
        Problem { help, ..self }
    }
}

impl Spot {
    /// The place the YAML reader means.
    pub(super) fn of(text: &str, location: Location) -> Spot {
        let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        Spot::new(text, number(location.line()), number(location.column()))
    }

    /// Line and column count from 1. What may be a key is hidden.
    pub(super) fn new(text: &str, line: usize, column: usize) -> Spot {
        let whole = redact::line(lines(text).nth(line.saturating_sub(1)).unwrap_or(""));
        let skipped = (column.saturating_sub(1)).saturating_sub(EXCERPT_CHARS_MAX / 2);
        let skipped = if whole.chars().count() <= EXCERPT_CHARS_MAX { 0 } else { skipped };
        let excerpt: String = whole.chars().skip(skipped).take(EXCERPT_CHARS_MAX).map(one_column).collect();
        Spot { line, column, excerpt, caret: column.saturating_sub(1 + skipped) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if let Some(spot) = &self.spot {
            write!(f, "{}:{}:", spot.line, spot.column)?;
        }
        write!(f, " {}", self.message)?;
        if let Some(spot) = self.spot.as_ref().filter(|spot| !spot.excerpt.is_empty()) {
            let (line, caret) = (spot.line, spot.caret);
            let width = line.to_string().len();
            write!(f, "\n  {line} | {}", spot.excerpt.trim_end())?;
            write!(f, "\n  {:width$} | {:caret$}^", "", "")?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n  {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

/// A word from a file, safe to print: one line, no terminal commands, not too long.
pub(super) fn printable(word: &str) -> String {
    escaped_within(word, 80)
}

/// A sentence that may hold words from a file.
pub(super) fn printable_sentence(sentence: &str) -> String {
    escaped_within(sentence, 400)
}

/// Keeps the caret under its column.
fn one_column(c: char) -> char {
    if hides(c) { ' ' } else { c }
}

/// Lines as YAML counts them: ended by `\n`, `\r\n` or `\r`.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = text.find(['\n', '\r']) else {
            rest = None;
            return Some(text);
        };
        let after = if text[end..].starts_with("\r\n") { end + 2 } else { end + 1 };
        rest = Some(&text[after..]);
        Some(&text[..end])
    })
}
