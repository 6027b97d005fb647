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
    /// Whether `next` is the latest day there was, and the budget is in it: then nothing turns. Its month is the latest
    /// too: whoever told the day told its month with it. Zeros nobody told: a budget begins with them.
    pub(super) fn is_latest(&self, next: i32, day: i32, month: i32) -> bool {
        let is_in_it = next == day && day == self.latest_day && month == self.latest_month;
        is_in_it && day != 0 && month != 0 && self.put_back.is_none()
    }

    /// The latest day there was, if it is more than a day after `today`: the clock was ahead, and was put back. A day of
    /// tolerance, because a clock wavers around midnight and a policy may name another time zone.
    pub(super) fn latest_day_after(&self, today: i32, day: i32) -> Option<i32> {
        let latest = self.latest_day.max(day);
        (latest > today.saturating_add(1)).then_some(latest)
    }

    /// In this day and month, as if there had never been a later one.
    pub(super) fn at(local: Local) -> Calendar {
        Calendar { latest_day: local.day, latest_month: local.month, put_back: None }
    }

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::{Millis, Zone};

    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    struct Book {
        calendar: Calendar,
        day: i32,
        month: i32,
    }

    impl Book {
        fn turn(&mut self, now: Now) -> Begins {
            let local = Zone::default().local(now.wall);
            self.calendar.turn(now, local, &mut self.day, &mut self.month)
        }
    }

    const DAY: i64 = 86_400_000;

    #[test]
    fn po_2_a_clock_that_begins_before_1970_comes_to_its_first_month() {
        let mut book = Book::default();
        let at = |wall| Now { mono: Millis(1), wall };
        book.turn(at(-DAY));
        assert!(!book.calendar.is_latest(Zone::default().day(0), book.day, book.month));
        assert!(book.turn(at(0)).month);
    }

    proptest! {
        /// Wherever the clock on the wall jumps: while the day is said to be the latest, nothing turns.
        #[test]
        fn po_2_the_latest_day_turns_nothing(
            begin in -400..400_i64,
            steps in prop::collection::vec((-40..40_i64, 0..DAY, 0..3 * DAY), 1..60),
        ) {
            let mut book = Book::default();
            let (mut mono, mut wall) = (0_u64, begin * DAY);
            for (days, part, passed) in steps {
                mono += passed.unsigned_abs();
                wall += if part % 3 == 0 { passed } else { days * DAY / 2 + part };
                let now = Now { mono: Millis(mono), wall };
                let is_latest = book.calendar.is_latest(Zone::default().day(wall), book.day, book.month);
                let before = book.clone();
                let begins = book.turn(now);
                if is_latest {
                    prop_assert_eq!(&book, &before);
                    prop_assert_eq!(begins, Begins { day: false, month: false });
                }
                // The moment after: mostly the same day.
                let again = book.calendar.is_latest(Zone::default().day(wall), book.day, book.month);
                let is_elsewhere = book.day != Zone::default().day(wall) || book.day == 0;
                prop_assert!(again || book.calendar.put_back.is_some() || is_elsewhere);
            }
        }
    }
}
