//! What the daemon writes on its standard error (OB-1): `log:` of the configuration applied to `tracing`.
//!
//! Lines are handed to a thread of their own: a terminal that nobody reads or a full pipe holds up nobody who stops something.
//! What does not fit into its queue is dropped and counted.

pub(crate) mod events;
mod json_lines;
pub(crate) mod requests;

use std::io::IsTerminal;

use anyhow::Context;
use estop_config::{Log, LogFormat, LogLevel};
use json_lines::JsonLines;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

/// Lines that may wait for the standard error. Beyond it nobody reads; the journal has what was decided.
const QUEUED_LINES_MAX: usize = 8_192;

/// The log of this process. Writes what is left when it is dropped, if somebody reads.
pub struct Logging {
    text: reload::Handle<Targets, Registry>,
    json: Box<dyn Fn(Targets) + Send + Sync>,
    is_terminal: bool,
    dropped: ErrorCounter,
    _writer: WorkerGuard,
}

impl Logging {
    /// Begins to log.
    pub fn start(log: &Log) -> anyhow::Result<Logging> {
        let is_terminal = std::io::stderr().is_terminal();
        let (writer, guard) = NonBlockingBuilder::default()
            .buffered_lines_limit(QUEUED_LINES_MAX)
            .lossy(true)
            .thread_name("estop-log")
            .finish(std::io::stderr());
        let dropped = writer.error_counter();
        let (text_filter, text) = reload::Layer::new(Targets::new());
        let (json_filter, json) = reload::Layer::new(Targets::new());
        let for_people = fmt::layer().with_writer(writer.clone()).with_ansi(is_terminal);
        let for_machines = json_layer(writer);
        tracing_subscriber::registry()
            .with(for_people.with_filter(text_filter))
            .with(for_machines.with_filter(json_filter))
            .try_init()
            .context("cannot begin to log")?;
        let json = Box::new(move |targets| drop(json.reload(targets)));
        let logging = Logging { text, json, is_terminal, dropped, _writer: guard };
        logging.change(log);
        Ok(logging)
    }

    /// Takes up another configuration.
    pub fn change(&self, log: &Log) {
        let is_text = match log.format {
            LogFormat::Auto => self.is_terminal,
            LogFormat::Text => true,
            LogFormat::Json => false,
        };
        let (text, json) =
            if is_text { (targets(log), Targets::new()) } else { (Targets::new(), targets(log)) };
        // It fails only once the subscriber is gone.
        let _ = self.text.reload(text);
        (self.json)(json);
        requests::choose(log.requests);
    }

    /// Lines that were dropped so far.
    pub fn dropped_lines(&self) -> usize {
        self.dropped.dropped_lines()
    }
}

fn json_layer<S>(writer: NonBlocking) -> impl Layer<S>
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    fmt::layer()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(false)
        .with_writer(JsonLines(writer))
}

fn targets(log: &Log) -> Targets {
    // Libraries log under the names of their modules: nothing of that is about what people configured.
    let ours = estop_config::LogTarget::ALL.into_iter();
    ours.map(|target| {
        let level = log.targets.get(&target).copied().unwrap_or(log.level);
        (target.name(), level_filter(level))
    })
    .collect()
}

fn level_filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
