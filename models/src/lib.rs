//! estop-models: the gate's own files, compiled over loom's atomics and locks, so that their races can be tried in every
//! order (KS-2). `tests/` has the models; nothing here is part of the product.

#![allow(dead_code, unreachable_pub, reason = "the product's files, of which a model uses a part")]

#[path = "../../crates/estop-gateway/src/emergency_stop/gate_word.rs"]
pub mod gate_word;
#[path = "../../crates/estop-gateway/src/emergency_stop/registry.rs"]
mod registry_file;

/// What the files are built of here.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
    pub(crate) use loom::sync::{Mutex, MutexGuard};
    pub(crate) use std::sync::{Arc, PoisonError};
}

pub mod gate {
    //! A gate with requests before it, as `channels/llm.rs` and `engine/switch.rs` use the latch and the registry.

    use std::sync::Arc;

    use estop_core::system::{Channel, Channels, GateView, SystemState};
    use loom::sync::atomic::{AtomicBool, Ordering};

    use crate::gate_word::GateWord;
    use crate::registry_file::Registry;

    /// One request: whether it was cut.
    struct Request {
        cut: AtomicBool,
    }

    /// The gate, and whether the kill was acknowledged.
    pub struct Gate {
        latch: GateWord,
        requests: Arc<Registry<Request>>,
        acknowledged: AtomicBool,
    }

    impl Gate {
        /// An open gate.
        pub fn open() -> Gate {
            let open = GateView { epoch: 1, ..GateView::OPEN };
            Gate {
                latch: GateWord::new(open, Channels::NONE),
                requests: Arc::new(Registry::new()),
                acknowledged: AtomicBool::new(false),
            }
        }

        /// A request: registers, reads the gate, and is forwarded. Once a kill was acknowledged, a request at its
        /// upstream that nobody cut is the thing that must never be.
        pub fn request(&self) {
            let request = Request { cut: AtomicBool::new(false) };
            let Some(request) = self.requests.register(request, usize::MAX) else { return };
            if !self.latch.view().lets_pass(Channel::Llm) {
                return;
            }
            if self.acknowledged.load(Ordering::SeqCst) {
                assert!(request.cut.load(Ordering::SeqCst), "forwarded after the kill, and not cut");
            }
        }

        /// A kill: shuts the gate, cuts what is registered, and says so.
        pub fn kill(&self, epoch: u64) {
            self.shut(epoch);
            self.cut();
            self.acknowledged.store(true, Ordering::SeqCst);
        }

        /// The same in the wrong order: for the proof that the model sees the race.
        pub fn kill_the_wrong_way_round(&self, epoch: u64) {
            self.cut();
            self.shut(epoch);
            self.acknowledged.store(true, Ordering::SeqCst);
        }

        /// What the gate word says.
        pub fn view(&self) -> GateView {
            self.latch.view()
        }

        fn shut(&self, epoch: u64) {
            self.latch.set(GateView { epoch, state: SystemState::Shutdown, shut: Channels::ALL });
        }

        fn cut(&self) {
            self.requests.for_each(|request| request.cut.store(true, Ordering::SeqCst));
        }
    }
}
