//! A folder of one run, for settings that clients read from files; gone when the run is over.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The folder, made when the first file is written.
pub(super) struct Folder {
    path: PathBuf,
    is_made: bool,
}

impl Folder {
    /// In the data directory, where nobody else can write.
    pub(super) fn of(data_dir: &Path, run: &str) -> Folder {
        Folder { path: data_dir.join(format!("run-{run}-{}", std::process::id())), is_made: false }
    }

    /// Writes a file.
    pub(super) fn write(&mut self, name: &str, text: &str) -> io::Result<PathBuf> {
        if !self.is_made {
            DirBuilder::new().mode(0o700).create(&self.path)?;
            self.is_made = true;
        }
        let path = self.path.join(name);
        std::fs::write(&path, text)?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_made {
            // What is left is small, and nobody reads it.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
