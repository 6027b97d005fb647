//! From when to when a list is shown, and how its place in the journal is found: by halves, since records come in order of time.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use crate::problem::Problem;

/// From when to when, both included; in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimeRange {
    /// Nothing older, in milliseconds since 1970.
    pub(crate) from: Option<i64>,
    /// Nothing later.
    pub(crate) to: Option<i64>,
}

impl TimeRange {
    /// As a browser's fields write it, by days, or as moments (RFC 3339).
    pub(crate) fn read(from: &str, to: &str) -> Result<TimeRange, Problem> {
        Ok(TimeRange { from: read("from", from, false)?, to: read("to", to, true)? })
    }

    /// Whether it is in this.
    pub(crate) fn has(&self, wall: i64) -> bool {
        !self.is_past(wall) && !self.is_ahead(wall)
    }

    /// Whether it is older than all of this.
    pub(crate) fn is_past(&self, wall: i64) -> bool {
        self.from.is_some_and(|from| wall < from)
    }

    /// Whether it is later than all of this.
    pub(crate) fn is_ahead(&self, wall: i64) -> bool {
        self.to.is_some_and(|to| wall > to)
    }
}

fn read(field: &'static str, text: &str, is_end: bool) -> Result<Option<i64>, Problem> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(Some(moment.as_millisecond()));
    }
    let wrong = || {
        Problem::field(
            field,
            "must be a day or a minute in UTC (2026-11-19 or 2026-11-19T03:30), or a moment as 2026-11-19T03:30:00Z",
        )
    };
    let at = match (text.len(), is_end) {
        (10, false) => text.parse::<Date>().map_err(|_| wrong())?.at(0, 0, 0, 0),
        (10, true) => text.parse::<Date>().map_err(|_| wrong())?.at(23, 59, 59, 999_000_000),
        // A minute is meant to its end.
        (16, true) => format!("{text}:59.999").parse::<DateTime>().map_err(|_| wrong())?,
        (16..=23, _) => text.parse::<DateTime>().map_err(|_| wrong())?,
        _ => return Err(wrong()),
    };
    at.to_zoned(TimeZone::UTC).map(|at| Some(at.timestamp().as_millisecond())).map_err(|_| wrong())
}

/// A number such that no record before it is later than `to`, and those that are have this one or a higher. `newest_before` gives
/// number and time of the newest record before a number. It is asked some fifty times, however long the journal is. Where the
/// clock was set back meanwhile, records before that may be left out.
pub(crate) fn place_of(
    to: i64,
    last: u64,
    mut newest_before: impl FnMut(u64) -> Result<Option<(u64, i64)>, Problem>,
) -> Result<u64, Problem> {
    // Up to `low` all is fine; from `high` on nothing is known to be.
    let (mut low, mut high) = (0, last.saturating_add(1));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        match newest_before(middle)? {
            Some((seq, wall)) if wall > to => high = seq.min(middle - 1),
            Some(_) | None => low = middle,
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;

    #[test]
    fn ui_1_a_time_range_is_read_to_the_minute_and_nothing_else_is() {
        let range = |from, to| TimeRange::read(from, to).ok();
        let both = |from, to| Some(TimeRange { from: Some(from), to: Some(to) });
        assert_eq!(range("1970-01-02", "1970-01-02"), both(DAY, 2 * DAY - 1));
        assert_eq!(range("1970-01-02T00:01", "1970-01-02T00:01"), both(DAY + 60_000, DAY + 119_999));
        assert_eq!(
            range("1970-01-02T00:01:02.5Z", "1970-01-02T02:00+01:00"),
            both(DAY + 62_500, DAY + 3_600_000)
        );
        assert_eq!(range("", " "), Some(TimeRange::default()));
        for wrong in ["yesterday", "1970-13-01", "1970-01-02T25:00", "1970-01-02T00:01Z'--", "-"] {
            assert_eq!(range(wrong, ""), None, "{wrong}");
            assert_eq!(range("", wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ui_1_a_place_in_time_is_found_in_few_looks() {
        // Each third record is the agent's; one a second.
        let newest =
            |before: u64| (1..before).rev().find(|seq| seq % 3 == 0).map(|seq| (seq, seq as i64 * 1_000));
        for (to, expected) in
            [(-1, 3), (0, 3), (3_000, 6), (5_999, 6), (299_000, 300), (300_000, 301), (999_000, 301)]
        {
            let mut looks = 0;
            let place = place_of(to, 300, |before| {
                looks += 1;
                Ok(newest(before))
            });
            assert_eq!(place.ok(), Some(expected), "{to}");
            assert!(looks < 20, "{looks}");
        }
        assert_eq!(place_of(5, 0, |_| Ok(None)).ok(), Some(1), "an empty journal");
    }
}
