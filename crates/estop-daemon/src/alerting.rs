//! Telling people: the notifier over the store, what it is told of, and what people may ask of it (AL-1 to AL-3, KS-2).
//!
//! Records are told by the projector once they are stored, the red button the moment it is pressed. Whatever happens is told
//! with the id it has in the journal, so that what is told again after a crash is known.

mod api;
pub(crate) mod button;
mod silence;
mod watch;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use estop_config::printable::escaped;
use estop_config::{Alerts, Env};
use estop_core::ids::Name;
use estop_core::printed_command::Commands;
use estop_notify::{AlertEvent, AlertType, Notifier, NotifierEnv, Settings};
use estop_store::Store;
use jiff::Timestamp;

use crate::store;

pub use button::NotifyingLatchStore;
use button::ToldButton;
pub use watch::Watching;

/// How often the place up to which everything is told is moved on when nothing is told: a start after a crash reads the
/// events from there on.
const MARK_EVERY_MS: i64 = 60_000;

/// What is told beside a database that cannot be trusted is kept here, in the data directory.
const SHUT: &str = "alerts-while-shut.db";

/// Tells people.
pub struct Alerting {
    notifier: Notifier,
    store: Arc<dyn Store>,
    /// As the configuration file says it.
    file: Mutex<Alerts>,
    button: ToldButton,
    marked_at: AtomicI64,
    /// Rules of the store that could not be used when they were last read.
    unfit: Mutex<BTreeMap<Name, String>>,
    /// Those of the steps in messages.
    commands: Commands,
}

impl Alerting {
    /// Begins where the last one ended. On a store that never told anything, what stands up to `last_seq` is not told.
    /// `commands` are those people type to find this estop.
    pub fn start(
        store: Arc<dyn Store>,
        alerts: &Alerts,
        last_seq: u64,
        commands: Commands,
    ) -> anyhow::Result<Alerting> {
        let (settings, unfit) = laid_over(&*store, alerts, &commands)?;
        let kept: Arc<dyn estop_store::Alerts> = store.clone();
        let notifier =
            Notifier::start_after(last_seq, kept, settings, NotifierEnv::system()).context("alerts")?;
        let alerting = Alerting {
            notifier,
            store,
            file: Mutex::new(alerts.clone()),
            button: ToldButton::default(),
            marked_at: AtomicI64::new(0),
            unfit: Mutex::default(),
            commands,
        };
        alerting.say_unfit(unfit);
        Ok(alerting)
    }

    /// Beside a database that cannot be trusted: over one of its own, by the rules of the file. People must hear that
    /// everything is shut; if they cannot, it is said where estop logs.
    pub fn while_shut(data_dir: &Path, alerts: &Alerts) -> Option<Alerting> {
        if alerts.settings.channels.is_empty() {
            return None;
        }
        let place = data_dir.join(SHUT);
        let opened = store::open(&place).context("alerts");
        let commands = estop_config::commands(data_dir, &Env::of_process());
        let started = opened.and_then(|store| Alerting::start(store, alerts, 0, commands));
        let problem = |error: &anyhow::Error| {
            let (place, error) = (escaped(&place.to_string_lossy()), escaped(&format!("{error:#}")));
            tracing::error!(target: "alerts", "nobody is told that everything is shut: {place}: {error}");
        };
        started.inspect_err(problem).ok()
    }

    /// The database is trusted again: what was told beside it is over.
    pub fn forget_shut(data_dir: &Path) {
        for end in ["", "-wal", "-shm", ".lock"] {
            // There seldom is one.
            let _ = std::fs::remove_file(data_dir.join(format!("{SHUT}{end}")));
        }
    }

    /// The last record that was told.
    pub fn cursor(&self) -> u64 {
        self.notifier.cursor()
    }

    /// Something happened. Waits for nobody.
    pub fn tell(&self, event: AlertEvent) {
        self.notifier.tell(event);
    }

    /// What happened in the records up to `seq`, which are stored.
    pub fn tell_records(&self, news: Vec<AlertEvent>, seq: u64) {
        let is_quiet = news.is_empty();
        for event in news.into_iter().filter(|told| !self.button.has_told(told)) {
            self.notifier.tell(event);
        }
        let now = now();
        let marked_at = self.marked_at.load(Ordering::Relaxed);
        if !is_quiet || !(marked_at..marked_at + MARK_EVERY_MS).contains(&now) {
            self.marked_at.store(now, Ordering::Relaxed);
            self.notifier.told_up_to(seq);
        }
    }

    /// Takes up a changed configuration, whole or not at all.
    pub fn change(&self, alerts: &Alerts) -> anyhow::Result<()> {
        // Held until the notifier has it: of two changes the later one has the last word.
        let mut file = self.file();
        let (settings, unfit) = laid_over(&*self.store, alerts, &self.commands)?;
        self.notifier.change(settings).map_err(|error| anyhow::anyhow!("alerts: {error}"))?;
        *file = alerts.clone();
        drop(file);
        self.say_unfit(unfit);
        Ok(())
    }

    /// Whether anybody hears of the red button.
    pub fn is_told_of_kills(&self) -> bool {
        self.notifier.is_told_now(AlertType::SystemKill)
    }

    fn file(&self) -> MutexGuard<'_, Alerts> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Each rule that cannot be used is said once, and again when it is fixed and broken anew.
    fn say_unfit(&self, unfit: Vec<(Name, String)>) {
        let mut said = self.unfit.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *said);
        for (rule, problem) in unfit {
            if before.get(&rule) != Some(&problem) {
                let (rule, problem) = (escaped(&rule), escaped(&problem));
                tracing::warn!(
                    target: "alerts", "the alert rule `{rule}` is left out: {problem}. Set it anew, or delete it."
                );
            }
            said.insert(rule, problem);
        }
    }
}

/// The file's settings, with the rules people set by the API over them, and those that cannot be used.
fn laid_over(
    store: &dyn estop_store::Alerts,
    alerts: &Alerts,
    commands: &Commands,
) -> anyhow::Result<(Settings, Vec<(Name, String)>)> {
    let stored = store.rules().context("alert rules")?;
    let (mut settings, unfit) = alerts.settings.clone().with_stored(&stored);
    settings.words.commands = commands.clone();
    Ok((settings, unfit.into_iter().map(|(rule, error)| (rule, error.to_string())).collect()))
}

/// Wall-clock milliseconds.
fn now() -> i64 {
    Timestamp::now().as_millisecond()
}
