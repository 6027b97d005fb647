//! The one thread that writes. It takes all jobs that wait, runs each in its savepoint of one transaction, commits
//! once, and only then answers each of them.
//!
//! A job that fails is undone alone. If the commit fails, nothing of the group was stored and each of its jobs gets the error.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::files::Files;
use super::{SqliteOptions, open};
use crate::error::StoreError;
use crate::journal::Durability;

/// Jobs that may wait, and that are committed together. Half makes callers wait sooner in a burst, double makes the
/// first of a group wait longer for the last.
const JOBS_MAX: usize = 256;

/// Pages in the write-ahead log before they are moved into the database: 4 MB, some 10 ms of work. More makes a
/// start after a crash longer, less moves the same page more often.
const WAL_PAGES_MAX: i64 = 1000;

/// How long after a try to empty the write-ahead log that found somebody reading comes the next.
const CLEAR_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The side of the thread that callers hold. Dropping it finishes the jobs that wait.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: Option<SyncSender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
    /// The write-ahead log is to be emptied after the next commit, and until that succeeds.
    clears: Arc<AtomicBool>,
}

impl Writer {
    pub(super) fn start(
        path: &Path,
        options: SqliteOptions,
        connection: Connection,
        files: Arc<Files>,
    ) -> std::io::Result<Writer> {
        let (jobs, waiting) = sync_channel(JOBS_MAX);
        let clears = Arc::<AtomicBool>::default();
        let writer = WriterThread {
            clears: Arc::clone(&clears),
            connection: Some(connection),
            synced: Durability::Process,
            path: path.to_owned(),
            options,
            files,
            clear_at: None,
        };
        let thread = std::thread::Builder::new()
            .name("estop-store".to_owned())
            .spawn(move || writer.work(&waiting))?;
        Ok(Writer { jobs: Some(jobs), thread: Some(thread), clears })
    }

    /// Runs `work` in a transaction; returns when it is committed.
    pub(super) fn write<T: Send + 'static>(
        &self,
        durability: Durability,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = sync_channel(1);
        let task = Task { durability, work: Some(work), done: Err(StoreError::Closed), reply };
        let jobs = self.jobs.as_ref().ok_or(StoreError::Closed)?;
        jobs.send(Box::new(task)).map_err(|_| StoreError::Closed)?;
        answer.recv().unwrap_or(Err(StoreError::Closed))
    }

    /// Empties the write-ahead log: what was overwritten in the database is not left there. Returns once it was tried; while somebody
    /// reads an older state, or the disk fails, it is tried again later.
    pub(super) fn clear_log(&self) {
        self.clears.store(true, Ordering::Relaxed);
        // The second is begun when the thread is done with all of the first. What fails here is nobody's write.
        for _ in 0..2 {
            let _ = self.write(Durability::Process, |_| Ok(()));
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked, its callers have been told that the store is closed.
            let _ = thread.join();
        }
    }
}

/// Something to be written.
trait Job: Send {
    fn durability(&self) -> Durability;
    /// Does it and keeps the result; `Err` if it failed.
    fn run(&mut self, connection: &Connection) -> Result<(), StoreError>;
    /// Tells the caller: its own result, or why the group failed.
    fn answer(self: Box<Self>, group: Result<(), StoreError>);
}

struct Task<T, F> {
    durability: Durability,
    work: Option<F>,
    done: Result<T, StoreError>,
    reply: SyncSender<Result<T, StoreError>>,
}

impl<T: Send, F: FnOnce(&Connection) -> Result<T, StoreError> + Send> Job for Task<T, F> {
    fn durability(&self) -> Durability {
        self.durability
    }

    fn run(&mut self, connection: &Connection) -> Result<(), StoreError> {
        self.done = self.work.take().map_or(Err(StoreError::Closed), |work| work(connection));
        self.done.as_ref().map(|_| ()).map_err(Clone::clone)
    }

    fn answer(self: Box<Self>, group: Result<(), StoreError>) {
        // Nobody listens if the caller is gone; the work is done all the same.
        let _ = self.reply.send(group.and(self.done));
    }
}

/// The thread's own things.
struct WriterThread {
    /// `None` after the disk failed: what it holds in memory may not be what is on the disk.
    connection: Option<Connection>,
    /// What `PRAGMA synchronous` is set to.
    synced: Durability,
    path: PathBuf,
    options: SqliteOptions,
    files: Arc<Files>,
    clears: Arc<AtomicBool>,
    /// When to try again to empty the write-ahead log.
    clear_at: Option<Instant>,
}

impl WriterThread {
    fn work(mut self, waiting: &Receiver<Box<dyn Job>>) {
        while let Some(first) = self.next(waiting) {
            let mut group = vec![first];
            group.extend(waiting.try_iter().take(JOBS_MAX - 1));
            self.files.begin();
            let outcome = self.commit(&mut group);
            for job in group {
                job.answer(outcome.clone());
            }
            self.tidy();
            self.files.rest();
        }
    }

