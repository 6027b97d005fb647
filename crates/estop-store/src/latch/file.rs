//! The file: two slots, read and written whole, under a lock of the data directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use estop_core::system::Channels;
use estop_core::system::button::Latched;

use super::slot::{self, SLOT};
use super::{Entry, FoundLatch, FoundSlot, SlotVersion};
use crate::data_folder::open_regular;

/// The file's name in the data directory.
const NAME: &str = "estop.latch";
/// How long the lock is tried for. A holder that is stuck must not keep a kill from the disk: then it is written anyway.
const LOCK_TIMEOUT: Duration = Duration::from_millis(300);
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// Where the latch of a data directory is.
pub fn latch_path(data_dir: &Path) -> PathBuf {
    data_dir.join(NAME)
}

/// A latch file that can be written.
#[derive(Debug)]
pub struct LatchFile {
    data_dir: PathBuf,
    writer: String,
    /// What is locked. Kept open, like the file: a process without a descriptor left must be able to write a kill.
    folder: Option<File>,
    file: Option<File>,
    patience: Duration,
    /// The slot to write next and the last serial seen: only for a disk that cannot be read any more.
    last: (usize, u64),
}

impl LatchFile {
    /// Reads the latch of a data directory, without changing anything.
    pub fn look(data_dir: &Path) -> FoundLatch {
        LatchFile::look_at_slot(data_dir).found
    }

    /// The same, with who wrote it.
    pub fn look_at_slot(data_dir: &Path) -> FoundSlot {
        let unread = |found| FoundSlot { found, mark: None, asked: Channels::NONE };
        match read(&latch_path(data_dir)) {
            Ok(Some(bytes)) => slot::newest(&bytes),
            Ok(None) => unread(FoundLatch::Missing),
            Err(error) => unread(FoundLatch::Damaged(format!("the latch file cannot be read: {error}"))),
        }
    }

    /// The latch of a data directory, to be written under this name. The file is made with the first write if there is
    /// none, or none of the right size.
    pub fn of(data_dir: &Path, writer: &str) -> LatchFile {
        let (data_dir, writer) = (data_dir.to_owned(), writer.to_owned());
        LatchFile { data_dir, writer, folder: None, file: None, patience: LOCK_TIMEOUT, last: (0, 0) }
    }

    /// Writes how the button stands, whatever was there. On the disk when it returns.
    pub fn write(&mut self, latched: &Latched) -> io::Result<SlotVersion> {
        let entry = Entry::from(latched.clone());
        // It always decides to write.
        self.update(|_| Some(entry)).and_then(|mark| mark.ok_or_else(|| io::Error::other("not written")))
    }

    /// Writes what `decide` makes of the newest slot; nothing if it says so. Nobody else writes in between. On the disk
    /// when it returns.
    pub fn update(
        &mut self,
        decide: impl FnOnce(FoundSlot) -> Option<Entry>,
    ) -> io::Result<Option<SlotVersion>> {
        let id = |about: std::fs::Metadata| (about.dev(), about.ino());
        let there = std::fs::metadata(&self.data_dir).map(id).ok();
        let is_same = |folder: &File| there.is_none() || folder.metadata().map(id).ok() == there;
        if !self.folder.as_ref().is_some_and(is_same) {
            // Without it, it is written unlocked.
            self.folder = File::open(&self.data_dir).ok();
        }
        let is_locked = self.folder.as_ref().is_some_and(|folder| lock(folder, self.patience));
        let written = self.update_locked(decide);
        if let Some(folder) = self.folder.as_ref().filter(|_| is_locked)
            && folder.unlock().is_err()
        {
            // Closing it unlocks it too.
            self.folder = None;
        }
        if written.is_err() {
            self.file = None;
        }
        written
    }

    fn update_locked(
        &mut self,
        decide: impl FnOnce(FoundSlot) -> Option<Entry>,
    ) -> io::Result<Option<SlotVersion>> {
        let path = latch_path(&self.data_dir);
        self.file = reopened(self.file.take(), &path)?;
        let bytes = self.file.as_ref().map(read_slots);
        let found = match &bytes {
            None => FoundSlot { found: FoundLatch::Missing, mark: None, asked: Channels::NONE },
            Some(Ok(bytes)) => slot::newest(bytes),
            Some(Err(error)) => {
                let why = format!("the latch file cannot be read: {error}");
                FoundSlot { found: FoundLatch::Damaged(why), mark: None, asked: Channels::NONE }
            }
        };
        let Some(entry) = decide(found) else { return Ok(None) };
        let is_whole = match &bytes {
            None => false,
            // What cannot be read may still be written.
            Some(Err(_)) => true,
            Some(Ok(bytes)) => {
                let (next, serial) = slot::place(bytes);
                self.last = (next, serial.max(self.last.1));
                bytes.len() == 2 * SLOT
            }
        };
        let (next, serial) = self.last;
        let Some(file) = self.file.as_ref().filter(|_| is_whole) else {
            return self.create(&entry).map(Some);
        };
        let mark = self.mark(serial + 1);
        file.write_all_at(&slot::write(&mark, &entry), (next * SLOT) as u64)?;
        file.sync_data()?;
        self.last = (1 - next, mark.serial);
        Ok(Some(mark))
    }

    /// Makes the file with both slots written: there is never one with less.
    fn create(&mut self, entry: &Entry) -> io::Result<SlotVersion> {
        let path = latch_path(&self.data_dir);
        let fresh = path.with_extension("latch.new");
        let (first, second) = (self.mark(self.last.1 + 1), self.mark(self.last.1 + 2));
        let bytes = [slot::write(&first, entry), slot::write(&second, entry)].concat();
        // Also where somebody removed the data directory: a kill must not be lost with it.
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.data_dir)?;
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let file = open_regular(&fresh, options)?;
        file.write_all_at(&bytes, 0)?;
        file.sync_all()?;
        std::fs::rename(&fresh, &path)?;
        File::open(&self.data_dir)?.sync_all()?;
        (self.file, self.last) = (Some(file), (0, second.serial));
        Ok(second)
    }

    fn mark(&self, serial: u64) -> SlotVersion {
        SlotVersion { writer: self.writer.clone(), serial }
    }
}

/// Locks the folder; whether it could in time.
fn lock(folder: &File, patience: Duration) -> bool {
    let begun = Instant::now();
    loop {
        match folder.try_lock() {
            Ok(()) => return true,
            Err(TryLockError::WouldBlock) if begun.elapsed() < patience => std::thread::sleep(LOCK_INTERVAL),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => return false,
        }
    }
}

/// The latch, open to be read and written: the same again unless it was replaced; `None` if there is none.
fn reopened(file: Option<File>, path: &Path) -> io::Result<Option<File>> {
    let id = |about: std::fs::Metadata| (about.dev(), about.ino());
    let there = match std::fs::symlink_metadata(path) {
        Ok(about) => id(about),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match file {
        Some(file) if file.metadata().is_ok_and(|about| id(about) == there) => Ok(Some(file)),
        Some(_) | None => open_to_write(path).map(Some),
    }
}

/// The slots, and a byte more if there is one.
fn read_slots(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 2 * SLOT + 1];
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

fn open_to_write(path: &Path) -> io::Result<File> {
    let flags = (nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK).bits();
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

/// The bytes of a file; `None` if there is none. Never more than a latch has.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let flags = (nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK).bits();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::with_capacity(2 * SLOT);
    file.take(2 * SLOT as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests;
