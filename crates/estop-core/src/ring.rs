//! A ring of bounded length and bounded memory.

use std::collections::VecDeque;

/// Pushes into a ring that holds at most `max`, growing its memory no further than that.
pub(crate) fn push_bounded<T>(ring: &mut VecDeque<T>, item: T, max: usize) {
    while ring.len() >= max.max(1) {
        ring.pop_front();
    }
    if ring.len() == ring.capacity() {
        let wanted = (ring.len() * 2).max(4).min(max.max(1));
        ring.reserve_exact(wanted - ring.len());
    }
    ring.push_back(item);
}
