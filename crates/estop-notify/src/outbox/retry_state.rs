//! One channel's way out: how long to wait after a failure, and when to leave a dead endpoint alone for a while.

use estop_store::{Alerts, Delivery, DeliveryOutcome, DueAlert, StoreError};

use super::{GIVE_UP_AFTER_MS, asked};
use crate::outcome::SendOutcome;

/// The first pause after a failure; each further one is twice as long.
const PAUSE_FIRST_MS: i64 = 1_000;
/// The longest pause: so long a receiver that is back waits for its alerts at most.
const PAUSE_MAX_MS: i64 = 600_000;
/// The longest pause a receiver may ask for.
pub(super) const PAUSE_ASKED_MAX_MS: i64 = 3_600_000;
/// Failures in a row after which an endpoint is left alone, and for how long at first.
const FAILURES_MAX: u32 = 5;
const REST_FIRST_MS: i64 = 60_000;
/// How often a message is tried that the receiver does not want. Chosen: 15 s in which a receiver may come to its senses;
/// all behind it waits so long.
const REFUSED_MAX: u32 = 5;

/// One channel's way out.
#[derive(Debug)]
pub(super) struct ChannelRetryState {
    /// An alert is on its way.
    pub(super) busy: bool,
    /// When to look for the next alert; `i64::MAX` = when one is stored.
    pub(super) look_at: i64,
    /// Failures in a row.
    pub(super) failures: u32,
    rest_ms: i64,
    /// The endpoint is left alone until then.
    pub(super) open_until: i64,
    /// What the store did not take: how the last try ended.
    pub(super) left: Option<(u64, Delivery)>,
    /// What was said last.
    pub(super) said: String,
}

impl Default for ChannelRetryState {
    fn default() -> Self {
        ChannelRetryState {
            busy: false,
            look_at: i64::MIN,
            failures: 0,
            rest_ms: 0,
            open_until: i64::MIN,
            left: None,
            said: String::new(),
        }
    }
}

impl ChannelRetryState {
    /// The same lane after its channel was changed.
    pub(super) fn after_change(self) -> ChannelRetryState {
        ChannelRetryState { busy: self.busy, left: self.left, ..ChannelRetryState::default() }
    }

    pub(super) fn is_ready(&self, now: i64) -> bool {
        // A clock that was set back by hours must not make anybody wait for hours.
        let is_due =
            self.look_at <= now || (self.look_at < i64::MAX && self.look_at > now + PAUSE_ASKED_MAX_MS);
        !self.busy && is_due
    }

    /// Marks what could not be marked before.
    pub(super) fn mark_left(&mut self, store: &dyn Alerts) -> Result<(), StoreError> {
        let Some((id, delivery)) = &self.left else { return Ok(()) };
        match store.mark_alert(*id, delivery) {
            // Swept or given up meanwhile: nothing is left to mark.
            Ok(()) | Err(StoreError::NotFound { .. }) => {
                self.left = None;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// When an alert that is due then may be sent.
    pub(super) fn may_send_at(&self, now: i64, due_at: i64) -> i64 {
        let at = due_at.max(self.open_until);
        if at > now + PAUSE_ASKED_MAX_MS { now } else { at }
    }

    /// What becomes of an alert, and of the lane.
    pub(super) fn outcome(
        &mut self,
        now: i64,
        due: &DueAlert,
        tried: &SendOutcome,
        random: &mut Random,
    ) -> DeliveryOutcome {
        self.said = tried.detail().to_owned();
        match tried {
            SendOutcome::Delivered(_) => {
                (self.failures, self.rest_ms, self.open_until) = (0, 0, i64::MIN);
                DeliveryOutcome::Delivered
            }
            SendOutcome::Refused(_) => {
                // Whoever refuses is alive.
                (self.failures, self.rest_ms, self.open_until) = (0, 0, i64::MIN);
                if due.attempts + 1 >= REFUSED_MAX {
                    return DeliveryOutcome::GivenUp;
                }
                DeliveryOutcome::RetryAt(now + random.spread(pause(due.attempts)))
            }
            SendOutcome::Failed { after_ms, .. } => {
                self.failures = self.failures.saturating_add(1);
                if self.failures >= FAILURES_MAX {
                    self.rest_ms = (self.rest_ms * 2).clamp(REST_FIRST_MS, PAUSE_MAX_MS);
                    self.open_until = now + self.rest_ms;
                }
                if now.saturating_sub(due.alert.created_at) >= GIVE_UP_AFTER_MS {
                    return DeliveryOutcome::GivenUp;
                }
                let pause = random.spread(pause(due.attempts)).max(asked(*after_ms));
                DeliveryOutcome::RetryAt((now + pause).max(self.open_until))
            }
        }
    }
}

/// The pause after so many tries.
fn pause(attempts: u32) -> i64 {
    (PAUSE_FIRST_MS << attempts.min(20)).min(PAUSE_MAX_MS)
}

/// SplitMix64: spreads retries, so that a hundred estops do not knock at the same moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Somewhere between half and all of it.
    fn spread(&mut self, ms: i64) -> i64 {
        let half = (ms / 2).max(1);
        let more = self.next() % u64::try_from(half).unwrap_or(1);
        half + i64::try_from(more).unwrap_or(0)
    }
}
