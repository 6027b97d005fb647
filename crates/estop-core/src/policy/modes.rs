//! What each guard may do (PO-4): enforce, shadow or off.

use serde::{Deserialize, Serialize};

use super::Preset;
use crate::guard::Guard;

/// What a guard may do (PO-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It stops the agent.
    Enforce,
    /// It is computed and journaled as "would have stopped"; it never blocks.
    Shadow,
    /// It is not judged. (The gate is still computed and journaled.)
    Off,
}

/// The mode of every guard that has one. The system kill switch and a person's stop have none: they always hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Modes {
    /// Allowed hours.
    pub hours: Mode,
    /// Rate limit.
    pub rate: Mode,
    /// Budgets.
    pub budget: Mode,
    /// Loop score and LD-6 a–c; the same switch as `kill_switch_enabled`.
    #[serde(rename = "loop")]
    pub loops: Mode,
    /// LD-6 d: same tool, same failure, other arguments.
    pub churn: Mode,
    /// LD-6 e: repetition inside one streamed answer.
    pub chanting: Mode,
    /// Circuit breakers of attended or implicit runs that nobody set.
    pub breaker: Mode,
    /// Circuit breakers of attended or implicit runs that somebody set.
    #[serde(default = "Mode::enforce", skip_serializing_if = "Mode::is_enforce")]
    pub breaker_set: Mode,
    /// Circuit breakers of unattended named runs.
    pub breaker_unattended: Mode,
    /// The safety gate.
    pub gate: Mode,
    /// Health suspension and hard stop.
    pub health: Mode,
    /// Runaway watchdog.
    pub watchdog: Mode,
    /// Which models may be asked.
    #[serde(default = "Mode::enforce", skip_serializing_if = "Mode::is_enforce")]
    pub models: Mode,
}

impl Mode {
    /// What a guard that came later than a journal is there: it has no rules to enforce.
    fn enforce() -> Mode {
        Mode::Enforce
    }

    fn is_enforce(&self) -> bool {
        *self == Mode::Enforce
    }
}

impl Modes {
    /// The modes a preset starts with.
    pub fn of(preset: Preset) -> Modes {
        match preset {
            Preset::Strict => Modes::all(Mode::Enforce),
            Preset::Watch => Modes {
                hours: Mode::Enforce,
                rate: Mode::Enforce,
                budget: Mode::Enforce,
                breaker_set: Mode::Enforce,
                breaker_unattended: Mode::Enforce,
                watchdog: Mode::Enforce,
                models: Mode::Enforce,
                ..Modes::all(Mode::Shadow)
            },
        }
    }

    fn all(mode: Mode) -> Modes {
        Modes {
            hours: mode,
            rate: mode,
            budget: mode,
            loops: mode,
            churn: mode,
            chanting: mode,
            breaker: mode,
            breaker_set: mode,
            breaker_unattended: mode,
            gate: mode,
            health: mode,
            watchdog: mode,
            models: mode,
        }
    }

    /// The switches of a guard. The breakers have three; what always holds has none.
    pub(crate) fn of_guard(&mut self, guard: Guard) -> Vec<&mut Mode> {
        match guard {
            Guard::System | Guard::Agent | Guard::Run => Vec::new(),
            Guard::Hours => vec![&mut self.hours],
            Guard::Models => vec![&mut self.models],
            Guard::Rate => vec![&mut self.rate],
            Guard::Budget => vec![&mut self.budget],
            Guard::Loop => vec![&mut self.loops],
            Guard::Churn => vec![&mut self.churn],
            Guard::Chanting => vec![&mut self.chanting],
            Guard::Breaker => {
                vec![&mut self.breaker, &mut self.breaker_set, &mut self.breaker_unattended]
            }
            Guard::Gate => vec![&mut self.gate],
            Guard::Health => vec![&mut self.health],
            Guard::Watchdog => vec![&mut self.watchdog],
        }
    }
}

impl Default for Modes {
    fn default() -> Self {
        Modes::of(Preset::Watch)
    }
}
