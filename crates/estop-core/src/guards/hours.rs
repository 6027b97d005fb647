//! Allowed hours (PO-3): days and a span of the clock, also over midnight, in the policy's time zone.

use serde::Serialize;

use crate::judgement::Judgement;
use crate::policy::AllowedHours;

const MINUTES_PER_DAY: u32 = 1440;

/// What the clock on the wall showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HoursFinding {
    /// 0 = Monday … 6 = Sunday.
    pub weekday: u8,
    /// Minutes since midnight.
    pub minute: u16,
    /// Minutes until work is allowed; 0 = now; a week or more = never.
    pub opens_in_minutes: u32,
}

impl std::fmt::Display for HoursFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const DAYS: [&str; 7] =
            ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
        let day = DAYS[usize::from(self.weekday) % 7];
        let (hour, minute) = (self.minute / 60, self.minute % 60);
        if self.opens_in_minutes == 0 {
            return write!(f, "Within allowed hours ({day} {hour:02}:{minute:02}).");
        }
        let wait = self.opens_in_minutes;
        write!(
            f,
            "Outside allowed hours ({day} {hour:02}:{minute:02}). Allowed again in {} h {} min.",
            wait / 60,
            wait % 60
        )
    }
}

/// Whether it is time to work.
pub(crate) fn judge(hours: Option<&AllowedHours>, wall_ms: i64) -> Judgement<Option<HoursFinding>> {
    let Some(hours) = hours else { return Judgement::CLEAR };
    let local = hours.zone.local(wall_ms);
    let opens_in_minutes = opens_in(hours, local.weekday, local.minute);
    let finding = HoursFinding { weekday: local.weekday, minute: local.minute, opens_in_minutes };
    Judgement::stop_if(opens_in_minutes > 0, Some(finding))
}

/// Whether work is allowed at this time.
pub fn allow(hours: &AllowedHours, wall_ms: i64) -> bool {
    let local = hours.zone.local(wall_ms);
    is_open(hours, local.weekday, local.minute)
}

/// Minutes until the next allowed one; 0 if this one is.
fn opens_in(hours: &AllowedHours, weekday: u8, minute: u16) -> u32 {
    if is_open(hours, weekday, minute) {
        return 0;
    }
    // The next opening is a `from` on one of the next seven days.
    (0..=7)
        .map(|days| (u32::from(weekday) + days, days * MINUTES_PER_DAY + u32::from(hours.from_minute)))
        .filter(|(day, at)| has_day(hours, (day % 7) as u8) && *at > u32::from(minute))
        .map(|(_, at)| at - u32::from(minute))
        .next()
        .unwrap_or(7 * MINUTES_PER_DAY)
}

fn is_open(hours: &AllowedHours, weekday: u8, minute: u16) -> bool {
    let (from, to) = (hours.from_minute, hours.to_minute);
    if from < to {
        return has_day(hours, weekday) && (from..to).contains(&minute);
    }
    let yesterday = (weekday + 6) % 7;
    (has_day(hours, weekday) && minute >= from) || (has_day(hours, yesterday) && minute < to)
}

fn has_day(hours: &AllowedHours, weekday: u8) -> bool {
    hours.days & 1 << weekday != 0
}
