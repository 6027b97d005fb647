//! The notifier: a thread of its own that takes what happened, decides who is told, and sends until it arrives.
//!
//! Telling it never waits: not for the network, not for the store, not for a receiver. It ends when it is dropped; what
//! has not arrived by then is in the store, and goes out after the next start.

mod worker;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use estop_core::ids::Name;
use estop_store::{AlertRule, Alerts, StoreError};
use tokio::sync::mpsc;

use crate::alert_event::{AlertEvent, AlertType};
use crate::alert_router::AlertRouter;
use crate::channel::Channel;
use crate::net::{Resolve, SystemResolver};
use crate::outbox::GIVE_UP_AFTER_MS;
use crate::rule::{Mute, Rule, RuleBook, RuleError};
use crate::sender::Sender;
use crate::store_with_timeout::StoreWithTimeout;
use crate::words::Words;
use worker::Worker;

/// Presses of the red button that may wait for the thread, beside everything else.
const URGENT_MAX: usize = 256;
/// Happenings that may wait for the thread. Beyond it they are counted, and told as a number.
const WAITING_MAX: usize = 10_000;
/// A change of mutes is stored by then, or whoever asks is told that it is not: a store that hangs is left alone after 1 s.
const KEPT_TIMEOUT: Duration = Duration::from_secs(5);
/// Channels there may be: each may hold a thread for a name that is looked up.
pub const CHANNELS_MAX: usize = 64;

/// Who is told of what, and how.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Channels by name.
    pub channels: BTreeMap<Name, Channel>,
    /// Rules by name; none = everything to every channel.
    pub rules: BTreeMap<Name, Rule>,
    /// What texts need to know.
    pub words: Words,
}

impl Settings {
    /// Lays rules people made by the API over those of the file: the same name replaces, a disabled one takes away. One
    /// that cannot be used, or whose channels are all gone, is left out and told. If no rule is left, everything is told
    /// to every channel: whoever wants silence mutes, which has an end.
    pub fn with_stored(mut self, stored: &[AlertRule]) -> (Settings, Vec<(Name, RuleError)>) {
        let mut problems = Vec::new();
        for AlertRule { id, rule, enabled, .. } in stored {
            if !enabled {
                self.rules.remove(id);
                continue;
            }
            let parsed = Rule::parse(rule).and_then(|mut rule| {
                let gone = rule.channels.iter().find(|name| !self.channels.contains_key(*name)).cloned();
                rule.channels.retain(|name| self.channels.contains_key(name));
                match gone {
                    Some(gone) if rule.channels.is_empty() => Err(RuleError::UnknownChannel(gone)),
                    Some(_) | None => Ok(rule),
                }
            });
            match parsed {
                Ok(rule) => drop(self.rules.insert(id.clone(), rule)),
                Err(error) => problems.push((id.clone(), error)),
            }
        }
        (self, problems)
    }
}

/// What comes from outside: time, names of hosts, chance.
#[derive(Clone)]
pub struct NotifierEnv {
    /// Milliseconds since 1970.
    pub clock: Arc<dyn Fn() -> i64 + Send + Sync>,
    /// Looks names up.
    pub resolver: Arc<dyn Resolve>,
    /// Spreads retries.
    pub seed: u64,
}

impl NotifierEnv {
    /// The real ones.
    pub fn system() -> NotifierEnv {
        let clock = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        };
        let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        NotifierEnv { clock: Arc::new(clock), resolver: Arc::new(SystemResolver), seed: seed as u64 }
    }
}

/// Why settings were not taken, or a wish not granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotifyError {
    /// A rule or mute cannot be used.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// A channel cannot be used.
    #[error("channel `{channel}`: {problem}")]
    Channel {
        /// Which.
        channel: Name,
        /// Why.
        problem: String,
    },
    /// Too many channels.
    #[error("there may be {CHANNELS_MAX} channels")]
    TooMany,
    /// What was told before cannot be read.
    #[error("what was told before cannot be read: {0}")]
    Store(#[from] StoreError),
    /// The system gave no thread.
    #[error("no thread for alerts: {0}")]
    Thread(String),
    /// It has too much to do, or has ended.
    #[error("alerts are too busy right now: try again")]
    Busy,
}

/// How a channel does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelHealth {
    /// Which.
    pub channel: Name,
    /// Tries in a row that failed.
    pub failures: u32,
    /// It is left alone until then.
    pub rests_until: Option<i64>,
    /// What its receiver said last.
    pub said: String,
}

