//! JSON, read strictly, once, and only as far as someone looks.
//!
//! [`Scanner`] goes through a document from front to back. Whoever drives it descends into the objects and lists that
//! matter and skips the rest; both check the grammar, so that at the end the whole document was checked in one pass.
//! What may be needed later is kept as [`Raw`] and read again then.
//!
//! Where two readers of the same bytes could disagree, this one refuses: a byte order mark, anything after the
//! document, a key that is there twice in an object that is looked into, a key that differs from one that is looked
//! for only in case, half a surrogate pair in a text that is decoded.
//!
//! What it never does: recurse by itself, or take more than linear time (SE-1).

mod fault;
mod place;
mod skip;
#[cfg(test)]
mod tests;
mod text;

use std::borrow::Cow;
use std::collections::HashSet;

use estop_core::steps;

pub use fault::ReadError;
pub(crate) use fault::{ParseError, ParseErrorKind};

/// One value, checked: its JSON text, where it stands in the document, and the decoded length of all strings in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
    pub(crate) said: usize,
}

impl<'a> Raw<'a> {
    /// What it is.
    pub(crate) fn kind(&self) -> Kind {
        self.text.bytes().next().and_then(Kind::of).unwrap_or(Kind::Null)
    }

    /// Its text, if it is a string.
    pub(crate) fn decoded(&self) -> Result<Cow<'a, str>, ParseError> {
        match self.kind() {
            Kind::String => text::decode(self),
            found @ (Kind::Null | Kind::Bool | Kind::Number | Kind::Array | Kind::Object) => {
                Err(ParseError { at: self.at, what: ParseErrorKind::Shape { expected: "text", found } })
            }
        }
    }

    /// Goes through it once more.
    pub(crate) fn scanner(&self) -> Scanner<'a> {
        Scanner { text: self.text, base: self.at, at: 0, depth: 0, said: 0, keys: Vec::new() }
    }
}

/// The types of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    fn of(first: u8) -> Option<Kind> {
        Some(match first {
            b'n' => Kind::Null,
            b't' | b'f' => Kind::Bool,
            b'-' | b'0'..=b'9' => Kind::Number,
            b'"' => Kind::String,
            b'[' => Kind::Array,
            b'{' => Kind::Object,
            _ => return None,
        })
    }

    /// For an error: "found …".
    pub(crate) fn words(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Bool => "a boolean",
            Kind::Number => "a number",
            Kind::String => "text",
            Kind::Array => "a list",
            Kind::Object => "an object",
        }
    }
}

/// Goes through a document from front to back.
pub(crate) struct Scanner<'a> {
    text: &'a str,
    /// Where `text` stands in the document.
    base: usize,
    at: usize,
    depth: usize,
    /// Decoded length of all strings passed so far.
    said: usize,
    /// Keys nobody asked for, with their places: a stack over all objects that are open, so that none allocates.
    keys: Vec<(Cow<'a, str>, usize)>,
}

