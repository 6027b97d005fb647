//! The latch: the gate word that every request reads once it is registered.
//!
//! One atomic word holds epoch, state and shut channels, so that no reader ever sees half of a change. The rules
//! are the core's ([`estop_core::system`]); this makes them instant. One bit more is for drills: the canary alone takes
//! it for a pressed button. It is never written to a disk.

use estop_core::system::{Channels, GateView, SystemState};

use crate::sync::{AtomicU64, Ordering};

/// The gate word.
#[derive(Debug)]
pub struct GateWord {
    word: AtomicU64,
    /// Shut by configuration, whatever the word says.
    always_shut: Channels,
}

const EPOCH_SHIFT: u32 = 8;
const STATE_SHIFT: u32 = 4;
const FIELD: u64 = 0xF;
const SHUT: u64 = 0x7;
const DRILL: u64 = 0x8;

impl GateWord {
    /// A latch that says `view`, with some channels always shut.
    pub fn new(view: GateView, always_shut: Channels) -> GateWord {
        GateWord { word: AtomicU64::new(pack(view)), always_shut }
    }

    /// What the gate word says.
    pub fn view(&self) -> GateView {
        self.view_as(|| false)
    }

    /// What the gate word says to the canary, or to anybody else. Who asks matters during a drill only.
    pub(crate) fn view_as(&self, is_canary: impl FnOnce() -> bool) -> GateView {
        let word = self.word.load(Ordering::SeqCst);
        let view = unpack(word);
        if word & DRILL != 0 && is_canary() {
            return GateView { state: SystemState::Shutdown, shut: Channels::ALL, ..view };
        }
        GateView { shut: view.shut.union(self.always_shut), ..view }
    }

    /// Says something else from here on. Sequentially consistent: a request that registered before sees it when it
    /// reads the word again, one that registers later is seen by whoever cancels.
    pub fn set(&self, view: GateView) {
        let keep_drill = |word| Some(pack(view) | word & DRILL);
        // It always has something to say, so it never fails.
        let _ = self.word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, keep_drill);
    }

    /// Shuts the gate to the canary.
    pub(crate) fn begin_drill(&self) {
        self.word.fetch_or(DRILL, Ordering::SeqCst);
    }

    /// The canary is like everybody else again.
    pub(crate) fn end_drill(&self) {
        self.word.fetch_and(!DRILL, Ordering::SeqCst);
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
    // Three bits are always a set of channels.
    let shut = Channels::try_from((word & SHUT) as u8).unwrap_or(Channels::ALL);
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
                    assert_eq!(GateWord::new(view, Channels::NONE).view(), view);
                    let masked = GateWord::new(view, Channels::ALL).view();
                    assert_eq!(masked, GateView { shut: Channels::ALL, ..view });
                }
            }
        }
    }

    #[test]
    fn ks_2_a_drill_shuts_the_gate_to_the_canary_alone_and_outlives_other_changes() {
        let open = GateView { epoch: 7, ..GateView::OPEN };
        let latch = GateWord::new(open, Channels::NONE);
        latch.begin_drill();
        let drilled = GateView { state: SystemState::Shutdown, shut: Channels::ALL, ..open };
        assert_eq!((latch.view(), latch.view_as(|| true)), (open, drilled));
        let later = GateView { epoch: 8, ..open };
        latch.set(later);
        assert_eq!((latch.view(), latch.view_as(|| true)), (later, GateView { epoch: 8, ..drilled }));
        latch.end_drill();
        assert_eq!(latch.view_as(|| true), later);
    }
}
