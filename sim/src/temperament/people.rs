//! A person who cannot decide, beside an agent that works.

use estop_core::event::EventKind;
use estop_core::guard::Guard;

use super::Act;
use super::mind::{Mind, plain};
use crate::prng::Rng;

/// Mostly work; now and then a person switches something, whether it makes sense or not.
pub(super) fn admin(mind: &mut Mind, rng: &mut Rng) -> Act {
    let by = || "ann".into();
    let switched = match rng.below(20) {
        0 => EventKind::AgentActivated { by: by() },
        1 => EventKind::AgentDeactivated { by: by() },
        2 => EventKind::AgentPaused { by: by() },
        3 => EventKind::AgentResumed { by: by() },
        4 => EventKind::RunExtended { by: by() },
        5 => EventKind::GuardSnoozed {
            by: by(),
            guard: rng.pick(&Guard::ALL),
            for_ms: rng.spread(1, 10 * 86_400_000),
            until: 0,
            note: None,
        },
        6 => EventKind::GuardWoken { by: by(), guard: rng.pick(&Guard::ALL) },
        _ => return super::workers::steady(mind, rng),
    };
    mind.only(plain(switched), rng)
}
