//! Server-sent events, read piece by piece as they pass.
//!
//! Follows the standard's parsing rules with two exceptions, both for the sake of what real servers do: an event
//! that the stream's end leaves without its blank line is read, and a line over [`EVENT_MAX`] is left out with the
//! event it belongs to. Any split of the bytes gives the same events.

use estop_core::steps;
use memchr::{memchr, memchr2};

/// The largest event or line that is read. The largest seen are a Responses `response.completed` with all tools,
/// some 200 kB. Half would still do; double doubles what a hostile stream may hold.
pub const EVENT_MAX: usize = 1 << 20;

/// A buffer that grew beyond this is given back once it is empty, so that an idle stream stays small.
const KEPT_CAPACITY: usize = 4 << 10;

/// An event, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The server named it `error`.
    pub error: bool,
    /// Its data, lines joined by line feeds.
    pub data: &'a [u8],
}

/// Reads events from pieces of a stream.
#[derive(Debug, Default)]
pub struct EventReader {
    lines: LineReader,
    /// Data of the event so far, where it could not stay in the caller's bytes.
    data: Vec<u8>,
    /// The event has a field: it is not over yet.
    begun: bool,
    has_data: bool,
    error: bool,
    oversized: bool,
    /// The first line, which may have a byte order mark, is over.
    started: bool,
    left_out: bool,
}

