//! The outbox: what waits goes out in order, one at a time for each channel, until it arrives (AL-1).
//!
//! It sends nothing itself and has no clock: [`Outbox::due`] says what to send, [`Outbox::finish`] takes how it ended. The
//! alerts are in the store; here is only what a restart may forget: who is busy, who is resting after failures.

mod retry_state;

use std::collections::{BTreeMap, BTreeSet};

use estop_core::ids::Name;
use estop_store::{AlertCommit, Alerts, Delivery, DeliveryOutcome, DueAlert, StoreError};

use crate::outcome::SendOutcome;
use crate::plain::one_line;
pub(crate) use retry_state::Random;
use retry_state::{ChannelRetryState, PAUSE_ASKED_MAX_MS};

/// An alert is given up when it is this old and still fails (F10).
pub const GIVE_UP_AFTER_MS: i64 = 24 * 3_600_000;
/// A store that fails is asked again after this long.
const STORE_PAUSE_MS: i64 = 1_000;
/// What a log line may hold of what a receiver said.
const DETAIL_MAX: usize = 300;
/// Alerts sent past a store that fails whose ids are remembered: more than a night of them.
const SENT_MAX: usize = 10_000;
/// Alerts for one channel that may wait for a store that fails: as many as may wait in it.
const UNSTORED_MAX: usize = 10_000;

/// Who is busy and who rests.
#[derive(Debug)]
pub struct Outbox {
    retry_states: BTreeMap<Name, ChannelRetryState>,
    random: Random,
    /// What the store did not take yet.
    unstored: Option<AlertCommit>,
    /// What was sent past the store. It may turn up in there late, and is not sent again then.
    sent: BTreeSet<Name>,
    /// Alerts let go meanwhile, because too many waited.
    dropped: u64,
    store_at: i64,
    pub(crate) last_error: Option<StoreError>,
}

impl Outbox {
    /// An outbox with these channels. The seed only spreads retries.
    pub fn new(channels: impl IntoIterator<Item = Name>, seed: u64) -> Outbox {
        let mut outbox = Outbox {
            retry_states: BTreeMap::new(),
            random: Random(seed),
            unstored: None,
            sent: BTreeSet::new(),
            dropped: 0,
            store_at: i64::MIN,
            last_error: None,
        };
        outbox.set_channels(channels);
        outbox
    }

    /// Other channels. Alerts for one that is gone wait in the store until it is back, or are given up by age.
    pub fn set_channels(&mut self, channels: impl IntoIterator<Item = Name>) {
        let mut old = std::mem::take(&mut self.retry_states);
        let retry_state = |name: Name| {
            // A channel that was changed is tried at once: somebody may have fixed it.
            let after_change = old.remove(&name).map(ChannelRetryState::after_change).unwrap_or_default();
            (name, after_change)
        };
        self.retry_states = channels.into_iter().map(retry_state).collect();
    }

    /// Stores alerts. If the store fails, they are kept here, sent all the same, and stored later.
    pub fn commit(&mut self, store: &dyn Alerts, now: i64, commit: AlertCommit) {
        for alert in &commit.alerts {
            // One that waits for something to be stored would wait for a store that fails.
            if let Some(retry_state) =
                self.retry_states.get_mut(&alert.target).filter(|retry_state| retry_state.look_at == i64::MAX)
            {
                retry_state.look_at = now;
            }
        }
        match &mut self.unstored {
            Some(unstored) => {
                self.dropped += merge(unstored, commit);
            }
            None => self.unstored = Some(commit),
        }
        self.store(store, now);
    }

    /// How many alerts were let go because the store failed, once it takes alerts again; then none.
    pub fn take_dropped(&mut self) -> u64 {
        if self.is_stored() { std::mem::take(&mut self.dropped) } else { 0 }
    }

    /// Whether everything was stored.
    pub fn is_stored(&self) -> bool {
        self.unstored.is_none()
    }

    fn store(&mut self, store: &dyn Alerts, now: i64) {
        let Some(unstored) = &self.unstored else { return };
        match store.commit_alerts(unstored.clone()) {
            Ok(_) => {
                for alert in &unstored.alerts {
                    if let Some(retry_state) = self.retry_states.get_mut(&alert.target) {
                        retry_state.look_at = retry_state.look_at.min(now);
                    }
                }
                (self.unstored, self.last_error) = (None, None);
            }
            Err(error) => {
                (self.store_at, self.last_error) = (now + STORE_PAUSE_MS, Some(error));
            }
        }
    }

    /// What is to be sent now: at most one alert for each channel. Each must be given back to [`Outbox::finish`].
    pub fn due(&mut self, store: &dyn Alerts, now: i64) -> Vec<DueAlert> {
        // A clock that was set back must not make anybody wait for the old time to come again.
        if now >= self.store_at || self.store_at > now + STORE_PAUSE_MS {
            self.store(store, now);
        }
        let Outbox { retry_states, unstored, sent, last_error, .. } = self;
        let mut out = Vec::new();
        for (target, retry_state) in
            retry_states.iter_mut().filter(|(_, retry_state)| retry_state.is_ready(now))
        {
            let found = retry_state.mark_left(store).and_then(|()| next_unsent(store, target, sent, now));
            let direct = || {
                let alerts = unstored.as_ref().map_or(&[][..], |commit| &commit.alerts);
                let alert = alerts.iter().find(|alert| alert.target == *target)?.clone();
                Some(DueAlert { id: 0, attempts: 0, alert })
            };
            let next = match found {
                Ok(next) => next.or_else(direct),
                Err(error) => {
                    *last_error = Some(error);
                    direct()
                }
            };
            retry_state.look_at = match &next {
                Some(next) => retry_state.may_send_at(now, next.alert.due_at),
                None if last_error.is_some() => now + STORE_PAUSE_MS,
                None => i64::MAX,
            };
            if let Some(next) = next.filter(|_| retry_state.look_at <= now) {
                retry_state.busy = true;
                out.push(next);
            }
        }
        out
    }