/// What others may look at while the thread works.
#[derive(Default)]
pub(crate) struct Shown {
    pub(crate) book: RuleBook,
    pub(crate) mutes: BTreeMap<Name, Mute>,
    pub(crate) health: Vec<ChannelHealth>,
    pub(crate) store_error: Option<StoreError>,
    pub(crate) cursor: u64,
    /// Changes of mutes that the thread has not come to yet.
    pub(crate) mutes_waiting: usize,
    /// Rings when it has.
    pub(crate) mutes_kept: Arc<Condvar>,
    /// Tests that wait: when each channel's was asked for.
    pub(crate) tests: BTreeMap<Name, i64>,
}

/// What the thread is asked for.
pub(crate) enum Command {
    Tell(Box<AlertEvent>),
    ToldUpTo(u64),
    Change(Box<Ready>),
    Test { channel: Name, by: Name },
    Mute { id: Name, mute: Mute },
    Unmute(Name),
}

/// Settings, checked and made ready.
pub(crate) struct Ready {
    pub(crate) book: RuleBook,
    pub(crate) words: Words,
    pub(crate) senders: BTreeMap<Name, Arc<Sender>>,
}

impl Ready {
    fn new(settings: Settings, resolver: &Arc<dyn Resolve>) -> Result<Ready, NotifyError> {
        let Settings { channels, rules, words } = settings;
        if channels.len() > CHANNELS_MAX {
            return Err(NotifyError::TooMany);
        }
        let takes = channels.iter().map(|(name, channel)| (name.clone(), channel.takes())).collect();
        let book = RuleBook::new(rules, takes)?;
        let mut senders = BTreeMap::new();
        for (name, channel) in channels {
            let sender = Sender::new(name.clone(), channel, Arc::clone(resolver)).map_err(|error| {
                NotifyError::Channel { channel: name.clone(), problem: error.to_string() }
            })?;
            senders.insert(name, Arc::new(sender));
        }
        Ok(Ready { book, words, senders })
    }
}

/// The thread's other end. Dropping it ends the thread.
pub struct Notifier {
    wishes: Option<mpsc::Sender<Command>>,
    urgent: Option<mpsc::Sender<Command>>,
    missed: Arc<AtomicU64>,
    shown: Arc<Mutex<Shown>>,
    outside: NotifierEnv,
    thread: Option<JoinHandle<()>>,
}

impl Notifier {
    /// Begins where the last one ended. The first one ever on this store begins after `last_seq`, the newest record: what
    /// stands before it is not told.
    pub fn start_after(
        last_seq: u64,
        store: Arc<dyn Alerts>,
        settings: Settings,
        outside: NotifierEnv,
    ) -> Result<Notifier, NotifyError> {
        AlertRouter::begin_at(&*store, (outside.clock)(), last_seq)?;
        Notifier::start(store, settings, outside)
    }

    /// Begins where the last one ended.
    pub fn start(
        store: Arc<dyn Alerts>,
        settings: Settings,
        outside: NotifierEnv,
    ) -> Result<Notifier, NotifyError> {
        let ready = Ready::new(settings, &outside.resolver)?;
        let router = AlertRouter::recall(store.alert_memory("")?);
        let no_thread = |error: std::io::Error| NotifyError::Thread(error.to_string());
        let store: Arc<dyn Alerts> = Arc::new(StoreWithTimeout::new(store).map_err(no_thread)?);
        let (wishes, waiting) = mpsc::channel(WAITING_MAX);
        let (urgent, urging) = mpsc::channel(URGENT_MAX);
        let missed = Arc::new(AtomicU64::new(0));
        let (cursor, mutes) = (router.cursor(), router.mutes().clone());
        let shown = Shown { book: ready.book.clone(), cursor, mutes, ..Shown::default() };
        let shown = Arc::new(Mutex::new(shown));
        let worker =
            Worker::new(store, router, ready, outside.clone(), (Arc::clone(&missed), Arc::clone(&shown)));
        let runtime = worker::runtime().map_err(no_thread)?;
        let thread = std::thread::Builder::new()
            .name("estop-notify".to_owned())
            .spawn(move || worker.run(runtime, waiting, urging))
            .map_err(no_thread)?;
        Ok(Notifier {
            wishes: Some(wishes),
            urgent: Some(urgent),
            missed,
            shown,
            outside,
            thread: Some(thread),
        })
    }

