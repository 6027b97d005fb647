//! The files of a data directory: whose they are, of which kind, and whether they are still the ones that were opened.
//!
//! Whoever can write there can undo a stop, so that a start refuses what others can write, what belongs to somebody else and
//! what is no plain file. A pipe in the place of a file would also hold up whoever opens it, for ever.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Names in a data directory that are estop's: these, and what begins with one and goes on with `-` or `.`.
const FILES: [&str; 4] = ["estop.db", "estop.latch", "background.json", "admin-token"];
const SOCKET: &str = "estop.sock";
/// Folders that are estop's: the journal, and a copy that is being restored.
const FOLDERS: [&str; 3] = ["journal", "estop.db.restoring", "estop.db.unpacked"];

/// What is wrong with a data directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DataDirError {
    /// Others can write it.
    #[error(
        "{} can be written by others (mode {mode:03o}), who could undo a stop: chmod {fix} '{}'",
        path.display(),
        path.display()
    )]
    Writable {
        /// What.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
        /// What they should be.
        fix: &'static str,
    },
    /// It belongs to somebody else.
    #[error(
        "{} belongs to user {owner}, and estop runs as user {me}: start estop as its owner, or chown -R {me} the data directory",
        path.display()
    )]
    Owner {
        /// What.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who runs.
        me: u32,
    },
    /// It is not of the kind it must be.
    #[error("{} is {found}, and must be {wanted}: move it away", path.display())]
    Kind {
        /// What.
        path: PathBuf,
        /// What it is.
        found: &'static str,
        /// What it must be.
        wanted: &'static str,
    },
    /// It cannot be looked at.
    #[error("{} cannot be looked at: {detail}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// What the system said.
        detail: String,
    },
}

/// Whether a data directory and what estop keeps in it are safe to use for user `me`.
pub fn check_folder(folder: &Path, me: u32) -> Result<(), DataDirError> {
    // The folder itself may be a link, to another disk.
    let about = std::fs::metadata(folder).map_err(|error| fault(folder, &error))?;
    if !about.is_dir() {
        return Err(wrong_kind(folder, &about, "a folder"));
    }
    check_owner(folder, &about, me, "700")?;
    for entry in std::fs::read_dir(folder).map_err(|error| fault(folder, &error))? {
        let entry = entry.map_err(|error| fault(folder, &error))?;
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        if FOLDERS.contains(&&*name) {
            check_files_in(&path, me)?;
            continue;
        }
        let is_file = is_ours(&name);
        if !is_file && name != SOCKET {
            continue;
        }
        let about = match std::fs::symlink_metadata(&path) {
            Ok(about) => about,
            // A running estop may have removed it meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(fault(&path, &error)),
        };
        let kind = about.file_type();
        if is_file && !kind.is_file() {
            return Err(wrong_kind(&path, &about, "a regular file"));
        }
        if !is_file && !kind.is_socket() {
            return Err(wrong_kind(&path, &about, "a socket"));
        }
        check_owner(&path, &about, me, "600")?;
    }
    Ok(())
}

/// Whether a folder of the data directory and the files in it are safe to use.
fn check_files_in(folder: &Path, me: u32) -> Result<(), DataDirError> {
    let about = std::fs::symlink_metadata(folder).map_err(|error| fault(folder, &error))?;
    if !about.is_dir() {
        return Err(wrong_kind(folder, &about, "a folder"));
    }
    check_owner(folder, &about, me, "700")?;
    for entry in std::fs::read_dir(folder).map_err(|error| fault(folder, &error))? {
        let path = entry.map_err(|error| fault(folder, &error))?.path();
        let about = match std::fs::symlink_metadata(&path) {
            Ok(about) => about,
            // A running estop seals and prunes.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(fault(&path, &error)),
        };
        // A copy that is being restored has a journal in it.
        if about.is_dir() {
            check_owner(&path, &about, me, "700")?;
        } else if about.is_file() {
            check_owner(&path, &about, me, "600")?;
        } else {
            return Err(wrong_kind(&path, &about, "a regular file"));
        }
    }
    Ok(())
}

fn fault(path: &Path, error: &io::Error) -> DataDirError {
    DataDirError::Io { path: path.to_owned(), detail: error.to_string() }
}

fn is_ours(name: &str) -> bool {
    let begins = |file: &&str| {
        name.strip_prefix(*file).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']))
    };
    FILES.iter().any(begins)
}

fn check_owner(path: &Path, about: &Metadata, me: u32, fix: &'static str) -> Result<(), DataDirError> {
    if about.uid() != me {
        return Err(DataDirError::Owner { path: path.to_owned(), owner: about.uid(), me });
    }
    let mode = about.mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(DataDirError::Writable { path: path.to_owned(), mode, fix });
    }
    Ok(())
}

