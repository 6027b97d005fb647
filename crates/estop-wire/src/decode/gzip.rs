//! The frame around deflate that makes it gzip (RFC 1952), byte by byte.
//!
//! Several members may follow each other; what follows the last one and is not a member is padding.

use miniz_oxide::DataFormat;
use miniz_oxide::inflate::stream::{InflateState, MinReset};

use super::Broken;
use super::stage::{Step, inflated};

const FLAG_HEADER_CRC: u8 = 2;
const FLAG_EXTRA: u8 = 4;
const FLAG_NAME: u8 = 8;
const FLAG_COMMENT: u8 = 16;

/// Checksum and size after the data.
const TRAILER_BYTES: u16 = 8;

/// A gzip body, somewhere in the middle.
pub(super) struct Gzip {
    at: At,
    flags: u8,
    first_member: bool,
    data: InflateState,
}

/// Where in a member we are.
#[derive(Clone, Copy)]
enum At {
    /// The ten bytes every member starts with: how many are read.
    Start(u8),
    /// The low byte of the extra field's length.
    ExtraLow,
    /// The high byte, after the low one.
    ExtraHigh(u8),
    /// Bytes to leave out.
    Extra(u16),
    Name,
    Comment,
    HeaderCrc(u16),
    Data,
    Trailer(u16),
    /// After the last member.
    Padding,
}

impl Default for Gzip {
    fn default() -> Gzip {
        Gzip { at: At::Start(0), flags: 0, first_member: true, data: InflateState::new(DataFormat::Raw) }
    }
}

impl Gzip {
    /// Reads some of `bytes` and fills some of `out`.
    pub(super) fn step(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<Step, Broken> {
        let mut read = 0;
        while !matches!(self.at, At::Data) {
            let Some(&byte) = bytes.get(read) else { return Ok(Step { read, wrote: 0 }) };
            self.at = self.frame(byte)?;
            read += 1;
        }
        let (step, ended) = inflated(&mut self.data, &bytes[read..], out)?;
        if ended {
            // Its window is not cleared: a body of many small members would clear 32 KiB for each 20 bytes. What a broken
            // member can see of it is this same body.
            self.data.reset_as(MinReset);
            self.at = At::Trailer(TRAILER_BYTES);
        }
        Ok(Step { read: read + step.read, wrote: step.wrote })
    }

    /// Takes one byte that is not data.
    fn frame(&mut self, byte: u8) -> Result<At, Broken> {
        Ok(match self.at {
            At::Start(n) => return self.start(n, byte),
            At::ExtraLow => At::ExtraHigh(byte),
            At::ExtraHigh(low) => match u16::from_le_bytes([low, byte]) {
                0 => self.after_extra(),
                length => At::Extra(length),
            },
            At::Extra(1) => self.after_extra(),
            At::Extra(n) => At::Extra(n - 1),
            At::Name if byte == 0 => self.after_name(),
            At::Name => At::Name,
            At::Comment if byte == 0 => self.after_comment(),
            At::Comment => At::Comment,
            At::HeaderCrc(1) => At::Data,
            At::HeaderCrc(n) => At::HeaderCrc(n - 1),
            At::Data => At::Data,
            At::Trailer(1) => {
                self.first_member = false;
                At::Start(0)
            }
            At::Trailer(n) => At::Trailer(n - 1),
            At::Padding => At::Padding,
        })
    }

    fn start(&mut self, n: u8, byte: u8) -> Result<At, Broken> {
        let fits = match n {
            0 => byte == 0x1f,
            1 => byte == 0x8b,
            2 => byte == 8,
            _ => true,
        };
        if !fits {
            return if self.first_member { Err(Broken) } else { Ok(At::Padding) };
        }
        if n == 3 {
            self.flags = byte;
        }
        if n < 9 {
            return Ok(At::Start(n + 1));
        }
        Ok(if self.has(FLAG_EXTRA) { At::ExtraLow } else { self.after_extra() })
    }

    fn after_extra(&self) -> At {
        if self.has(FLAG_NAME) { At::Name } else { self.after_name() }
    }

    fn after_name(&self) -> At {
        if self.has(FLAG_COMMENT) { At::Comment } else { self.after_comment() }
    }

    fn after_comment(&self) -> At {
        if self.has(FLAG_HEADER_CRC) { At::HeaderCrc(2) } else { At::Data }
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}
