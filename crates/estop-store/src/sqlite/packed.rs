//! Blocks as they stand in the database: cut to a size that is quick to read, and compressed where that makes them shorter.
//!
//! Each byte costs its way into the write-ahead log and from there into the database; records are much alike, so a
//! seventh of them is left.

use std::cell::RefCell;

use rusqlite::{Connection, Row, params};
use zstd_safe::{CCtx, CParameter};

use super::convert::unreadable;
use super::query::change;
use super::tally::Tally;
use crate::error::StoreError;
use crate::journal::Lines;
use crate::line;

/// Larger blocks are cut: whoever wants one record reads its block.
pub(super) const LARGE_BYTES: usize = 256 << 10;
/// zstd's first: beyond it each further byte saved costs more than writing it, below it hashes are not packed at all.
const LEVEL: i32 = 1;
/// No block comes near it, but a damaged number might.
const RAW_MAX: usize = 1 << 30;

/// A block, ready to be stored.
pub(super) struct Block {
    first_seq: u64,
    last_seq: u64,
    first_wall: i64,
    last_wall: i64,
    stored: Vec<u8>,
    /// How long it is without compression; `None` = it stands as it is.
    raw_bytes: Option<usize>,
}

/// Lines that were looked through: their blocks, and what they come to.
pub(super) struct Packed {
    pub(super) blocks: Vec<Block>,
    pub(super) tally: Tally,
}

/// Looks through the lines, whether they are what they are said to be, and packs them.
pub(super) fn pack(lines: &Lines) -> Result<Packed, StoreError> {
    if lines.bytes.last() != Some(&b'\n') {
        return Err(StoreError::Invalid("a batch of lines must end with a line end".to_owned()));
    }
    let mut tally = Tally::default();
    let mut cut = Cut::default();
    let mut blocks = Vec::new();
    let mut next = lines.first_seq;
    for line in line::each(&lines.bytes) {
        let found = line::head(line).filter(|head| head.seq == next && line::has_digests(line));
        let head = found.ok_or_else(|| {
            StoreError::Invalid(format!("record {next} of the batch is missing or not a record"))
        })?;
        if cut.len() > 0 && cut.len() + line.len() >= LARGE_BYTES {
            blocks.push(cut.block(&lines.bytes)?);
            cut = Cut { start: cut.end, end: cut.end, ..Cut::default() };
        }
        if cut.len() == 0 {
            (cut.first_seq, cut.first_wall) = (head.seq, head.wall);
        }
        (cut.last_seq, cut.last_wall) = (head.seq, head.wall);
        cut.end += line.len() + 1;
        tally.take(&head, line, 0);
        next += 1;
    }
    if next != lines.last_seq.saturating_add(1) {
        return Err(StoreError::Invalid(format!("the batch ends before record {}", lines.last_seq)));
    }
    blocks.push(cut.block(&lines.bytes)?);
    Ok(Packed { blocks, tally })
}

/// Where a block is cut from its lines.
#[derive(Default)]
struct Cut {
    first_seq: u64,
    last_seq: u64,
    first_wall: i64,
    last_wall: i64,
    start: usize,
    end: usize,
}

impl Cut {
    fn len(&self) -> usize {
        self.end - self.start
    }

    fn block(&self, lines: &[u8]) -> Result<Block, StoreError> {
        let Cut { first_seq, last_seq, first_wall, last_wall, start, end } = *self;
        let raw = &lines[start..end];
        let packed = compress(raw)?;
        let raw_bytes = packed.is_some().then_some(raw.len());
        let stored = packed.unwrap_or_else(|| raw.to_vec());
        Ok(Block { first_seq, last_seq, first_wall, last_wall, stored, raw_bytes })
    }
}

thread_local! {
    /// What compressing needs: made once, it is larger than most blocks.
    static PRESS: RefCell<Option<Press>> = const { RefCell::new(None) };
}

struct Press {
    context: CCtx<'static>,
    out: Vec<u8>,
}

