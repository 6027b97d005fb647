//! The file that says how far the journal must reach.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use estop_journal::{SLOT_LEN, Watermark};

use super::files::MARK;
use crate::data_folder::open_regular;

/// The newest mark of a folder; `None` if there is no whole one.
pub(super) fn read(folder: &Path) -> io::Result<Option<Watermark>> {
    let file = match open_regular(&folder.join(MARK), OpenOptions::new().read(true)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut slots = vec![0; usize::try_from(file.metadata()?.len().min(2 * SLOT_LEN as u64)).unwrap_or(0)];
    file.read_exact_at(&mut slots, 0)?;
    Ok(Watermark::read(&slots))
}

/// Opens it for writing; makes it if there is none.
pub(super) fn open(folder: &Path) -> io::Result<File> {
    open_regular(&folder.join(MARK), OpenOptions::new().write(true).create(true).mode(0o600))
}

/// Writes a mark over the older one.
pub(super) fn write(file: &File, mark: &Watermark) -> io::Result<()> {
    file.write_all_at(&mark.slot(), mark.offset())
}
