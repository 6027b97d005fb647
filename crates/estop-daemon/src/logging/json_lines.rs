//! Lines of JSON for machines, which people read too: what hides in names is written as an escape.

use std::io::{self, Write};

use estop_core::printable::escaped_json;
use tracing_appender::non_blocking::NonBlocking;
use tracing_subscriber::fmt::MakeWriter;

/// Where lines go, each in one piece.
#[derive(Clone)]
pub(super) struct JsonLines<W>(pub(super) W);

impl<'a> MakeWriter<'a> for JsonLines<NonBlocking> {
    type Writer = JsonLines<NonBlocking>;

    fn make_writer(&'a self) -> Self::Writer {
        self.clone()
    }
}

impl<W: Write> Write for JsonLines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(line) {
            Ok(text) => self.0.write_all(escaped_json(text).as_bytes())?,
            Err(_) => self.0.write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ob_1_what_hides_in_a_name_is_an_escape_in_a_line_of_json() {
        let mut out = Vec::new();
        let line = "{\"tool\":\"a\u{202e}b\",\"agent\":\"grün\"}\n";
        let written = JsonLines(&mut out).write(line.as_bytes());
        assert_eq!(written.ok(), Some(line.len()), "all of the line was taken");
        assert_eq!(String::from_utf8_lossy(&out), "{\"tool\":\"a\\u202eb\",\"agent\":\"grün\"}\n");
    }
}
