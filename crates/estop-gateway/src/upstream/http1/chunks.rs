//! A body in chunks (RFC 9112 §7.1), read as it comes.

use std::ops::Range;

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use memchr::memchr;

use super::Malformed;

/// A line with the size of a chunk, extensions included, is no longer; neither are all trailers together.
const LINES_MAX: usize = 16 << 10;
/// Trailers that are taken.
const TRAILERS_MAX: usize = 100;

/// A body in chunks, as far as it was read.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    at: At,
    /// Of a line, or of the trailers, what came yet.
    lines: Vec<u8>,
}

/// What comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    /// The size of a chunk.
    #[default]
    Size,
    /// So many bytes of it.
    Data(u64),
    /// The end of its line, these bytes of it.
    DataEnd(&'static [u8]),
    /// Trailers, then an empty line.
    Trailers,
    /// Nothing.
    End,
}

/// Whether a body is over.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    NotYet,
    /// Nothing follows its last chunk.
    Plain,
    Trailers(HeaderMap),
}

impl Chunks {
    /// Takes what came up to the end of the body: the data in it, and whether the body is over, or cannot be read further.
    pub(super) fn take(&mut self, came: &mut Bytes) -> (Bytes, Result<End, Malformed>) {
        let mut data = Gathered::default();
        let read = self.read(came, |at| data.add(came, at));
        let end = read.and_then(|length| {
            came.advance(length);
            self.end()
        });
        (data.take(), end)
    }

    /// Reads what came and tells where data is in it. Returns how much was read: less than all only at the end.
    fn read(&mut self, came: &[u8], mut data: impl FnMut(Range<usize>)) -> Result<usize, Malformed> {
        let mut from = 0;
        while from < came.len() && self.at != At::End {
            if let At::Data(left) = self.at {
                let length =
                    usize::try_from(left).map_or(came.len() - from, |left| left.min(came.len() - from));
                data(from..from + length);
                from += length;
                let left = left - length as u64;
                self.at = if left == 0 { At::DataEnd(b"\r\n") } else { At::Data(left) };
                continue;
            }
            // Noticed at once: nobody waits for a line that never comes.
            if let At::DataEnd([next, rest @ ..]) = self.at {
                if came[from] != *next {
                    return Err(Malformed("a chunk is longer than it says"));
                }
                self.at = if rest.is_empty() { At::Size } else { At::DataEnd(rest) };
                from += 1;
                continue;
            }
            let Some(end) = memchr(b'\n', &came[from..]).map(|at| from + at + 1) else {
                self.keep(&came[from..])?;
                return Ok(came.len());
            };
            self.line(&came[from..end])?;
            from = end;
        }
        Ok(from)
    }

    /// Whether the last chunk came, and what follows it.
    fn end(&self) -> Result<End, Malformed> {
        if self.at != At::End {
            return Ok(End::NotYet);
        }
        if self.lines == b"\r\n" {
            return Ok(End::Plain);
        }
        let mut found = [httparse::EMPTY_HEADER; TRAILERS_MAX];
        let parsed = httparse::parse_headers(&self.lines, &mut found);
        let found = match parsed {
            Ok(httparse::Status::Complete((length, found))) if length == self.lines.len() => found,
            Ok(_) | Err(_) => return Err(Malformed("the trailers are malformed")),
        };
        let mut trailers = HeaderMap::with_capacity(found.len());
        for line in found {
            let name = HeaderName::from_bytes(line.name.as_bytes());
            let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(line.value)) else {
                return Err(Malformed("a trailer is malformed"));
            };
            trailers.append(name, value);
        }
        Ok(End::Trailers(trailers))
    }

    fn keep(&mut self, part: &[u8]) -> Result<(), Malformed> {
        if self.lines.len() + part.len() > LINES_MAX {
            return Err(Malformed("a line between chunks, or the trailers, are too long"));
        }
        self.lines.extend_from_slice(part);
        Ok(())
    }

    /// Takes the rest of a line.
    fn line(&mut self, part: &[u8]) -> Result<(), Malformed> {
        if self.at == At::Trailers {
            self.keep(part)?;
            if self.lines == b"\r\n" || self.lines.ends_with(b"\n\r\n") {
                self.at = At::End;
            } else if self.lines == b"\n" || self.lines.ends_with(b"\n\n") {
                return Err(Malformed("the trailers end in half a line"));
            }
            return Ok(());
        }
        // Mostly a line comes whole, and is not kept.
        if self.lines.is_empty() && part.len() <= LINES_MAX {
            self.at = after_size(part)?;
            return Ok(());
        }
        self.keep(part)?;
        self.at = after_size(&self.lines)?;
        self.lines.clear();
        Ok(())
    }
}