impl Press {
    fn new() -> Result<Press, usize> {
        let mut context = CCtx::try_create().ok_or(0_usize)?;
        context.set_parameter(CParameter::CompressionLevel(LEVEL))?;
        // Bits that flip are noticed by whoever reads, and not only by whoever verifies.
        context.set_parameter(CParameter::ChecksumFlag(true))?;
        Ok(Press { context, out: Vec::new() })
    }

    fn press(&mut self, raw: &[u8]) -> Result<&[u8], usize> {
        self.out.clear();
        self.out.reserve(zstd_safe::compress_bound(raw.len()));
        self.context.compress2(&mut self.out, raw)?;
        Ok(&self.out)
    }
}

/// `None` if it would not be shorter.
fn compress(raw: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
    let failed = |_| StoreError::Database("a block of the journal cannot be compressed".to_owned());
    PRESS.with_borrow_mut(|press| {
        let press = match press {
            Some(press) => press,
            None => press.insert(Press::new().map_err(failed)?),
        };
        let packed = press.press(raw).map_err(failed)?;
        Ok((packed.len() < raw.len()).then(|| packed.to_vec()))
    })
}

/// The lines of a row whose columns `lines` and `raw_bytes` stand at `at` and after it.
pub(super) fn lines_of(row: &Row<'_>, at: usize) -> Result<Vec<u8>, StoreError> {
    let stored = row.get_ref(at)?.as_blob().map_err(|_| unreadable("a block of the journal"))?;
    let lines = match row.get::<_, Option<usize>>(at + 1)? {
        Some(raw_bytes) => unpack(stored, raw_bytes),
        // Nothing that is packed looks like this.
        None => (stored.starts_with(b"{") && stored.ends_with(b"\n")).then(|| stored.to_vec()),
    };
    lines.ok_or_else(|| unreadable("a block of the journal"))
}

fn unpack(stored: &[u8], raw_bytes: usize) -> Option<Vec<u8>> {
    let said = zstd_safe::get_frame_content_size(stored).ok().flatten()?;
    if usize::try_from(said).ok()? != raw_bytes || raw_bytes > RAW_MAX {
        return None;
    }
    let mut lines = Vec::with_capacity(raw_bytes);
    let found = zstd_safe::decompress(&mut lines, stored).ok()?;
    (found == raw_bytes).then_some(lines)
}

/// Adds a block.
pub(super) fn insert(connection: &Connection, block: &Block) -> Result<(), StoreError> {
    let Block { first_seq, last_seq, first_wall, last_wall, stored, raw_bytes } = block;
    let sql = "INSERT INTO block (first_seq, last_seq, first_wall, last_wall, lines, raw_bytes) VALUES (?, ?, ?, ?, ?, ?)";
    change(connection, sql, params![first_seq, last_seq, first_wall, last_wall, stored, raw_bytes])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn st_1_what_is_packed_is_read_back_and_a_changed_byte_is_noticed() {
        let raw: Vec<u8> =
            (0..5000_u32).flat_map(|n| format!("line {}\n", n * n % 977).into_bytes()).collect();
        let packed = compress(&raw).expect("it compresses").expect("it is shorter");
        assert!(packed.len() < raw.len() / 3);
        assert_eq!(unpack(&packed, raw.len()).as_deref(), Some(&*raw));
        assert_eq!(unpack(&packed, raw.len() + 1), None);
        assert_eq!(unpack(&packed[..packed.len() - 1], raw.len()), None);
        for place in 0..packed.len() {
            let mut changed = packed.clone();
            changed[place] ^= 0x10;
            let read = unpack(&changed, raw.len());
            assert!(read.is_none() || read.as_deref() == Some(&*raw), "byte {place}");
        }
    }

    #[test]
    fn what_does_not_get_shorter_stays_as_it_is() {
        assert_eq!(compress(b"{}\n"), Ok(None));
    }
}
