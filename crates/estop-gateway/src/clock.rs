//! The clock of the shell: where the core's `Now` comes from.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use estop_core::time::{Millis, Now};

/// Reads both clocks. Monotonic time counts from where the journal left off.
#[derive(Debug)]
pub struct Clock {
    start: Instant,
    /// What monotonic time was when this process began.
    from: Millis,
    /// What anybody last read.
    last: AtomicU64,
    /// What the clock on the wall said then. Only calendars use it: it is read when a millisecond begins, and not twice
    /// for each request.
    wall: AtomicI64,
    /// How far a test put it ahead.
    #[cfg(test)]
    ahead: AtomicU64,
}

impl Clock {
    /// A clock that goes on counting from `from`.
    pub fn starting_at(from: Millis) -> Clock {
        Clock {
            start: Instant::now(),
            from,
            last: AtomicU64::new(from.0),
            wall: AtomicI64::new(wall()),
            #[cfg(test)]
            ahead: AtomicU64::new(0),
        }
    }

    /// Lets time pass at once.
    #[cfg(test)]
    pub(crate) fn skip(&self, ms: u64) {
        self.ahead.fetch_add(ms, Ordering::Relaxed);
    }

    /// Both clocks at this moment.
    pub fn now(&self) -> Now {
        Now { mono: self.mono(), wall: self.wall_coarse() }
    }

    /// Monotonic time alone.
    pub fn mono(&self) -> Millis {
        let now = self.from.plus(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX));
        #[cfg(test)]
        let now = now.plus(self.ahead.load(Ordering::Relaxed));
        // Written once a millisecond at most, so that threads do not take it from each other all the time.
        if self.last.load(Ordering::Relaxed) < now.0 {
            self.wall.store(wall(), Ordering::Relaxed);
            self.last.store(now.0, Ordering::Relaxed);
        }
        now
    }

    /// Monotonic time as it was last read by anybody: by whoever received the latest bytes of any connection, and by
    /// the sweeper four times a second. For limits in seconds, where reading the clock would cost more than it tells.
    pub fn now_coarse(&self) -> Millis {
        Millis(self.last.load(Ordering::Relaxed))
    }

    /// What the clock on the wall said then, in milliseconds since 1970.
    pub(crate) fn wall_coarse(&self) -> i64 {
        self.wall.load(Ordering::Relaxed)
    }
}

/// What the clock on the wall says, in milliseconds since 1970; before that it reads as 1970.
fn wall() -> i64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(wall.as_millis()).unwrap_or(i64::MAX)
}
