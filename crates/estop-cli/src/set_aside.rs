//! Moving files of a data directory away, so that a power cut loses none of them.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use jiff::Timestamp;

/// Moves a file or folder, if it is there, into a folder of its owner's alone.
pub(crate) fn set_aside(path: &Path, into: &Path) -> anyhow::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(into)?;
    let name = path.file_name().context("it has no name")?;
    std::fs::rename(path, into.join(name))?;
    sync(into)
}

/// A name that nothing in the folder has: `prefix` and the time.
pub(crate) fn free_name(folder: &Path, prefix: &str) -> anyhow::Result<PathBuf> {
    let now = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    let names = (1..100).map(|number| match number {
        1 => folder.join(format!("{prefix}{now}")),
        _ => folder.join(format!("{prefix}{now}-{number}")),
    });
    let mut free = names.filter(|name| !name.exists());
    free.next().with_context(|| format!("a hundred folders {prefix}{now} were made in this second"))
}

/// Puts the names in a folder on the disk.
pub(crate) fn sync(folder: &Path) -> anyhow::Result<()> {
    Ok(File::open(folder)?.sync_all()?)
}

/// The name with something behind it.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
