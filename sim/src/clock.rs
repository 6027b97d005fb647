//! Two clocks that misbehave: the monotonic one stands still, goes back or leaps while the machine sleeps; the
//! one on the wall is set by hours, days and months, forwards and backwards.

use estop_core::time::{Millis, Now};

use crate::prng::Rng;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// 2025-11-15 00:00 UTC, a Saturday in the middle of a month.
const START_WALL_MS: i64 = 1_763_164_800_000;

/// The machine's clocks, as functions of simulated time.
#[derive(Clone, Debug)]
pub struct Clocks {
    /// What the monotonic clock is ahead of simulated time.
    ahead: u64,
    mood: Mood,
    /// When the mood ends, in simulated time.
    until: u64,
    /// What the wall clock is ahead of the monotonic one.
    wall_ahead: i64,
}

#[derive(Clone, Copy, Debug)]
enum Mood {
    Steady,
    StandsStill(u64),
    Behind(u64),
}

impl Clocks {
    /// Clocks that start at zero, shortly before 32 bits overflow, or decades in.
    pub fn new(rng: &mut Rng) -> Clocks {
        let ahead = rng.pick(&[0, u64::from(u32::MAX) - 300_000, 1_000_000_000_000]);
        Clocks { ahead, mood: Mood::Steady, until: 0, wall_ahead: START_WALL_MS - ahead as i64 }
    }

    /// What they show.
    pub fn now(&self, at: u64) -> Now {
        let true_mono = at + self.ahead;
        let mono = match self.mood {
            Mood::StandsStill(shown) if at < self.until => shown,
            Mood::Behind(by) if at < self.until => true_mono.saturating_sub(by),
            Mood::Steady | Mood::StandsStill(_) | Mood::Behind(_) => true_mono,
        };
        Now { mono: Millis(mono), wall: (true_mono as i64).saturating_add(self.wall_ahead) }
    }

    /// When the monotonic clock will show `mono`, if nothing odd happens.
    pub fn shows(&self, mono: Millis) -> u64 {
        mono.0.saturating_sub(self.ahead)
    }

    /// Something odd happens to a clock.
    pub fn disturb(&mut self, at: u64, rng: &mut Rng) {
        match rng.below(8) {
            0 => {
                self.mood = Mood::StandsStill(self.now(at).mono.0);
                self.until = at + rng.spread(100, 120_000);
            }
            1 => {
                self.mood = Mood::Behind(rng.spread(1, 3_600_000));
                self.until = at + rng.spread(100, 600_000);
            }
            // The machine slept: every timer is late by as much.
            2 => self.ahead += rng.spread(1_000, 12 * HOUR_MS as u64),
            3 => self.set_wall(rng.spread(1, HOUR_MS as u64) as i64, rng),
            4 => self.set_wall(rng.between(1, 30) as i64 * HOUR_MS, rng),
            5 => self.set_wall(rng.between(1, 5) as i64 * DAY_MS, rng),
            6 => self.set_wall(rng.between(20, 100) as i64 * DAY_MS, rng),
            // Somebody puts it right, more or less.
            _ => self.wall_ahead = START_WALL_MS + rng.between(0, 40) as i64 * DAY_MS - self.ahead as i64,
        }
    }

    fn set_wall(&mut self, by: i64, rng: &mut Rng) {
        self.wall_ahead += if rng.per_mille(500) { by } else { -by };
    }
}
