//! Blocks as they stand in the database: cut to a size that is quick to read, and compressed where that makes them shorter.
//!
//! Each byte costs its way into the write-ahead log and from there into the database; records are much alike, so little
//! of them is left but their hashes, which stand apart (`digests.rs`): packing does not make those shorter.

use std::cell::RefCell;
use std::ops::Range;

use estop_core::journal::HASHES_LEN;
use rusqlite::{Connection, Row, params};
use zstd_safe::{CCtx, CParameter};

use super::convert::unreadable;
use super::digests::{Computed, check, checked, compute, keep, whole};
use super::query::change;
use super::shorn::{is_shorn, restore, shear};
use super::tally::Tally;
use crate::error::StoreError;
use crate::line;
use crate::records::Records;

/// Larger blocks are cut: whoever wants one record reads its block.
pub(super) const LARGE_BYTES: usize = 256 << 10;
/// zstd's first: beyond it each further byte saved costs more than writing it, and below it only a tenth is saved.
const LEVEL: i32 = 1;
/// Records are much alike: the newest thousands of places are enough to look at, and stay close to the processor.
const HASH_LOG: u32 = 12;
/// What repeats is long.
const MIN_MATCH: u32 = 7;
/// No block comes near it, but a damaged number might.
const RAW_MAX: usize = 1 << 30;

/// Bytes of a block's lines as they are exported.
pub(super) const BYTES: &str =
    "ifnull(raw_bytes, length(lines)) + iif(digests IS NULL, 0, (last_seq - first_seq + 1) * 145)";

/// A block, ready to be stored.
pub(super) struct Block {
    first_seq: u64,
    last_seq: u64,
    first_wall: i64,
    last_wall: i64,
    stored: Vec<u8>,
    /// How long it is without compression; `None` = it stands as it is.
    raw_bytes: Option<usize>,
    /// What is kept of the hashes of its records, and a checksum; `None` = they stand in the lines.
    digests: Option<Vec<u8>>,
}

#[cfg(test)]
impl Block {
    /// As it is read again.
    pub(super) fn stored(&self) -> Stored<'_> {
        Stored { lines: &self.stored, raw_bytes: self.raw_bytes, digests: self.digests.as_deref() }
    }
}

/// Records that were looked through: their blocks, and what they come to.
pub(super) struct Packed {
    pub(super) blocks: Vec<Block>,
    pub(super) tally: Tally,
}

/// Packs records.
pub(super) fn pack(records: &Records) -> Result<Packed, StoreError> {
    if records.is_empty() {
        return Err(StoreError::Invalid("a batch has no records".to_owned()));
    }
    if !records.is_whole() {
        return Err(StoreError::Invalid("records of a batch are not linked".to_owned()));
    }
    let places = records.places();
    let mut blocks = Vec::new();
    let (mut from, mut start) = (0, 0);
    for (at, pair) in places.windows(2).enumerate() {
        if pair[1].end - start > LARGE_BYTES {
            blocks.push(block(records, from..at + 1, start)?);
            (from, start) = (at + 1, pair[0].end);
        }
    }
    blocks.push(block(records, from..places.len(), start)?);
    Ok(Packed { blocks, tally: Tally::of(records) })
}

/// Whether a block of whole lines is larger than those that are made here, which are cut by their lines without hashes.
pub(super) fn is_large(lines: &[u8]) -> bool {
    lines.len() > LARGE_BYTES && lines.len() - line::each(lines).count() * HASHES_LEN > LARGE_BYTES
}

