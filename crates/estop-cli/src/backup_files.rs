//! Small files that go with a copy of the database (ST-1): the last proof test and the list of work at providers.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use estop_config::data_dir::{BACKGROUND, PROOF_TEST, SmallFile};
use estop_store::open_regular;

/// A file of the data directory that goes with a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupFile {
    /// Beside the copy its name follows the copy's. Of a larger one nothing is copied: estop did not write it.
    file: SmallFile,
    /// What people call it.
    pub what: &'static str,
    /// What a person can do where it could not be put back.
    pub next_step: &'static str,
}

/// All of them.
pub const BACKUP_FILES: [BackupFile; 2] = [
    BackupFile { file: PROOF_TEST, what: "the last proof test", next_step: "Run `estop prooftest`." },
    BackupFile {
        file: BACKGROUND,
        what: "the list of work at providers",
        next_step: "A stop does not cancel what it lists: look at the providers.",
    },
];

impl BackupFile {
    /// Copies it beside a copy of the database; whether there is one.
    pub fn copy_beside(&self, data_dir: &Path, copy: &Path) -> io::Result<bool> {
        self.put(&self.file.path(data_dir), &self.beside(copy))
    }

    /// Puts it back, unless the data directory has one: that one is newer, or of this very machine. Whether it did.
    pub fn copy_back(&self, copy: &Path, data_dir: &Path) -> io::Result<bool> {
        let place = self.file.path(data_dir);
        if place.exists() { Ok(false) } else { self.put(&self.beside(copy), &place) }
    }

    fn beside(&self, copy: &Path) -> PathBuf {
        let mut name = copy.as_os_str().to_owned();
        name.push(".");
        name.push(self.file.name);
        PathBuf::from(name)
    }

    /// Never writes over anything.
    fn put(&self, from: &Path, to: &Path) -> io::Result<bool> {
        let mut bytes = Vec::new();
        match open_regular(from, OpenOptions::new().read(true)) {
            Ok(file) => file.take(self.file.bytes_max.saturating_add(1)).read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        if bytes.len() as u64 > self.file.bytes_max {
            return Err(io::Error::other(format!("{} is larger than any that estop writes", from.display())));
        }
        let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
        out.write_all(&bytes)?;
        out.sync_all()?;
        Ok(true)
    }
}
