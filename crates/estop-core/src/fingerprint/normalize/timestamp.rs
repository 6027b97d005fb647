//! ISO 8601 dates and timestamps, as logs and APIs write them.
//!
//! Only plausible ones: `2024-13-45` is three numbers.

use super::Placeholder;
use super::id::HexRun;
use super::patterns::Found;
use super::text::Text;

/// `2024-01-15`, `2024-01-15T10:30`, `2024-01-15 10:30:00.123+01:00`, if `year` begins one.
pub(super) fn extended_at(text: &Text<'_>, year: HexRun) -> Option<Found> {
    if year.len() != 4 {
        return None;
    }
    let month = dash(text, year.end)?;
    let day = dash(text, pair_end(text, month, 1..=12)?)?;
    let date_end = last_digit(text, pair_end(text, day, 1..=31)?)?;
    let has_clock = matches!(text.byte(date_end), b'T' | b't' | b' ');
    let clock_end = if has_clock { clock_end(text, date_end + 1) } else { None };
    found(clock_end.unwrap_or(date_end))
}

/// `20240115T103000Z`, if `date` begins one.
pub(super) fn compact_at(text: &Text<'_>, date: HexRun) -> Option<Found> {
    if date.len() != 8 || !text.byte(date.end).eq_ignore_ascii_case(&b't') {
        return None;
    }
    let day = pair_end(text, date.start + 4, 1..=12)?;
    let date_end = pair_end(text, day, 1..=31)?;
    let minute = pair_end(text, date_end + 1, 0..=24)?;
    let second = pair_end(text, minute, 0..=59)?;
    let second_end = last_digit(text, pair_end(text, second, 0..=60)?)?;
    found(zone_end(text, fraction_end(text, second_end)))
}

fn found(end: usize) -> Option<Found> {
    Some(Found { placeholder: Placeholder::Timestamp, end })
}

/// `10:30`, `10:30:00`, `10:30:00.123Z`.
fn clock_end(text: &Text<'_>, at: usize) -> Option<usize> {
    let minute = colon(text, pair_end(text, at, 0..=24)?)?;
    let minute_end = last_digit(text, pair_end(text, minute, 0..=59)?)?;
    let second_end = colon(text, minute_end)
        .and_then(|second| pair_end(text, second, 0..=60))
        .and_then(|end| last_digit(text, end));
    Some(zone_end(text, second_end.map_or(minute_end, |end| fraction_end(text, end))))
}

/// The end of a fraction of a second at `at`, or `at`.
fn fraction_end(text: &Text<'_>, at: usize) -> usize {
    let is_fraction = matches!(text.byte(at), b'.' | b',') && text.byte(at + 1).is_ascii_digit();
    if is_fraction { text.digits_end(at + 1) } else { at }
}

/// The end of a time zone at `at`, or `at`: `Z`, `+01:00`, `-0800`.
fn zone_end(text: &Text<'_>, at: usize) -> usize {
    match text.byte(at) {
        b'Z' | b'z' if text.ends_word(at + 1) => at + 1,
        b'+' | b'-' => offset_end(text, at + 1).unwrap_or(at),
        _ => at,
    }
}

/// `01:00` or `0100`.
fn offset_end(text: &Text<'_>, at: usize) -> Option<usize> {
    let hour_end = pair_end(text, at, 0..=23)?;
    let minute = colon(text, hour_end).unwrap_or(hour_end);
    last_digit(text, pair_end(text, minute, 0..=59)?)
}

/// The end of a number of two digits within `range`.
fn pair_end(text: &Text<'_>, at: usize, range: std::ops::RangeInclusive<u8>) -> Option<usize> {
    let (tens, units) = (text.byte(at), text.byte(at + 1));
    if !tens.is_ascii_digit() || !units.is_ascii_digit() {
        return None;
    }
    range.contains(&((tens - b'0') * 10 + (units - b'0'))).then_some(at + 2)
}

/// `at` if the digits before it end there.
fn last_digit(text: &Text<'_>, at: usize) -> Option<usize> {
    (!text.byte(at).is_ascii_digit()).then_some(at)
}

/// What follows the dash at `at`.
fn dash(text: &Text<'_>, at: usize) -> Option<usize> {
    (text.byte(at) == b'-').then_some(at + 1)
}

/// What follows the colon at `at`.
fn colon(text: &Text<'_>, at: usize) -> Option<usize> {
    (text.byte(at) == b':').then_some(at + 1)
}