/// A block of some of the records, whose lines begin at `start`.
fn block(records: &Records, part: Range<usize>, start: usize) -> Result<Block, StoreError> {
    let [first, .., last] = [&records.places()[part.start], &records.places()[part.end - 1]];
    let raw = &records.texts()[start..last.end];
    let first_seq = records.first_seq() + part.start as u64;
    let places = &records.places()[part.clone()];
    let shorn = shear(records.texts(), start, places, first_seq, records.chains());
    debug_assert!(
        shorn.as_ref().is_none_or(|shorn| restore(shorn, raw.len()).as_deref() == Some(raw)),
        "lines that begin otherwise"
    );
    let (stored, raw_bytes, digests) = match compress(shorn.as_deref().unwrap_or(raw))? {
        Some(packed) => {
            let digests = checked(keep(records, part.clone()), &packed);
            (packed, Some(raw.len()), Some(digests))
        }
        None => {
            let lines = whole(raw, &records.digests()[part.clone()]);
            (lines.ok_or_else(|| unreadable("a record"))?, None, None)
        }
    };
    Ok(Block {
        first_seq,
        last_seq: records.first_seq() + part.end as u64 - 1,
        first_wall: first.now.wall,
        last_wall: last.now.wall,
        stored,
        raw_bytes,
        digests,
    })
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
        context.set_parameter(CParameter::HashLog(HASH_LOG))?;
        context.set_parameter(CParameter::MinMatch(MIN_MATCH))?;
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

/// The lines of a row whose columns `lines`, `raw_bytes` and `digests` stand at `at` and after it.
pub(super) fn lines_of(row: &Row<'_>, at: usize) -> Result<Vec<u8>, StoreError> {
    read(row, at).map(|read| read.lines)
}

/// The same for whoever goes on from them: lines that somebody changed are none to go on from.
pub(super) fn sound_lines_of(row: &Row<'_>, at: usize) -> Result<Vec<u8>, StoreError> {
    let read = read(row, at)?;
    read.is_sound.then_some(read.lines).ok_or_else(|| unreadable("a changed block of the journal"))
}

fn read(row: &Row<'_>, at: usize) -> Result<Computed, StoreError> {
    Stored::of(row, at)?.read().ok_or_else(damaged)
}

pub(super) fn damaged() -> StoreError {
    unreadable("a block of the journal")
}

/// The columns `lines`, `raw_bytes` and `digests` of a row.
pub(super) struct Stored<'a> {
    pub(super) lines: &'a [u8],
    pub(super) raw_bytes: Option<usize>,
    pub(super) digests: Option<&'a [u8]>,
}

impl<'a> Stored<'a> {
    pub(super) fn of(row: &'a Row<'_>, at: usize) -> Result<Stored<'a>, StoreError> {
        let lines = row.get_ref(at)?.as_blob().map_err(|_| damaged())?;
        let digests = row.get_ref(at + 2)?.as_blob_or_null().map_err(|_| damaged())?;
        Ok(Stored { lines, raw_bytes: row.get(at + 1)?, digests })
    }

    /// `None` if it is damaged.
    pub(super) fn read(&self) -> Option<Computed> {
        let as_stored = |lines| Computed { lines, is_sound: true };
        let Stored { lines, raw_bytes, digests } = *self;
        match (raw_bytes, digests) {
            // Checked first: what was damaged may ask for much room.
            (Some(raw_bytes), Some(digests)) => {
                check(digests, lines).and_then(|digests| compute(&unpack(lines, raw_bytes)?, digests))
            }
            (Some(raw_bytes), None) => {
                unpack(lines, raw_bytes).filter(|lines| have_hashes(lines)).map(as_stored)
            }
            // Nothing that is packed looks like this.
            (None, None) => {
                (lines.starts_with(b"{") && lines.ends_with(b"\n")).then(|| as_stored(lines.to_vec()))
            }
            (None, Some(_)) => None,
        }
    }
}

/// Whether these are whole lines: without its hashes, a block apart would look like one of before.
fn have_hashes(lines: &[u8]) -> bool {
    line::each(lines).next().is_some_and(|line| line::digests(line).is_some())
}

fn unpack(stored: &[u8], raw_bytes: usize) -> Option<Vec<u8>> {
    let lines = inflate(stored, raw_bytes)?;
    if is_shorn(&lines) {
        return restore(&lines, raw_bytes);
    }
    (lines.len() == raw_bytes).then_some(lines)
}

