//! Threads without which estop must not go on: if one panics, nothing passes.

use std::sync::Arc;

use estop_core::system::KillReason;
use estop_core::system::button::Press;

use crate::engine::Engine;

/// Held by such a thread for as long as it runs: the ones that look after time, and the one that cancels work at providers.
pub(crate) struct ShutIfPanicking(pub(crate) Arc<Engine>);

impl Drop for ShutIfPanicking {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.kill(Press::new(KillReason::Emergency, "a thread of estop broke", "estop"));
        }
    }
}
