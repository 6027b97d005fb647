//! The connections of a door: how many there may be, and which one gives its place to somebody who comes to press the button.

use std::collections::VecDeque;
use std::fs::File;

use estop_admin::ConnectionSlot;
use tokio::task::AbortHandle;

/// The connections of a door, oldest first. Whoever comes finds a place: when all are taken, one of those gives its own that
/// nobody with a right to be here has used, the oldest first; then one that is not being answered. Lines to supervisors keep
/// theirs, and take none of the others'.
pub(super) struct ConnectionSlots {
    taken: VecDeque<(AbortHandle, ConnectionSlot)>,
    max: usize,
    spare: ReservedFd,
}

impl ConnectionSlots {
    pub(super) fn new(max: usize) -> ConnectionSlots {
        ConnectionSlots { taken: VecDeque::new(), max: max.max(1), spare: ReservedFd::default() }
    }

    /// Gives a connection a place.
    pub(super) fn seat(&mut self, serve: impl FnOnce(ConnectionSlot) -> AbortHandle) {
        self.taken.retain(|(seated, _)| !seated.is_finished());
        if self.taken.iter().filter(|(_, seat)| !seat.is_kept()).count() >= self.max {
            self.close_one();
        }
        let seat = ConnectionSlot::default();
        let serving = serve(seat.clone());
        self.taken.push_back((serving, seat));
        self.spare.refill();
    }

    /// The process has no descriptor left: makes room for one more connection. `false` if there is nothing to give up.
    pub(super) fn make_room(&mut self) -> bool {
        self.taken.retain(|(seated, _)| !seated.is_finished());
        self.spare.release() || self.close_one()
    }

    /// Closes the connection that is missed least.
    fn close_one(&mut self) -> bool {
        let others = self.taken.iter().enumerate().filter(|(_, (_, seat))| !seat.is_kept());
        // Of equals the first, which is the oldest.
        let least = others.min_by_key(|(_, (_, seat))| seat.rank()).map(|(at, _)| at);
        let Some((serving, _)) = least.and_then(|at| self.taken.remove(at)) else { return false };
        serving.abort();
        true
    }
}

/// A descriptor that is held for nothing but to be given up when there is none for the next connection.
#[derive(Default)]
struct ReservedFd(Option<File>);

impl ReservedFd {
    fn refill(&mut self) {
        if self.0.is_none() {
            // Tried again after the next connection.
            self.0 = File::open("/dev/null").ok();
        }
    }

    fn release(&mut self) -> bool {
        self.0.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rig(max: usize) -> (tokio::runtime::Runtime, ConnectionSlots) {
        (tokio::runtime::Builder::new_current_thread().build().expect("a runtime"), ConnectionSlots::new(max))
    }

    #[test]
    fn ks_2_the_oldest_connection_gives_its_place() {
        let (runtime, mut places) = rig(2);
        let _inside = runtime.enter();
        let mut seats = Vec::new();
        for _ in 0..4 {
            places.seat(|seat| {
                seats.push(seat);
                runtime.spawn(std::future::pending::<()>()).abort_handle()
            });
        }
        assert_eq!(places.taken.len(), 2);
        runtime.block_on(tokio::task::yield_now());
        assert!(places.taken.iter().all(|(serving, _)| !serving.is_finished()), "the newest stay");
    }

    #[test]
    fn ks_2_without_descriptors_the_spare_goes_first_and_then_a_connection() {
        let (runtime, mut places) = rig(2);
        let _inside = runtime.enter();
        assert!(!places.make_room(), "nothing is held yet");
        places.seat(|_| runtime.spawn(std::future::pending::<()>()).abort_handle());
        assert!(places.make_room(), "the spare");
        assert_eq!(places.taken.len(), 1);
        assert!(places.make_room(), "the connection");
        assert!(places.taken.is_empty());
        assert!(!places.make_room());
    }
}
