//! Writes the newest segment.
//!
//! One thread at a time writes ([`SegmentWriter::write`], [`SegmentWriter::begin_segment`]); any may sync or look. What was
//! written outlives the process, what was synced the machine's power. Lines are written where the last one ended, whatever
//! the file's length is: a file that somebody emptied gets a hole, which a start refuses.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use estop_core::ids::{Hash64, Name};
use estop_core::time::Now;
use estop_journal::{End, FORMAT, Header, Mark, Position, State};
use nix::fcntl::{FallocateFlags, fallocate};

use super::files::{Listing, raw_path, sync_folder};
use super::mark_file;
use super::recovery::Recovered;
use crate::data_folder::{FileId, open_regular};

/// Room that is reserved ahead: what is under way still fits when the disk is full, and so does a stop.
const RESERVED: u64 = 1 << 20;

/// Writes the newest segment.
#[derive(Debug)]
pub struct SegmentWriter {
    folder: PathBuf,
    journal: Hash64,
    generation: u64,
    boot: Name,
    current: Mutex<Current>,
    marks: Mutex<Marks>,
    /// No more room could be reserved.
    is_short: AtomicBool,
}

#[derive(Debug)]
struct Current {
    file: Arc<File>,
    at: Position,
    /// Where the room that was reserved ends.
    reserved: u64,
    /// The segment before, until the disk has it.
    before: Option<Arc<File>>,
}

#[derive(Debug)]
struct Marks {
    file: File,
    serial: u64,
    synced: Position,
}

