//! Packs a segment that has ended: compressed, read again and compared, then listed in the manifest; only then the raw file
//! goes. A crash anywhere leaves the raw file, and the next start seals it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use estop_core::ids::Name;
use estop_journal::{Checker, Found, Manifest, ManifestError, Record, Sealed, lines_of};
use sha2::{Digest, Sha256};

use super::files::{MANIFEST, base_path, raw_path, sealed_path, sync_folder, unfinished};
use super::frames::{self, Frames};
use crate::data_folder::open_regular;

/// Why a segment was not sealed.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// It is not what was written, or what is sealed is not the same.
    #[error("segment {segment}: {problem}")]
    Damaged {
        /// Which.
        segment: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// It does not follow the last that was sealed.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Packs a segment that has ended and lists it.
pub fn seal(folder: &Path, segment: u64, manifest: &mut Manifest) -> Result<Sealed, SealError> {
    let raw = raw_path(folder, segment);
    let lines = std::fs::read(&raw)?;
    let (after_seq, last_seq, newest) = read(segment, &lines)?;
    let compressed = frames::compress(&lines)?;
    let path = sealed_path(folder, segment);
    let new = unfinished(&path);
    write_unfinished(&new, &compressed)?;
    compare(segment, &new, &lines)?;
    std::fs::rename(&new, &path)?;
    sync_folder(folder)?;
    let sealed = Sealed {
        segment,
        after_seq,
        last_seq,
        newest,
        raw_bytes: lines.len() as u64,
        bytes: compressed.len() as u64,
        sha256: sha256(&compressed),
    };
    append_manifest(folder, manifest, sealed.clone())?;
    std::fs::remove_file(&raw)?;
    Ok(sealed)
}

/// Appends a line to the manifest; the disk has it when this returns. Half a line that a crash left is written over.
pub fn append_manifest(folder: &Path, manifest: &mut Manifest, sealed: Sealed) -> Result<(), SealError> {
    let (file, whole) = open_manifest(folder, manifest)?;
    let mut after = manifest.clone();
    let line = after.append(sealed)?;
    file.set_len(whole)?;
    file.write_all_at(&line, whole)?;
    file.sync_all()?;
    sync_folder(folder)?;
    *manifest = after;
    Ok(())
}

/// Begins the manifest anew, without the segments up to this one; the disk has it when this returns.
pub(super) fn prune_manifest(
    folder: &Path,
    manifest: &mut Manifest,
    segment: u64,
    base_sha256: Name,
) -> Result<(), SealError> {
    open_manifest(folder, manifest)?;
    let (after, text) = manifest.pruned_to(segment, base_sha256)?;
    replace(folder, &folder.join(MANIFEST), &text)?;
    *manifest = after;
    Ok(())
}

/// The manifest's file, and how much of it is whole: it must say what is known.
fn open_manifest(folder: &Path, manifest: &Manifest) -> Result<(File, u64), SealError> {
    let path = folder.join(MANIFEST);
    let options = &mut OpenOptions::new();
    let file = open_regular(&path, options.read(true).write(true).create(true).mode(0o600))?;
    let mut text = vec![0; usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?];
    file.read_exact_at(&mut text, 0)?;
    let (found, whole) = Manifest::parse(&text)?;
    if found.head() != manifest.head() {
        return Err(io::Error::other(format!("{} was changed by somebody else", path.display())).into());
    }
    Ok((file, whole as u64))
}

/// Puts a whole file in its place; the disk has it when this returns.
pub(super) fn replace(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = unfinished(path);
    write_unfinished(&new, bytes)?;
    std::fs::rename(&new, path)?;
    sync_folder(folder)
}

fn write_unfinished(new: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(new)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// The record before the first, the last, and the newest's time.
fn read(segment: u64, lines: &[u8]) -> Result<(u64, u64, i64), SealError> {
    let damaged = |problem: String| SealError::Damaged { segment, problem };
    let (mut checker, mut newest) = (Checker::default(), None);
    for line in lines_of(lines) {
        match checker.take(line).map_err(|error| damaged(error.to_string()))? {
            Found::Header(header) if header.segment != segment => {
                return Err(damaged("it has another number".to_owned()));
            }
            Found::Header(header) => newest = newest.or(Some(Err(header.now.wall))),
            Found::Record(_) | Found::System(_) => newest = Some(Ok(line)),
            Found::Base(_) => return Err(damaged("a state stands in a segment".to_owned())),
            Found::End(_) => {}
        }
    }
    if !checker.is_ended() {
        return Err(damaged("its last line is missing".to_owned()));
    }
    let newest = match newest {
        Some(Ok(line)) => Record::parse(line).map_err(|error| damaged(error.to_string()))?.now.wall,
        Some(Err(wall)) => wall,
        None => 0,
    };
    Ok((checker.begins_after(), checker.state().seq, newest))
}

/// Whether what was sealed is what it was made of.
fn compare(segment: u64, sealed: &Path, lines: &[u8]) -> Result<(), SealError> {
    let frames = Frames::open(sealed)?;
    let mut at = 0;
    for frame in 0..frames.count() {
        let part = frames.read(frame)?;
        if lines.get(at..at + part.len()) != Some(&*part) {
            at = usize::MAX;
            break;
        }
        at += part.len();
    }
    if at == lines.len() {
        return Ok(());
    }
    Err(SealError::Damaged { segment, problem: "what was sealed is not what it was made of".to_owned() })
}

/// As 64 hex digits.
pub(super) fn sha256(bytes: &[u8]) -> Box<str> {
    let mut digits = [0; 64];
    estop_core::hex::encode_into(&Sha256::digest(bytes), &mut digits);
    String::from_utf8_lossy(&digits).into()
}

/// Whether a sealed segment is still what was sealed.
pub fn is_whole(folder: &Path, sealed: &Sealed) -> io::Result<bool> {
    has_sha256(&sealed_path(folder, sealed.segment), &sealed.sha256)
}

/// Whether the states that a pruned journal begins with are still what was written.
pub fn is_base_whole(folder: &Path, manifest: &Manifest) -> io::Result<bool> {
    let base = manifest.pruned.as_ref();
    base.map_or(Ok(true), |(segment, wanted)| has_sha256(&base_path(folder, *segment), wanted))
}

fn has_sha256(path: &Path, wanted: &str) -> io::Result<bool> {
    Ok(*sha256_of(path)? == *wanted)
}

/// A file's SHA-256, as 64 hex digits.
pub(crate) fn sha256_of(path: &Path) -> io::Result<Box<str>> {
    let (mut file, mut bytes) = (open_regular(path, OpenOptions::new().read(true))?, Vec::new());
    file.read_to_end(&mut bytes)?;
    Ok(sha256(&bytes))
}
