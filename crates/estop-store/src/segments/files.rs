//! The files of a journal and their names.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The journal's folder in the data directory.
pub const JOURNAL_FOLDER: &str = "journal";

pub(crate) const MANIFEST: &str = "manifest.jsonl";
pub(crate) const MARK: &str = "mark";
const RAW: &str = ".jsonl";
const SEALED: &str = ".jsonl.zst";
const UNFINISHED: &str = ".new";
const BASE: &str = "base-";

/// A segment as it is written.
pub fn raw_path(folder: &Path, segment: u64) -> PathBuf {
    folder.join(format!("{segment:08}{RAW}"))
}

/// A segment that was sealed.
pub fn sealed_path(folder: &Path, segment: u64) -> PathBuf {
    folder.join(format!("{segment:08}{SEALED}"))
}

/// The agents' states after a segment that was pruned.
pub fn base_path(folder: &Path, segment: u64) -> PathBuf {
    folder.join(format!("{BASE}{segment:08}{SEALED}"))
}

/// A file that is not whole yet: it gets its name when it is.
pub(super) fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(UNFINISHED);
    name.into()
}

/// Waits until the disk has the names in a folder.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The segments in a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Numbers of those that are not sealed.
    pub raw: BTreeSet<u64>,
    /// Numbers of those that are.
    pub sealed: BTreeSet<u64>,
    /// Segments after which there are states.
    pub bases: BTreeSet<u64>,
    /// There is a manifest.
    pub has_manifest: bool,
    /// There is a mark.
    pub has_mark: bool,
}

impl Listing {
    /// Looks into a folder; empty if there is none.
    pub fn of(folder: &Path) -> io::Result<Listing> {
        let mut listing = Listing::default();
        let entries = match std::fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(listing),
            entries => entries?,
        };
        for entry in entries {
            let name = entry?.file_name();
            let name = name.to_string_lossy();
            match &*name {
                MANIFEST => listing.has_manifest = true,
                MARK => listing.has_mark = true,
                name => listing.add(name),
            }
        }
        Ok(listing)
    }

    fn add(&mut self, name: &str) {
        let (place, name) = match (name.strip_prefix(BASE), name.strip_suffix(SEALED)) {
            (Some(base), _) => (&mut self.bases, base.strip_suffix(SEALED)),
            (None, Some(sealed)) => (&mut self.sealed, Some(sealed)),
            (None, None) => (&mut self.raw, name.strip_suffix(RAW)),
        };
        let number = name.filter(|name| name.len() >= 8 && name.bytes().all(|byte| byte.is_ascii_digit()));
        place.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }

    /// Whether no estop has written here.
    pub fn is_empty(&self) -> bool {
        *self == Listing::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn st_1_files_are_told_by_their_names() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(Listing::of(folder.path()).expect("read").is_empty());
        assert!(Listing::of(&folder.path().join("none")).expect("none").is_empty());
        let one = |segment| BTreeSet::from([segment]);
        for path in [
            raw_path(folder.path(), 12),
            sealed_path(folder.path(), 123_456_789),
            base_path(folder.path(), 3),
            unfinished(&sealed_path(folder.path(), 7)),
            folder.path().join("notes.jsonl"),
            folder.path().join("7.jsonl"),
        ] {
            std::fs::write(path, "").expect("a file");
        }
        let listing = Listing::of(folder.path()).expect("read");
        assert_eq!((listing.raw, listing.sealed, listing.bases), (one(12), one(123_456_789), one(3)));
    }
}
