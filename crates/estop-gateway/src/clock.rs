//! The clock of the shell: where the core's `Now` comes from.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use estop_core::time::{Millis, Now};

/// Reads both clocks. Monotonic time counts from where the journal left off.
#[derive(Debug)]
pub struct Clock {
    start: Instant,
    /// What monotonic time was when this process began.
    from: Millis,
}

impl Clock {
    /// A clock that goes on counting from `from`.
    pub fn starting_at(from: Millis) -> Clock {
        Clock { start: Instant::now(), from }
    }

    /// Both clocks at this moment.
    pub fn now(&self) -> Now {
        // A wall clock before 1970 reads as 1970: only calendars use it.
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { mono: self.mono(), wall: i64::try_from(wall.as_millis()).unwrap_or(i64::MAX) }
    }

    /// Monotonic time alone.
    pub fn mono(&self) -> Millis {
        self.from.plus(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}
