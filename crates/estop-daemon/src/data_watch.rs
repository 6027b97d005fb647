//! Watches the files of the data directory while estop runs. One that is removed, cut or replaced takes with it everything
//! that is written from then on, and nobody would know: so the button is pressed, and nothing passes until the next start.
//!
//! What others need to reach this estop is made anew: the folder, with the latch in it that says SHUTDOWN, the owner's socket
//! and the lock by which `estop kill` finds the process.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use estop_config::data_dir::{database, socket};
use estop_core::system::KillReason;
use estop_core::system::button::Press;
use estop_gateway::Engine;
use estop_store::segments::{SegmentWriter, lost_file};
use estop_store::{DataLock, FileId, FoundLatch, LatchFile, Store};

use crate::admin_plane::Rebinder;

/// How often it looks: what is lost is said within 5 s, also on a busy machine.
const INTERVAL: Duration = Duration::from_secs(1);

/// The thread that watches. Dropping it looks once more, so that a stop that follows at once is known too.
pub struct DataWatch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What is watched, and who is told.
pub struct Watched {
    /// The data directory.
    pub data_dir: PathBuf,
    /// The database.
    pub store: Arc<dyn Store>,
    /// The journal.
    pub writer: Arc<SegmentWriter>,
    /// Where the button is pressed.
    pub engine: Arc<Engine>,
    /// Makes the owner's socket anew.
    pub rebinder: Rebinder,
}

impl DataWatch {
    /// Begins to watch. Everything must be there by now.
    pub fn start(watched: Watched) -> anyhow::Result<DataWatch> {
        let stop: Arc<AtomicBool> = Arc::default();
        let stopped = Arc::clone(&stop);
        let mut looking = Looking::new(watched)?;
        let work = move || {
            while !stopped.load(Ordering::Relaxed) {
                std::thread::park_timeout(INTERVAL);
                looking.look();
            }
        };
        let thread = std::thread::Builder::new().name("estop-files".into()).spawn(work)?;
        Ok(DataWatch { stop, thread: Some(thread) })
    }
}

impl Drop for DataWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // If it panicked, it has said so.
            let _ = thread.join();
        }
    }
}

/// Every so many looks the journal's sealed segments are looked at too.
const SEALED_LOOKS: u32 = 3;
/// Looks in a row that find the lock, the socket or the latch missing before the button is pressed: nothing is lost with
/// them, and somebody may just be moving one.
const MISSING_LOOKS: u8 = 3;

struct Looking {
    watched: Watched,
    /// The folder itself, which may be reached by a link.
    folder: (PathBuf, FileId),
    /// The lock and the socket.
    ways: [Way; 2],
    latch_missing: u8,
    looks: u32,
    is_lost: bool,
    /// The lock, made anew.
    lock: Option<File>,
}

/// A file by which others reach this estop. It holds nothing, and can be made anew.
struct Way {
    path: PathBuf,
    /// `None` until it is there again.
    id: Option<FileId>,
    missing: u8,
}

impl Looking {
    fn new(watched: Watched) -> anyhow::Result<Looking> {
        let there =
            |path: &Path| FileId::at(path)?.ok_or_else(|| anyhow::anyhow!("{} is not there", path.display()));
        let way = |path: PathBuf| anyhow::Ok(Way { id: Some(there(&path)?), path, missing: 0 });
        let ways = [way(lock_path(&watched.data_dir))?, way(socket(&watched.data_dir))?];
        let folder = std::fs::canonicalize(&watched.data_dir)?;
        let folder = (folder.clone(), there(&folder)?);
        Ok(Looking { watched, folder, ways, latch_missing: 0, looks: 0, is_lost: false, lock: None })
    }

    fn look(&mut self) {
        if !self.is_lost
            && let Some(lost) = self.lost()
        {
            self.is_lost = true;
            // First of all, and whatever becomes of the disk.
            self.watched.engine.journal.lose_files();
            self.stop_everything(&format!("data lost: {lost}"));
        }
        if let Some(gone) = self.latch_gone().or_else(|| self.way_gone()).filter(|_| !self.is_lost) {
            self.stop_everything(&gone);
        }
        self.restore_ways();
    }

    /// What is lost with everything in it, if something is.
    fn lost(&mut self) -> Option<String> {
        let (path, id) = &self.folder;
        let (store, writer) = (&self.watched.store, &self.watched.writer);
        let lost = id.lost(path).or_else(|| store.lost_file()).or_else(|| writer.lost_file());
        self.looks = self.looks.wrapping_add(1);
        // There may be thousands of sealed segments.
        let is_time = self.looks.is_multiple_of(SEALED_LOOKS);
        lost.or_else(|| is_time.then(|| lost_file(writer.folder())).flatten())
    }

    /// The latch, if it is gone for good. The button's keeper makes it anew when it is pressed.
    fn latch_gone(&mut self) -> Option<String> {
        let why = match LatchFile::look(&self.watched.data_dir) {
            FoundLatch::Valid(_) => {
                self.latch_missing = 0;
                return None;
            }
            FoundLatch::Missing => "the latch file was removed".to_owned(),
            FoundLatch::Damaged(why) => format!("the latch file was changed: {why}"),
        };
        self.latch_missing = self.latch_missing.saturating_add(1);
        (self.latch_missing == MISSING_LOOKS).then_some(why)
    }

    /// The lock or the socket, if it is gone for good.
    fn way_gone(&mut self) -> Option<String> {
        let is_lost = self.is_lost;
        let gone = |way: &mut Way| {
            let Some(lost) = way.id.and_then(|id| id.lost(&way.path)) else {
                way.missing = 0;
                return None;
            };
            way.missing += 1;
            if way.missing < MISSING_LOOKS && !is_lost {
                return None;
            }
            way.id = None;
            Some(lost)
        };
        self.ways.iter_mut().filter_map(gone).collect::<Vec<_>>().into_iter().next()
    }

    fn stop_everything(&self, why: &str) {
        let text = format!(
            "estop: {why}, while estop runs. The button is pressed. Look at what happened to {}, put a backup back if need be \
             (estop restore FILE), and start estop again.",
            self.watched.data_dir.display()
        );
        let press = Press::new(KillReason::Emergency, "estop", "data_files");
        self.watched.engine.kill(Press { note: Some(why.into()), ..press });
        say(text);
    }

    /// Makes anew what others reach this estop by, where there is nothing in its place.
    fn restore_ways(&mut self) {
        let [lock, socket] = &mut self.ways;
        for way in [&mut *lock, &mut *socket] {
            if way.id.is_none() {
                way.id = FileId::at(&way.path).ok().flatten();
            }
        }
        if lock.id.is_none() {
            self.lock = DataLock::restore_file(&database(&self.watched.data_dir)).ok();
        }
        if socket.id.is_none() {
            self.watched.rebinder.rebind();
        }
    }
}

fn lock_path(data_dir: &Path) -> PathBuf {
    let mut name = database(data_dir).into_os_string();
    name.push(".lock");
    name.into()
}

/// On a thread of its own: a terminal nobody reads must not hold up the stop.
fn say(text: String) {
    let say = move || drop(writeln!(std::io::stderr(), "{text}"));
    drop(std::thread::Builder::new().name("estop-files-says".into()).spawn(say));
}
