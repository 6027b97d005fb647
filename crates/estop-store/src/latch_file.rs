//! The latch file: the red button's state on the disk, beside the database and independent of it (KS-3).
//!
//! One small file of two slots, allocated once, so that a full disk cannot keep a kill from being written. Each write
//! goes to the older slot and is synced; the other one still holds what was before. Both are plain text with a
//! checksum: a person can read them with `cat`. A slot that is not exactly as it was written means that nobody knows
//! what was acknowledged, and the system starts shut down.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use estop_core::button::Latched;
use estop_core::system::{Channels, GateView, SystemState};

mod slot;

/// The file's name in the data directory.
const NAME: &str = "estop.latch";
/// Bytes of a slot: a page, which disks write whole.
const SLOT: usize = 4096;

/// Where the latch of a data directory is.
pub fn latch_path(data_dir: &Path) -> PathBuf {
    data_dir.join(NAME)
}

/// What a latch file said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundLatch {
    /// There is none.
    Missing,
    /// This.
    Said(Latched),
    /// It cannot be trusted, for this reason.
    Damaged(String),
}

impl FoundLatch {
    /// What a start must believe (KS-3): a latch that is missing beside a database, or cannot be read, is a pressed
    /// button. `None` is a first start.
    pub fn believed(self, is_first_start: bool, wall: i64) -> Option<Latched> {
        let why = match self {
            FoundLatch::Said(latched) => return Some(latched),
            FoundLatch::Missing if is_first_start => return None,
            FoundLatch::Missing => "the latch file is missing beside its database".to_owned(),
            FoundLatch::Damaged(why) => why,
        };
        let shut = GateView { epoch: 0, state: SystemState::Shutdown, shut: Channels::ALL };
        Some(Latched { note: Some(why), ..Latched::at_start(shut, wall) })
    }
}

/// A latch file that can be written.
#[derive(Debug)]
pub struct LatchFile {
    data_dir: PathBuf,
    /// Where it is written; `None` = it must be made first.
    file: Option<File>,
    /// The slot to write next: the one that is older, or damaged.
    next: usize,
    serial: u64,
}

impl LatchFile {
    /// Reads the latch of a data directory, without changing anything.
    pub fn look(data_dir: &Path) -> FoundLatch {
        match read(&latch_path(data_dir)) {
            Ok(Some(bytes)) => match slot::newest(&bytes) {
                Ok(slot) => FoundLatch::Said(slot.latched),
                Err(why) => FoundLatch::Damaged(why),
            },
            Ok(None) => FoundLatch::Missing,
            Err(error) => FoundLatch::Damaged(format!("the latch file cannot be read: {error}")),
        }
    }

    /// Opens the latch to write it. It is made with the first write if there is none, or none of the right size.
    pub fn open(data_dir: &Path) -> io::Result<LatchFile> {
        let path = latch_path(data_dir);
        let bytes = read(&path)?.filter(|bytes| bytes.len() == 2 * SLOT);
        let (next, serial) = bytes.as_deref().map_or((0, 0), slot::place);
        let file = bytes.map(|_| open_to_write(&path)).transpose()?;
        Ok(LatchFile { data_dir: data_dir.to_owned(), file, next, serial })
    }

    /// Writes how the button stands. On the disk when it returns.
    pub fn write(&mut self, latched: &Latched) -> io::Result<()> {
        let Some(file) = &self.file else { return self.create(latched) };
        let serial = self.serial + 1;
        file.write_all_at(&slot::write(serial, latched), (self.next * SLOT) as u64)?;
        file.sync_data()?;
        self.serial = serial;
        self.next = 1 - self.next;
        Ok(())
    }

    /// Makes the file with both slots written: there is never one with less.
    fn create(&mut self, latched: &Latched) -> io::Result<()> {
        let path = latch_path(&self.data_dir);
        let fresh = path.with_extension("latch.new");
        let bytes = [slot::write(self.serial + 1, latched), slot::write(self.serial + 2, latched)].concat();
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all_at(&bytes, 0)?;
        file.sync_all()?;
        std::fs::rename(&fresh, &path)?;
        File::open(&self.data_dir)?.sync_all()?;
        (self.file, self.next, self.serial) = (Some(file), 0, self.serial + 2);
        Ok(())
    }
}

fn open_to_write(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits()).open(path)
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
