//! Tickets: secrets a supervisor makes for one run (ID-7). A ticket names its agent and run, for clients that can
//! send no header, and is good as long as somebody watches the run, and a little longer.
//!
//! Only its SHA-256 is kept, and it is looked up by that, so that how long it takes says nothing about any ticket.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};
use std::time::{Duration, Instant};

use estop_core::ids::Name;
use sha2::{Digest, Sha256};

/// How long a ticket is good after its watcher went. Chosen: a restart of the daemon's other half or a broken pipe is
/// over by then; half of it would refuse calls during one, twice would leave a dead run's ticket in the hands of what it
/// left behind.
pub(crate) const GOOD_AFTER: Duration = Duration::from_secs(30);
/// Tickets at once: as many as tools may run.
const TICKETS_MAX: usize = 10_000;
/// Tickets of one agent at once: as many as lines it may have, so that one alone cannot take all.
const AGENT_TICKETS_MAX: usize = 256;

/// All tickets.
#[derive(Default)]
pub(crate) struct Tickets(RwLock<BTreeMap<[u8; 32], Ticket>>);

struct Ticket {
    agent: Name,
    run: Name,
    /// How many watch the run: a supervisor that lost its connection may be back before that is noticed.
    held: u32,
    /// Since when nobody does.
    left: Option<Instant>,
}

/// Why a ticket is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoTicket {
    /// There are too many.
    Full,
    /// It is another run's.
    OfAnother,
}

impl Ticket {
    fn is_good(&self, now: Instant) -> bool {
        self.left.is_none_or(|left| now.saturating_duration_since(left) < GOOD_AFTER)
    }
}

impl Tickets {
    /// Takes a ticket of a run. If the result is [kept](HeldTicket::keep), it is good while that is held, and
    /// [`GOOD_AFTER`]; otherwise everything is as before when it is dropped.
    pub(crate) fn hold(
        self: &Arc<Self>,
        sha256: [u8; 32],
        agent: &str,
        run: &str,
        now: Instant,
    ) -> Result<HeldTicket, NoTicket> {
        let mut tickets = self.lock();
        let held = |before| HeldTicket { tickets: Arc::clone(self), sha256, before: Some(before) };
        if let Some(ticket) = tickets.get_mut(&sha256).filter(|ticket| ticket.is_good(now)) {
            if *ticket.agent != *agent || *ticket.run != *run {
                return Err(NoTicket::OfAnother);
            }
            ticket.held += 1;
            return Ok(held(ticket.left.take().map_or(Before::Held, Before::Left)));
        }
        // The thousands of others are counted only when a run begins.
        tickets.retain(|_, ticket| ticket.is_good(now));
        let own = tickets.values().filter(|ticket| *ticket.agent == *agent).count();
        if tickets.len() >= TICKETS_MAX || own >= AGENT_TICKETS_MAX {
            return Err(NoTicket::Full);
        }
        tickets.insert(sha256, Ticket { agent: agent.into(), run: run.into(), held: 1, left: None });
        Ok(held(Before::Unknown))
    }

    /// Agent and run of a ticket, by its hash.
    pub(crate) fn find(&self, sha256: &[u8; 32], now: Instant) -> Option<(Name, Name)> {
        let tickets = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let ticket = tickets.get(sha256).filter(|ticket| ticket.is_good(now))?;
        Some((ticket.agent.clone(), ticket.run.clone()))
    }

    /// Agent and run of a ticket as a client shows it.
    pub(crate) fn of(&self, ticket: &str) -> Option<(Name, Name)> {
        self.find(&Sha256::digest(ticket.as_bytes()).into(), Instant::now())
    }

    fn let_go(&self, sha256: &[u8; 32], before: Option<Before>, now: Instant) {
        let mut tickets = self.lock();
        let Some(ticket) = tickets.get_mut(sha256) else { return };
        ticket.held = ticket.held.saturating_sub(1);
        if ticket.held > 0 {
            return;
        }
        match before {
            None | Some(Before::Held) => ticket.left = Some(now),
            Some(Before::Left(left)) => ticket.left = Some(left),
            Some(Before::Unknown) => drop(tickets.remove(sha256)),
        }
    }

