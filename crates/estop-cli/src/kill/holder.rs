//! Which process holds a data directory: found by its lock, and signalled by a handle that cannot mean another one.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use estop_config::data_dir::database;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// SIGUSR1 in the masks of `/proc/PID/status`.
const USR1_BIT: u64 = 1 << 9;

/// The process that holds the lock.
pub(crate) struct Holder {
    /// Its number.
    pub(crate) pid: i32,
    handle: OwnedFd,
    minds_usr1: bool,
}

/// The kernel tells its locks page by page: while others let go of theirs between two pages, a lock that is held can be
/// left out. Of a hundred looks on a busy machine one missed it; so many in a row do not.
const LOOKS: usize = 8;

impl Holder {
    /// Who holds a data directory: by the lock's own file, or by the database where somebody removed that.
    pub(crate) fn of_folder(folder: &Path) -> Option<Holder> {
        let mut lock = database(folder).into_os_string();
        lock.push(".lock");
        Holder::of(Path::new(&lock)).or_else(|| Holder::of(&database(folder)))
    }

    /// Who holds this lock; `None` if that cannot be told for certain.
    pub(crate) fn of(lock: &Path) -> Option<Holder> {
        (0..LOOKS).find_map(|_| Holder::look(lock))
    }

    fn look(lock: &Path) -> Option<Holder> {
        let about = std::fs::metadata(lock).ok()?;
        let locks = std::fs::read_to_string("/proc/locks").ok()?;
        let mut found = locks.lines().filter_map(|line| holder_in(line, about.ino()));
        found.find_map(|pid| {
            // The handle first: whatever is read of the number afterwards, it stays this process's.
            let handle = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
            let holds = has_open(pid, &about);
            holds.then(|| Holder { pid, handle, minds_usr1: minds_usr1(pid) })
        })
    }

    /// Sends SIGUSR1, if it would not end a process that knows nothing of it; whether it did.
    pub(super) fn press(&self) -> bool {
        self.minds_usr1 && pidfd_send_signal(&self.handle, Signal::USR1).is_ok()
    }

    /// Ends it; whether it could be told.
    pub(super) fn kill(&self) -> bool {
        pidfd_send_signal(&self.handle, Signal::KILL).is_ok()
    }
}

/// The number of the process, in a line of `/proc/locks`, that has locked this file.
fn holder_in(line: &str, inode: u64) -> Option<i32> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    // One that waits for a lock has an arrow here, and holds nothing.
    (fields.next()? == "FLOCK").then_some(())?;
    let pid = fields.nth(2)?.parse().ok().filter(|pid| *pid > 0)?;
    let file = fields.next()?.rsplit(':').next()?;
    (file.parse() == Ok(inode)).then_some(pid)
}

/// Whether a process has this very file open: numbers of inodes alone repeat from disk to disk.
fn has_open(pid: i32, about: &std::fs::Metadata) -> bool {
    let files = std::fs::read_dir(PathBuf::from(format!("/proc/{pid}/fd"))).into_iter().flatten();
    files
        .filter_map(|file| std::fs::metadata(file.ok()?.path()).ok())
        .any(|open| (open.dev(), open.ino()) == (about.dev(), about.ino()))
}

/// Whether it catches SIGUSR1 or has it held back, as estop does. Anything else would die of it.
fn minds_usr1(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(line.trim(), 16).ok()
    };
    let masks = mask("SigBlk:").unwrap_or(0) | mask("SigCgt:").unwrap_or(0);
    masks & USR1_BIT != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ks_5_the_holder_of_a_lock_is_the_one_who_holds_this_file() {
        let line = "3: FLOCK  ADVISORY  WRITE 1234 fd:00:5678 0 EOF";
        assert_eq!(holder_in(line, 5678), Some(1234));
        assert_eq!(holder_in(line, 567), None);
        assert_eq!(holder_in("3: -> FLOCK  ADVISORY  WRITE 1234 fd:00:5678 0 EOF", 5678), None);
        assert_eq!(holder_in("3: POSIX  ADVISORY  WRITE 1234 fd:00:5678 0 EOF", 5678), None);
        assert_eq!(holder_in("3: FLOCK  ADVISORY  WRITE -1 fd:00:5678 0 EOF", 5678), None);
        assert_eq!(holder_in("", 1), None);
    }

    #[test]
    fn ks_5_this_process_is_found_by_a_lock_it_holds_and_is_not_signalled_if_it_would_die_of_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        let file = std::fs::File::create(&path).expect("a file");
        assert!(Holder::of(&path).is_none(), "nobody holds it");
        file.try_lock().expect("it is free");
        let holder = Holder::of(&path).expect("this process holds it");
        assert_eq!(u32::try_from(holder.pid), Ok(std::process::id()));
        assert!(!holder.press(), "the test does not catch SIGUSR1");
    }

    #[test]
    fn ks_5_a_holder_is_found_while_others_lock_and_unlock() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        let file = std::fs::File::create(&path).expect("a file");
        file.try_lock().expect("it is free");
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for who in 0..2 {
                let (folder, is_over) = (&folder, &is_over);
                scope.spawn(move || {
                    let name = |nth| folder.path().join(format!("{who}-{nth}"));
                    let files: Vec<_> =
                        (0..200).map(|nth| std::fs::File::create(name(nth)).expect("a file")).collect();
                    while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        files.iter().for_each(|file| file.lock().expect("it is free"));
                        files.iter().for_each(|file| file.unlock().expect("it was locked"));
                    }
                });
            }
            let missed = (0..2_000).filter(|_| Holder::of(&path).is_none()).count();
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(missed, 0);
        });
    }
}
