//! When estop was last alive (CB-5): written once a second beside the database.
//!
//! A run that says nothing leaves no record, but its active time counts until the process ends, however it ends. The
//! record of a start says how long estop was away; it is measured from here, or from the newest record if that is later.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use estop_core::time::{Millis, Now};
use estop_store::open_regular;

/// The file's name in the data directory.
const NAME: &str = "alive";
/// How often it is written: as much of a silent run's time is lost when the process is killed.
const EVERY: Duration = Duration::from_secs(1);
/// Three numbers of twenty characters, two spaces, the end of the line: the file never changes its length.
const LENGTH: usize = 63;

/// The last sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alive {
    /// The journal's tail when that process began: a database that knows only earlier ones was put back from a backup.
    pub(super) generation: u64,
    /// When.
    pub(super) now: Now,
}

/// What the file says. Without it, or if it cannot be read, the newest record says until when estop was alive.
pub(super) fn read(data_dir: &Path) -> Option<Alive> {
    let file = open_regular(&data_dir.join(NAME), OpenOptions::new().read(true)).ok()?;
    let meta = file.metadata().ok()?;
    if !meta.is_file() || meta.size() != LENGTH as u64 {
        return None;
    }
    let mut bytes = [0; LENGTH];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let mut words = std::str::from_utf8(&bytes).ok()?.strip_suffix('\n')?.split_ascii_whitespace();
    let (generation, mono, wall) = (words.next()?, words.next()?, words.next()?);
    let now = Now { mono: Millis(mono.parse().ok()?), wall: wall.parse().ok()? };
    Some(Alive { generation: generation.parse().ok()?, now })
}

fn write(file: &File, alive: Alive) -> std::io::Result<()> {
    let Alive { generation, now } = alive;
    let line = format!("{generation:>20} {:>20} {:>20}\n", now.mono.0, now.wall);
    file.write_all_at(line.as_bytes(), 0)
}

/// Writes the file until it is ended.
pub(super) struct Heartbeat {
    ends: Sender<()>,
    thread: JoinHandle<()>,
}

impl Heartbeat {
    /// Begins. An error is for the log: without the file a silent run may lose time, and nothing else is wrong.
    pub(super) fn start(
        data_dir: &Path,
        generation: u64,
        clock: impl Fn() -> Now + Send + 'static,
    ) -> std::io::Result<Heartbeat> {
        let path = data_dir.join(NAME);
        // Made anew: whatever stood there, a link included, is not written through.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let beat = move || write(&file, Alive { generation, now: clock() });
        beat()?;
        let (ends, ended) = channel();
        let run = move || {
            loop {
                let wait = ended.recv_timeout(EVERY);
                // A disk that is full or gone is somebody else's to say; the next second is another try.
                let _ = beat();
                if wait != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("estop-alive".into()).spawn(run)?;
        Ok(Heartbeat { ends, thread })
    }

    /// The last sign of life.
    pub(super) fn end(self) {
        drop(self.ends);
        // It only writes; a panic there has nothing to say here.
        let _ = self.thread.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn cb_5_the_last_sign_of_life_is_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(read(folder.path()), None);
        let time = Arc::new(AtomicU64::new(7));
        let clock = Arc::clone(&time);
        let now = move || Now { mono: Millis(clock.load(Ordering::Relaxed)), wall: -5 };
        let heartbeat = Heartbeat::start(folder.path(), 3, now).expect("it begins");
        let seen = |mono| Some(Alive { generation: 3, now: Now { mono: Millis(mono), wall: -5 } });
        assert_eq!(read(folder.path()), seen(7), "written before anything else happens");
        time.store(u64::MAX, Ordering::Relaxed);
        heartbeat.end();
        assert_eq!(read(folder.path()), seen(u64::MAX), "and at the very end");
    }

    #[test]
    fn cb_5_what_is_no_sign_of_life_is_not_believed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(NAME);
        for wrong in
            ["", "1 2 3\n", &"1".repeat(LENGTH), &format!("{:>62}\n", "1 2"), &format!("{:>62}\n", "1 2 x")]
        {
            std::fs::write(&path, wrong).expect("a file");
            assert_eq!(read(folder.path()), None, "{wrong:?}");
        }
    }
}
