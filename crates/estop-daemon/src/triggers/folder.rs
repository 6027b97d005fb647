//! Watches one file by the folder it is in: it need not exist, and may be replaced.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

/// How often a folder that cannot be watched is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Reads of one look; a busy folder must not keep the thread from the other triggers.
const READS_MAX: usize = 16;

/// What is told of the file. Writes as such are not: a database in the same folder would tell of each of its own.
const WATCHED: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_ATTRIB)
    .union(AddWatchFlags::IN_CLOSE_WRITE)
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_DELETE);
/// What ends the watch.
const ENDED: AddWatchFlags = AddWatchFlags::IN_DELETE_SELF
    .union(AddWatchFlags::IN_MOVE_SELF)
    .union(AddWatchFlags::IN_UNMOUNT)
    .union(AddWatchFlags::IN_IGNORED);

/// A file, watched.
pub(super) struct Folder {
    path: PathBuf,
    name: OsString,
    inotify: Option<Inotify>,
    again_at: Instant,
}

/// What became of a look.
pub(super) enum Seen {
    /// It is watched from here on.
    Begun,
    /// This happened to the file; empty = nothing.
    Happened(AddWatchFlags),
    /// It is not watched, for this reason.
    Blind(String),
}

impl Folder {
    pub(super) fn of(file: &Path) -> Folder {
        let path = file.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = file.file_name().unwrap_or_default().to_owned();
        Folder { path: path.to_owned(), name, inotify: None, again_at: Instant::now() }
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.inotify.is_none().then_some(self.again_at)
    }

    pub(super) fn look(&mut self, now: Instant) -> Seen {
        let Some(inotify) = &self.inotify else { return self.begin(now) };
        match happened(inotify, &self.name) {
            Ok(happened) if !happened.intersects(ENDED) => Seen::Happened(happened),
            Ok(_) => self.blind(now, "it was removed, moved or unmounted"),
            Err(error) => self.blind(now, error.desc()),
        }
    }

    fn begin(&mut self, now: Instant) -> Seen {
        if now < self.again_at {
            return Seen::Happened(AddWatchFlags::empty());
        }
        let begun = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).and_then(|inotify| {
            inotify.add_watch(&self.path, WATCHED | ENDED | AddWatchFlags::IN_ONLYDIR).map(|_| inotify)
        });
        match begun {
            Ok(inotify) => {
                self.inotify = Some(inotify);
                Seen::Begun
            }
            Err(error) => self.blind(now, error.desc()),
        }
    }

    fn blind(&mut self, now: Instant, why: &str) -> Seen {
        self.inotify = None;
        self.again_at = now + RETRY_DELAY;
        Seen::Blind(format!("the folder {} cannot be watched: {why}", self.path.display()))
    }
}

/// Everything that happened to the file, to the folder, or was forgotten because too much happened.
fn happened(inotify: &Inotify, name: &OsString) -> Result<AddWatchFlags, Errno> {
    let mut all = AddWatchFlags::empty();
    for _ in 0..READS_MAX {
        match inotify.read_events() {
            Ok(events) => {
                let ours = events.iter().filter(|event| event.name.as_ref().is_none_or(|of| of == name));
                all = ours.fold(all, |all, event| all | event.mask);
            }
            Err(Errno::EAGAIN | Errno::EINTR) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}
