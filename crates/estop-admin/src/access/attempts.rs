//! Failed attempts, counted for each address and for all together. Whoever fails too often waits; a token estop made
//! is recognised before anybody asks here, so an attack never keeps its owner out.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

use super::Peer;

/// Failures of one address within a minute (A2).
const PEER_MAX: u32 = 10;
/// Failures of all addresses within a minute.
const ALL_MAX: u32 = 100;
/// Addresses that are remembered; the one that failed longest ago makes room.
const PEERS_MAX: usize = 1024;
const MINUTE_MS: i64 = 60_000;

/// Failures by address.
#[derive(Default)]
pub(crate) struct Attempts {
    counted: Mutex<Counted>,
}

#[derive(Default)]
struct Counted {
    peers: BTreeMap<Peer, Minute>,
    all: Minute,
}

/// Failures since a minute began.
#[derive(Clone, Copy, Default)]
struct Minute {
    began: i64,
    failures: u32,
}

impl Minute {
    fn note(&mut self, now: i64) {
        if self.failures == 0 || self.left_ms(now) == 0 {
            *self = Minute { began: now, failures: 0 };
        }
        self.failures = self.failures.saturating_add(1);
    }

    /// Until the minute is over; a clock that went back begins a new one.
    fn left_ms(&self, now: i64) -> i64 {
        let left = self.began.saturating_add(MINUTE_MS).saturating_sub(now);
        if (1..=MINUTE_MS).contains(&left) { left } else { 0 }
    }

    fn wait_ms(&self, max: u32, now: i64) -> i64 {
        if self.failures >= max { self.left_ms(now) } else { 0 }
    }
}

impl Attempts {
    /// For how many seconds this address must wait; 0 = it may try.
    pub(crate) fn wait_s(&self, peer: Peer, now: i64) -> u64 {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let of_peer = counted.peers.get(&network(peer)).map_or(0, |minute| minute.wait_ms(PEER_MAX, now));
        let wait_ms = of_peer.max(counted.all.wait_ms(ALL_MAX, now));
        u64::try_from(wait_ms).unwrap_or(0).div_ceil(1000)
    }

    /// Somebody failed.
    pub(crate) fn note(&self, peer: Peer, now: i64) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.all.note(now);
        let peer = network(peer);
        if counted.peers.len() >= PEERS_MAX && !counted.peers.contains_key(&peer) {
            let oldest = counted.peers.iter().min_by_key(|(_, minute)| minute.began).map(|(peer, _)| *peer);
            oldest.map(|oldest| counted.peers.remove(&oldest));
        }
        counted.peers.entry(peer).or_default().note(now);
    }
}

/// Whoever has one IPv6 address has its whole /64.
fn network(peer: Peer) -> Peer {
    peer.map(|ip| match ip.to_canonical() {
        IpAddr::V4(ip) => IpAddr::V4(ip),
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> Peer {
        Some(IpAddr::from([10, 0, 0, last]))
    }

    #[test]
    fn ks_5_ten_failures_a_minute_make_an_address_wait() {
        let attempts = Attempts::default();
        (0..9).for_each(|_| attempts.note(peer(1), 1_000));
        assert_eq!(attempts.wait_s(peer(1), 2_000), 0);
        attempts.note(peer(1), 2_000);
        assert_eq!(attempts.wait_s(peer(1), 2_000), 59);
        assert_eq!(attempts.wait_s(peer(2), 2_000), 0, "others may try");
        assert_eq!(attempts.wait_s(peer(1), 61_000), 0, "a minute later it may try again");
    }

    #[test]
    fn ks_5_many_addresses_together_wait_and_the_table_stays_bounded() {
        let attempts = Attempts::default();
        for last in 0..=255 {
            (0..8_u8).for_each(|third| attempts.note(Some(IpAddr::from([10, 0, third, last])), 5));
        }
        assert!(attempts.wait_s(peer(9), 6) > 0);
        assert_eq!(attempts.counted.lock().expect("not poisoned").peers.len(), PEERS_MAX);
        let v6 = |last: u16| Some(IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]));
        assert_eq!(network(v6(1)), network(v6(2)));
    }
}
