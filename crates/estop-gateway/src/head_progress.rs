//! When a head that comes in pieces is parsed (SE-1). A parser begins anew each time, so a head that comes byte by byte
//! would cost its length squared.

use memchr::memchr_iter;

/// How far a head has come.
#[derive(Debug, Default)]
pub(crate) struct HeadProgress {
    /// Bytes that were parsed the last time.
    parsed: usize,
    /// Bytes in which the end of the head was looked for.
    searched: usize,
}

impl HeadProgress {
    /// Whether to parse what came so far: at first, when the end of the head has come, and whenever twice as much has come
    /// as was parsed before, so that what is malformed is seen before its end. In all, at most four times the length of
    /// the head is parsed, and its bytes are searched once.
    pub(crate) fn is_due(&mut self, came: &[u8]) -> bool {
        let is_due = came.len() >= 2 * self.parsed || self.ends(came);
        self.searched = came.len();
        if is_due {
            self.parsed = came.len();
        }
        is_due
    }

    /// Whether an empty line stands behind a line that is not empty, in what came since the last time. Empty lines before
    /// a head are part of it for the parser.
    fn ends(&self, came: &[u8]) -> bool {
        // The empty line may have begun before.
        let from = self.searched.min(came.len()).saturating_sub(2);
        memchr_iter(b'\n', &came[from..]).any(|at| {
            let (line, next) = came.split_at(from + at);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let next = &next[1..];
            let is_blank = line.last().is_none_or(|last| *last == b'\n');
            !is_blank && (next.starts_with(b"\n") || next.starts_with(b"\r\n"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::HeadProgress;

    /// Bytes parsed while `head` comes in pieces of this size, and whether its last byte was parsed at once.
    fn parsed(head: &[u8], piece: usize) -> (usize, bool) {
        let (mut progress, mut parsed, mut last) = (HeadProgress::default(), 0, false);
        for end in (piece..=head.len()).step_by(piece) {
            last = progress.is_due(&head[..end]);
            parsed += if last { end } else { 0 };
            // Asked again, with nothing new and no end.
            assert!(last || !progress.is_due(&head[..end]));
        }
        (parsed, last)
    }

    #[test]
    fn se_1_a_head_that_comes_byte_by_byte_is_parsed_in_linear_time() {
        for unit in ["a", "\n", "\r\n", "\r", "a: b\r\n", "a\n", " \n", "\n\r", "POST / HTTP/1.1\r\n"] {
            for length in [10_000, 100_000, 1_000_000] {
                let head = unit.repeat(length / unit.len());
                for piece in [1, 2, 3, 7] {
                    let (parsed, _) = parsed(head.as_bytes(), piece);
                    assert!(parsed <= 4 * head.len(), "{unit:?} in pieces of {piece}: {parsed} bytes parsed");
                }
            }
        }
    }

    #[test]
    fn se_1_a_head_is_parsed_as_soon_as_its_end_has_come() {
        for length in 0..100 {
            for end in ["\r\n\r\n", "\n\n", "\n\r\n", "\r\n\n"] {
                for before in ["", "\r\n", "\n\n"] {
                    let head = format!("{before}POST / HTTP/1.1\r\na: {}{end}", "x".repeat(length));
                    assert!(parsed(head.as_bytes(), 1).1, "{head:?}");
                }
            }
        }
    }
}
