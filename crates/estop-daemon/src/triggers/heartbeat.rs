//! The dead man's switch: as long as somebody says "I am here" in time, nothing happens (KS-5).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use estop_core::system::button::Press;
use estop_core::system::{GateView, KillReason, SystemState};

use super::watch::{Trigger, TriggerReport};

/// How soon it is noticed that the system runs again.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// When somebody was last heard of.
#[derive(Debug)]
pub struct LastHeartbeat {
    last: Mutex<Instant>,
}

impl LastHeartbeat {
    /// Begins to wait now.
    pub fn new() -> LastHeartbeat {
        LastHeartbeat { last: Mutex::new(Instant::now()) }
    }

    /// Somebody is there.
    pub fn beat(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// When somebody was last heard of.
    fn last(&self) -> Instant {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for LastHeartbeat {
    fn default() -> LastHeartbeat {
        LastHeartbeat::new()
    }
}

/// Presses when nobody was heard of in time.
pub(super) struct Missed {
    heart: Arc<LastHeartbeat>,
    within: Duration,
    looked: Instant,
}

impl Missed {
    pub(super) fn new(heart: Arc<LastHeartbeat>, within: Duration) -> Missed {
        Missed { heart, within, looked: Instant::now() }
    }
}

impl Trigger for Missed {
    fn name(&self) -> &'static str {
        "heartbeat"
    }

    fn due(&self, gate: GateView) -> Option<Instant> {
        let due =
            if gate.state == SystemState::Running { self.heart.last() + self.within } else { self.looked };
        // What is stopped already is looked at now and then: it may run again.
        Some(due.max(self.looked + self.within.min(POLL_INTERVAL)))
    }

    fn look(&mut self, now: Instant, gate: GateView) -> Vec<TriggerReport> {
        self.looked = now;
        let seconds = self.within.as_secs_f64();
        let silence = now.saturating_duration_since(self.heart.last());
        let mut said = vec![TriggerReport::Works(format!("presses after {seconds} s without a heartbeat"))];
        if gate.state == SystemState::Running && silence >= self.within {
            let note = format!("no heartbeat for {:.1} s, {seconds} s are allowed", silence.as_secs_f64());
            let press = Press::new(KillReason::Emergency, "heartbeat missed", "heartbeat");
            said.push(TriggerReport::Pressed(Press { note: Some(note.into()), ..press }));
        }
        said
    }
}
