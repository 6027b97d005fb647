//! The clock on the wall: budgets, opening hours and the journal go by it.

use std::path::Path;
use std::time::UNIX_EPOCH;

use estop_config::ServeConfig;
use estop_journal::Record;
use estop_store::segments::{JOURNAL_FOLDER, JournalReader};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::{Area, Finding};

const AREA: Area = Area("clock");
const DAY_MS: i64 = 24 * 3600 * 1000;
/// Clocks of machines that share a disk differ by this much at most; more was set by hand.
const SLACK_MS: i64 = 60 * 1000;

pub(super) fn check(folder: &Path, config: Option<&ServeConfig>) -> Vec<Finding> {
    let now = Timestamp::now().as_millisecond();
    vec![judge(now, newest_record(folder), config.and_then(date_of_prices), date_of_program())]
}

/// Moments that must be over, against the clock.
fn judge(now: i64, record: Option<i64>, prices: Option<i64>, program: Option<i64>) -> Finding {
    let fix = "set the clock, e.g. with `timedatectl set-ntp true`";
    let is_over = |at: Option<i64>, slack: i64| at.is_none_or(|at| at <= now.saturating_add(slack));
    if let (Some(at), false) = (record, is_over(record, SLACK_MS)) {
        let (at, now) = (shown(at), shown(now));
        return AREA.wrong(format!("it says {now}, but the newest record of the journal is of {at}"), fix);
    }
    // A date is a day long, and begins earlier in the east.
    if !is_over(prices, DAY_MS) || !is_over(program, SLACK_MS) {
        return AREA.wrong(format!("it says {}, which is before this estop was made", shown(now)), fix);
    }
    AREA.ok(format!("it says {}, after everything that is known to be over", shown(now)))
}

fn shown(at: i64) -> String {
    Timestamp::from_millisecond(at)
        .map_or_else(|_| at.to_string(), |at| at.strftime("%Y-%m-%d %H:%M:%SZ").to_string())
}

/// When the newest record was written; `None` if there is none, or it cannot be read.
fn newest_record(folder: &Path) -> Option<i64> {
    let mut newest = None;
    let read = JournalReader::new(&folder.join(JOURNAL_FOLDER)).back(u64::MAX, |_| None, &mut |line, _| {
        newest = Record::parse(line).ok().map(|record| record.now.wall);
        false
    });
    read.ok().and(newest)
}

fn date_of_prices(config: &ServeConfig) -> Option<i64> {
    let date: Date = config.prices.as_of().parse().ok()?;
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond())
}

/// When this program was put here.
fn date_of_program() -> Option<i64> {
    let changed = std::env::current_exe().ok()?.metadata().ok()?.modified().ok()?;
    i64::try_from(changed.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn ui_2_a_clock_that_was_set_back_is_noticed() {
        let now = 1_800_000_000_000;
        let level = |record, prices, program| judge(now, record, prices, program).level;
        assert_eq!(level(None, None, None), Level::Ok);
        assert_eq!(level(Some(now + SLACK_MS), Some(now), Some(now)), Level::Ok);
        assert_eq!(level(Some(now + SLACK_MS + 1), None, None), Level::Wrong);
        assert_eq!(level(None, Some(now + DAY_MS + 1), None), Level::Wrong);
        assert_eq!(level(None, None, Some(now + SLACK_MS + 1)), Level::Wrong);
    }
}
