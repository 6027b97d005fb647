//! Room to read into, for all connections of a thread: what came is kept in as many bytes as it has. Ten thousand streams
//! may be open, and most of them silent.

use std::cell::RefCell;

/// Read at once.
pub(crate) const READ_MAX: usize = 64 << 10;

thread_local! {
    static ROOM: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_MAX].into());
}

/// Lends the room. Whoever has it reads and copies, and asks nobody else meanwhile.
pub(crate) fn with<R>(read: impl FnOnce(&mut [u8]) -> R) -> R {
    ROOM.with_borrow_mut(|room| read(room))
}
