//! The write-ahead tail: files of lines that are not in the store yet.
//!
//! A line that was appended outlives the process; one that was synced outlives the machine's power. The store takes lines
//! in by and by and remembers how far it came ([`TailMark`]); files before that are removed. Lines end with `\n`: what
//! stands after the last one was cut off by a crash and was never acknowledged.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::data_folder::{FileId, open_regular};
use crate::journal::TailMark;

/// The tail that is being written.
#[derive(Debug)]
pub struct TailFile {
    folder: PathBuf,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    generation: u64,
    file: Arc<File>,
    /// Bytes that were appended to it.
    length: u64,
    /// The file before, until the disk has it.
    before: Option<Arc<File>>,
}

impl TailFile {
    /// Begins the file of this generation; there must be none yet.
    pub fn begin(folder: &Path, generation: u64) -> std::io::Result<TailFile> {
        let file = create(folder, generation)?;
        // The name must outlive the power too.
        File::open(folder)?.sync_all()?;
        let current = Mutex::new(Current { generation, file: Arc::new(file), length: 0, before: None });
        Ok(TailFile { folder: folder.to_owned(), current })
    }

    /// Appends whole lines.
    pub fn append(&self, lines: &[u8]) -> std::io::Result<()> {
        let file = Arc::clone(&self.current().file);
        (&*file).write_all(lines)?;
        let mut current = self.current();
        if Arc::ptr_eq(&current.file, &file) {
            current.length += lines.len() as u64;
        }
        Ok(())
    }

    /// What became of the file, if somebody removed, cut or replaced it: what is appended from then on is lost.
    pub fn lost_file(&self) -> Option<String> {
        let (file, generation, length) = {
            let current = self.current();
            (Arc::clone(&current.file), current.generation, current.length)
        };
        let path = path(&self.folder, generation);
        let about = file.metadata().ok()?;
        let lost = FileId::of(&about).lost(&path).or_else(|| {
            let is = about.len();
            (is < length).then(|| format!("{} was cut to {is} of {length} bytes", path.display()))
        })?;
        // Meanwhile another tail may have begun, and this one was deleted as it should be.
        (self.current().generation == generation).then_some(lost)
    }

    /// Waits until the disk has what was appended.
    pub fn sync(&self) -> std::io::Result<()> {
        let (before, file) = {
            let current = self.current();
            (current.before.clone(), Arc::clone(&current.file))
        };
        if let Some(before) = before {
            self.settle(&before)?;
        }
        file.sync_data()
    }

    /// Goes on in a new file, at once. What was appended to the one before is on the disk with the next
    /// [`TailFile::sync`].
    pub fn next_generation(&self) -> std::io::Result<()> {
        let mut current = self.current();
        let generation = current.generation + 1;
        let file = Arc::new(create(&self.folder, generation)?);
        let before = Some(Arc::clone(&current.file));
        *current = Current { generation, file, length: 0, before };
        Ok(())
    }

    /// The store has all of the file before on the disk: it is not synced any more.
    pub fn forget_before(&self) -> std::io::Result<()> {
        let Some(before) = self.current().before.clone() else { return Ok(()) };
        self.done_with(&before)
    }

    /// Sees to it that the disk has the file before, and the name of the one after it.
    fn settle(&self, before: &Arc<File>) -> std::io::Result<()> {
        before.sync_data()?;
        self.done_with(before)
    }

