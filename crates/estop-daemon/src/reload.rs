//! Hot reload (UI-5): a changed configuration file is taken up whole or not at all, and written down either way.
//!
//! Everything but listeners, triggers and the data directory can change while estop runs. What was set by the API lies over the
//! file and stays (decision 0014); a file over which it does not fit is refused, and so is one that changes what only a start reads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use estop_config::descriptors::Shares;
use estop_config::{Env, FILE_BYTES_MAX, ServeConfig};
use estop_core::fingerprint::signature;
use estop_core::ids::{Hash64, Name};
use estop_core::policy_file::PolicyFile;
use estop_gateway::{Engine, KeyRing, Over, ReadySettings, Workers};
use estop_store::Store;

use crate::alerting::Alerting;
use crate::config_in_force::ConfigInForce;
use crate::logging::Logging;
use crate::persistence;
use crate::span_export::SpanExport;
use crate::wiring;

/// How often the file is looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// An editor may be between two writes: a file that is not there at so many looks is gone.
const GONE_AFTER: u32 = 2;

/// Files that change at each of so many looks are read as they are.
const UNSETTLED_MAX: u32 = 5;

/// Watches the configuration file until it is dropped.
pub struct Reloading {
    /// Dropped first: it ends the thread.
    asked: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Where the configuration comes from.
pub struct Source {
    /// The file.
    pub path: PathBuf,
    /// The environment, with what the command line says before it.
    pub env: Env,
    /// The file as it was before it was read.
    pub seen: Seen,
}

/// What a reload changes, and what it is compared with.
pub struct Running {
    /// What is read.
    pub source: Source,
    /// What it says so far.
    pub config: ConfigInForce,
    /// How open files are shared out.
    pub shares: Shares,
    /// The threads that serve agents.
    pub workers: Workers,
    /// Where rules are in force.
    pub engine: Arc<Engine>,
    /// The keys in force.
    pub keys: KeyRing,
    /// Where rules of the API are kept.
    pub store: Arc<dyn Store>,
    /// Who tells people.
    pub alerting: Arc<Alerting>,
    /// What is logged, and how.
    pub logging: Arc<Logging>,
    /// What exports spans.
    pub(crate) spans: Arc<SpanExport>,
    /// Held while what is kept and what is in force change.
    pub edits: Arc<Mutex<()>>,
}

/// A configuration that was read, and what it means.
struct NewConfig {
    config: ServeConfig,
    /// What was set over its rules.
    over: BTreeMap<Name, Over>,
    ready: ReadySettings,
}

impl Reloading {
    /// Begins to watch.
    pub fn start(running: Running) -> std::io::Result<Reloading> {
        let (asked, asks) = sync_channel(1);
        let watch = move || running.watch(&asks);
        let thread = std::thread::Builder::new().name("estop-reload".into()).spawn(watch)?;
        Ok(Reloading { asked: Some(asked), thread: Some(thread) })
    }

