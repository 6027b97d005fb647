//! Whether the parts of estop run: each worker, the sweeper, the timer, the canceller of work at providers and the journal's writer
//! says so several times a second, and a thread that does nothing else notices who has stopped saying it (KS-11).
//!
//! A part that is stuck opens nothing: the gate, and the thread that carries out a kill, depend on none of them. But
//! somebody must look.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use estop_core::ids::Name;
use estop_core::operator::StuckPart;
use estop_core::time::Millis;

use crate::clock::Clock;

/// How often a part says that it runs.
pub(crate) const BEAT_INTERVAL: Duration = Duration::from_millis(250);
/// How often somebody looks.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Silent for so long, a part is stuck.
const STUCK_AFTER_MS: u64 = 5_000;
/// Looking that much late, the whole process was stopped (SIGSTOP, a paused virtual machine): nobody could say anything.
const WAS_STOPPED_MS: u64 = 2_000;

/// One part's heartbeat.
#[derive(Debug)]
pub struct Heartbeat {
    name: Name,
    /// When it last said that it runs.
    at: AtomicU64,
}

impl Heartbeat {
    /// It runs, at this moment.
    pub fn beat(&self, now: Millis) {
        self.at.store(now.0, Ordering::Relaxed);
    }

    /// For how long it has said nothing.
    pub(crate) fn silent_ms(&self, now: Millis) -> u64 {
        now.since(Millis(self.at.load(Ordering::Relaxed)))
    }
}

/// A part got stuck, or runs again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartChange {
    /// It says nothing any more.
    Stuck(StuckPart),
    /// It does again, after so many milliseconds.
    Recovered {
        /// Which one.
        name: Name,
        /// For how long it was silent, as far as was seen.
        after_ms: u64,
    },
}

/// All parts.
#[derive(Debug, Default)]
pub struct Heartbeats(Mutex<Parts>);

#[derive(Debug, Default)]
struct Parts {
    all: Vec<Arc<Heartbeat>>,
    stuck: Vec<StuckPart>,
    looked_at: Option<Millis>,
    /// Since when the process runs without a break.
    runs_since: Millis,
}

impl Heartbeats {
    /// A part begins, at this moment.
    pub fn add(&self, name: &str, now: Millis) -> Arc<Heartbeat> {
        let heartbeat = Arc::new(Heartbeat { name: name.into(), at: AtomicU64::new(now.0) });
        self.lock().all.push(Arc::clone(&heartbeat));
        heartbeat
    }

    /// Parts that are stuck.
    pub fn stuck(&self) -> Vec<StuckPart> {
        self.lock().stuck.clone()
    }

    /// Looks once; what changed since the last time.
    pub(crate) fn look(&self, now: Millis) -> Vec<PartChange> {
        let mut parts = self.lock();
        let looked_at = parts.looked_at.replace(now).unwrap_or(now);
        if now.since(looked_at) > WAS_STOPPED_MS {
            parts.runs_since = now;
        }
        let Parts { all, stuck, runs_since, .. } = &mut *parts;
        let was_stopped = now.since(*runs_since) < STUCK_AFTER_MS && *runs_since > Millis(0);
        let mut changes = Vec::new();
        for part in all.iter() {
            let silent_ms = part.silent_ms(now);
            let known = stuck.iter().position(|stuck| stuck.name == part.name);
            match known {
                None if silent_ms >= STUCK_AFTER_MS && !was_stopped => {
                    let news = StuckPart { name: part.name.clone(), silent_ms };
                    stuck.push(news.clone());
                    changes.push(PartChange::Stuck(news));
                }
                Some(known) if silent_ms < STUCK_AFTER_MS => {
                    let StuckPart { name, silent_ms } = stuck.remove(known);
                    changes.push(PartChange::Recovered { name, after_ms: silent_ms });
                }
                Some(known) => stuck[known].silent_ms = silent_ms,
                None => {}
            }
        }
        changes
    }

    fn lock(&self) -> MutexGuard<'_, Parts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks until `is_over`.
pub(crate) fn watch(
    heartbeats: &Heartbeats,
    clock: &Clock,
    is_over: impl Fn() -> bool,
    mut told: impl FnMut(PartChange),
) {
    while !is_over() {
        std::thread::park_timeout(POLL_INTERVAL);
        heartbeats.look(clock.mono()).into_iter().for_each(&mut told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(heartbeats: &Heartbeats, from: u64, to: u64, mut beat: impl FnMut(Millis)) -> Vec<PartChange> {
        let mut changes = Vec::new();
        for at in (from..to).step_by(500) {
            beat(Millis(at));
            changes.extend(heartbeats.look(Millis(at)));
        }
        changes
    }

    #[test]
    fn ks_11_a_part_that_says_nothing_for_five_seconds_is_stuck_until_it_does_again() {
        let heartbeats = Heartbeats::default();
        let stuck = heartbeats.add("worker 0", Millis(1_000));
        let well = heartbeats.add("worker 1", Millis(1_000));
        assert_eq!(look(&heartbeats, 1_000, 6_000, |now| well.beat(now)), []);
        let part = StuckPart { name: "worker 0".into(), silent_ms: 5_000 };
        assert_eq!(look(&heartbeats, 6_000, 6_500, |now| well.beat(now)), [PartChange::Stuck(part)]);
        assert_eq!(look(&heartbeats, 6_500, 9_000, |now| well.beat(now)), [], "said once");
        assert_eq!(heartbeats.stuck(), [StuckPart { name: "worker 0".into(), silent_ms: 7_500 }]);
        stuck.beat(Millis(9_000));
        let over = PartChange::Recovered { name: "worker 0".into(), after_ms: 7_500 };
        assert_eq!(look(&heartbeats, 9_000, 9_500, |now| well.beat(now)), [over]);
        assert_eq!(heartbeats.stuck(), []);
    }

    #[test]
    fn ks_11_a_process_that_was_stopped_is_not_taken_for_one_whose_parts_are_stuck() {
        let heartbeats = Heartbeats::default();
        let part = heartbeats.add("worker 0", Millis(1_000));
        assert_eq!(look(&heartbeats, 1_000, 2_000, |now| part.beat(now)), []);
        // An hour of SIGSTOP: the first look comes before the part's own thread has run again.
        assert_eq!(heartbeats.look(Millis(3_600_000)), []);
        assert_eq!(look(&heartbeats, 3_600_500, 3_604_000, |_| {}), [], "it has five seconds to say so");
        assert_eq!(look(&heartbeats, 3_604_000, 3_606_000, |_| {}).len(), 1, "not more");
    }
}