    fn lock(&self) -> RwLockWriteGuard<'_, BTreeMap<[u8; 32], Ticket>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a ticket was before somebody took it.
#[derive(Clone, Copy)]
enum Before {
    Unknown,
    /// Another watched its run.
    Held,
    /// Nobody did, since then.
    Left(Instant),
}

/// A ticket while its run is watched.
pub(crate) struct HeldTicket {
    tickets: Arc<Tickets>,
    sha256: [u8; 32],
    /// Unless it is kept.
    before: Option<Before>,
}

impl HeldTicket {
    /// Its run may go on.
    pub(crate) fn keep(&mut self) {
        self.before = None;
    }
}

impl Drop for HeldTicket {
    fn drop(&mut self) {
        self.tickets.let_go(&self.sha256, self.before, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(found: Option<(Name, Name)>) -> Option<String> {
        found.map(|(agent, run)| format!("{agent} {run}"))
    }

    fn kept(tickets: &Arc<Tickets>, sha256: [u8; 32], agent: &str) -> HeldTicket {
        let mut held = tickets.hold(sha256, agent, "r", Instant::now()).expect("there is room");
        held.keep();
        held
    }

    #[test]
    fn id_7_a_ticket_names_its_run_while_held_and_thirty_seconds_longer() {
        let tickets = Arc::new(Tickets::default());
        let now = Instant::now();
        let held = kept(&tickets, [1; 32], "a");
        assert_eq!(named(tickets.find(&[1; 32], now)), Some("a r".to_owned()));
        assert_eq!(tickets.find(&[2; 32], now), None);
        drop(held);
        let soon = Instant::now();
        assert!(tickets.find(&[1; 32], soon).is_some());
        assert_eq!(tickets.find(&[1; 32], soon + GOOD_AFTER), None);
    }

    #[test]
    fn id_7_a_ticket_stays_its_runs() {
        let tickets = Arc::new(Tickets::default());
        let now = Instant::now();
        let first = kept(&tickets, [1; 32], "a");
        assert_eq!(tickets.hold([1; 32], "a", "other", now).err(), Some(NoTicket::OfAnother));
        let again = kept(&tickets, [1; 32], "a");
        drop(first);
        assert!(tickets.find(&[1; 32], now + GOOD_AFTER * 2).is_some(), "one still watches");
        drop(again);
        assert_eq!(tickets.find(&[1; 32], Instant::now() + GOOD_AFTER * 2), None);
    }

    #[test]
    fn id_7_a_refused_watch_leaves_no_ticket_and_prolongs_none() {
        let tickets = Arc::new(Tickets::default());
        drop(tickets.hold([1; 32], "a", "r", Instant::now()).expect("there is room"));
        assert_eq!(tickets.find(&[1; 32], Instant::now()), None, "it was never kept");
        drop(kept(&tickets, [1; 32], "a"));
        let left = Instant::now();
        drop(tickets.hold([1; 32], "a", "r", left + GOOD_AFTER / 2).expect("it is the same run's"));
        assert!(tickets.find(&[1; 32], left).is_some());
        assert_eq!(tickets.find(&[1; 32], left + GOOD_AFTER), None);
    }

    #[test]
    fn id_7_one_agent_cannot_take_all_tickets() {
        let tickets = Arc::new(Tickets::default());
        let sha256 = |n: usize| {
            let mut sha256 = [0; 32];
            sha256[..8].copy_from_slice(&n.to_be_bytes());
            sha256
        };
        let all: Vec<_> = (0..AGENT_TICKETS_MAX).map(|n| kept(&tickets, sha256(n), "a")).collect();
        let one_more = tickets.hold([9; 32], "a", "r", Instant::now());
        assert_eq!(one_more.err(), Some(NoTicket::Full));
        drop(kept(&tickets, [9; 32], "b"));
        assert_eq!(all.len(), AGENT_TICKETS_MAX);
    }
}
