//! Time as the core sees it: numbers that arrive with each event.
//!
//! Two clocks. *Monotonic* milliseconds measure durations and never go back; they go on counting over
//! restarts (the shell sees to it). *Wall* milliseconds since 1970 say which day and hour it is.

use serde::{Deserialize, Serialize};

/// Monotonic milliseconds since the journal began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// Milliseconds from `earlier` to here; 0 if `earlier` is later.
    pub fn since(self, earlier: Millis) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment `ms` later.
    pub fn plus(self, ms: u64) -> Millis {
        Millis(self.0.saturating_add(ms))
    }
}

/// The two clocks at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Now {
    /// Monotonic milliseconds since the journal began.
    pub mono: Millis,
    /// Wall-clock milliseconds since 1970-01-01 UTC.
    pub wall: i64,
}

/// A time zone, resolved when the policy was loaded: offsets and the moments they change.
///
/// The core has no time-zone database, so that a journal replays the same on a machine with another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// IANA name, or `UTC`.
    pub name: Box<str>,
    /// Seconds east of UTC before the first change.
    pub offset_s: i32,
    /// `(wall ms, seconds east of UTC from then on)`, in order of time.
    pub changes: Vec<(i64, i32)>,
}

impl Default for Zone {
    fn default() -> Self {
        Zone { name: "UTC".into(), offset_s: 0, changes: Vec::new() }
    }
}

/// What a calendar and a clock on the wall in one zone show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    /// Days since 1970-01-01.
    pub day: i32,
    /// Months since January of year 0.
    pub month: i32,
    /// 0 = Monday … 6 = Sunday.
    pub weekday: u8,
    /// Minutes since midnight, 0–1439.
    pub minute: u16,
}

const MS_PER_DAY: i64 = 86_400_000;

impl Zone {
    /// The calendar of this zone at a wall-clock moment.
    pub fn local(&self, wall_ms: i64) -> Local {
        let local_ms = self.local_ms(wall_ms);
        let day = local_ms.div_euclid(MS_PER_DAY);
        Local {
            day: short(day),
            month: short(month_of(day)),
            // 1970-01-01 was a Thursday.
            weekday: (day + 3).rem_euclid(7) as u8,
            minute: (local_ms.rem_euclid(MS_PER_DAY) / 60_000) as u16,
        }
    }

    /// The day alone, which is quickly told.
    pub(crate) fn day(&self, wall_ms: i64) -> i32 {
        short(self.local_ms(wall_ms).div_euclid(MS_PER_DAY))
    }

    fn local_ms(&self, wall_ms: i64) -> i64 {
        let passed = self.changes.partition_point(|(from, _)| *from <= wall_ms);
        let offset_s = if passed == 0 { self.offset_s } else { self.changes[passed - 1].1 };
        wall_ms.saturating_add(i64::from(offset_s) * 1000)
    }
}

/// `2036-06-01`, of days since 1970-01-01.
pub fn date(day: i32) -> String {
    let (month, day_of_month) = civil(i64::from(day));
    format!("{:04}-{:02}-{day_of_month:02}", month.div_euclid(12), month.rem_euclid(12) + 1)
}

/// A wall clock of 64-bit milliseconds is at most 10^11 days out; nobody's calendar goes there.
fn short(period: i64) -> i32 {
    period.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}

fn month_of(day: i64) -> i64 {
    civil(day).0
}

/// Months since January of year 0 and the day of the month, by the proleptic Gregorian calendar (Howard Hinnant's
/// civil-from-days).
fn civil(day: i64) -> (i64, i64) {
    let z = day.saturating_add(719_468);
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    ((era * 400 + year_of_era) * 12 + month_from_march + 2, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendar_knows_leap_years_weekdays_and_months() {
        let utc = Zone::default();
        // 2024-02-29 23:59 UTC was a Thursday.
        let leap = utc.local(1_709_251_140_000);
        assert_eq!((leap.weekday, leap.minute, leap.month), (3, 1439, 2024 * 12 + 1));
        let march = utc.local(1_709_251_200_000);
        assert_eq!((march.weekday, march.minute, march.month), (4, 0, 2024 * 12 + 2));
        assert_eq!(utc.local(-1).day, -1);
        assert_eq!([date(leap.day), date(march.day)], ["2024-02-29", "2024-03-01"]);
        assert_eq!([date(0), date(-1), date(24_258)], ["1970-01-01", "1969-12-31", "2036-06-01"]);
    }

    #[test]
    fn offset_changes_at_its_moment() {
        // Berlin, 2024-03-31 01:00 UTC: +1 h becomes +2 h.
        let berlin =
            Zone { name: "Europe/Berlin".into(), offset_s: 3600, changes: vec![(1_711_846_800_000, 7200)] };
        assert_eq!(berlin.local(1_711_846_799_999).minute, 119);
        assert_eq!(berlin.local(1_711_846_800_000).minute, 180);
    }
}
