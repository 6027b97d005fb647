//! The notifier's thread: one small runtime, one task for each message on its way.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use estop_core::ids::Name;
use estop_store::{Alerts, DeliveryOutcome, DueAlert};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::{CHANNELS_MAX, ChannelHealth, Command, NotifierEnv, Ready, Shown};
use crate::alert_router::AlertRouter;
use crate::github::REF;
use crate::ids::test_message;
use crate::message::Message;
use crate::outbox::Outbox;
use crate::outcome::SendOutcome;
use crate::rule::RuleBook;
use crate::sender::Sender;
use crate::words::Words;

/// Wishes that are taken in one go, so that a flood is stored in few writes and senders still get their turn.
const BATCH: usize = 1_000;
/// At the latest after this long it is looked whether something is due: the clock on the wall may have been set.
const LOOK_TIMEOUT: Duration = Duration::from_secs(15);
/// When it ends, what is on its way gets this long.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// What arrived is forgotten after a month, unless the retention says sooner; looked after once an hour.
const KEPT_MS: i64 = 30 * 24 * 3_600_000;
const SWEEP_EVERY_MS: i64 = 3_600_000;

pub(super) struct Worker {
    store: Arc<dyn Alerts>,
    router: AlertRouter,
    outbox: Outbox,
    book: RuleBook,
    words: Words,
    senders: BTreeMap<Name, Arc<Sender>>,
    outside: NotifierEnv,
    missed: Arc<AtomicU64>,
    shown: Arc<Mutex<Shown>>,
    swept_at: i64,
    /// The test that waits for each channel, and how many there were.
    tests: BTreeMap<Name, Name>,
    nth_test: u64,
    /// Changes of mutes since others last saw them.
    mutes_granted: usize,
    /// What each task sends.
    under_way: HashMap<Id, DueAlert>,
}

type Sent = Result<(Id, SendOutcome), JoinError>;

/// A small runtime. A name that is looked up holds a thread; a stuck one must not take another channel's.
pub(super) fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(CHANNELS_MAX).build()
}

impl Worker {
    pub(super) fn new(
        store: Arc<dyn Alerts>,
        router: AlertRouter,
        ready: Ready,
        outside: NotifierEnv,
        (missed, shown): (Arc<AtomicU64>, Arc<Mutex<Shown>>),
    ) -> Worker {
        let Ready { book, words, senders } = ready;
        let outbox = Outbox::new(senders.keys().cloned(), outside.seed);
        Worker {
            store,
            router,
            outbox,
            book,
            words,
            senders,
            outside,
            missed,
            shown,
            swept_at: i64::MIN,
            tests: BTreeMap::new(),
            nth_test: 0,
            mutes_granted: 0,
            under_way: HashMap::new(),
        }
    }

    pub(super) fn run(
        mut self,
        runtime: Runtime,
        waiting: mpsc::Receiver<Command>,
        urging: mpsc::Receiver<Command>,
    ) {
        runtime.block_on(self.work(waiting, urging));
        // A name that is still being looked up is not waited for.
        runtime.shutdown_timeout(Duration::ZERO);
    }

    async fn work(&mut self, mut waiting: mpsc::Receiver<Command>, mut urging: mpsc::Receiver<Command>) {
        let mut on_their_way: JoinSet<SendOutcome> = JoinSet::new();
        let mut wishes = Vec::new();
        loop {
            let wake = self.turn(&mut wishes, &mut on_their_way);
            let mut urgent = Vec::new();
            tokio::select! {
                biased;
                Some(wish) = urging.recv() => urgent.push(wish),
                count = waiting.recv_many(&mut wishes, BATCH) => {
                    if count == 0 {
                        break;
                    }
                }
                Some(sent) = on_their_way.join_next_with_id() => self.sent(sent),
                () = sleep_until(wake) => {}
            }
            // A press must not come after the word that everything up to its record was told.
            while let Ok(wish) = urging.try_recv() {
                urgent.push(wish);
            }
            wishes.splice(0..0, urgent);
        }
        while let Ok(wish) = urging.try_recv() {
            wishes.push(wish);
        }
        self.turn(&mut wishes, &mut on_their_way);
        let last = async {
            while let Some(sent) = on_their_way.join_next_with_id().await {
                self.sent(sent);
            }
        };
        // What did not make it is in the store.
        let _ = tokio::time::timeout(END_TIMEOUT, last).await;
    }

