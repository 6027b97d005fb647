//! What a pruned journal begins with: the state of each agent after the last record that went, one line for each, in order
//! of name, before the first segment.
//!
//! ```text
//! {"base":"coder","n":1742,"state":{…},"crc":"…"}
//! ```

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::line::seal_line;

/// How such a line begins.
pub(crate) const BASE_KEY: &[u8] = b"{\"base\":";

/// An agent's state after records that are gone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Base<'a> {
    /// Whose.
    #[serde(borrow, rename = "base")]
    pub agent: Cow<'a, str>,
    /// How many records of it there were.
    pub n: u64,
    /// Its state, as a snapshot is written.
    #[serde(borrow)]
    pub state: &'a RawValue,
}

impl<'a> Base<'a> {
    /// Appends its line, the line's end included.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        let start = out.len();
        serde_json::to_writer(&mut *out, self)?;
        out.pop();
        seal_line(out, start);
        Ok(())
    }

    /// Reads a line whose checksum holds.
    pub fn parse(line: &'a [u8]) -> Result<Base<'a>, serde_json::Error> {
        serde_json::from_slice(line)
    }
}
