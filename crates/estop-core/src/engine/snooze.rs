//! Guards that a person has work as in shadow for a while (PO-7): whose word it was, and when it ends.

use serde::{Deserialize, Serialize};

use super::AgentState;
use crate::decision::{Decision, Effect, Guard};
use crate::ids::Name;
use crate::policy::Policy;
use crate::time::Millis;

/// The longest a guard may be snoozed: seven days. Whoever wants more says so in the policy.
pub const SNOOZE_MAX_MS: u64 = 7 * 86_400_000;

/// A guard that works as in shadow for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snooze {
    /// Which.
    pub guard: Guard,
    /// When it ends.
    pub until: Millis,
    /// The same by the clock on the wall, for people.
    pub until_wall: i64,
    /// Whose word it was.
    pub by: Name,
    /// Why.
    pub note: Option<Name>,
}

/// All of an agent, each guard at most once. Few agents have any.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Snoozes(Option<Box<[Snooze]>>);

impl Snoozes {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Snooze> {
        self.0.iter().flatten()
    }

    fn set(&mut self, list: Vec<Snooze>) {
        self.0 = (!list.is_empty()).then(|| list.into_boxed_slice());
    }

    fn without(&self, guard: Guard) -> Vec<Snooze> {
        self.iter().filter(|snooze| snooze.guard != guard).cloned().collect()
    }

    /// The first moment one ends.
    pub(super) fn first_end(&self) -> Option<Millis> {
        self.iter().map(|snooze| snooze.until).min()
    }

    /// The policy as it is in force: guards that are snoozed do not enforce.
    pub(super) fn over<'p>(&self, policy: &'p Policy) -> InForce<'p> {
        if self.0.is_none() {
            return InForce::Written(policy);
        }
        let mut policy = Box::new(policy.clone());
        for snooze in self.iter() {
            policy.modes.snooze(snooze.guard);
        }
        InForce::Snoozed(policy)
    }
}

/// A policy as it is in force. Small, as it is asked for with every event; a `Cow` is as large as a policy.
pub(super) enum InForce<'p> {
    Written(&'p Policy),
    Snoozed(Box<Policy>),
}

impl std::ops::Deref for InForce<'_> {
    type Target = Policy;

    fn deref(&self) -> &Policy {
        match self {
            InForce::Written(policy) => policy,
            InForce::Snoozed(policy) => policy,
        }
    }
}

impl AgentState {
    /// Ends what is over.
    pub(super) fn end_snoozes(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        if self.snoozes.first_end().is_none_or(|end| end > now) {
            return;
        }
        let (over, left): (Vec<Snooze>, Vec<Snooze>) =
            self.snoozes.iter().cloned().partition(|snooze| snooze.until <= now);
        effects.extend(over.into_iter().map(|snooze| Effect::SnoozeEnded { guard: snooze.guard }));
        self.snoozes.set(left);
    }

    pub(super) fn snoozed(&mut self, now: Millis, mut new: Snooze, for_ms: u64) -> Decision {
        if new.guard.can_be_snoozed() && for_ms > 0 {
            new.until = now.plus(for_ms.min(SNOOZE_MAX_MS));
            let mut list = self.snoozes.without(new.guard);
            list.push(new);
            list.sort_by_key(|snooze| snooze.guard);
            self.snoozes.set(list);
        }
        Decision::noted()
    }

    pub(super) fn woken(&mut self, guard: Guard) -> Decision {
        let left = self.snoozes.without(guard);
        self.snoozes.set(left);
        Decision::noted()
    }

    /// Guards that work as in shadow for a while.
    pub fn snoozes(&self) -> impl Iterator<Item = &Snooze> {
        self.snoozes.iter()
    }
}
