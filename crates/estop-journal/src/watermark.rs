//! How far the journal must reach: without it nobody would notice a file that was cut at the end of a line.
//!
//! Two slots, written in turn, so that one is whole whenever the machine stops. Written once a second, and with every sync.

use estop_core::ids::{Hash64, Name};
use estop_core::time::Now;
use serde::{Deserialize, Serialize};

use crate::line::check_line;
use crate::segment::sealed;

/// Bytes of a slot: one sector of any disk, so that a torn write takes one slot with it.
pub const SLOT_LEN: usize = 4096;

/// A place in the journal: everything before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// Which segment.
    pub segment: u64,
    /// Bytes from its beginning.
    pub bytes: u64,
    /// The newest record before it.
    pub seq: u64,
}

/// How far the journal must reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watermark {
    /// The slot with the higher number is the newer.
    pub serial: u64,
    /// Which journal.
    pub journal: Hash64,
    /// Which start of the machine: after another, only what was synced must be there.
    pub boot: Name,
    /// What the operating system has.
    pub written: Position,
    /// What the disk has.
    pub synced: Position,
    /// When estop was last alive.
    pub now: Now,
}

impl Watermark {
    /// Its slot, filled up with spaces.
    pub fn slot(&self) -> [u8; SLOT_LEN] {
        let line = sealed(self);
        debug_assert!(line.len() <= SLOT_LEN, "{} bytes do not fit", line.len());
        let mut slot = [b' '; SLOT_LEN];
        for (to, from) in slot.iter_mut().zip(&line) {
            *to = *from;
        }
        slot
    }

    /// Where its slot stands in the file.
    pub fn offset(&self) -> u64 {
        self.serial % 2 * SLOT_LEN as u64
    }

    /// The newest of the slots that are whole.
    pub fn read(file: &[u8]) -> Option<Watermark> {
        file.chunks(SLOT_LEN).filter_map(Watermark::parse).max_by_key(|mark| mark.serial)
    }

    fn parse(slot: &[u8]) -> Option<Watermark> {
        let end = memchr::memchr(b'\n', slot)?;
        let (line, rest) = slot.split_at(end);
        check_line(line).ok()?;
        rest[1..].iter().all(|byte| *byte == b' ').then_some(())?;
        serde_json::from_slice(line).ok()
    }

    /// How far the journal must reach, on this start of the machine.
    pub fn must_reach(&self, boot: &str) -> Position {
        if *self.boot == *boot { self.written.max(self.synced) } else { self.synced }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(serial: u64) -> Watermark {
        let written = Position { segment: u64::MAX, bytes: u64::MAX, seq: u64::MAX - serial };
        let synced = Position { segment: 1, bytes: 2, seq: 3 };
        let boot = "01234567-89ab-cdef-0123-456789abcdef".into();
        let now = Now { mono: estop_core::time::Millis(u64::MAX), wall: i64::MIN };
        Watermark { serial, journal: Hash64(7), boot, written, synced, now }
    }

    #[test]
    fn st_1_the_newest_whole_slot_counts() {
        let file = [mark(8).slot(), mark(9).slot()].concat();
        assert_eq!(Watermark::read(&file), Some(mark(9)));
        assert_eq!((mark(8).offset(), mark(9).offset()), (0, SLOT_LEN as u64));
        for at in SLOT_LEN..file.len() {
            let mut torn = file.clone();
            torn[at] ^= 1;
            assert_eq!(Watermark::read(&torn), Some(mark(8)), "byte {at}");
        }
        assert_eq!(Watermark::read(&file[..SLOT_LEN + 10]), Some(mark(8)));
        assert_eq!(Watermark::read(b""), None);
    }

    #[test]
    fn st_1_after_a_power_cut_only_what_was_synced_must_be_there() {
        let mark = mark(1);
        assert_eq!(mark.must_reach(&mark.boot), mark.written);
        assert_eq!(mark.must_reach("another"), mark.synced);
    }
}
