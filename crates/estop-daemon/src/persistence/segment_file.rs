//! The journal's newest segment, as the data plane's queue wants it; and its sign of life.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use estop_core::time::Now;
use estop_gateway::JournalFile;
use estop_journal::State;
use estop_store::segments::SegmentWriter;
use jiff::Timestamp;

/// A segment is ended when it has so many bytes: some 25,000 records. A start reads it, and so does a page of an agent's newest records.
const SEGMENT_BYTES: u64 = 16 << 20;
/// The smallest, where `retention.journal_bytes` is small.
const SEGMENT_BYTES_MIN: u64 = 1 << 20;
/// The longest time that a segment is written, so that old records can be pruned where little happens.
const AGE_MAX_MS: i64 = 24 * 3600 * 1000;
/// A segment is a small part of what may be kept: the newest is never pruned.
const SHARE: u64 = 8;

#[derive(Debug)]
pub(super) struct SegmentFile {
    writer: Arc<SegmentWriter>,
    bytes_max: u64,
}

impl SegmentFile {
    /// With segments that fit into what may be kept.
    pub(super) fn new(writer: Arc<SegmentWriter>, journal_bytes: Option<u64>) -> SegmentFile {
        let share = journal_bytes.map_or(SEGMENT_BYTES, |bytes| bytes / SHARE);
        SegmentFile { writer, bytes_max: share.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES) }
    }
}

impl JournalFile for SegmentFile {
    fn write(&self, lines: &[u8], seq: u64) -> std::io::Result<()> {
        self.writer.write(lines, seq)
    }

    fn sync(&self) -> std::io::Result<()> {
        self.writer.sync()
    }

    fn is_long(&self) -> bool {
        let at = self.writer.position();
        let is_old = || {
            let (begun, after_seq) = self.writer.begun();
            at.seq > after_seq && Timestamp::now().as_millisecond() - begun > AGE_MAX_MS
        };
        !self.is_short() && (at.bytes >= self.bytes_max || is_old())
    }

    fn begin_next(&self, state: &State) -> std::io::Result<()> {
        self.writer.begin_segment(state)
    }

    fn is_short(&self) -> bool {
        self.writer.is_short()
    }
}

/// How often estop says that it is alive: as much of a silent run's time is lost when the process is killed (CB-5).
const INTERVAL: Duration = Duration::from_secs(1);

/// Says once a second until when estop was alive and how far its journal reaches.
pub(super) struct SignOfLife {
    ends: Sender<()>,
    thread: JoinHandle<()>,
}

impl SignOfLife {
    pub(super) fn start(
        writer: Arc<SegmentWriter>,
        clock: impl Fn() -> Now + Send + 'static,
    ) -> std::io::Result<SignOfLife> {
        let (ends, ended) = channel();
        let run = move || {
            loop {
                let wait = ended.recv_timeout(INTERVAL);
                // A disk that is full or gone is somebody else's to say; the next second is another try.
                let _ = writer.beat(clock());
                if wait != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("estop-alive".into()).spawn(run)?;
        Ok(SignOfLife { ends, thread })
    }

    /// The last one.
    pub(super) fn end(self) {
        drop(self.ends);
        // It only writes; a panic there has nothing to say here.
        let _ = self.thread.join();
    }
}
