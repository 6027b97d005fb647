//! Guards that a person snoozed, remembered a second time: which, and until when.

use std::collections::BTreeMap;

use estop_core::event::EventKind;
use estop_core::guard::Guard;
use estop_core::policy::{Mode, Policy};

/// The longest snooze: a week.
const LONGEST_MS: u64 = 7 * 24 * 60 * 60 * 1_000;

/// Guards that only warn for a while.
#[derive(Clone, Debug, Default)]
pub struct Snoozes(BTreeMap<Guard, u64>);

impl Snoozes {
    /// Time passed: what is over is over.
    pub fn pass_time(&mut self, now: u64) {
        self.0.retain(|_, until| *until > now);
    }

    /// Takes in what happened.
    pub fn apply(&mut self, what: &EventKind, now: u64) {
        if let EventKind::GuardSnoozed { guard, for_ms, .. } = what {
            let always_holds = matches!(guard, Guard::System | Guard::Agent | Guard::Run);
            if *for_ms > 0 && !always_holds {
                self.0.insert(*guard, now.saturating_add((*for_ms).min(LONGEST_MS)));
            }
        }
        if let EventKind::GuardWoken { guard, .. } = what {
            self.0.remove(guard);
        }
    }

    /// The rules in force: a snoozed guard does not enforce.
    pub fn over(&self, policy: &Policy) -> Policy {
        let mut policy = policy.clone();
        let modes = &mut policy.modes;
        for guard in self.0.keys() {
            lower(&mut modes[*guard]);
            if *guard == Guard::Breaker {
                lower(&mut modes.breaker_set);
                lower(&mut modes.breaker_unattended);
            }
        }
        policy
    }
}

fn lower(mode: &mut Mode) {
    if *mode == Mode::Enforce {
        *mode = Mode::Shadow;
    }
}
