//! A sealed segment: zstd frames that are read one by one, and behind them zstd's standard seek table, which says where each
//! begins. `zstdcat` reads the file as a whole.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use zstd_safe::{CCtx, CParameter};

/// A frame ends with the line that brings it to so many bytes. Chosen: an agent's record among those of thousands costs one
/// frame; half takes 13 % more room, double twice the time.
pub const FRAME_BYTES: usize = 64 << 10;
/// Longest frame that is read: a header with everybody's settings is one line.
const FRAME_MAX: u32 = 256 << 20;
/// zstd's fastest usual level: the next ones are not smaller for lines like these.
const LEVEL: i32 = 1;

/// The seek table is a frame that zstd skips.
const SKIPPABLE: u32 = 0x184D_2A5E;
const SEEKABLE: u32 = 0x8F92_EAB1;
const FOOTER_LEN: usize = 9;
const HEADER_LEN: usize = 8;
const ENTRY_LEN: usize = 8;

/// Where the frame that begins at `start` ends in whole lines.
pub fn end_of_frame(lines: &[u8], start: usize) -> usize {
    let wanted = start.saturating_add(FRAME_BYTES).min(lines.len());
    let rest = lines.get(wanted.saturating_sub(1).max(start)..).unwrap_or_default();
    memchr::memchr(b'\n', rest).map_or(lines.len(), |at| wanted.saturating_sub(1).max(start) + at + 1)
}

/// Packs whole lines.
pub(super) fn compress(lines: &[u8]) -> io::Result<Vec<u8>> {
    let failed = |code| io::Error::other(zstd_safe::get_error_name(code));
    let mut context = CCtx::create();
    context.set_parameter(CParameter::CompressionLevel(LEVEL)).map_err(failed)?;
    context.set_parameter(CParameter::ChecksumFlag(true)).map_err(failed)?;
    let (mut out, mut table, mut start) = (Vec::new(), Vec::new(), 0);
    while start < lines.len() {
        let end = end_of_frame(lines, start);
        let mut frame = Vec::with_capacity(zstd_safe::compress_bound(end - start));
        context.compress2(&mut frame, &lines[start..end]).map_err(failed)?;
        let length = |bytes: usize| u32::try_from(bytes).map_err(io::Error::other);
        table.extend_from_slice(&length(frame.len())?.to_le_bytes());
        table.extend_from_slice(&length(end - start)?.to_le_bytes());
        out.append(&mut frame);
        start = end;
    }
    let count = u32::try_from(table.len() / ENTRY_LEN).map_err(io::Error::other)?;
    let size = u32::try_from(table.len() + FOOTER_LEN).map_err(io::Error::other)?;
    out.extend_from_slice(&SKIPPABLE.to_le_bytes());
    out.extend_from_slice(&size.to_le_bytes());
    out.append(&mut table);
    out.extend_from_slice(&count.to_le_bytes());
    out.push(0);
    out.extend_from_slice(&SEEKABLE.to_le_bytes());
    Ok(out)
}

/// A sealed segment, open for reading.
#[derive(Debug)]
pub struct Frames {
    file: File,
    /// Of each frame where it begins, how long it is, and how long it is unpacked.
    table: Vec<(u64, u32, u32)>,
}

impl Frames {
    /// Opens a sealed segment.
    pub fn open(path: &Path) -> io::Result<Frames> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "its seek table is damaged");
        let file = crate::data_folder::open_regular(path, File::options().read(true))?;
        let length = file.metadata()?.len();
        let mut footer = [0; FOOTER_LEN];
        let footer_at = length.checked_sub(FOOTER_LEN as u64).ok_or_else(damaged)?;
        file.read_exact_at(&mut footer, footer_at)?;
        let [a, b, c, d, descriptor, magic @ ..] = footer;
        if descriptor != 0 || u32::from_le_bytes(magic) != SEEKABLE {
            return Err(damaged());
        }
        let table_len = u64::from(u32::from_le_bytes([a, b, c, d])) * ENTRY_LEN as u64;
        let table_at = footer_at.checked_sub(table_len).ok_or_else(damaged)?;
        let mut bytes = vec![0; usize::try_from(table_len).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, table_at)?;
        let (mut table, mut at) = (Vec::new(), 0_u64);
        for entry in bytes.as_chunks::<ENTRY_LEN>().0 {
            let [a, b, c, d, e, f, g, h] = *entry;
            let (compressed, raw) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
            if raw > FRAME_MAX {
                return Err(damaged());
            }
            table.push((at, compressed, raw));
            at += u64::from(compressed);
        }
        if at + HEADER_LEN as u64 != table_at {
            return Err(damaged());
        }
        Ok(Frames { file, table })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.table.len()
    }

    /// The lines of a frame.
    pub fn read(&self, frame: usize) -> io::Result<Vec<u8>> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, format!("frame {frame} is damaged"));
        let (at, packed_len, raw_len) = *self.table.get(frame).ok_or_else(damaged)?;
        let mut compressed = vec![0; packed_len as usize];
        self.file.read_exact_at(&mut compressed, at)?;
        let mut lines = Vec::with_capacity(raw_len as usize);
        zstd_safe::decompress(&mut lines, &compressed).map_err(|_| damaged())?;
        if lines.len() == raw_len as usize { Ok(lines) } else { Err(damaged()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize) -> Vec<u8> {
        (0..count)
            .flat_map(|at| format!("{{\"line\":{at},\"text\":\"{}\"}}\n", "x".repeat(at % 700)).into_bytes())
            .collect()
    }

    #[test]
    fn st_1_packed_lines_are_read_frame_by_frame() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("00000001.jsonl.zst");
        for count in [0, 1, 100, 3_000] {
            let lines = lines(count);
            std::fs::write(&path, compress(&lines).expect("compressed")).expect("written");
            let frames = Frames::open(&path).expect("opened");
            let parts: Vec<Vec<u8>> = (0..frames.count()).map(|at| frames.read(at).expect("read")).collect();
            assert_eq!(parts.concat(), lines, "{count}");
            assert!(parts.iter().all(|part| part.ends_with(b"\n") && part.len() < FRAME_BYTES + 800));
            assert!(frames.read(frames.count()).is_err());
        }
    }

    #[test]
    fn st_1_a_damaged_file_is_not_read_as_something_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("00000001.jsonl.zst");
        let lines = lines(500);
        let compressed = compress(&lines).expect("compressed");
        let read = || -> io::Result<Vec<u8>> {
            let frames = Frames::open(&path)?;
            (0..frames.count())
                .map(|at| frames.read(at))
                .collect::<io::Result<Vec<_>>>()
                .map(|parts| parts.concat())
        };
        for at in (0..compressed.len()).step_by(7) {
            let mut touched = compressed.clone();
            touched[at] ^= 1 << (at % 8);
            std::fs::write(&path, &touched).expect("written");
            assert!(read().is_err() || read().is_ok_and(|found| found == lines), "byte {at}");
            std::fs::write(&path, &compressed[..at]).expect("written");
            assert!(read().is_err(), "cut at {at}");
        }
    }
}
