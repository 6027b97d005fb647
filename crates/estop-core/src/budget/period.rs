//! Which day and month a budget is in. No period begins twice, whatever the clock on the wall does.
//!
//! A clock that wavers around midnight stays in the later period. One that is put back further is followed, because it
//! may have been years ahead; what was spent stays, and up to the latest period ever seen a new one begins only where
//! the clock came to it by ticking. One that jumps back and forth again renews nothing.

use serde::{Deserialize, Serialize};

use crate::time::{Local, Now};

/// How much further than time the clock on the wall may go and still be said to tick: corrections and a summer time.
const TICKING_SLACK_MS: i64 = 2 * 3_600_000;

/// Where the calendar of a budget has been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Calendar {
    latest_day: i32,
    latest_month: i32,
    /// When the clock was put back, or jumped since; `None` while it is as late as ever.
    put_back: Option<Now>,
}

/// Which periods begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begins {
    pub(super) day: bool,
    pub(super) month: bool,
}

impl Calendar {
    /// The clocks show another moment: goes on to its day and month.
    pub(super) fn turn(&mut self, now: Now, local: Local, day: &mut i32, month: &mut i32) -> Begins {
        let ticks = self.put_back.is_none_or(|from| ticked(from, now));
        let day_turns = turn(day, &mut self.latest_day, local.day, ticks);
        let month_turns = turn(month, &mut self.latest_month, local.month, ticks);
        let moved = |turned| turned == Turned::Back || (turned == Turned::On && !ticks);
        if moved(day_turns) || moved(month_turns) {
            self.put_back = Some(now);
        } else if (*day, *month) == (self.latest_day, self.latest_month) {
            self.put_back = None;
        }
        Begins { day: day_turns == Turned::Begins, month: month_turns == Turned::Begins }
    }
}

/// Whether the clock on the wall went on with time, and did not jump.
fn ticked(from: Now, now: Now) -> bool {
    let passed = i64::try_from(now.mono.since(from.mono)).unwrap_or(i64::MAX);
    now.wall.saturating_sub(from.wall) <= passed.saturating_add(TICKING_SLACK_MS)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turned {
    /// Nothing changes.
    Stays,
    /// The clock was put back, and is followed.
    Back,
    /// It goes on, and what was spent stays.
    On,
    /// A new period.
    Begins,
}

fn turn(period: &mut i32, latest: &mut i32, next: i32, ticks: bool) -> Turned {
    // A state of an older estop knows only the period it was in.
    *latest = (*latest).max(*period);
    if next == *period || next == period.saturating_sub(1) {
        return Turned::Stays;
    }
    let turned = if next > *latest || (next > *period && next < *latest && ticks) {
        Turned::Begins
    } else if next < *period {
        Turned::Back
    } else {
        Turned::On
    };
    *latest = (*latest).max(next);
    *period = next;
    turned
}
