//! Requests under way: whose they are, what they hold, and when they are given up.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::budget::Amount;
use crate::ids::RequestId;
use crate::ring::push_bounded;
use crate::time::Millis;

/// A reservation without a sign of life is booked and dropped after this. Streams renew it as they go;
/// plain answers of the slowest models take up to ten minutes.
pub(super) const LIFETIME_MS: u64 = 15 * 60_000;

/// One request under way.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Flight {
    pub(super) request: RequestId,
    /// Serial of its run.
    pub(super) run: u32,
    /// Serial of its conversation; `None` if it is no part of one.
    pub(super) conversation: Option<u32>,
    /// Serial of its entry in the window.
    pub(super) entry: u16,
    /// What is reserved for it.
    pub(super) held: Amount,
    /// Input tokens new to the conversation.
    pub(super) new_input: u32,
    pub(super) expires: Millis,
}

/// All requests of one agent under way.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct InFlight {
    list: Vec<Flight>,
    /// No reservation ends before this.
    none_before: Millis,
    /// Given up and booked, but perhaps still running: the latest [`OVERDUE_MAX`].
    #[expect(clippy::box_collection, reason = "almost always empty, and every agent has one")]
    overdue: Option<Box<VecDeque<Flight>>>,
}

/// Requests that were given up and are remembered, in case they are heard of again.
pub const OVERDUE_MAX: usize = 64;

impl InFlight {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn add(&mut self, flight: Flight) {
        if self.list.is_empty() || flight.expires < self.none_before {
            self.none_before = flight.expires;
        }
        self.take_overdue(flight.request);
        if self.list.len() == self.list.capacity() {
            // Most agents have one request under way: grow from one, not from four.
            self.list.reserve_exact(self.list.len().max(1));
        }
        self.list.push(flight);
    }

    /// Gives memory back that is not needed.
    pub(super) fn shrink(&mut self) {
        self.list.shrink_to_fit();
    }

    pub(super) fn contains(&self, request: RequestId) -> bool {
        self.list.iter().any(|f| f.request == request)
    }

    pub(super) fn get(&self, request: RequestId) -> Option<&Flight> {
        self.list.iter().find(|f| f.request == request)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Flight> {
        self.list.iter()
    }

    pub(super) fn get_mut(&mut self, request: RequestId) -> Option<&mut Flight> {
        self.list.iter_mut().find(|f| f.request == request)
    }

    pub(super) fn take(&mut self, request: RequestId) -> Option<Flight> {
        let at = self.list.iter().position(|f| f.request == request)?;
        Some(self.list.remove(at))
    }

    /// The next one whose time is up, oldest first.
    pub(super) fn take_expired(&mut self, now: Millis) -> Option<Flight> {
        if self.list.is_empty() || now < self.none_before {
            return None;
        }
        let Some(at) = self.list.iter().position(|f| f.expires <= now) else {
            self.none_before = self.list.iter().map(|f| f.expires).min().unwrap_or(now);
            return None;
        };
        let expired = self.list.remove(at);
        push_bounded(self.overdue.get_or_insert_default(), expired, OVERDUE_MAX);
        Some(expired)
    }

    /// A request that was given up and is heard of after all; what it held is booked already.
    pub(super) fn take_overdue(&mut self, request: RequestId) -> Option<Flight> {
        let overdue = self.overdue.as_mut()?;
        let at = overdue.iter().position(|f| f.request == request)?;
        overdue.remove(at)
    }

    /// Nothing is under way any more: all of it is given up at `now`.
    pub(super) fn expire_all(&mut self, now: Millis) {
        self.list.iter_mut().for_each(|flight| flight.expires = now);
        self.none_before = now;
    }

    pub(super) fn first_expiry(&self) -> Option<Millis> {
        self.list.iter().map(|f| f.expires).min()
    }

    pub(super) fn held(&self) -> Amount {
        self.list.iter().fold(Amount::default(), |sum, f| sum.plus(f.held))
    }

    pub(super) fn held_by_run(&self, run: u32) -> Amount {
        self.list.iter().filter(|f| f.run == run).fold(Amount::default(), |sum, f| sum.plus(f.held))
    }

    pub(super) fn any_of_run(&self, run: u32) -> bool {
        self.list.iter().any(|f| f.run == run)
    }
}