    /// Something happened. Never waits; if too much waits already, it is counted and told as a number.
    pub fn tell(&self, event: AlertEvent) {
        let is_urgent = event.alert == AlertType::SystemKill;
        let wish = Command::Tell(Box::new(event));
        // The red button waits behind nobody's ten thousand trips.
        let queue = if is_urgent { &self.urgent } else { &self.wishes };
        if queue.as_ref().is_none_or(|queue| queue.try_send(wish).is_err()) {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Everything up to this journal record was told, or need not be: a start after a crash tells only what is newer.
    pub fn told_up_to(&self, seq: u64) {
        // If it is lost, a start after a crash tells some things again, which are known by their ids.
        let _ = self.wish(Command::ToldUpTo(seq));
    }

    /// The last journal record that was told, as it was stored; 0 = none yet.
    pub fn cursor(&self) -> u64 {
        self.shown().cursor
    }

    /// Takes other settings, whole or not at all. Nothing that waits is lost.
    pub fn change(&self, settings: Settings) -> Result<(), NotifyError> {
        let ready = Ready::new(settings, &self.outside.resolver)?;
        let book = ready.book.clone();
        self.wish(Command::Change(Box::new(ready)))?;
        self.shown().book = book;
        Ok(())
    }

    /// Sends a test through a channel. It goes the way of every alert; the delivery log says how it ended. As long as one
    /// waits for its channel, it is the same: a script that asks for thousands must not push alerts out.
    pub fn test(&self, channel: &str, by: &str) -> Result<(), NotifyError> {
        let now = (self.outside.clock)();
        let mut shown = self.shown();
        if !shown.book.channels.contains_key(channel) {
            return Err(RuleError::UnknownChannel(channel.into()).into());
        }
        // One that is older was given up.
        let waits = |asked: &i64| (*asked..asked.saturating_add(GIVE_UP_AFTER_MS)).contains(&now);
        if shown.tests.get(channel).is_some_and(waits) {
            return Ok(());
        }
        self.wish(Command::Test { channel: channel.into(), by: by.into() })?;
        shown.tests.insert(channel.into(), now);
        Ok(())
    }

    /// Mutes for a while; a mute of the same id is replaced.
    pub fn mute(&self, id: &str, mute: Mute) -> Result<(), NotifyError> {
        mute.check((self.outside.clock)())?;
        let id = Name::from(id);
        self.change_mutes(Command::Mute { id: id.clone(), mute: mute.clone() }, |mutes| {
            mutes.insert(id, mute);
        })
    }

    /// Ends a mute.
    pub fn unmute(&self, id: &str) -> Result<(), NotifyError> {
        self.change_mutes(Command::Unmute(id.into()), |mutes| {
            mutes.remove(id);
        })
    }

    /// Whoever asks next sees the change, and it is on the disk before this returns: a mute that came back after a crash
    /// would hide stops.
    fn change_mutes(
        &self,
        wish: Command,
        change: impl FnOnce(&mut BTreeMap<Name, Mute>),
    ) -> Result<(), NotifyError> {
        let mut shown = self.shown();
        self.wish(wish)?;
        change(&mut shown.mutes);
        shown.mutes_waiting += 1;
        let is_waiting = |shown: &mut Shown| shown.mutes_waiting > 0;
        let kept = Arc::clone(&shown.mutes_kept);
        let waited = kept.wait_timeout_while(shown, KEPT_TIMEOUT, is_waiting);
        let (shown, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        match &shown.store_error {
            _ if waited.timed_out() => Err(NotifyError::Busy),
            Some(error) => Err(error.clone().into()),
            None => Ok(()),
        }
    }

    /// Mutes that hold, by id.
    pub fn mutes(&self) -> BTreeMap<Name, Mute> {
        self.shown().mutes.clone()
    }

    /// Whether anybody would be told of this (AL-3).
    pub fn is_told_of(&self, alert: AlertType, agent: &str) -> bool {
        self.shown().book.is_told_of(alert, agent)
    }

    /// Whether anybody would be told of this, of any agent at all.
    pub fn is_told_of_any(&self, alert: AlertType) -> bool {
        self.shown().book.is_told_of_any(alert)
    }

    /// Whether anybody is told of this now: there are rules for it, and no mute hides all of it.
    pub fn is_told_now(&self, alert: AlertType) -> bool {
        let now = (self.outside.clock)();
        let shown = self.shown();
        shown.book.is_told_of_any(alert) && !shown.mutes.values().any(|mute| mute.hides_all(alert, now))
    }

    /// How the channels do.
    pub fn health(&self) -> Vec<ChannelHealth> {
        self.shown().health.clone()
    }

    /// Why alerts cannot be stored at the moment. They are sent all the same.
    pub fn store_error(&self) -> Option<StoreError> {
        self.shown().store_error.clone()
    }

    fn wish(&self, wish: Command) -> Result<(), NotifyError> {
        let wishes = self.wishes.as_ref().ok_or(NotifyError::Busy)?;
        wishes.try_send(wish).map_err(|_| NotifyError::Busy)
    }

    fn shown(&self) -> std::sync::MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        (self.wishes, self.urgent) = (None, None);
        if let Some(thread) = self.thread.take() {
            // If it panicked, what it had not sent is in the store.
            let _ = thread.join();
        }
    }
}