    /// How a try ended; what becomes of the alert.
    pub fn finish(
        &mut self,
        store: &dyn Alerts,
        now: i64,
        due: &DueAlert,
        tried: &SendOutcome,
    ) -> DeliveryOutcome {
        let Some(retry_state) = self.retry_states.get_mut(&due.alert.target) else {
            // Its channel went away while it was on its way: it is marked all the same.
            let mut retry_state = ChannelRetryState::default();
            let outcome = retry_state.outcome(now, due, tried, &mut self.random);
            let _ = store.mark_alert(due.id, &delivery(now, outcome, tried));
            return outcome;
        };
        retry_state.busy = false;
        let outcome = retry_state.outcome(now, due, tried, &mut self.random);
        log(&due.alert.target, outcome, tried);
        retry_state.look_at = match outcome {
            DeliveryOutcome::RetryAt(at) => at,
            DeliveryOutcome::Delivered | DeliveryOutcome::GivenUp => now,
        };
        if due.id == 0 {
            if outcome == DeliveryOutcome::Delivered {
                if let Some(unstored) = &mut self.unstored {
                    unstored.alerts.retain(|alert| alert.dedupe != due.alert.dedupe);
                }
                if self.sent.len() == SENT_MAX {
                    self.sent.pop_first();
                }
                self.sent.insert(due.alert.dedupe.clone());
            }
            return outcome;
        }
        retry_state.left = Some((due.id, delivery(now, outcome, tried)));
        if let Err(error) = retry_state.mark_left(store) {
            (self.last_error, retry_state.look_at) =
                (Some(error), retry_state.look_at.max(now + STORE_PAUSE_MS));
        }
        outcome
    }

    /// When to ask again for what is due; `None` = when something new is stored.
    pub fn next_wake(&self) -> Option<i64> {
        let retry_states = self
            .retry_states
            .values()
            .filter(|retry_state| !retry_state.busy)
            .map(|retry_state| retry_state.look_at);
        let store = self.unstored.as_ref().map(|_| self.store_at);
        retry_states.chain(store).filter(|at| *at < i64::MAX).min()
    }

    /// How a channel does: failures in a row, until when it rests, and what was said last.
    pub(crate) fn health(&self, now: i64) -> impl Iterator<Item = (&Name, u32, Option<i64>, &str)> {
        self.retry_states.iter().map(move |(name, retry_state)| {
            (
                name,
                retry_state.failures,
                Some(retry_state.open_until).filter(|at| *at > now),
                retry_state.said.as_str(),
            )
        })
    }
}

/// Adds what the store does not take either. Of too many for one channel, the oldest go, as they do in the store; how many.
fn merge(unstored: &mut AlertCommit, commit: AlertCommit) -> u64 {
    let AlertCommit { at, alerts, memory } = commit;
    unstored.at = at;
    // Only the last of a name counts.
    let is_new: BTreeSet<Name> = memory.iter().map(|remembered| remembered.name.clone()).collect();
    unstored.memory.retain(|remembered| !is_new.contains(&remembered.name));
    unstored.memory.extend(memory);
    unstored.alerts.extend(alerts);
    let mut surplus: BTreeMap<Name, usize> = BTreeMap::new();
    for alert in &unstored.alerts {
        *surplus.entry(alert.target.clone()).or_default() += 1;
    }
    surplus.values_mut().for_each(|count| *count = count.saturating_sub(UNSTORED_MAX));
    let before = unstored.alerts.len();
    if surplus.values().any(|count| *count > 0) {
        unstored.alerts.retain(|alert| match surplus.get_mut(&alert.target) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            Some(_) | None => true,
        });
    }
    (before - unstored.alerts.len()) as u64
}

/// The first alert that waits for a target and did not go out past the store.
fn next_unsent(
    store: &dyn Alerts,
    target: &str,
    sent: &mut BTreeSet<Name>,
    now: i64,
) -> Result<Option<DueAlert>, StoreError> {
    loop {
        let next = store.next_alert(target)?;
        let Some(late) = next.as_ref().filter(|next| sent.contains(&next.alert.dedupe)) else {
            return Ok(next);
        };
        let detail = "sent while the database took nothing".to_owned();
        store.mark_alert(late.id, &Delivery { at: now, outcome: DeliveryOutcome::Delivered, detail })?;
        sent.remove(&late.alert.dedupe);
    }
}

/// One line for each try that failed; pauses between tries grow.
fn log(channel: &str, outcome: DeliveryOutcome, tried: &SendOutcome) {
    let response = tried.detail();
    match outcome {
        DeliveryOutcome::Delivered => tracing::debug!(target: "alerts", channel, response, "alert delivered"),
        DeliveryOutcome::RetryAt(_) => {
            tracing::warn!(target: "alerts", channel, response, "alert not delivered, trying again");
        }
        DeliveryOutcome::GivenUp => tracing::error!(target: "alerts", channel, response, "alert given up"),
    }
}

fn delivery(now: i64, outcome: DeliveryOutcome, tried: &SendOutcome) -> Delivery {
    Delivery { at: now, outcome, detail: one_line(tried.detail(), DETAIL_MAX) }
}

/// Whether a pause is one the receiver may ask for.
fn asked(after_ms: Option<i64>) -> i64 {
    after_ms.unwrap_or(0).clamp(0, PAUSE_ASKED_MAX_MS)
}
