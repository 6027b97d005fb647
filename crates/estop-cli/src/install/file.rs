//! A settings file on the disk: read, copied and replaced, so that nobody ever sees half of it.
//!
//! A link is followed: what it leads to is replaced, not the link. Mode and owner stay.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// No settings file has more; those we know have some kilobytes.
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// As many as a kernel follows.
const LINKS_MAX: usize = 40;
const BACKUP: &str = ".estop-backup";

/// A file as it was found.
pub(super) struct Found {
    /// Behind all links.
    path: PathBuf,
    text: Option<String>,
}

/// Reads a file, which may be missing.
pub(super) fn read(path: &Path) -> anyhow::Result<Found> {
    let path = behind_links(path)?;
    let text = text_of(&path)?;
    Ok(Found { path, text })
}

fn text_of(path: &Path) -> anyhow::Result<Option<String>> {
    let cannot = || format!("cannot read {}", path.display());
    // Asked before it is opened: a pipe would never end.
    match path.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(cannot),
        Ok(about) if !about.is_file() => anyhow::bail!("{} is not a file", path.display()),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(cannot)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).with_context(cannot)?;
    anyhow::ensure!(
        bytes.len() as u64 <= FILE_BYTES_MAX,
        "{} is too large for a settings file: it was left as it is",
        path.display()
    );
    let text = String::from_utf8(bytes);
    let text = text.with_context(|| format!("{} is not UTF-8 text: it was left as it is", path.display()))?;
    Ok(Some(text))
}

/// Where a chain of links ends, even if nothing is there.
fn behind_links(path: &Path) -> anyhow::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            Ok(next) => path = path.parent().unwrap_or(Path::new("/")).join(next),
            Err(_) => return Ok(path),
        }
    }
    anyhow::bail!("{} is a link that never ends", path.display())
}

impl Found {
    /// What it has; `None` if it is not there.
    pub(super) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    pub(super) fn backup_path(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(BACKUP);
        name.into()
    }

    pub(super) fn has_backup(&self) -> bool {
        self.backup_path().is_file()
    }

    /// The copy's text, if there is one.
    pub(super) fn backup(&self) -> anyhow::Result<Option<String>> {
        text_of(&self.backup_path())
    }

    /// Keeps a copy of what was found.
    pub(super) fn make_backup(&self) -> anyhow::Result<()> {
        let Some(text) = &self.text else { return Ok(()) };
        self.write(&self.backup_path(), text, false)
    }

    pub(super) fn drop_backup(&self) -> anyhow::Result<()> {
        let path = self.backup_path();
        fs::remove_file(&path).with_context(|| format!("cannot delete {}", path.display()))
    }

    /// Puts this text in its place.
    pub(super) fn replace(&self, text: &str, is_executable: bool) -> anyhow::Result<()> {
        self.still_as_found()?;
        self.write(&self.path, text, is_executable)
    }

    pub(super) fn delete(&self) -> anyhow::Result<()> {
        self.still_as_found()?;
        fs::remove_file(&self.path).with_context(|| format!("cannot delete {}", self.path.display()))?;
        // A folder of ours alone goes with its last file.
        if let Some(folder) =
            self.path.parent().filter(|folder| folder.file_name().is_some_and(|n| n == "estop"))
        {
            // It stays if something else is in it.
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }

    /// The client may write its settings at any time: what it wrote since is not lost.
    fn still_as_found(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            text_of(&self.path)? == self.text,
            "{} was changed by somebody else in this moment: try again",
            self.path.display()
        );
        Ok(())
    }

    /// A new file beside it, then a rename: whoever reads sees the old text or the new one.
    fn write(&self, to: &Path, text: &str, is_executable: bool) -> anyhow::Result<()> {
        let folder = to.parent().with_context(|| format!("{} is no place for a file", to.display()))?;
        fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let mut name = to.as_os_str().to_owned();
        name.push(format!(".{}.tmp", std::process::id()));
        let new = PathBuf::from(name);
        let written = self.write_new(&new, text, is_executable).and_then(|()| fs::rename(&new, to));
        written.inspect_err(|_| drop(fs::remove_file(&new))).with_context(|| {
            let fix = if self.path.starts_with("/etc") { "; run this as root" } else { "" };
            format!("cannot write {}{fix}", to.display())
        })
    }

    fn write_new(&self, new: &Path, text: &str, is_executable: bool) -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        let like = self.path.metadata().ok();
        if like.is_some() {
            // Nobody reads it before it has its mode: settings may hold keys.
            options.mode(0o600);
        } else if is_executable {
            options.mode(0o777);
        }
        let mut file = options.open(new)?;
        if let Some(like) = like {
            let mine = file.metadata()?;
            if (mine.uid(), mine.gid()) != (like.uid(), like.gid()) {
                chown(new, Some(like.uid()), Some(like.gid()))?;
            }
            let mode = if is_executable { like.mode() | 0o111 } else { like.mode() };
            file.set_permissions(Permissions::from_mode(mode & 0o7777))?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }
}