/// What was compressed: lines, or shorn ones, which are no longer.
pub(super) fn inflate(stored: &[u8], raw_bytes: usize) -> Option<Vec<u8>> {
    let said = zstd_safe::get_frame_content_size(stored).ok().flatten()?;
    let said = usize::try_from(said).ok().filter(|said| *said <= raw_bytes && raw_bytes <= RAW_MAX)?;
    let mut lines = Vec::with_capacity(said);
    zstd_safe::decompress(&mut lines, stored).ok()?;
    Some(lines)
}

/// Adds a block.
pub(super) fn insert(connection: &Connection, block: &Block) -> Result<(), StoreError> {
    let Block { first_seq, last_seq, first_wall, last_wall, stored, raw_bytes, digests } = block;
    let sql = "INSERT INTO block (first_seq, last_seq, first_wall, last_wall, lines, raw_bytes, digests)
        VALUES (?, ?, ?, ?, ?, ?, ?)";
    change(connection, sql, params![first_seq, last_seq, first_wall, last_wall, stored, raw_bytes, digests])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use estop_core::chain::Digest;
    use estop_core::event::{Event, EventKind};
    use estop_core::journal::{Chains, Happened, Spans, Written, write_hashes};
    use estop_core::time::Now;

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
        let digests = checked(vec![7; 64], &packed);
        for place in 0..packed.len() {
            let mut changed = packed.clone();
            changed[place] ^= 0x10;
            assert_eq!(check(&digests, &changed), None, "byte {place}");
        }
    }

    #[test]
    fn st_1_a_block_counts_with_the_bytes_its_lines_have_when_they_are_exported() {
        let per_record = format!("* {HASHES_LEN})");
        assert!(BYTES.contains(&per_record), "{BYTES} {per_record}");
        let hashes = Digest([1; 32]);
        let mut lines = b"{\n".to_vec();
        lines.pop();
        write_hashes(&hashes, &hashes, &mut lines);
        assert_eq!(lines.len(), b"{\n".len() + HASHES_LEN);
    }

    #[test]
    fn st_1_blocks_as_they_are_made_here_are_not_large_when_they_are_read() {
        let (mut chains, decision) = (Chains::default(), "x".repeat(300));
        let mut records = Records::from_seq(1, Records::default());
        let (at, chain) = (chains.at("coder"), records.add_chain("coder".into()));
        let mut tail = Vec::new();
        let happened = Event::open(EventKind::Tick);
        let spans = Spans::write(&mut tail, "coder", Now::default(), Happened::Agent(&happened), &decision);
        for _ in 0..2 * LARGE_BYTES / tail.len() {
            records.add(chain, (&mut chains, at), Now::default(), Written::at(&tail, spans));
        }
        records.link(&mut chains);
        let Packed { blocks, .. } = pack(&records).expect("they are packed");
        assert!(blocks.len() > 1, "they were cut");
        let lines = |block: &Block| {
            let texts = unpack(&block.stored, block.raw_bytes.expect("packed")).expect("unpacked");
            compute(&texts, check(block.digests.as_ref().expect("apart"), &block.stored).expect("whole"))
                .expect("lines")
                .lines
        };
        assert!(
            lines(&blocks[0]).len() > LARGE_BYTES,
            "with hashes they are longer than what they are cut by"
        );
        assert!(!blocks.iter().any(|block| is_large(&lines(block))));
        assert!(is_large(&lines(&blocks[0]).repeat(2)));
        let all: Vec<u8> = blocks.iter().flat_map(lines).collect();
        assert_eq!(Some(all), whole(records.texts(), records.digests()));
    }

    #[test]
    fn what_does_not_get_shorter_stays_as_it_is() {
        assert_eq!(compress(b"{}\n"), Ok(None));
    }
}
