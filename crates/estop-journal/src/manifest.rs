//! The list of sealed segments: one line for each, with the SHA-256 of its file, each chained to the line before. Its newest
//! line proves everything before it, so a copy of that elsewhere shows any change. Pruning begins the list anew, with a line
//! that is chained to the newest of the list before: what is gone takes no room.

use estop_core::ids::Name;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::line::check_line;
use crate::record::lines_of;
use crate::segment::sealed;

/// What the first line names as the one before.
const FIRST: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// A sealed segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sealed {
    /// Its number.
    pub segment: u64,
    /// The record before its first.
    pub after_seq: u64,
    /// Its last record.
    pub last_seq: u64,
    /// Wall-clock time of its newest record.
    pub newest: i64,
    /// Bytes before it was sealed.
    pub raw_bytes: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// SHA-256 of its file.
    pub sha256: Name,
}

/// A line of the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Entry {
    /// A segment was sealed.
    Sealed(Sealed),
    /// All segments up to this one were pruned; what the rest begins with is in a file of this SHA-256. Only a first line.
    Pruned {
        /// The last that is gone.
        segment: u64,
        /// SHA-256 of the file with the agents' states after it.
        base_sha256: Name,
    },
}

#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    entry: Entry,
    previous: Name,
}

/// Why a manifest cannot be trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// A line is not what was written.
    #[error("line {line} was changed")]
    Changed {
        /// From 1.
        line: usize,
    },
    /// A line does not follow the one before.
    #[error("line {line} does not follow the line before it: one was dropped, doubled or moved")]
    Unchained {
        /// From 1.
        line: usize,
    },
    /// Segments do not follow one another.
    #[error("line {line}: segment {found} should be segment {expected}")]
    OutOfOrder {
        /// From 1.
        line: usize,
        /// The number it should have.
        expected: u64,
        /// The number it has.
        found: u64,
    },
}

/// A manifest, as far as it was read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Sealed segments that were not pruned, in order.
    pub sealed: Vec<Sealed>,
    /// The last segment that was pruned, and the SHA-256 of the file with what the rest begins with.
    pub pruned: Option<(u64, Name)>,
    /// SHA-256 of the newest line.
    head: Name,
}

impl Default for Manifest {
    fn default() -> Manifest {
        Manifest { sealed: Vec::new(), pruned: None, head: FIRST.into() }
    }
}

impl Manifest {
    /// Reads all whole lines. A last line without its end was not written whole, and counts as not written; gives back
    /// how many bytes are whole.
    pub fn parse(text: &[u8]) -> Result<(Manifest, usize), ManifestError> {
        let mut manifest = Manifest::default();
        let whole = memchr::memrchr(b'\n', text).map_or(0, |at| at + 1);
        for (at, line) in lines_of(&text[..whole]).enumerate() {
            let number = at + 1;
            check_line(line).map_err(|_| ManifestError::Changed { line: number })?;
            let read: Line = serde_json::from_slice(strip_crc(line).as_bytes())
                .map_err(|_| ManifestError::Changed { line: number })?;
            let begins_anew = number == 1 && matches!(read.entry, Entry::Pruned { .. });
            if read.previous != manifest.head && !begins_anew {
                return Err(ManifestError::Unchained { line: number });
            }
            manifest.take(number, read.entry)?;
            manifest.head = digest(line);
        }
        Ok((manifest, whole))
    }

    /// Lists a sealed segment: its line, the line's end included.
    pub fn append(&mut self, sealed: Sealed) -> Result<Vec<u8>, ManifestError> {
        self.write(Entry::Sealed(sealed))
    }

    /// The list without the segments up to this one, and all of its lines.
    pub fn pruned_to(&self, segment: u64, base_sha256: Name) -> Result<(Manifest, Vec<u8>), ManifestError> {
        let mut after = Manifest { head: self.head.clone(), ..Manifest::default() };
        let mut text = after.write(Entry::Pruned { segment, base_sha256 })?;
        for sealed in self.sealed.iter().filter(|sealed| sealed.segment > segment) {
            text.extend(after.append(sealed.clone())?);
        }
        Ok((after, text))
    }

    fn write(&mut self, entry: Entry) -> Result<Vec<u8>, ManifestError> {
        let line = sealed(&Line { entry: entry.clone(), previous: self.head.clone() });
        self.take(0, entry)?;
        self.head = digest(line.strip_suffix(b"\n").unwrap_or(&line));
        Ok(line)
    }

