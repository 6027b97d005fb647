//! Runs a piece of work several times and reports the best: the machine can only be slower than it is.

use std::time::{Duration, Instant};

/// The shortest of `rounds` runs.
pub fn best_of(rounds: usize, mut work: impl FnMut()) -> Duration {
    let time = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..rounds).map(|_| time(&mut work)).min().unwrap_or_default()
}

/// Nanoseconds for each of `count`.
pub fn ns_each(total: Duration, count: usize) -> f64 {
    total.as_nanos() as f64 / count.max(1) as f64
}