/// What comes after a whole line with the size of a chunk.
fn after_size(line: &[u8]) -> Result<At, Malformed> {
    // The parser takes no digits for a zero.
    let has_digit = line.first().is_some_and(u8::is_ascii_hexdigit);
    match httparse::parse_chunk_size(line) {
        Ok(httparse::Status::Complete((_, 0))) if has_digit => Ok(At::Trailers),
        Ok(httparse::Status::Complete((_, size))) if has_digit => Ok(At::Data(size)),
        Ok(_) | Err(_) => Err(Malformed("the size of a chunk is malformed")),
    }
}

/// Data of one or more chunks. That of one is not copied.
#[derive(Default)]
struct Gathered {
    one: Bytes,
    more: BytesMut,
}

impl Gathered {
    fn add(&mut self, from: &Bytes, at: Range<usize>) {
        if self.one.is_empty() && self.more.is_empty() {
            self.one = from.slice(at);
            return;
        }
        if self.more.is_empty() {
            self.more.reserve(from.len());
            self.more.extend_from_slice(&std::mem::take(&mut self.one));
        }
        self.more.extend_from_slice(&from[at]);
    }

    fn take(self) -> Bytes {
        if self.more.is_empty() { self.one } else { self.more.freeze() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads a body that comes in these pieces: its data, its trailers and what is left over.
    fn read(pieces: &[&[u8]]) -> Result<(Vec<u8>, End, usize), Malformed> {
        let (mut chunks, mut all, mut left) = (Chunks::default(), Vec::new(), 0);
        for piece in pieces {
            let length = chunks.read(piece, |data| all.extend_from_slice(&piece[data]))?;
            left += piece.len() - length;
        }
        let end = chunks.end()?;
        assert!(end != End::NotYet || left == 0, "all is read until the end");
        Ok((all, end, left))
    }

    #[test]
    fn an_2_chunks_are_read_wherever_they_are_cut() {
        let body = b"3\r\nabc\r\n0a ;x=\"y\"\r\n0123456789\r\n000\r\nx-a: 1\r\nx-b: 2\r\n\r\nrest";
        for cut in 0..body.len() {
            let (data, end, left) = read(&[&body[..cut], &body[cut..]]).expect("it is well formed");
            assert_eq!((&*data, left), (&b"abc0123456789"[..], 4), "cut at {cut}");
            let expected = [("x-a", "1"), ("x-b", "2")];
            let expected = expected
                .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")));
            assert_eq!(end, End::Trailers(HeaderMap::from_iter(expected)));
        }
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(read(&bytes).expect("it is well formed").0, b"abc0123456789");
    }

    #[test]
    fn an_2_an_end_without_trailers_is_an_end() {
        assert_eq!(read(&[b"0\r\n\r\n"]), Ok((Vec::new(), End::Plain, 0)));
        assert_eq!(read(&[b"1\r\na\r\n0\r\n", b"\r", b"\n"]), Ok((b"a".to_vec(), End::Plain, 0)));
    }

    #[test]
    fn an_2_what_is_no_chunk_is_refused() {
        let long = [b"1;".to_vec(), vec![b'x'; LINES_MAX], b"\r\n".to_vec()].concat();
        let trailers = [b"0\r\n".to_vec(), b"a: b\r\n".repeat(LINES_MAX / 6 + 1)].concat();
        let many = [b"0\r\n".to_vec(), b"a: b\r\n".repeat(TRAILERS_MAX + 1), b"\r\n".to_vec()].concat();
        let wrong: [&[u8]; 18] = [
            b"\r\n",
            b"\n",
            b"g\r\n",
            b"-1\r\n",
            b"+1\r\n",
            b" 1\r\n",
            b";x\r\n",
            b"1\n",
            b"1 2\r\na\r\n",
            b"11111111111111111\r\n",
            b"1\r\nab\r\n",
            b"1\r\na\n0\r\n\r\n",
            b"1\r\nab",
            b"0\r\n\n",
            b"0\r\na: b\n\nc: d\r\n\r\n",
            b"0\r\nnot a trailer\r\n\r\n",
            &long,
            &trailers,
        ];
        for body in wrong.into_iter().chain([&*many]) {
            let pieces: Vec<&[u8]> = body.chunks(4096).collect();
            assert!(read(&pieces).is_err(), "in pieces");
            let said = read(&[body]);
            let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
            assert!(said.is_err(), "{shown:?}: {said:?}");
        }
    }

    proptest! {
        #[test]
        fn an_2_where_a_body_is_cut_changes_nothing(
            parts in proptest::collection::vec(
                prop_oneof!["[0-3]{1,2}", Just("\r\n".to_owned()), Just("\n".to_owned()), "[a-c]{1,3}", ";x ?", "x: y\r\n"],
                0..24,
            ),
            cut in 0usize..60,
        ) {
            let body = parts.concat().into_bytes();
            let (one, two) = body.split_at(cut.min(body.len()));
            let (whole, cut) = (read(&[&body]), read(&[one, two]));
            prop_assert_eq!(&whole, &cut);
            if let Ok((data, _, left)) = whole {
                prop_assert!(data.len() + left <= body.len());
            }
        }
    }
}