    /// Nothing of the file before is needed any more, once the disk has the name of the one after it.
    fn done_with(&self, before: &Arc<File>) -> std::io::Result<()> {
        File::open(&self.folder)?.sync_all()?;
        let mut current = self.current();
        if current.before.as_ref().is_some_and(|still| Arc::ptr_eq(still, before)) {
            current.before = None;
        }
        Ok(())
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn create(folder: &Path, generation: u64) -> std::io::Result<File> {
    File::options().append(true).create_new(true).mode(0o600).open(path(folder, generation))
}

fn path(folder: &Path, generation: u64) -> PathBuf {
    folder.join(format!("tail-{generation}.jsonl"))
}

/// What the store has not taken in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TailRest {
    /// Whole lines, each ended by `\n`.
    pub lines: Vec<u8>,
    /// The generation to go on with.
    pub next_generation: u64,
}

/// Reads what stands after `mark`.
pub fn tail_rest(folder: &Path, mark: TailMark) -> std::io::Result<TailRest> {
    let mut rest = TailRest { lines: Vec::new(), next_generation: mark.generation + 1 };
    for generation in generations(folder)? {
        rest.next_generation = rest.next_generation.max(generation + 1);
        if generation < mark.generation {
            continue;
        }
        let mut file = open_regular(&path(folder, generation), File::options().read(true))?;
        if generation == mark.generation {
            file.seek(SeekFrom::Start(mark.offset))?;
        }
        file.read_to_end(&mut rest.lines)?;
        let whole = rest.lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        rest.lines.truncate(whole);
    }
    Ok(rest)
}

/// Where the tail ends; `None` if there is none.
pub fn tail_end(folder: &Path) -> std::io::Result<Option<TailMark>> {
    let Some(generation) = generations(folder)?.last().copied() else { return Ok(None) };
    let offset = std::fs::metadata(path(folder, generation))?.len();
    Ok(Some(TailMark { generation, offset }))
}

/// Removes files that were taken in whole.
pub fn forget_tails_before(folder: &Path, generation: u64) -> std::io::Result<()> {
    for old in generations(folder)?.into_iter().filter(|found| *found < generation) {
        std::fs::remove_file(path(folder, old))?;
    }
    Ok(())
}

/// The generations that have a file, oldest first.
fn generations(folder: &Path) -> std::io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("tail-")?.strip_suffix(".jsonl"));
        // Nobody lives to see the last numbers; a file that claims one is not ours.
        found.extend(
            number.and_then(|number| number.parse::<u64>().ok()).filter(|number| *number < u64::MAX / 2),
        );
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn st_1_a_tail_that_was_removed_cut_or_replaced_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tail-3.jsonl");
        let tail = TailFile::begin(folder.path(), 3).expect("a tail");
        tail.append(b"one\n").expect("it is written");
        assert_eq!(tail.lost_file(), None);
        std::fs::write(&path, b"").expect("it is emptied");
        assert!(tail.lost_file().is_some_and(|lost| lost.contains("was cut to 0 of 4 bytes")));
        tail.append(b"two\n").expect("it is written");
        assert!(tail.lost_file().is_some(), "what is appended does not make up for it");
        tail.next_generation().expect("a new file");
        assert_eq!(tail.lost_file(), None);
        let path = folder.path().join("tail-4.jsonl");
        std::fs::rename(&path, folder.path().join("elsewhere")).expect("it is there");
        assert!(tail.lost_file().is_some_and(|lost| lost.contains("was removed")));
        std::fs::write(&path, b"another").expect("it is written");
        assert!(tail.lost_file().is_some_and(|lost| lost.contains("was replaced")));
    }

    #[test]
    fn st_1_the_tail_gives_back_whole_lines_after_the_mark() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |generation, offset| TailMark { generation, offset };
        let tail = TailFile::begin(folder.path(), 3).expect("a tail");
        tail.append(b"one\ntwo\n").expect("it is written");
        tail.next_generation().expect("a new file");
        tail.append(b"three\nfo").expect("it is written");
        tail.sync().expect("it is synced");
        let rest = |mark| tail_rest(folder.path(), mark).expect("it is read");
        let all = TailRest { lines: b"one\ntwo\nthree\n".to_vec(), next_generation: 5 };
        assert_eq!(rest(at(0, 0)), all);
        assert_eq!(rest(at(3, 4)).lines, b"two\nthree\n");
        assert_eq!(rest(at(3, 8)).lines, b"three\n");
        assert_eq!(rest(at(4, 6)).lines, b"");
        // A mark beyond the end: the power went before the file had it, and the store has it anyway.
        assert_eq!(rest(at(4, 600)).lines, b"");
        assert_eq!(rest(at(9, 0)), TailRest { lines: Vec::new(), next_generation: 10 });
        tail.next_generation().expect("a new file");
        tail.append(b"five\n").expect("it is written");
        tail.forget_before().expect("the name is on the disk");
        assert!(tail.current().before.is_none(), "nobody syncs it any more");
        tail.sync().expect("it is synced");
        assert_eq!(rest(at(4, 6)).lines, b"five\n", "what was cut off is not read on");
        forget_tails_before(folder.path(), 4).expect("it is removed");
        assert_eq!(rest(at(0, 0)).lines, b"three\nfive\n");
        assert!(TailFile::begin(folder.path(), 4).is_err(), "a file that is there is never overwritten");
    }
}
