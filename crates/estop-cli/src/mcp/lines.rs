//! Lines of a stream, as they came.

use std::io::{BufRead, ErrorKind};

use estop_wire::mcp::MESSAGE_BYTES_MAX;

/// Lines of a stream.
pub(super) struct Lines<R> {
    from: R,
    /// The line that is read is too long, and goes in parts.
    in_parts: bool,
    max: usize,
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A line with its end; the last one may have none.
    Line(Vec<u8>),
    /// A part of a line that is too long to be looked at.
    Part { bytes: Vec<u8>, is_last: bool },
    /// The stream is over.
    End,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(from: R) -> Lines<R> {
        Lines { from, in_parts: false, max: MESSAGE_BYTES_MAX }
    }

    pub(super) fn next_piece(&mut self) -> std::io::Result<Piece> {
        let mut bytes = Vec::new();
        loop {
            let available = match self.from.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let (taken, ends) = match memchr(available) {
                Some(at) => (at + 1, true),
                None => (available.len(), available.is_empty()),
            };
            bytes.extend_from_slice(available.get(..taken).unwrap_or_default());
            self.from.consume(taken);
            if ends {
                let in_parts = std::mem::take(&mut self.in_parts);
                return Ok(match (in_parts, bytes.is_empty()) {
                    (false, true) => Piece::End,
                    (false, false) => Piece::Line(bytes),
                    (true, _) => Piece::Part { bytes, is_last: true },
                });
            }
            if self.in_parts || bytes.len() > self.max {
                self.in_parts = true;
                return Ok(Piece::Part { bytes, is_last: false });
            }
        }
    }
}

fn memchr(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str, buffer: usize, max: usize) -> Vec<Piece> {
        let from = std::io::BufReader::with_capacity(buffer, text.as_bytes());
        let mut lines = Lines { from, in_parts: false, max };
        let mut all = Vec::new();
        loop {
            match lines.next_piece().expect("memory can be read") {
                Piece::End => return all,
                piece @ (Piece::Line(_) | Piece::Part { .. }) => all.push(piece),
            }
        }
    }

    #[test]
    fn tl_3_lines_are_passed_as_they_came() {
        let line = |text: &str| Piece::Line(text.as_bytes().to_vec());
        for buffer in [1, 3, 100] {
            assert_eq!(
                pieces("a\r\n\nbc\nlast", buffer, 10),
                [line("a\r\n"), line("\n"), line("bc\n"), line("last")]
            );
        }
    }

    #[test]
    fn tl_3_a_line_that_is_too_long_goes_in_parts_and_is_known_by_them() {
        let all = pieces("0123456789\nok\n", 4, 6);
        let (last, parts) = all.split_last().expect("there are some");
        assert_eq!(*last, Piece::Line(b"ok\n".to_vec()));
        let text: Vec<u8> = parts
            .iter()
            .flat_map(|piece| match piece {
                Piece::Part { bytes, .. } => bytes.clone(),
                Piece::Line(_) | Piece::End => Vec::new(),
            })
            .collect();
        assert_eq!(text, b"0123456789\n");
        assert!(matches!(parts.last(), Some(Piece::Part { is_last: true, .. })));
    }
}
