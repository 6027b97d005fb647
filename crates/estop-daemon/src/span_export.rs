//! Spans of requests, sent to the collector that the configuration names (OB-2): OTLP over HTTP, in JSON.
//!
//! Requests never wait for it. What is exported comes behind the journal; a span that finds no place in the queue is dropped, and
//! so is a batch that its collector does not take; both are counted.

mod otlp;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use anyhow::Context;
use estop_config::SpanCollector;
use estop_notify::{CallError, Poster};
use serde_json::Value;

use crate::metrics::SpanCounters;
use crate::request_ends::{EndedRequest, RequestOutcome};
use otlp::Span;

// As OpenTelemetry's own batch processors have them.
const QUEUE_MAX: usize = 2_048;
const BATCH_MAX: usize = 512;
const BATCH_WITHIN: Duration = Duration::from_secs(5);
/// A collector answers a batch within this time, or does not take it.
const POST_TIMEOUT: Duration = Duration::from_secs(10);
/// A batch is sent once more after each of these times.
const RETRY_AFTER: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];
/// So long the end of estop waits for what is in the queue.
const END_WITHIN: Duration = Duration::from_secs(2);

/// Takes in requests that ended, and exports them.
pub(crate) struct SpanExport {
    collector: Arc<RwLock<Option<Arc<Collector>>>>,
    /// `None`: estop ends.
    queue: Mutex<Option<SyncSender<Span>>>,
    ended: Mutex<Receiver<()>>,
    counts: SpanCounters,
}

/// Where spans are sent.
pub(crate) struct Collector {
    poster: Poster,
    one_in: u64,
    /// Requests that were looked at.
    seen: AtomicU64,
}

impl SpanExport {
    /// Starts the thread that sends; nothing is sent without a collector.
    pub(crate) fn start(
        collector: Option<&SpanCollector>,
        counts: SpanCounters,
    ) -> anyhow::Result<SpanExport> {
        let (queue, spans) = sync_channel(QUEUE_MAX);
        let (end, ended) = sync_channel(1);
        let export = SpanExport {
            collector: Arc::default(),
            queue: Mutex::new(Some(queue)),
            ended: Mutex::new(ended),
            counts: counts.clone(),
        };
        export.change(SpanExport::collector(collector)?);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let sender = Sender { runtime, collector: Arc::clone(&export.collector), counts, failing: None };
        let send = move || {
            sender.run(&spans);
            // Nobody may wait any more.
            let _ = end.send(());
        };
        std::thread::Builder::new()
            .name("estop-spans".into())
            .spawn(send)
            .context("cannot start a thread")?;
        Ok(export)
    }

    /// What the configuration means, ready to be taken up.
    pub(crate) fn collector(given: Option<&SpanCollector>) -> anyhow::Result<Option<Collector>> {
        let Some(SpanCollector { endpoint, one_in, headers, ca }) = given else { return Ok(None) };
        let poster = Poster::new(endpoint.clone(), headers, ca, POST_TIMEOUT).context("opentelemetry")?;
        Ok(Some(Collector { poster, one_in: (*one_in).into(), seen: AtomicU64::new(0) }))
    }

    /// Takes up another configuration.
    pub(crate) fn change(&self, collector: Option<Collector>) {
        *self.collector.write().unwrap_or_else(PoisonError::into_inner) = collector.map(Arc::new);
    }

    /// A request ended.
    pub(crate) fn request_ended(&self, ended: &EndedRequest<'_>) {
        let collector = self.collector.read().unwrap_or_else(PoisonError::into_inner).clone();
        if !collector.is_some_and(|collector| collector.wants(ended)) {
            return;
        }
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let is_queued = queue.as_ref().is_some_and(|queue| queue.try_send(Span::of(ended)).is_ok());
        if !is_queued {
            self.counts.dropped.inc();
        }
    }

