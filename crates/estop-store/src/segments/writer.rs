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
use estop_journal::{End, FORMAT, Header, Position, State, Watermark};
use nix::fcntl::{FallocateFlags, fallocate};

use super::files::{Listing, base_path, raw_path, sealed_path, sync_folder, unfinished};
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
    boot: Name,
    current: Mutex<Current>,
    /// Taken before `current`, never after it.
    marks: Mutex<Marks>,
    /// One sync at a time: of two, only one would be told that it failed. Whether one has: then nobody knows what the disk
    /// has, and a later one would not say. Taken before the others.
    syncing: Mutex<bool>,
    /// When estop was last known to be alive.
    alive: Mutex<Now>,
    /// No more room could be reserved.
    is_short: AtomicBool,
}

#[derive(Debug)]
struct Current {
    file: Arc<File>,
    at: Position,
    /// Where the room that was reserved ends.
    reserved: u64,
    /// When it was begun, by the wall clock, and after which record.
    begun: (i64, u64),
    /// Segments before, until the disk has them.
    before: Vec<Arc<File>>,
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
        let header = Header { format: FORMAT, journal, segment: 1, now, state, agent: None };
        // The mark comes last: without it nothing was begun.
        let (file, at) = create_segment(&raw_path(folder, 1), &header)?;
        file.sync_data()?;
        let begun = (now.wall, at.seq);
        SegmentWriter::with(folder, journal, boot, (file, at, begun), (0, now))?.marked()
    }

    /// Goes on where a journal ends.
    pub fn open(folder: &Path, recovered: &Recovered, boot: &str, now: Now) -> io::Result<SegmentWriter> {
        let journal = recovered.journal;
        let (file, at, begun) = match recovered.active {
            Some(at) => {
                let options = &mut OpenOptions::new();
                let file = open_regular(&raw_path(folder, at.segment), options.write(true))?;
                // What stands behind the last whole line was never acknowledged.
                file.set_len(at.bytes)?;
                (file, at, recovered.begun)
            }
            None => {
                let (segment, state) = (recovered.next_segment(), recovered.state.clone());
                let header = Header { format: FORMAT, journal, segment, now, state, agent: None };
                let (file, at) = create_segment(&raw_path(folder, segment), &header)?;
                (file, at, (now.wall, at.seq))
            }
        };
        write_again(folder, recovered)?;
        file.sync_data()?;
        remove_leftovers(folder, recovered)?;
        SegmentWriter::with(folder, journal, boot, (file, at, begun), (recovered.mark_serial, now))?.marked()
    }

    fn with(
        folder: &Path,
        journal: Hash64,
        boot: &str,
        (file, at, begun): (File, Position, (i64, u64)),
        (serial, now): (u64, Now),
    ) -> io::Result<SegmentWriter> {
        let current = Current { file: Arc::new(file), at, reserved: at.bytes, begun, before: Vec::new() };
        let marks = Marks { file: mark_file::open(folder)?, serial, synced: Position::default() };
        let writer = SegmentWriter {
            folder: folder.to_owned(),
            journal,
            boot: boot.into(),
            current: Mutex::new(current),
            marks: Mutex::new(marks),
            syncing: Mutex::new(false),
            alive: Mutex::new(now),
            is_short: AtomicBool::new(false),
        };
        writer.reserve();
        Ok(writer)
    }

    /// From here on everything so far must be there.
    fn marked(self) -> io::Result<SegmentWriter> {
        // Before the mark, which names a file in it.
        sync_folder(&self.folder)?;
        sync_folder(self.folder.parent().unwrap_or(Path::new("/")))?;
        self.sync()?;
        Ok(self)
    }

    /// Appends whole lines; `seq` is the last record among them.
    pub fn write(&self, lines: &[u8], seq: u64) -> io::Result<()> {
        let (file, at) = {
            let current = self.current();
            (Arc::clone(&current.file), current.at)
        };
        if file.metadata()?.len() < at.bytes {
            // What is written behind the hole would be lost with it.
            return Err(io::Error::other(format!("segment {} was cut while it was written", at.segment)));
        }
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
    /// [`SegmentWriter::sync`]. If the disk is full, the old one goes on.
    pub fn begin_segment(&self, state: &State) -> io::Result<()> {
        let (before, now) = (self.position(), self.last_alive());
        let journal = self.journal;
        let (segment, state) = (before.segment + 1, state.clone());
        let path = raw_path(&self.folder, segment);
        let unfinished = unfinished(&path);
        let header = Header { format: FORMAT, journal, segment, now, state, agent: None };
        let (file, at) = match create_segment(&unfinished, &header) {
            Err(error) if is_full(&error) => {
                // The old one has room for what is under way.
                self.is_short.store(true, Ordering::Relaxed);
                return match std::fs::remove_file(&unfinished) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    Ok(()) | Err(_) => Ok(()),
                };
            }
            created => created?,
        };
        let end = End { segment: before.segment, last_seq: before.seq, manifest: None };
        self.write(&end.line(), before.seq)?;
        std::fs::rename(&unfinished, &path)?;
        let mut current = self.current();
        let before = std::mem::replace(&mut current.file, Arc::new(file));
        current.before.push(before);
        (current.at, current.reserved, current.begun) = (at, at.bytes, (now.wall, at.seq));
        drop(current);
        self.reserve();
        Ok(())
    }

    /// Waits until the disk has everything so far, and says so in the mark. Once it has failed it fails for ever.
    pub fn sync(&self) -> io::Result<()> {
        let wanted = self.position();
        let mut has_failed = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        if *has_failed {
            return Err(io::Error::other("an earlier sync failed"));
        }
        // Whoever was waited for may have done it.
        if self.synced() >= wanted {
            return Ok(());
        }
        let synced = self.sync_all();
        *has_failed = synced.is_err();
        synced
    }

    fn sync_all(&self) -> io::Result<()> {
        let (before, file, at) = {
            let current = self.current();
            (current.before.clone(), Arc::clone(&current.file), current.at)
        };
        if !before.is_empty() {
            before.iter().try_for_each(|file| file.sync_data())?;
            sync_folder(&self.folder)?;
            let is_synced = |file: &Arc<File>| before.iter().any(|synced| Arc::ptr_eq(synced, file));
            self.current().before.retain(|file| !is_synced(file));
        }
        file.sync_data()?;
        let mut marks = self.marks();
        marks.synced = marks.synced.max(at);
        self.write_mark(&mut marks)?;
        marks.file.sync_data()
    }

    /// Says that estop is alive and how far the journal reaches.
    pub fn beat(&self, now: Now) -> io::Result<()> {
        if self.is_short() {
            self.reserve();
        }
        *self.alive.lock().unwrap_or_else(PoisonError::into_inner) = now;
        self.write_mark(&mut self.marks())
    }

    fn write_mark(&self, marks: &mut Marks) -> io::Result<()> {
        let now = self.last_alive();
        marks.serial += 1;
        let (journal, boot) = (self.journal, self.boot.clone());
        let (written, synced, serial) = (self.position(), marks.synced, marks.serial);
        mark_file::write(&marks.file, &Watermark { serial, journal, boot, written, synced, now })
    }

    /// How far the journal reaches.
    pub fn position(&self) -> Position {
        self.current().at
    }

    /// When the newest segment was begun, by the wall clock, and after which record.
    pub fn begun(&self) -> (i64, u64) {
        self.current().begun
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
        // Meanwhile another segment may have begun, and this one was sealed as it should be.
        (self.position().segment == at.segment).then_some(lost)
    }

    fn last_alive(&self) -> Now {
        *self.alive.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes again what the disk may not have, and syncs it. An earlier sync may have failed: then the system has the bytes,
/// takes them for written, and would never write them.
fn write_again(folder: &Path, recovered: &Recovered) -> io::Result<()> {
    let synced = recovered.synced;
    let active = recovered.active.map(|at| at.segment);
    for segment in
        recovered.unsealed.iter().copied().chain(active).filter(|segment| *segment >= synced.segment)
    {
        let file = open_regular(&raw_path(folder, segment), OpenOptions::new().read(true).write(true))?;
        let from = if segment == synced.segment { synced.bytes } else { 0 };
        let rest = file.metadata()?.len().saturating_sub(from);
        let mut bytes = vec![0; usize::try_from(rest).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, from)?;
        file.write_all_at(&bytes, from)?;
        file.sync_data()?;
    }
    Ok(())
}

/// Removes what a crash left: raw files of segments that are sealed and listed, segments that were pruned, states that newer
/// ones replace, and segments behind the place where a power cut ended the journal.
fn remove_leftovers(folder: &Path, recovered: &Recovered) -> io::Result<()> {
    let Listing { raw, sealed, bases, .. } = Listing::of(folder)?;
    let manifest = &recovered.manifest;
    let pruned = manifest.pruned.as_ref().map(|(segment, _)| *segment);
    let newest = recovered.active.map_or_else(|| recovered.next_segment(), |at| at.segment);
    let raw = raw.into_iter().filter(|segment| *segment <= manifest.last_segment() || *segment > newest);
    let sealed = sealed.into_iter().filter(|segment| pruned.is_some_and(|pruned| *segment <= pruned));
    let bases = bases.into_iter().filter(|segment| Some(*segment) != pruned);
    let paths = raw.map(|segment| raw_path(folder, segment));
    let paths = paths.chain(sealed.map(|segment| sealed_path(folder, segment)));
    let mut paths = paths.chain(bases.map(|segment| base_path(folder, segment)));
    paths.try_for_each(std::fs::remove_file)
}

/// Whether the disk, or what this user may take of it, is used up.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Makes a segment's file with its first line.
fn create_segment(path: &Path, header: &Header) -> io::Result<(File, Position)> {
    // One that a crash left without its first line.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let line = header.line();
    file.write_all_at(&line, 0)?;
    Ok((file, Position { segment: header.segment, bytes: line.len() as u64, seq: header.state.seq }))
}