    /// Reads the file now, changed or not (SIGHUP).
    pub fn ask(&self) {
        if let Some(asked) = &self.asked {
            // Full: it was asked already.
            let _ = asked.try_send(());
        }
    }
}

impl Drop for Reloading {
    fn drop(&mut self) {
        self.asked = None;
        if let Some(thread) = self.thread.take() {
            // Whatever became of it, estop ends now.
            let _ = thread.join();
        }
    }
}

/// A configuration file, with what it includes, as it was looked at. Taken before it is read: whatever changes afterwards is a
/// change.
pub struct Seen {
    /// The file first.
    files: Vec<PathBuf>,
    looks: Vec<Look>,
    digest: Hash64,
}

impl Seen {
    /// Looks at a file.
    pub fn of(path: &Path) -> Seen {
        let files = estop_config::watched(path);
        Seen { looks: looks(&files), digest: digest(&files), files }
    }
}

/// What tells a changed file from the one before, without reading it.
type Look = Option<(SystemTime, u64)>;

fn look(path: &Path) -> Look {
    let about = std::fs::metadata(path).ok()?;
    Some((about.modified().ok()?, about.len()))
}

fn looks(files: &[PathBuf]) -> Vec<Look> {
    files.iter().map(|file| look(file)).collect()
}

/// Of the file's text, and of the names and texts of what it includes; folders have no text.
fn digest(files: &[PathBuf]) -> Hash64 {
    let mut all = String::new();
    for (number, file) in files.iter().enumerate() {
        // The whole is refused, then.
        if all.len() > FILE_BYTES_MAX {
            break;
        }
        if number > 0 {
            all += &format!("\0{}\0", file.display());
        }
        all += &String::from_utf8_lossy(&estop_config::bytes_of(file).unwrap_or_default());
    }
    signature::text(&all)
}

impl Running {
    fn watch(mut self, asks: &Receiver<()>) {
        let mut missed = 0_u32;
        let (mut last, mut unsettled) = (Vec::new(), 0_u32);
        loop {
            let by = match asks.recv_timeout(POLL_INTERVAL) {
                Ok(()) => "SIGHUP",
                Err(RecvTimeoutError::Timeout) => "file",
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let now = looks(&self.source.seen.files);
            let is_there = now.first().is_some_and(Option::is_some);
            missed = if !is_there { missed.saturating_add(1) } else { self.is_there(missed) };
            if missed == GONE_AFTER {
                self.is_gone();
            }
            // Of an included file that is gone for a moment, or half written, agents would be gone too: two looks must agree, unless
            // the main file changed or they never do.
            let main_changed = now.first() != self.source.seen.looks.first();
            unsettled = if now == last { 0 } else { unsettled + 1 };
            let is_settled = main_changed || now == last || unsettled > UNSETTLED_MAX;
            // A file that is gone for a moment is looked at again.
            if by == "SIGHUP" || (now != self.source.seen.looks && is_there && is_settled) {
                let read = self.source.seen.digest;
                // It may have been read in the middle of being written: then it is looked at once more.
                self.source.seen = Seen::of(&self.source.path);
                if by == "SIGHUP" || self.source.seen.digest != read {
                    self.reload(by, self.source.seen.digest);
                }
            }
            last = now;
        }
    }

    fn is_gone(&self) {
        let file = self.source.path.display();
        tracing::warn!(
            target: "configuration", %file,
            "the configuration file is gone: what it said stays in force, and the next start will not have it. Put it back."
        );
    }

    /// After so many looks without it; how many there are from here on.
    fn is_there(&self, missed: u32) -> u32 {
        if missed >= GONE_AFTER {
            let file = self.source.path.display();
            tracing::info!(target: "configuration", %file, "the configuration file is there again");
        }
        0
    }

    fn reload(&self, by: &str, digest: Hash64) {
        let _edit = self.edits.lock().unwrap_or_else(PoisonError::into_inner);
        match self.read() {
            Ok(NewConfig { config, over, ready }) => {
                self.engine.configuration_read(by, digest, true);
                self.logging.change(&config.log);
                let keys = wiring::agent_keys(&config);
                self.keys.configure(&keys);
                self.workers.take_up(&ready);
                self.engine.rulebook.replace(config.policies.clone(), over);
                self.config.set(config);
                self.engine.apply_rules("configuration");
                self.engine.preload_configured();
                let file = self.source.path.display();
                tracing::info!(target: "configuration", %file, by, "configuration reloaded");
            }
            Err(problem) => {
                self.engine.configuration_read(by, digest, false);
                let (file, problem) = (self.source.path.display(), format!("{problem:#}"));
                tracing::error!(
                    target: "configuration", %file, by, problem, "reload failed: the current configuration stays in force"
                );
            }
        }
        self.engine.journal.sync();
    }

    /// The new configuration, ready to be taken up; or why it cannot be used.
    fn read(&self) -> anyhow::Result<NewConfig> {
        let mut config = estop_config::load_serve(Some(&self.source.path), &self.source.env)?;
        let preset = estop_admin::kept_preset(&*self.store)?;
        config.policies = config.policies.with_preset(preset);
        let before = self.config.get();
        // The command line may have said it.
        config.data_dir.clone_from(&before.data_dir);
        let changed = before.fixed.changed(&config.fixed);
        anyhow::ensure!(changed.is_empty(), "{} changed: restart estop to take that up", changed.join(", "));
        let over = self.over(&config.policies)?;
        let mut settings = wiring::settings(&config)?;
        wiring::limit_connections(&mut settings, self.shares);
        let ready = ReadySettings::new(settings)?;
        let spans = SpanExport::collector(config.spans.as_ref())?;
        // The last that can fail: whatever comes after it is in force too.
        self.alerting.change(&config.alerts)?;
        self.spans.change(spans);
        Ok(NewConfig { config, over, ready })
    }

    fn over(&self, policies: &PolicyFile) -> anyhow::Result<BTreeMap<Name, Over>> {
        let (over, unfit) = persistence::overrides(&*self.store, policies)?;
        match unfit.first() {
            None => Ok(over),
            Some((agent, error)) => {
                anyhow::bail!("the rules set for agent {agent} do not fit over it: {error}")
            }
        }
    }
}