    fn take(&mut self, line: usize, entry: Entry) -> Result<(), ManifestError> {
        match entry {
            Entry::Sealed(sealed) => {
                let (expected, found) = (self.last_segment() + 1, sealed.segment);
                if found != expected {
                    return Err(ManifestError::OutOfOrder { line, expected, found });
                }
                self.sealed.push(sealed);
            }
            Entry::Pruned { .. } if self.last_segment() > 0 => return Err(ManifestError::Unchained { line }),
            Entry::Pruned { segment, base_sha256 } => self.pruned = Some((segment, base_sha256)),
        }
        Ok(())
    }

    /// The newest segment that was sealed; 0 = none.
    pub fn last_segment(&self) -> u64 {
        let pruned = self.pruned.as_ref().map_or(0, |(segment, _)| *segment);
        self.sealed.last().map_or(pruned, |sealed| sealed.segment)
    }

    /// SHA-256 of the newest line, as 64 hex digits.
    pub fn head(&self) -> &str {
        &self.head
    }
}

/// A line as an object without its checksum, which is no part of what it says.
fn strip_crc(line: &[u8]) -> String {
    let end = memchr::memmem::rfind(line, b",\"crc\"").unwrap_or(line.len());
    format!("{}}}", String::from_utf8_lossy(&line[..end]))
}

/// SHA-256 as 64 hex digits.
fn digest(bytes: &[u8]) -> Name {
    let mut digits = [0; 64];
    estop_core::hex::encode_into(&Sha256::digest(bytes), &mut digits);
    String::from_utf8_lossy(&digits).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed_segment(segment: u64) -> Sealed {
        Sealed {
            segment,
            after_seq: segment * 10 - 10,
            last_seq: segment * 10,
            newest: 5,
            raw_bytes: 100,
            bytes: 10,
            sha256: digest(&segment.to_le_bytes()),
        }
    }

    fn four() -> (Manifest, Vec<u8>) {
        let (mut manifest, mut text) = (Manifest::default(), Vec::new());
        for segment in 1..=4 {
            text.extend(manifest.append(sealed_segment(segment)).expect("in order"));
        }
        (manifest, text)
    }

    #[test]
    fn tw_7_a_manifest_is_read_as_it_was_written() {
        let (mut manifest, text) = four();
        assert_eq!(Manifest::parse(&text), Ok((manifest.clone(), text.len())));
        assert_eq!((manifest.sealed.len(), manifest.last_segment()), (4, 4));
        let cut = &text[..text.len() - 1];
        let (before, whole) = Manifest::parse(cut).expect("its last line was not written whole");
        assert_eq!((before.sealed.len(), cut[whole..].is_empty()), (3, false));
        assert!(manifest.append(sealed_segment(6)).is_err() && manifest.append(sealed_segment(5)).is_ok());
    }

    #[test]
    fn st_3_pruning_begins_the_manifest_anew_and_names_the_one_before() {
        let (before, text) = four();
        let (mut manifest, mut anew) = before.pruned_to(3, digest(b"base")).expect("one is left");
        assert!(anew.len() < text.len(), "what is gone takes no room");
        assert_eq!(Manifest::parse(&anew), Ok((manifest.clone(), anew.len())));
        assert_eq!((manifest.sealed.as_slice(), manifest.last_segment()), (&before.sealed[3..], 4));
        assert_ne!(manifest.head(), before.head());
        assert!(anew.windows(64).any(|part| part == before.head().as_bytes()), "chained to the list before");
        anew.extend(manifest.append(sealed_segment(5)).expect("in order"));
        assert_eq!(Manifest::parse(&anew), Ok((manifest.clone(), anew.len())));
        let (all_gone, line) = manifest.pruned_to(5, digest(b"base")).expect("none is left");
        assert_eq!((all_gone.sealed.len(), all_gone.last_segment()), (0, 5));
        assert!(Manifest::parse(&[text, line].concat()).is_err(), "such a line is the first");
    }

    #[test]
    fn tw_7_any_change_of_a_manifest_is_found() {
        let (manifest, text) = four();
        any_change_is_found(&text);
        any_change_is_found(&manifest.pruned_to(2, digest(b"base")).expect("two are left").1);
    }

    fn any_change_is_found(text: &[u8]) {
        for bit in (0..text.len() * 8).filter(|bit| bit / 8 != text.len() - 1) {
            let mut touched = text.to_vec();
            touched[bit / 8] ^= 1 << (bit % 8);
            assert!(Manifest::parse(&touched).is_err(), "bit {bit}");
        }
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        for at in 0..lines.len() - 1 {
            let mut dropped = lines.clone();
            dropped.remove(at);
            assert!(Manifest::parse(&dropped.concat()).is_err(), "dropped {at}");
            let mut swapped = lines.clone();
            swapped.swap(at, at + 1);
            assert!(Manifest::parse(&swapped.concat()).is_err(), "swapped {at}");
        }
    }
}