impl SegmentWriter {
    /// Begins a journal in a folder that has none.
    pub fn create(folder: &Path, journal: Hash64, boot: &str, now: Now) -> io::Result<SegmentWriter> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let state = State::default();
        let header = Header { format: FORMAT, journal, generation: 1, segment: 1, now, state };
        // The mark comes last: without it nothing was begun.
        let (file, at) = create_segment(folder, &header)?;
        file.sync_data()?;
        SegmentWriter::with(folder, (journal, 1), boot, (file, at), 0)?.begun(now)
    }

    /// Goes on where a journal ends.
    pub fn open(folder: &Path, recovered: &Recovered, boot: &str, now: Now) -> io::Result<SegmentWriter> {
        let Recovered { journal, generation, .. } = *recovered;
        let (file, at) = match recovered.active {
            Some(at) => {
                let options = &mut OpenOptions::new();
                let file = open_regular(&raw_path(folder, at.segment), options.write(true))?;
                // What stands behind the last whole line was never acknowledged.
                file.set_len(at.bytes)?;
                (file, at)
            }
            None => {
                let (segment, state) = (recovered.next_segment(), recovered.state.clone());
                create_segment(folder, &Header { format: FORMAT, journal, generation, segment, now, state })?
            }
        };
        file.sync_data()?;
        remove_leftovers(folder, recovered)?;
        SegmentWriter::with(folder, (journal, generation), boot, (file, at), recovered.mark_serial)?
            .begun(now)
    }

    fn with(
        folder: &Path,
        (journal, generation): (Hash64, u64),
        boot: &str,
        (file, at): (File, Position),
        serial: u64,
    ) -> io::Result<SegmentWriter> {
        let current = Current { file: Arc::new(file), at, reserved: at.bytes, before: None };
        let marks = Marks { file: mark_file::open(folder)?, serial, synced: at };
        let writer = SegmentWriter {
            folder: folder.to_owned(),
            journal,
            generation,
            boot: boot.into(),
            current: Mutex::new(current),
            marks: Mutex::new(marks),
            is_short: AtomicBool::new(false),
        };
        writer.reserve();
        Ok(writer)
    }

    /// From here on everything so far must be there.
    fn begun(self, now: Now) -> io::Result<SegmentWriter> {
        self.sync(now)?;
        sync_folder(&self.folder)?;
        Ok(self)
    }

    /// Appends whole lines; `seq` is the last record among them.
    pub fn write(&self, lines: &[u8], seq: u64) -> io::Result<()> {
        let (file, at) = {
            let current = self.current();
            (Arc::clone(&current.file), current.at)
        };
        if let Err(error) = file.write_all_at(lines, at.bytes) {
            // Half a line would stand where the next is to begin.
            let _ = file.set_len(at.bytes);
            return Err(error);
        }
        let mut current = self.current();
        current.at = Position { bytes: at.bytes + lines.len() as u64, seq, ..at };
        let is_used_up = current.at.bytes + RESERVED / 2 > current.reserved;
        drop(current);
        if is_used_up {
            self.reserve();
        }
        Ok(())
    }

    /// Ends the segment and begins the next with what the records so far add up to. The disk has the old one with the next
    /// [`SegmentWriter::sync`].
    pub fn begin_segment(&self, state: &State, now: Now) -> io::Result<()> {
        let at = self.current().at;
        let end = End { segment: at.segment, last_seq: at.seq, manifest: None };
        self.write(&end.line(), at.seq)?;
        let (journal, generation) = (self.journal, self.generation);
        let (segment, state) = (at.segment + 1, state.clone());
        let (file, at) = create_segment(
            &self.folder,
            &Header { format: FORMAT, journal, generation, segment, now, state },
        )?;
        let mut current = self.current();
        let before = Some(Arc::clone(&current.file));
        *current = Current { file: Arc::new(file), at, reserved: at.bytes, before };
        drop(current);
        self.reserve();
        Ok(())
    }

    /// Waits until the disk has everything so far, and says so in the mark.
    pub fn sync(&self, now: Now) -> io::Result<()> {
        let (before, file, at) = {
            let current = self.current();
            (current.before.clone(), Arc::clone(&current.file), current.at)
        };
        if let Some(before) = before {
            before.sync_data()?;
            sync_folder(&self.folder)?;
            let mut current = self.current();
            if current.before.as_ref().is_some_and(|still| Arc::ptr_eq(still, &before)) {
                current.before = None;
            }
        }
        file.sync_data()?;
        let mut marks = self.marks();
        marks.synced = marks.synced.max(at);
        self.write_mark(&mut marks, now)?;
        marks.file.sync_data()
    }

    /// Says that estop is alive and how far the journal reaches.
    pub fn beat(&self, now: Now) -> io::Result<()> {
        if self.is_short() {
            self.reserve();
        }
        self.write_mark(&mut self.marks(), now)
    }

    fn write_mark(&self, marks: &mut Marks, now: Now) -> io::Result<()> {
        marks.serial += 1;
        let (journal, generation, boot) = (self.journal, self.generation, self.boot.clone());
        let (written, synced, serial) = (self.position(), marks.synced, marks.serial);
        mark_file::write(&marks.file, &Mark { serial, journal, generation, boot, written, synced, now })
    }

    /// How far the journal reaches.
    pub fn position(&self) -> Position {
        self.current().at
    }

    /// How far the disk has it.
    pub fn synced(&self) -> Position {
        self.marks().synced
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the disk has no more room: nothing new should begin.
    pub fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }

    /// Reserves room ahead. A file system that cannot is written without.
    fn reserve(&self) {
        let (file, at) = {
            let current = self.current();
            (Arc::clone(&current.file), current.at)
        };
        let from = i64::try_from(at.bytes).unwrap_or(i64::MAX);
        let room = fallocate(&*file, FallocateFlags::FALLOC_FL_KEEP_SIZE, from, RESERVED as i64);
        self.is_short.store(room == Err(nix::errno::Errno::ENOSPC), Ordering::Relaxed);
        let mut current = self.current();
        if Arc::ptr_eq(&current.file, &file) {
            current.reserved = at.bytes + RESERVED;
        }
    }

    /// What became of the file, if somebody removed, cut or replaced it: what is appended from then on is lost.
    pub fn lost_file(&self) -> Option<String> {
        let (file, at) = {
            let current = self.current();
            (Arc::clone(&current.file), current.at)
        };
        let path = raw_path(&self.folder, at.segment);
        let about = file.metadata().ok()?;
        let lost = FileId::of(&about).lost(&path).or_else(|| {
            let is = about.len();
            (is < at.bytes).then(|| format!("{} was cut to {is} of {} bytes", path.display(), at.bytes))
        })?;
        // Meanwhile another segment may have begun, and this one was packed as it should be.
        (self.position().segment == at.segment).then_some(lost)
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes what a crash left: raw files of segments that are packed and listed.
fn remove_leftovers(folder: &Path, recovered: &Recovered) -> io::Result<()> {
    let mut packed =
        Listing::of(folder)?.raw.into_iter().filter(|raw| *raw <= recovered.manifest.last_segment());
    packed.try_for_each(|segment| std::fs::remove_file(raw_path(folder, segment)))
}

/// Makes a segment's file with its first line.
fn create_segment(folder: &Path, header: &Header) -> io::Result<(File, Position)> {
    let path = raw_path(folder, header.segment);
    // One that a crash left without its first line.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    let line = header.line();
    file.write_all_at(&line, 0)?;
    Ok((file, Position { segment: header.segment, bytes: line.len() as u64, seq: header.state.seq }))
}
