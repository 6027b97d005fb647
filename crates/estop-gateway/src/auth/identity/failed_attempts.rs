//! Guesses of keys on the data port, counted for each agent they are about. Keys that people chose wait after too many of
//! them; a key that estop made has 256 bits, is not guessed, and never waits.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Wrong keys for one agent within a minute. Chosen: a client with a wrong key tries a few times and gives up; at sixty a
/// minute, 16 random characters take longer than the universe.
const FAILED_ATTEMPTS_MAX: u32 = 60;
const MINUTE: Duration = Duration::from_secs(60);
/// Agents that are counted; when there are more, the one whose minute began first makes room.
const AGENTS_MAX: usize = 1024;

/// Wrong keys, by the agent that was named; empty = none was.
#[derive(Default)]
pub(crate) struct FailedAttempts {
    /// Somebody guessed at all: nobody else takes the lock.
    any: AtomicBool,
    counted: Mutex<BTreeMap<Box<str>, (Instant, u32)>>,
}

impl FailedAttempts {
    /// A wrong key was sent for this agent; whether that was one too many.
    pub(super) fn note(&self, agent: &str, now: Instant) -> bool {
        self.any.store(true, Ordering::Relaxed);
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.len() >= AGENTS_MAX && !counted.contains_key(agent) {
            let oldest = counted.iter().min_by_key(|(_, (began, _))| *began).map(|(agent, _)| agent.clone());
            oldest.map(|oldest| counted.remove(&oldest));
        }
        let (began, wrong) = counted.entry(agent.into()).or_insert((now, 0));
        if now.saturating_duration_since(*began) >= MINUTE {
            (*began, *wrong) = (now, 0);
        }
        *wrong = wrong.saturating_add(1);
        *wrong > FAILED_ATTEMPTS_MAX
    }

    /// Whether chosen keys for this agent wait.
    pub(super) fn is_too_many(&self, agent: &str, now: impl FnOnce() -> Instant) -> bool {
        if !self.any.load(Ordering::Relaxed) {
            return false;
        }
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((began, wrong)) = counted.get(agent) else { return false };
        *wrong >= FAILED_ATTEMPTS_MAX && now().saturating_duration_since(*began) < MINUTE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_2_guesses_are_counted_for_each_agent_and_forgotten_after_a_minute() {
        let failed_attempts = FailedAttempts::default();
        let now = Instant::now();
        assert!((0..FAILED_ATTEMPTS_MAX).all(|_| !failed_attempts.note("a", now)));
        assert!(failed_attempts.note("a", now));
        assert!(failed_attempts.is_too_many("a", || now) && !failed_attempts.is_too_many("b", || now));
        assert!(!failed_attempts.is_too_many("a", || now + MINUTE));
        assert!(!failed_attempts.note("a", now + MINUTE), "a new minute");
    }

    #[test]
    fn st_3_agents_that_are_guessed_for_are_bounded() {
        let failed_attempts = FailedAttempts::default();
        let now = Instant::now();
        for agent in 0..AGENTS_MAX * 2 {
            failed_attempts.note(&agent.to_string(), now);
        }
        assert_eq!(failed_attempts.counted.lock().expect("not poisoned").len(), AGENTS_MAX);
    }
}