/// What a line means.
enum Field<'a> {
    Blank,
    Data(&'a [u8]),
    Event(&'a [u8]),
    Comment,
    Other,
}

impl EventReader {
    /// Reads the next bytes and hands on each event that is complete.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Event<'_>)) {
        let mut rest = bytes;
        // The first data line of an event, as long as it can stay where it is.
        let mut held: Option<&[u8]> = None;
        loop {
            steps::add(1);
            match self.lines.next(&mut rest, LineEnds::Any) {
                Found::Whole(line) => match self.field(line) {
                    Field::Data(data) if !self.has_data => {
                        (self.begun, self.has_data) = (true, true);
                        held = Some(data);
                    }
                    Field::Blank => match held.take() {
                        Some(data) => self.end(data, &mut each),
                        None => self.take(&Field::Blank, &mut each),
                    },
                    field @ (Field::Data(_) | Field::Event(_) | Field::Comment | Field::Other) => {
                        self.keep(held.take());
                        self.take(&field, &mut each);
                    }
                },
                Found::Carried => {
                    self.keep(held.take());
                    let line = std::mem::take(&mut self.lines.carried);
                    let field = self.field(&line);
                    self.take(&field, &mut each);
                    self.lines.give_back(line);
                }
                Found::TooLong => {
                    self.started = true;
                    self.begun = true;
                    self.oversized = true;
                }
                Found::More => break,
            }
        }
        self.keep(held);
    }

    /// The stream is over: reads what it left without its blank line.
    pub fn finish(&mut self, mut each: impl FnMut(Event<'_>)) {
        let line = std::mem::take(&mut self.lines.carried);
        if self.lines.too_long {
            self.left_out = true;
        } else if !line.is_empty() {
            let field = self.field(&line);
            self.take(&field, &mut each);
        }
        self.take(&Field::Blank, &mut each);
    }

    /// Another event can begin here: nothing is half sent.
    pub fn at_boundary(&self) -> bool {
        !self.begun && self.lines.carried.is_empty() && !self.lines.too_long
    }

    /// An event was too large and left out.
    pub fn left_out(&self) -> bool {
        self.left_out
    }

    fn field<'l>(&mut self, mut line: &'l [u8]) -> Field<'l> {
        if !self.started {
            self.started = true;
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            return Field::Blank;
        }
        let (name, value) = match steps::found(memchr(b':', line), line.len()) {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"" => Field::Comment,
            b"data" => Field::Data(value),
            b"event" => Field::Event(value),
            _ => Field::Other,
        }
    }

    fn take(&mut self, field: &Field<'_>, each: &mut impl FnMut(Event<'_>)) {
        match field {
            Field::Blank => {
                let data = std::mem::take(&mut self.data);
                self.end(&data, each);
                self.data = emptied(data);
            }
            Field::Data(data) => {
                self.begun = true;
                self.append(data);
            }
            Field::Event(name) => {
                self.begun = true;
                self.error = *name == b"error";
            }
            Field::Comment => {}
            Field::Other => self.begun = true,
        }
    }

    /// Copies data that can no longer stay in the caller's bytes.
    fn keep(&mut self, held: Option<&[u8]>) {
        if let Some(data) = held {
            steps::add(data.len());
            self.data.extend_from_slice(data);
        }
    }

    fn append(&mut self, data: &[u8]) {
        if self.data.len() + data.len() + 1 > EVENT_MAX {
            self.oversized = true;
            self.data = Vec::new();
        }
        if !self.oversized {
            steps::add(data.len());
            if self.has_data {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(data);
        }
        self.has_data = true;
    }

    fn end(&mut self, data: &[u8], each: &mut impl FnMut(Event<'_>)) {
        if self.oversized {
            self.left_out = true;
        } else if self.has_data {
            each(Event { error: self.error, data });
        }
        (self.begun, self.has_data, self.error, self.oversized) = (false, false, false, false);
    }
}

/// Which bytes end a line.
#[derive(Clone, Copy)]
pub(crate) enum LineEnds {
    /// CR, LF or CRLF.
    Any,
    /// LF; a CR before it is left on the line.
    LineFeed,
}

/// Finds lines in pieces of a stream. A line that is whole in a piece is not copied.
#[derive(Debug, Default)]
pub(crate) struct LineReader {
    /// The part of a line that came with earlier pieces; a whole line after [`Found::Carried`].
    pub(crate) carried: Vec<u8>,
    pub(crate) too_long: bool,
    after_cr: bool,
}

/// What was found in a piece.
pub(crate) enum Found<'a> {
    /// A line, without its end.
    Whole(&'a [u8]),
    /// A line that began in an earlier piece: in `carried`, to be taken out and given back.
    Carried,
    /// A line longer than [`EVENT_MAX`] has ended, unread.
    TooLong,
    /// The piece is used up.
    More,
}

impl LineReader {
    /// The next line of `rest`, which moves on.
    pub(crate) fn next<'a>(&mut self, rest: &mut &'a [u8], ends: LineEnds) -> Found<'a> {
        if self.after_cr && !rest.is_empty() {
            self.after_cr = false;
            *rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        let bytes = *rest;
        let found = match ends {
            LineEnds::Any => memchr2(b'\n', b'\r', bytes),
            LineEnds::LineFeed => memchr(b'\n', bytes),
        };
        let Some(at) = steps::found(found, bytes.len()) else {
            self.carry(bytes);
            *rest = &[];
            return Found::More;
        };
        let line = &bytes[..at];
        self.after_cr = bytes[at] == b'\r';
        *rest = &bytes[at + 1..];
        if !self.too_long && self.carried.is_empty() && line.len() <= EVENT_MAX {
            return Found::Whole(line);
        }
        self.carry(line);
        if std::mem::take(&mut self.too_long) {
            return Found::TooLong;
        }
        Found::Carried
    }

    /// Takes back the buffer of a carried line.
    pub(crate) fn give_back(&mut self, line: Vec<u8>) {
        self.carried = emptied(line);
    }

    fn carry(&mut self, part: &[u8]) {
        if self.carried.len() + part.len() > EVENT_MAX {
            self.too_long = true;
            self.carried = Vec::new();
        }
        if !self.too_long {
            steps::add(part.len());
            self.carried.extend_from_slice(part);
        }
    }
}

/// The same buffer, empty; a new one if it has grown large.
pub(crate) fn emptied(mut buffer: Vec<u8>) -> Vec<u8> {
    if buffer.capacity() > KEPT_CAPACITY {
        return Vec::new();
    }
    buffer.clear();
    buffer
}