    /// Does everything that is due; when to look again.
    fn turn(&mut self, wishes: &mut Vec<Command>, on_their_way: &mut JoinSet<SendOutcome>) -> Instant {
        let now = (self.outside.clock)();
        for wish in wishes.drain(..) {
            self.grant(now, wish);
        }
        let missed = self.missed.swap(0, Ordering::Relaxed) + self.outbox.take_dropped();
        if missed > 0 {
            self.router.handle_missed(now, missed, &self.book);
        }
        self.router.poll(now, &self.book, &self.words);
        if let Some(commit) = self.router.take(now) {
            self.outbox.commit(&*self.store, now, commit);
        }
        for due in self.outbox.due(&*self.store, now) {
            self.send(now, due, on_their_way);
        }
        self.sweep(now);
        self.show(now);
        let wakes = [self.router.next_wake(), self.outbox.next_wake()];
        let wait = wakes.into_iter().flatten().min().map_or(i64::MAX, |at| at.saturating_sub(now).max(1));
        Instant::now() + LOOK_TIMEOUT.min(Duration::from_millis(u64::try_from(wait).unwrap_or(1)))
    }

    fn grant(&mut self, now: i64, wish: Command) {
        match wish {
            Command::Tell(event) => self.router.handle(now, &event, &self.book, &self.words),
            Command::ToldUpTo(seq) => self.router.told_up_to(seq),
            Command::Change(ready) => {
                let Ready { book, words, senders } = *ready;
                self.outbox.set_channels(senders.keys().cloned());
                (self.book, self.words, self.senders) = (book, words, senders);
            }
            Command::Test { channel, by } => {
                self.nth_test += 1;
                let message = test_message((now, self.nth_test), &channel, &by, &self.words);
                self.router.push(now, &channel, &message);
                self.tests.insert(channel, message.id);
            }
            Command::Mute { id, mute } => {
                // It was checked by whoever asked.
                let _ = self.router.mute(now, id, mute);
                self.mutes_granted += 1;
            }
            Command::Unmute(id) => {
                self.router.unmute(&id);
                self.mutes_granted += 1;
            }
        }
    }

    fn send(&mut self, now: i64, due: DueAlert, on_their_way: &mut JoinSet<SendOutcome>) {
        let message: Result<Message, _> = serde_json::from_str(&due.alert.payload);
        let (Ok(message), Some(sender)) = (message, self.senders.get(&due.alert.target)) else {
            let tried = SendOutcome::Refused("the stored message cannot be read".to_owned());
            self.finish(now, &due, &tried);
            return;
        };
        let (sender, store) = (Arc::clone(sender), Arc::clone(&self.store));
        let task = on_their_way.spawn(async move { sender.send(&*store, now, &message).await });
        self.under_way.insert(task.id(), due);
    }

    fn sent(&mut self, sent: Sent) {
        let (id, tried) = match sent {
            Ok(sent) => sent,
            // A bug in a sender must not stop its channel.
            Err(error) => (error.id(), SendOutcome::failed("the sender broke down; please report it")),
        };
        let Some(due) = self.under_way.remove(&id) else { return };
        self.finish((self.outside.clock)(), &due, &tried);
    }

    fn finish(&mut self, now: i64, due: &DueAlert, tried: &SendOutcome) {
        let target = &due.alert.target;
        let is_test = self.tests.get(target) == Some(&due.alert.dedupe);
        if is_test && matches!(tried, SendOutcome::Delivered(_)) {
            // Before the log says so: whoever reads that may ask for another.
            self.shown().tests.remove(target);
        }
        let outcome = self.outbox.finish(&*self.store, now, due, tried);
        if is_test && outcome == DeliveryOutcome::GivenUp {
            self.shown().tests.remove(target);
        }
    }

    fn sweep(&mut self, now: i64) {
        if now.saturating_sub(self.swept_at) < SWEEP_EVERY_MS && now >= self.swept_at {
            return;
        }
        self.swept_at = now;
        // Nothing depends on it; it is done again in an hour.
        let _ = self.store.sweep_alerts(now - KEPT_MS, REF);
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&mut self, now: i64) {
        let health = self.outbox.health(now).map(|(channel, failures, rests_until, said)| ChannelHealth {
            channel: channel.clone(),
            failures,
            rests_until,
            said: said.to_owned(),
        });
        let health = health.collect();
        let granted = std::mem::take(&mut self.mutes_granted);
        let mut shown = self.shown();
        shown.health = health;
        shown.mutes_waiting = shown.mutes_waiting.saturating_sub(granted);
        // Whoever asked for a change sees it already.
        if shown.mutes_waiting == 0 {
            shown.mutes = self.router.mutes().clone();
            shown.mutes_kept.notify_all();
        }
        shown.store_error = self.outbox.last_error.clone();
        if self.outbox.is_stored() {
            shown.cursor = self.router.cursor();
        }
    }
}
