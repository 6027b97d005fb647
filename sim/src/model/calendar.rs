//! Days, months and minutes, counted in another way than the core counts them.

use estop_core::policy::AllowedHours;
use estop_core::time::Zone;

/// What a calendar and a clock on the wall show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Local {
    /// Days since 1970-01-01.
    pub day: i64,
    /// Year × 12 + month.
    pub month: i64,
    /// 0 = Monday.
    pub weekday: u8,
    /// Since midnight.
    pub minute: u16,
}

/// 2000-01-01, where a cycle of 400 years begins.
const CYCLE_START_DAY: i64 = 10_957;
const CYCLE_DAYS: i64 = 146_097;

/// The calendar of a zone at a moment; `last` saves counting months again on the same day.
pub fn local(zone: &Zone, wall_ms: i64, last: Local) -> Local {
    let passed = zone.changes.iter().rev().find(|(from, _)| *from <= wall_ms);
    let offset_s = passed.map_or(zone.offset_s, |(_, offset_s)| *offset_s);
    let local_s = wall_ms.div_euclid(1000) + i64::from(offset_s);
    let day = local_s.div_euclid(86_400);
    Local {
        day,
        month: if day == last.day && last.month != 0 { last.month } else { month_of(day) },
        // Monday, 1970-01-05, is day 4.
        weekday: (day - 4).rem_euclid(7) as u8,
        minute: (local_s.rem_euclid(86_400) / 60) as u16,
    }
}

fn month_of(day: i64) -> i64 {
    let from_start = day - CYCLE_START_DAY;
    let mut year = 2000 + 400 * from_start.div_euclid(CYCLE_DAYS);
    let mut left = from_start.rem_euclid(CYCLE_DAYS);
    while left >= days_of_year(year) {
        left -= days_of_year(year);
        year += 1;
    }
    let mut month = 0;
    while left >= days_of_month(year, month) {
        left -= days_of_month(year, month);
        month += 1;
    }
    year * 12 + month
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of_year(year: i64) -> i64 {
    if is_leap(year) { 366 } else { 365 }
}

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        1 if is_leap(year) => 29,
        1 => 28,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

/// Whether work is allowed, by walking through the span minute by minute in thought.
pub fn is_open(hours: &AllowedHours, local: Local) -> bool {
    let length = (i32::from(hours.to_minute) - i32::from(hours.from_minute)).rem_euclid(1440);
    let length = if length == 0 { 1440 } else { length };
    // It is open if a span that began today or yesterday is not over.
    (0..=1).any(|days_ago| {
        let weekday = (i32::from(local.weekday) + 7 - days_ago) % 7;
        let since_start = i32::from(local.minute) + 1440 * days_ago - i32::from(hours.from_minute);
        hours.days >> weekday & 1 == 1 && (0..length).contains(&since_start)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_core_over_centuries() {
        let zone =
            Zone { name: "x".into(), offset_s: 3600, changes: vec![(0, 7200), (1_700_000_000_000, -36_000)] };
        let mut wall = -30_000_000_000_000_i64;
        while wall < 30_000_000_000_000 {
            let (ours, theirs) = (local(&zone, wall, Local::default()), zone.local(wall));
            assert_eq!((ours.day, ours.month), (theirs.day.into(), theirs.month.into()), "{wall}");
            assert_eq!((ours.weekday, ours.minute), (theirs.weekday, theirs.minute), "{wall}");
            wall += 7_654_321_987;
        }
    }
}
