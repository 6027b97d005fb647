//! Seals segments that have ended and prunes what is old (ST-1, ST-3): a thread that takes small steps and rests after
//! each, so that nobody waits for it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use estop_config::printable::escaped;
use estop_core::time::Zone;
use estop_gateway::Engine;
use estop_journal::Manifest;
use estop_store::segments::{JournalReader, SealError, SegmentWriter, is_whole, prune_oldest, seal};
use estop_store::{RetentionCutoffs, Store};
use jiff::Timestamp;

use crate::config_in_force::ConfigInForce;

/// A start has other things to do first.
const FIRST_AFTER: Duration = Duration::from_secs(2);
const INTERVAL: Duration = Duration::from_secs(3600);
/// How often it is looked whether a segment has ended.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest rest after a step; a longer step has a rest as long as itself.
const REST_MIN: Duration = Duration::from_millis(20);
const DAY_MS: i64 = 86_400_000;

/// Who prunes records, as the journal names it.
const BY: &str = "retention";

/// The thread that seals, prunes and checks segments, and deletes old rows. It ends when dropped.
pub struct MaintenanceThread {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MaintenanceThread {
    /// Begins.
    pub fn start(
        store: Arc<dyn Store>,
        writer: Arc<SegmentWriter>,
        engine: Arc<Engine>,
        config: ConfigInForce,
    ) -> std::io::Result<MaintenanceThread> {
        let (stop, stopped) = channel();
        let maintenance = Maintenance { store, writer, engine, config, stopped, changed: BTreeSet::new() };
        let thread =
            std::thread::Builder::new().name("estop-maintain".into()).spawn(move || maintenance.run())?;
        Ok(MaintenanceThread { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for MaintenanceThread {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so; what is old stays until the next start.
            let _ = thread.join();
        }
    }
}

struct Maintenance {
    store: Arc<dyn Store>,
    writer: Arc<SegmentWriter>,
    engine: Arc<Engine>,
    config: ConfigInForce,
    stopped: Receiver<()>,
    /// Segments that people were told about.
    changed: BTreeSet<u64>,
}

/// Estop ends: whatever is left goes another time.
struct Ending;

impl Maintenance {
    fn run(mut self) {
        let mut next = Instant::now() + FIRST_AFTER;
        let mut sealed_to = 0;
        while self.rest(POLL_INTERVAL).is_ok() {
            let is_time = Instant::now() >= next;
            let newest = self.writer.position().segment;
            if !is_time && newest <= sealed_to + 1 {
                continue;
            }
            let done = self.tend_journal().and_then(|journal| {
                sealed_to = self.store.journal().manifest()?.last_segment();
                if journal.is_err() || !is_time {
                    return Ok(journal);
                }
                match self.sweep()? {
                    Ok(()) => self.scrub(),
                    ending => Ok(ending),
                }
            });
            match done {
                Ok(Ok(())) => {}
                Ok(Err(Ending)) => return,
                Err(error) => {
                    let error = escaped(&format!("{error:#}"));
                    tracing::warn!(
                        target: "storage", "old records could not be sealed or pruned: {error}. They stay, and it is tried again."
                    );
                    // Not each second.
                    sealed_to = newest;
                }
            }
            if is_time {
                next = Instant::now() + INTERVAL;
            }
        }
    }

    fn rest(&self, time: Duration) -> Result<(), Ending> {
        match self.stopped.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Err(Ending),
        }
    }

    /// Rests as long as the step took: half of the time is everybody else's.
    fn rest_after(&self, begun: Instant) -> Result<(), Ending> {
        self.rest(begun.elapsed().max(REST_MIN))
    }

    /// Seals segments that have ended, and prunes those that are too old or too many.
    fn tend_journal(&self) -> anyhow::Result<Result<(), Ending>> {
        let journal = self.store.journal();
        let mut manifest = journal.manifest()?;
        for segment in manifest.last_segment() + 1..self.writer.position().segment {
            let begun = Instant::now();
            // The manifest lists only what the disk has.
            anyhow::ensure!(self.engine.journal.sync(), "the journal cannot be written");
            let sealed = seal(journal.folder(), segment, &mut manifest);
            if matches!(sealed, Err(SealError::Damaged { .. })) {
                // The next start will refuse it.
                self.engine.journal.lose_files();
            }
            sealed?;
            self.store.index_segments()?;
            if self.rest_after(begun).is_err() {
                return Ok(Err(Ending));
            }
        }
        self.store.index_segments()?;
        while self.must_prune(&manifest, journal)? {
            let begun = Instant::now();
            let Some(oldest) = manifest.sealed.first().cloned() else { break };
            self.engine.pruned(BY, oldest.last_seq);
            anyhow::ensure!(self.engine.journal.sync(), "the journal cannot be written");
            // And the disk has the rows that were made of it.
            self.store.sync_rows()?;
            prune_oldest(journal.folder(), &mut manifest)?;
            self.store.forget_segments(oldest.segment)?;
            if self.rest_after(begun).is_err() {
                return Ok(Err(Ending));
            }
        }
        Ok(Ok(()))
    }

    /// Whether the oldest sealed segment is too old, or there is too much.
    fn must_prune(&self, manifest: &Manifest, journal: &JournalReader) -> anyhow::Result<bool> {
        let Some(oldest) = manifest.sealed.first() else { return Ok(false) };
        // Rows of it must have been made.
        if self.store.cursor()?.is_none_or(|cursor| cursor.seq < oldest.last_seq) {
            return Ok(false);
        }
        let retention = self.config.get().retention;
        let before = before(Timestamp::now().as_millisecond(), retention.journal_days);
        let is_old = before.is_some_and(|before| oldest.newest < before);
        let sealed: u64 = manifest.sealed.iter().map(|sealed| sealed.bytes).sum();
        let raw = (manifest.last_segment() + 1..=self.writer.position().segment).filter_map(|segment| {
            std::fs::metadata(estop_store::segments::raw_path(journal.folder(), segment)).ok()
        });
        let bytes = sealed + raw.map(|about| about.len()).sum::<u64>();
        Ok(is_old || retention.journal_bytes.is_some_and(|keep| bytes > keep))
    }

    /// Reads the sealed segments and says which was changed.
    fn scrub(&mut self) -> anyhow::Result<Result<(), Ending>> {
        let journal = self.store.journal();
        let folder = journal.folder().to_owned();
        for sealed in &journal.manifest()?.sealed {
            let begun = Instant::now();
            // One that is missing is somebody else's to say.
            if matches!(is_whole(&folder, sealed), Ok(false)) && self.changed.insert(sealed.segment) {
                Maintenance::tell_changed(sealed.segment);
            }
            if self.rest_after(begun).is_err() {
                return Ok(Err(Ending));
            }
        }
        Ok(Ok(()))
    }

    /// What a sealed segment says cannot be trusted any more. Agents do not depend on it, so they go on.
    fn tell_changed(segment: u64) {
        tracing::error!(
            target: "storage", "segment {segment} of the journal was changed after it was sealed: its records are lost or wrong. \
             `estop journal verify` says where; `estop restore` puts a backup in its place."
        );
    }

    /// Deletes everything else that is too old or too much.
    fn sweep(&self) -> anyhow::Result<Result<(), Ending>> {
        let now = Timestamp::now().as_millisecond();
        let retention = self.config.get().retention;
        let before = |days| before(now, days);
        let mut begun = Instant::now();
        let today = Zone::default().local(now).day;
        let spend_days = retention.spend_days.and_then(|days| i32::try_from(days).ok());
        let old = RetentionCutoffs {
            now,
            events_before: before(retention.events_days),
            cases_before: before(retention.cases_days),
            evidence_before: before(retention.evidence_days),
            runs_before: before(retention.runs_days),
            spend_before_day: spend_days.map(|days| today.saturating_sub(days)),
            alerts_before: before(retention.alerts_days),
            access_before: before(retention.access_days),
        };
        while self.store.sweep(old)? > 0 || self.store.give_back()? {
            if self.rest_after(begun).is_err() {
                return Ok(Err(Ending));
            }
            begun = Instant::now();
        }
        Ok(Ok(()))
    }
}

/// The moment so many days before `now`.
fn before(now: i64, days: Option<u32>) -> Option<i64> {
    days.map(|days| now.saturating_sub(i64::from(days) * DAY_MS))
}