fn wrong_kind(path: &Path, about: &Metadata, wanted: &'static str) -> DataDirError {
    DataDirError::Kind { path: path.to_owned(), found: kind_of(about), wanted }
}

/// What a file is, in words.
fn kind_of(about: &Metadata) -> &'static str {
    let kind = about.file_type();
    match () {
        () if kind.is_symlink() => "a symbolic link",
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a named pipe (FIFO)",
        () if kind.is_socket() => "a socket",
        () if kind.is_file() => "a regular file",
        () => "a device",
    }
}

/// Opens a regular file; anything else is an error at once, and nobody waits for the other end of a pipe.
pub fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    use nix::fcntl::OFlag;
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
    let file = match options.custom_flags(flags).open(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => match std::fs::symlink_metadata(path) {
            Ok(about) if !about.is_file() => return Err(no_file(&about)),
            Ok(_) | Err(_) => return Err(error),
        },
        opened => opened?,
    };
    let about = file.metadata()?;
    if about.is_file() { Ok(file) } else { Err(no_file(&about)) }
}

/// Whether a file is a regular one, or not there.
pub(crate) fn check_regular(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(about) if !about.is_file() => Err(no_file(&about)),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn no_file(about: &Metadata) -> io::Error {
    io::Error::other(format!("it is {}, and must be a regular file: move it away", kind_of(about)))
}

/// Which file stands at a path: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId(u64, u64);

impl FileId {
    /// Of what was looked at.
    pub fn of(about: &Metadata) -> FileId {
        FileId(about.dev(), about.ino())
    }

    /// Of what stands there; `None` if nothing does.
    pub fn at(path: &Path) -> io::Result<Option<FileId>> {
        match std::fs::symlink_metadata(path) {
            Ok(about) => Ok(Some(FileId::of(&about))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What is wrong with a path where this file must stand; `None` if it does. A disk that does not answer is no news of
    /// the file.
    pub fn lost(self, path: &Path) -> Option<String> {
        match FileId::at(path) {
            Ok(Some(id)) if id == self => None,
            Ok(Some(_)) => Some(format!("{} was replaced", path.display())),
            Ok(None) => Some(format!("{} was removed", path.display())),
            Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn folder() -> (tempfile::TempDir, u32) {
        let folder = tempfile::tempdir().expect("a folder");
        let me = std::fs::metadata(folder.path()).expect("it is there").uid();
        (folder, me)
    }

    fn chmod(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    }

    #[test]
    fn st_1_a_folder_that_others_can_write_is_refused_with_the_fix() {
        let (folder, me) = folder();
        assert_eq!(check_folder(folder.path(), me), Ok(()));
        for mode in [0o777, 0o770, 0o702, 0o1777] {
            chmod(folder.path(), mode);
            let said = check_folder(folder.path(), me).map_err(|fault| fault.to_string());
            assert!(said.as_ref().is_err_and(|said| said.contains("chmod 700")), "{mode:o}: {said:?}");
        }
        chmod(folder.path(), 0o755);
        assert_eq!(check_folder(folder.path(), me), Ok(()));
        assert!(matches!(check_folder(folder.path(), me + 1), Err(DataDirError::Owner { .. })));
    }

    #[test]
    fn st_1_files_that_are_links_pipes_or_others_are_refused() {
        for name in ["estop.db", "estop.db-wal", "estop.db.lock", "estop.latch", "estop.sock"] {
            let (folder, me) = folder();
            let path = folder.path().join(name);
            symlink("/etc/passwd", &path).expect("a link");
            assert!(matches!(check_folder(folder.path(), me), Err(DataDirError::Kind { .. })), "{name}");
            std::fs::remove_file(&path).expect("it is there");
            nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
            let said = check_folder(folder.path(), me).map_err(|fault| fault.to_string());
            assert!(said.as_ref().is_err_and(|said| said.contains("named pipe")), "{name}: {said:?}");
            let opened = open_regular(&path, OpenOptions::new().read(true));
            assert!(opened.is_err_and(|error| error.to_string().contains("named pipe")), "{name}");
            assert!(check_regular(&path).is_err());
        }
        let (folder, me) = folder();
        let path = folder.path().join("estop.latch");
        std::fs::write(&path, "").expect("a file");
        chmod(&path, 0o666);
        assert!(matches!(check_folder(folder.path(), me), Err(DataDirError::Writable { fix: "600", .. })));
        std::fs::rename(&path, folder.path().join("estop.yaml")).expect("it is there");
        assert_eq!(check_folder(folder.path(), me), Ok(()), "other people's files are their own matter");
    }
}