    /// The next job. While none comes, the write-ahead log is emptied if it is to be.
    fn next(&mut self, waiting: &Receiver<Box<dyn Job>>) -> Option<Box<dyn Job>> {
        loop {
            let Some(clear_at) = self.clear_at else { return waiting.recv().ok() };
            match waiting.recv_timeout(clear_at.saturating_duration_since(Instant::now())) {
                Ok(job) => return Some(job),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    self.files.begin();
                    self.clear_log();
                    self.files.rest();
                }
            }
        }
    }

    fn commit(&mut self, group: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
        let durability = group.iter().map(|job| job.durability()).max().unwrap_or(Durability::Process);
        let outcome = self.ready(durability).and_then(|connection| transact(connection, group));
        if let (Err(error), Some(connection)) = (&outcome, &self.connection) {
            let undone = connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok();
            if !undone || matches!(error, StoreError::Io(_) | StoreError::Corrupt(_)) {
                self.files.closing();
                self.connection = None;
            }
        }
        outcome
    }

    /// The connection, set to sync as asked. After the disk failed it is opened anew, and all of the write-ahead
    /// log moved into the database: the system may have dropped pages whose sync failed, and would not say so again.
    fn ready(&mut self, durability: Durability) -> Result<&Connection, StoreError> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                self.synced = Durability::Process;
                // Another database in its place is not the one that others read.
                if let Some(lost) = self.files.lost() {
                    return Err(StoreError::Io(lost));
                }
                let connection = open::reopen(&self.path, self.options)?;
                self.files.reopened();
                connection
            }
        };
        let connection = self.connection.insert(connection);
        if self.synced != durability {
            let level = match durability {
                Durability::Process => "NORMAL",
                Durability::Disk => "FULL",
            };
            connection.pragma_update(None, "synchronous", level)?;
            self.synced = durability;
        }
        Ok(connection)
    }

    /// Moves the write-ahead log into the database. If it fails, nothing is lost, and it is tried again after the next
    /// commit.
    fn tidy(&mut self) {
        if let Some(connection) = &self.connection {
            let _ = checkpoint_if_due(connection, &self.path);
        }
        if self.clears.swap(false, Ordering::Relaxed)
            || self.clear_at.is_some_and(|clear_at| clear_at <= Instant::now())
        {
            self.clear_log();
        }
    }

    /// Empties the write-ahead log, or notes when to try again.
    fn clear_log(&mut self) {
        let is_cleared = self.connection.as_ref().is_some_and(is_log_cleared);
        self.clear_at = if is_cleared { None } else { Some(Instant::now() + CLEAR_AGAIN_AFTER) };
    }
}

fn transact(connection: &Connection, group: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
    step(connection, "BEGIN IMMEDIATE")?;
    if let [job] = group {
        // Alone, it needs no savepoint: if it fails, the transaction does.
        job.run(connection)?;
        return step(connection, "COMMIT");
    }
    for job in group {
        step(connection, "SAVEPOINT job")?;
        if let Err(error) = job.run(connection) {
            // A full or failing disk makes SQLite undo the whole transaction.
            if connection.is_autocommit() {
                return Err(error);
            }
            step(connection, "ROLLBACK TO job")?;
        }
        step(connection, "RELEASE job")?;
    }
    step(connection, "COMMIT")
}

fn step(connection: &Connection, sql: &str) -> Result<(), StoreError> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}

/// Moves the write-ahead log into the database if it is long, or if the database got smaller: its file does only then.
fn checkpoint_if_due(connection: &Connection, path: &Path) -> rusqlite::Result<()> {
    let pages = |mode: &str| -> rusqlite::Result<i64> {
        connection
            .prepare_cached(mode)?
            .query_row([], |row| Ok(row.get::<_, i64>(1)? - row.get::<_, i64>(2)?))
    };
    let waiting = pages("PRAGMA wal_checkpoint(NOOP)")?;
    if waiting > WAL_PAGES_MAX || (waiting > 0 && has_shrunk(connection, path)?) {
        pages("PRAGMA wal_checkpoint(PASSIVE)")?;
    }
    Ok(())
}

/// Whether the write-ahead log could be emptied. While somebody reads an older state it cannot, and nobody's write waits for that.
fn is_log_cleared(connection: &Connection) -> bool {
    let wait = |time| connection.busy_timeout(time).is_ok();
    let is_cleared = wait(Duration::ZERO)
        && connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0)) == Ok(0);
    wait(open::BUSY) && is_cleared
}

fn has_shrunk(connection: &Connection, path: &Path) -> rusqlite::Result<bool> {
    let number = |sql: &str| connection.prepare_cached(sql)?.query_row([], |row| row.get::<_, u64>(0));
    let needed = number("PRAGMA page_count")?.saturating_mul(number("PRAGMA page_size")?);
    Ok(std::fs::metadata(path).is_ok_and(|file| file.len() > needed))
}