/// The keys an object is searched for, and what each is to its reader. Two spellings of one field count as one key.
pub(crate) type Fields<F> = [(&'static str, F)];

/// Reads a document to its end with `read`.
pub(crate) fn document<'a, T>(
    body: &'a [u8],
    read: impl FnOnce(&mut Scanner<'a>) -> Result<T, ParseError>,
) -> Result<T, ReadError> {
    steps::add(body.len() / 8);
    let text = std::str::from_utf8(body).map_err(|error| ReadError::NotUtf8 { at: error.valid_up_to() })?;
    if text.starts_with('\u{feff}') {
        return Err(ReadError::ByteOrderMark);
    }
    let mut scanner = Scanner { text, base: 0, at: 0, depth: 0, said: 0, keys: Vec::new() };
    scanner.at = skip::white_space(body, 0);
    if scanner.at == text.len() {
        return Err(ReadError::Empty);
    }
    let done = read(&mut scanner).and_then(|value| scanner.end().map(|()| value));
    done.map_err(|fault| fault.explain(text))
}

impl<'a> Scanner<'a> {
    /// What the next value is.
    pub(crate) fn kind(&self) -> Result<Kind, ParseError> {
        match self.text.as_bytes().get(self.at) {
            Some(&first) => Kind::of(first).ok_or(ParseError::syntax(self.place(), "a value is expected")),
            None => Err(ParseError::ends_early(self.place())),
        }
    }

    /// Where the next value stands in the document.
    pub(crate) fn place(&self) -> usize {
        self.base + self.at
    }

    /// The next value, checked but not looked at.
    pub(crate) fn skip(&mut self) -> Result<Raw<'a>, ParseError> {
        let (bytes, start) = (self.text.as_bytes(), self.at);
        // Most values are texts without escapes, and most others whole numbers.
        let end = match skip::plain_string(bytes, start).or_else(|| skip::plain_digits(bytes, start)) {
            Some(end) => end,
            None => skip::value(bytes, start, self.depth).map_err(|fault| self.moved(fault))?,
        };
        self.at = end.at;
        self.said += end.said;
        Ok(self.raw(start, end.said))
    }

    /// The next value, looked into by `look`, which must go through all of it.
    pub(crate) fn both<T>(
        &mut self,
        look: impl FnOnce(&mut Self) -> Result<T, ParseError>,
    ) -> Result<(Raw<'a>, T), ParseError> {
        let (start, said) = (self.at, self.said);
        let seen = look(self)?;
        Ok((self.raw(start, self.said - said), seen))
    }

    /// Goes through an object: `each` is called for each of `fields` that is there, and must go through its value.
    pub(crate) fn object<F: Copy + PartialEq>(
        &mut self,
        fields: &Fields<F>,
        mut each: impl FnMut(&mut Self, F) -> Result<(), ParseError>,
    ) -> Result<(), ParseError> {
        self.enter(Kind::Object, "an object")?;
        let outer = self.keys.len();
        let mut seen = 0u64;
        let mut more = !self.leaves(b'}');
        while more {
            let at = self.place();
            let key = self.key()?;
            match find(fields, &key) {
                Found::Field(bit, _) if seen & bit != 0 => {
                    return Err(ParseError { at, what: ParseErrorKind::DuplicateKey });
                }
                Found::Field(bit, field) => {
                    seen |= bit;
                    each(self, field)?;
                }
                Found::OtherCase(name) => return Err(ParseError { at, what: ParseErrorKind::KeyCase(name) }),
                Found::Unknown => {
                    if self.keys.len() == KEYS_MAX {
                        return Err(ParseError {
                            at,
                            what: ParseErrorKind::TooMany { what: "keys", max: KEYS_MAX },
                        });
                    }
                    self.keys.push((key, at));
                    self.skip()?;
                }
            }
            more = self.goes_on(b'}', "`,` or `}` is expected")?;
        }
        all_differ(self.keys.get_mut(outer..).unwrap_or_default())?;
        self.keys.truncate(outer);
        Ok(())
    }

    /// Goes through a list: `each` is called before each element, and must go through it.
    pub(crate) fn list(
        &mut self,
        expected: &'static str,
        mut each: impl FnMut(&mut Self) -> Result<(), ParseError>,
    ) -> Result<(), ParseError> {
        self.enter(Kind::Array, expected)?;
        let mut more = !self.leaves(b']');
        while more {
            each(self)?;
            more = self.goes_on(b']', "`,` or `]` is expected")?;
        }
        Ok(())
    }

    /// A text, or `None` for null.
    pub(crate) fn text(&mut self) -> Result<Option<Cow<'a, str>>, ParseError> {
        let Some(raw) = self.undecoded()? else { return Ok(None) };
        text::decode(&raw).map(Some)
    }

    /// A text that is not decoded yet, or `None` for null.
    pub(crate) fn undecoded(&mut self) -> Result<Option<Raw<'a>>, ParseError> {
        match self.kind()? {
            Kind::String => self.skip().map(Some),
            Kind::Null => self.skip().map(|_| None),
            found @ (Kind::Bool | Kind::Number | Kind::Array | Kind::Object) => {
                Err(self.shape("text", found))
            }
        }
    }

    /// True or false, or `None` for null.
    pub(crate) fn flag(&mut self) -> Result<Option<bool>, ParseError> {
        match self.kind()? {
            Kind::Bool => Ok(Some(self.skip()?.text == "true")),
            Kind::Null => self.skip().map(|_| None),
            found @ (Kind::String | Kind::Number | Kind::Array | Kind::Object) => {
                Err(self.shape("true or false", found))
            }
        }
    }

    /// A count: fractions are rounded up, `None` for null and what is below 0 (Ollama's "no limit").
    pub(crate) fn count(&mut self) -> Result<Option<u32>, ParseError> {
        match self.kind()? {
            Kind::Number => {
                let raw = self.skip()?;
                // Nearly all are plain digits.
                if let Ok(count) = raw.text.parse::<u32>() {
                    return Ok(Some(count));
                }
                let number: f64 = raw.text.parse().unwrap_or(f64::INFINITY);
                if !number.is_finite() {
                    return Err(ParseError { at: raw.at, what: ParseErrorKind::OutOfRange });
                }
                // `as` saturates.
                Ok((number >= 0.0).then(|| number.ceil() as u32))
            }
            Kind::Null => self.skip().map(|_| None),
            found @ (Kind::String | Kind::Bool | Kind::Array | Kind::Object) => {
                Err(self.shape("a whole number", found))
            }
        }
    }

    /// The fault of a value that is of the wrong type.
    pub(crate) fn shape(&self, expected: &'static str, found: Kind) -> ParseError {
        ParseError { at: self.place(), what: ParseErrorKind::Shape { expected, found } }
    }

    fn raw(&self, start: usize, said: usize) -> Raw<'a> {
        Raw { text: self.text.get(start..self.at).unwrap_or_default(), at: self.base + start, said }
    }

    fn moved(&self, fault: ParseError) -> ParseError {
        ParseError { at: self.base + fault.at, ..fault }
    }

    fn enter(&mut self, kind: Kind, expected: &'static str) -> Result<(), ParseError> {
        let found = self.kind()?;
        if found != kind {
            return Err(self.shape(expected, found));
        }
        if self.depth == skip::DEPTH_MAX {
            return Err(ParseError { at: self.place(), what: ParseErrorKind::TooDeep });
        }
        self.depth += 1;
        self.at = skip::white_space(self.text.as_bytes(), self.at + 1);
        Ok(())
    }

    /// Steps over the end of a list or object, if it is next.
    fn leaves(&mut self, closing: u8) -> bool {
        let leaves = self.text.as_bytes().get(self.at) == Some(&closing);
        if leaves {
            self.at += 1;
            self.depth -= 1;
        }
        leaves
    }

    /// Steps over the comma or the end after an element.
    fn goes_on(&mut self, closing: u8, expected: &'static str) -> Result<bool, ParseError> {
        let bytes = self.text.as_bytes();
        self.at = skip::white_space(bytes, self.at);
        match bytes.get(self.at) {
            Some(b',') => {
                self.at = skip::white_space(bytes, self.at + 1);
                Ok(true)
            }
            Some(_) if self.leaves(closing) => Ok(false),
            Some(_) => Err(ParseError::syntax(self.place(), expected)),
            None => Err(ParseError::ends_early(self.place())),
        }
    }

    /// A key, decoded; steps over it and its colon.
    fn key(&mut self) -> Result<Cow<'a, str>, ParseError> {
        let (bytes, start) = (self.text.as_bytes(), self.at);
        // Most have no escapes in them and no white space around their colon.
        if let Some(end) = skip::plain_string(bytes, start)
            && bytes.get(end.at) == Some(&b':')
            && bytes.get(end.at + 1).is_some_and(|next| *next > b' ')
        {
            self.said += end.said;
            self.at = end.at + 1;
            return Ok(Cow::Borrowed(self.text.get(start + 1..end.at - 1).unwrap_or_default()));
        }
        self.any_key(start)
    }

    #[inline(never)]
    fn any_key(&mut self, start: usize) -> Result<Cow<'a, str>, ParseError> {
        let bytes = self.text.as_bytes();
        let end = skip::string(bytes, start).map_err(|fault| self.moved(fault))?;
        self.at = end.at;
        self.said += end.said;
        let key = self.raw(start, end.said);
        self.at = skip::colon(bytes, end.at).map_err(|fault| self.moved(fault))?;
        text::decode(&key)
    }

    fn end(&mut self) -> Result<(), ParseError> {
        self.at = skip::white_space(self.text.as_bytes(), self.at);
        if self.at < self.text.len() {
            return Err(ParseError { at: self.place(), what: ParseErrorKind::Trailing });
        }
        Ok(())
    }
}