    /// estop ends: what is in the queue is sent once more, if that is quick.
    pub(crate) fn finish(&self) {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(END_WITHIN).is_err() {
            tracing::warn!(target: "upstream", "spans that waited are lost: the collector did not take them before estop ended");
        }
    }
}

impl Collector {
    /// Clients that trace say themselves whether they record this trace.
    fn wants(&self, ended: &EndedRequest<'_>) -> bool {
        let is_chosen = match ended.trace_parent {
            Some(parent) => parent.is_sampled,
            None => self.seen.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.one_in),
        };
        is_chosen || ended.outcome != RequestOutcome::Answered
    }
}

/// The thread that sends.
struct Sender {
    runtime: tokio::runtime::Runtime,
    collector: Arc<RwLock<Option<Arc<Collector>>>>,
    counts: SpanCounters,
    /// Where the newest batch was not taken.
    failing: Option<String>,
}

impl Sender {
    fn run(mut self, spans: &Receiver<Span>) {
        while let Ok(first) = spans.recv() {
            let until = Instant::now() + BATCH_WITHIN;
            let mut batch = vec![first];
            let mut is_last = false;
            while batch.len() < BATCH_MAX && !is_last {
                match spans.recv_timeout(until.saturating_duration_since(Instant::now())) {
                    Ok(span) => batch.push(span),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => is_last = true,
                }
            }
            self.send(&batch, is_last);
        }
    }

    fn send(&mut self, batch: &[Span], is_last: bool) {
        let collector = self.collector.read().unwrap_or_else(PoisonError::into_inner).clone();
        let counted = batch.len() as u64;
        let Some(collector) = collector else {
            // It was taken out of the configuration.
            self.counts.dropped.inc_by(counted);
            return;
        };
        let retries: &[Duration] = if is_last { &[] } else { &RETRY_AFTER };
        let place = collector.poster.shown();
        let was_failing = self.failing.take().is_some_and(|failing| failing == place);
        match self.runtime.block_on(post(&collector.poster, &otlp::request(batch), retries)) {
            Ok(rejected) => {
                let rejected = rejected.min(counted);
                self.counts.sent.inc_by(counted - rejected);
                self.counts.dropped.inc_by(rejected);
                if was_failing {
                    tracing::info!(target: "upstream", collector = place, "the collector takes spans again");
                }
            }
            Err(problem) => {
                self.counts.dropped.inc_by(counted);
                if !was_failing {
                    tracing::warn!(
                        target: "upstream", %problem, "spans are dropped: the collector in `opentelemetry.endpoint` does not take them"
                    );
                }
                self.failing = Some(place);
            }
        }
    }
}

/// How many spans of a batch a collector says it did not take.
fn rejected(answer: &[u8]) -> u64 {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let count = &answer["partialSuccess"]["rejectedSpans"];
    count.as_u64().or_else(|| count.as_str()?.parse().ok()).unwrap_or(0)
}

/// Why a collector took nothing of a batch.
#[derive(Debug, thiserror::Error)]
enum PostError {
    #[error("{place} answered {status}")]
    Refused { place: String, status: u16 },
    #[error(transparent)]
    Unreachable(#[from] CallError),
}

impl PostError {
    /// What OTLP says to send once more.
    fn may_pass(&self) -> bool {
        match self {
            PostError::Refused { status, .. } => matches!(status, 429 | 502 | 503 | 504),
            PostError::Unreachable(_) => true,
        }
    }
}

/// Sends a batch: how many spans of it were not taken, or why none was.
async fn post(poster: &Poster, body: &Value, retries: &[Duration]) -> Result<u64, PostError> {
    let mut waits = retries.iter();
    loop {
        let problem = match poster.post(body).await {
            Ok((200..=299, answer)) => return Ok(rejected(&answer)),
            Ok((status, _)) => PostError::Refused { place: poster.shown(), status },
            Err(error) => error.into(),
        };
        match waits.next().filter(|_| problem.may_pass()) {
            Some(wait) => tokio::time::sleep(*wait).await,
            None => return Err(problem),
        }
    }
}
