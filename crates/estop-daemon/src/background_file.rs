//! Work at providers, kept over a restart: a small file beside the database, written by a thread of its own within a second of
//! each change. It has ids and paths, no credentials and nothing of what was asked.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use estop_config::data_dir::BACKGROUND;
use estop_gateway::{Engine, Job};
use estop_store::open_regular;

/// Chosen: what a crash may lose; more often would only wear the disk.
const INTERVAL: Duration = Duration::from_secs(1);

/// What was kept; nothing if there is no file. A file that cannot be read is said, and does not keep estop from starting:
/// only what it lists is not cancelled.
pub fn read(data_dir: &Path) -> Vec<Job> {
    let path = BACKGROUND.path(data_dir);
    let read = || -> io::Result<Vec<Job>> {
        let file = match open_regular(&path, OpenOptions::new().read(true)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened?,
        };
        if file.metadata()?.len() > BACKGROUND.bytes_max {
            return Err(io::Error::other("it is larger than any that estop writes"));
        }
        let mut bytes = Vec::new();
        file.take(BACKGROUND.bytes_max).read_to_end(&mut bytes)?;
        Ok(serde_json::from_slice(&bytes)?)
    };
    read().unwrap_or_else(|error| {
        say(&format!(
            "{} cannot be read ({error}): work at providers that began before this start is not cancelled by a stop.",
            path.display()
        ));
        Vec::new()
    })
}

/// A closed standard error does not end the thread.
fn say(line: &str) {
    drop(writeln!(io::stderr(), "estop: {line}"));
}

/// Writes the file while it is held, and once more when it is dropped.
pub struct BackgroundFile {
    thread: Option<JoinHandle<()>>,
    end: Option<Sender<()>>,
}

impl BackgroundFile {
    /// Starts the thread.
    pub fn start(engine: Arc<Engine>, data_dir: &Path) -> io::Result<BackgroundFile> {
        let path = BACKGROUND.path(data_dir);
        let (end, ends) = channel();
        let work = move || {
            let (mut written, mut is_said) = (engine.jobs.changes(), false);
            loop {
                let is_last = ends.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout);
                let changes = engine.jobs.changes();
                if changes != written {
                    match write(&path, &engine.jobs.all()) {
                        Ok(()) => (written, is_said) = (changes, false),
                        Err(error) if !is_said => {
                            is_said = true;
                            say(&format!("{} cannot be written: {error}", path.display()));
                        }
                        Err(_) => {}
                    }
                }
                if is_last {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("estop-background".into()).spawn(work)?;
        Ok(BackgroundFile { thread: Some(thread), end: Some(end) })
    }
}

impl Drop for BackgroundFile {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // It panicked: it said so, and nothing is left to write.
            let _ = thread.join();
        }
    }
}

/// Whole or not at all: written beside it, then put in its place.
fn write(path: &Path, jobs: &[Job]) -> io::Result<()> {
    let beside = path.with_extension("json.new");
    match std::fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(&serde_json::to_vec(jobs)?)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)
}
