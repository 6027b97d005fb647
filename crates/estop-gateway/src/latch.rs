//! The latch: the gate word that every request reads once it is registered.
//!
//! One atomic word holds epoch, state and shut channels, so that no reader ever sees half of a change. The rules
//! are the core's ([`estop_core::system`]); this makes them instant.

use std::sync::atomic::{AtomicU64, Ordering};

use estop_core::system::{Channels, GateView, SystemState};

/// The gate word.
#[derive(Debug)]
pub struct Latch {
    word: AtomicU64,
    /// Shut by configuration, whatever the word says.
    always_shut: Channels,
}

const EPOCH_SHIFT: u32 = 8;
const STATE_SHIFT: u32 = 4;
const FIELD: u64 = 0xF;

impl Latch {
    /// A latch that says `view`, with some channels always shut.
    pub fn new(view: GateView, always_shut: Channels) -> Latch {
        Latch { word: AtomicU64::new(pack(view)), always_shut }
    }

    /// What the gate word says.
    pub fn view(&self) -> GateView {
        let view = unpack(self.word.load(Ordering::SeqCst));
        GateView { shut: view.shut.union(self.always_shut), ..view }
    }

    /// Says something else from here on. Sequentially consistent: a request that registered before sees it when it
    /// reads the word again, one that registers later is seen by whoever cancels.
    pub fn set(&self, view: GateView) {
        self.word.store(pack(view), Ordering::SeqCst);
    }
}

fn pack(view: GateView) -> u64 {
    let state = match view.state {
        SystemState::Starting => 0,
        SystemState::Running => 1,
        SystemState::Shutdown => 2,
        SystemState::SafeMode => 3,
    };
    view.epoch << EPOCH_SHIFT | state << STATE_SHIFT | u64::from(u8::from(view.shut))
}

fn unpack(word: u64) -> GateView {
    let state = match (word >> STATE_SHIFT) & FIELD {
        1 => SystemState::Running,
        3 => SystemState::SafeMode,
        0 => SystemState::Starting,
        // 2, and whatever nobody ever wrote: shut.
        _ => SystemState::Shutdown,
    };
    // The three bits of a set of channels; anything else shuts all of them.
    let shut = Channels::try_from((word & FIELD) as u8).unwrap_or(Channels::ALL);
    GateView { epoch: word >> EPOCH_SHIFT, state, shut }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ks_1_every_view_survives_the_word() {
        let states =
            [SystemState::Starting, SystemState::Running, SystemState::Shutdown, SystemState::SafeMode];
        for state in states {
            for bits in 0..=7 {
                let shut = Channels::try_from(bits).expect("three bits");
                for epoch in [0, 1, 77, (1 << 56) - 1] {
                    let view = GateView { epoch, state, shut };
                    assert_eq!(Latch::new(view, Channels::NONE).view(), view);
                    let masked = Latch::new(view, Channels::ALL).view();
                    assert_eq!(masked, GateView { shut: Channels::ALL, ..view });
                }
            }
        }
    }
}
