//! A segment's first and last line.
//!
//! ```text
//! {"estop_journal":1,"journal":"9f3ac01d7be25544","segment":12,"now":{…},"state":{…},"crc":"…"}
//! {"end":{"segment":12,"last_seq":908233},"crc":"…"}
//! ```

use estop_core::ids::{Hash64, Name};
use estop_core::time::Now;
use serde::{Deserialize, Serialize};

use crate::line::seal_line;
use crate::state::State;

/// The format this version writes and reads.
pub const FORMAT: u32 = 1;

/// How a header begins.
pub(crate) const HEADER_KEY: &[u8] = b"{\"estop_journal\":";
/// How a last line begins.
pub(crate) const END_KEY: &[u8] = b"{\"end\":";

/// A segment's first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The format.
    #[serde(rename = "estop_journal")]
    pub format: u32,
    /// Which journal: no other has the same.
    pub journal: Hash64,
    /// Its number, from 1.
    pub segment: u64,
    /// When it was begun.
    pub now: Now,
    /// What the records before it add up to.
    pub state: State,
    /// In an export of one agent: whose records follow, and nobody else's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Name>,
}

/// A segment's last line: nothing was cut off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// The segment's number.
    pub segment: u64,
    /// The newest record.
    pub last_seq: u64,
    /// An export's last line: the SHA-256 of the newest line of the manifest, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Name>,
}

#[derive(Serialize, Deserialize)]
struct EndLine {
    end: End,
}

impl Header {
    /// Its line, the line's end included.
    pub fn line(&self) -> Vec<u8> {
        sealed(self)
    }

    /// Reads a line whose checksum holds.
    pub fn parse(line: &[u8]) -> Result<Header, serde_json::Error> {
        serde_json::from_slice(line)
    }
}

impl End {
    /// Its line, the line's end included.
    pub fn line(&self) -> Vec<u8> {
        sealed(&EndLine { end: self.clone() })
    }

    /// Reads a line whose checksum holds.
    pub fn parse(line: &[u8]) -> Result<End, serde_json::Error> {
        serde_json::from_slice::<EndLine>(line).map(|line| line.end)
    }
}

/// A value as a line with its checksum.
pub(crate) fn sealed(value: &impl Serialize) -> Vec<u8> {
    // Our own types always can be written.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.pop();
    seal_line(&mut line, 0);
    line
}