enum Found<F> {
    /// With a bit of its own, the same for all spellings of the field.
    Field(u64, F),
    OtherCase(&'static str),
    Unknown,
}

fn find<F: Copy + PartialEq>(fields: &Fields<F>, key: &str) -> Found<F> {
    let mut other_case = Found::Unknown;
    steps::add(fields.len());
    for &(name, field) in fields {
        if name == key {
            let first = fields.iter().position(|(_, other)| *other == field).unwrap_or_default();
            return Found::Field(1 << (first % 64), field);
        }
        if name.eq_ignore_ascii_case(key) {
            other_case = Found::OtherCase(name);
        }
    }
    other_case
}

/// Keys that nobody asked for in all objects that are open at once. They are compared with each other, so each takes some
/// fifty bytes where `"":0,` in the body has five (SE-1).
const KEYS_MAX: usize = 32_768;

/// Objects with more keys that nobody asked for are searched by hash: sorting takes more than linear time.
const SORTED_KEYS_MAX: usize = 64;

/// Refuses the second of two equal keys.
fn all_differ(keys: &mut [(Cow<'_, str>, usize)]) -> Result<(), ParseError> {
    steps::add(keys.len());
    if keys.len() > SORTED_KEYS_MAX {
        let mut seen: HashSet<&str> = HashSet::with_capacity(keys.len());
        return match keys.iter().find(|(key, _)| !seen.insert(key.as_ref())) {
            Some((_, at)) => Err(ParseError { at: *at, what: ParseErrorKind::DuplicateKey }),
            None => Ok(()),
        };
    }
    keys.sort_unstable();
    match keys.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(ParseError { at: pair[1].1, what: ParseErrorKind::DuplicateKey }),
        None => Ok(()),
    }
}
