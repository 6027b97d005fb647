//! Single values of a policy file. Each type accepts exactly what its key allows, so a wrong value is
//! refused where it stands and the reader of the file can say line and column.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// A value that stands in the file. A key without one could mean "none" as well as "not filled in yet".
pub(super) fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<T>, D::Error> {
    let value: Option<T> = Option::deserialize(d)?;
    value.map(Some).ok_or_else(|| D::Error::invalid_type(Unexpected::Unit, &"a value"))
}

/// A number times 10^`DECIMALS`, from `MIN` to `MAX` (both scaled too): `Number<u16, 1, 10, 500>` reads
/// `10.5` and holds 105. A fraction is never rounded: more decimals are refused.
///
/// Every range here has at most 15 digits, which a 64-bit float carries exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number<T, const DECIMALS: u32, const MIN: u64, const MAX: u64>(T);

/// `kill_switch_window_size`.
pub(super) type WindowSize = Number<u8, 0, 5, 100>;
/// `warning_threshold`, in basis points: more than 0, at most 1.
pub(super) type WarningBp = Number<u16, 4, 1, 10_000>;
/// `loop_window_size`: one output is not a row, and 20 is what the gate remembers.
pub(super) type LoopWindow = Number<u8, 0, 2, 20>;
/// A share between 0 and 1, neither of them, in thousandths.
pub(super) type OpenShare = Number<u16, 3, 1, 999>;
/// A share above 0, at most 1, in thousandths.
pub(super) type PositiveShare = Number<u16, 3, 1, 1000>;
/// A share from 0 to 1, in thousandths.
pub(super) type Share = Number<u16, 3, 0, 1000>;
/// Something counted each minute. A billion is beyond any real traffic, so more is a typing error.
pub(super) type Count = Number<u32, 0, 1, 1_000_000_000>;
/// Tokens. The maximum is what JSON readers still hold exactly.
pub(super) type Tokens = Number<u64, 0, 1, 1_000_000_000_000_000>;
/// US dollars in millionths, up to a hundred million dollars.
pub(super) type MicroUsd = Number<u64, 6, 1, 100_000_000_000_000>;
/// A wait in milliseconds, up to a day.
pub(super) type WaitMs = Number<u32, 0, 1, 86_400_000>;

impl<T: Copy, const DECIMALS: u32, const MIN: u64, const MAX: u64> Number<T, DECIMALS, MIN, MAX> {
    /// The scaled whole number.
    pub fn get(self) -> T {
        self.0
    }
}

impl<'de, T, const DECIMALS: u32, const MIN: u64, const MAX: u64> Deserialize<'de>
    for Number<T, DECIMALS, MIN, MAX>
where
    T: TryFrom<u64>,
{
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(NumberVisitor::<T, DECIMALS, MIN, MAX>(PhantomData)).map(Number)
    }
}

struct NumberVisitor<T, const DECIMALS: u32, const MIN: u64, const MAX: u64>(PhantomData<T>);

impl<T: TryFrom<u64>, const DECIMALS: u32, const MIN: u64, const MAX: u64> Visitor<'_>
    for NumberVisitor<T, DECIMALS, MIN, MAX>
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (min, max) = (Decimal(MIN, DECIMALS), Decimal(MAX, DECIMALS));
        match DECIMALS {
            0 => write!(f, "a whole number from {min} to {max}"),
            1 => write!(f, "a number from {min} to {max} with at most one decimal"),
            _ => write!(f, "a number from {min} to {max} with at most {DECIMALS} decimals"),
        }
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<T, E> {
        let scaled = value.checked_mul(10_u64.pow(DECIMALS));
        self.within(scaled).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(value), &self))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        match u64::try_from(value) {
            Ok(value) => self.visit_u64(value),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(value), &self)),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<T, E> {
        let scaled = if DECIMALS == 0 { None } else { scale(value, DECIMALS) };
        self.within(scaled).ok_or_else(|| E::invalid_value(Unexpected::Float(value), &self))
    }
}

impl<T: TryFrom<u64>, const DECIMALS: u32, const MIN: u64, const MAX: u64>
    NumberVisitor<T, DECIMALS, MIN, MAX>
{
    fn within(&self, scaled: Option<u64>) -> Option<T> {
        scaled.filter(|scaled| (MIN..=MAX).contains(scaled)).and_then(|scaled| T::try_from(scaled).ok())
    }
}

/// `kill_switch_threshold`, in tenths, 1–50. A score comes in tenths and trips when it is more than the threshold: what a
/// threshold has beyond its first decimal never decides, and is left off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThresholdTenths(u16);

impl ThresholdTenths {
    /// The threshold in tenths.
    pub fn get(self) -> u16 {
        self.0
    }

    /// Of a number as people write it; `None` if it is not from 1 to 50.
    pub fn of(value: f64) -> Option<ThresholdTenths> {
        let text = value.to_string();
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let first = fraction.get(..1).unwrap_or("0");
        let tenths = format!("{whole}{first}").parse().ok()?;
        (value <= 50.0 && (10..=500).contains(&tenths)).then_some(ThresholdTenths(tenths))
    }
}

impl<'de> Deserialize<'de> for ThresholdTenths {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let value = d.deserialize_any(ThresholdVisitor)?;
        ThresholdTenths::of(value)
            .ok_or_else(|| D::Error::invalid_value(Unexpected::Float(value), &ThresholdVisitor))
    }
}

struct ThresholdVisitor;

impl Visitor<'_> for ThresholdVisitor {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number from 1 to 50")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<f64, E> {
        let small = u32::try_from(value).map_err(|_| E::invalid_value(Unexpected::Unsigned(value), &self))?;
        Ok(f64::from(small))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<f64, E> {
        let small = u32::try_from(value).map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))?;
        Ok(f64::from(small))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<f64, E> {
        Ok(value)
    }
}

/// `value` times 10^`decimals`, if that is a whole number. `None` for negatives, NaN and infinities.
///
/// Goes through the shortest decimal text that reads back as `value`, which is what the user typed:
/// 0.29 becomes 29 hundredths, where a multiplication would give 28.999….
fn scale(value: f64, decimals: u32) -> Option<u64> {
    let text = value.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let missing = (decimals as usize).checked_sub(fraction.len())?;
    format!("{whole}{fraction}{}", "0".repeat(missing)).parse().ok()
}

/// A scaled number as people write it: `Decimal(105, 1)` is `10.5`.
pub(super) struct Decimal(pub(super) u64, pub(super) u32);

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = 10_u64.pow(self.1);
        let (whole, fraction) = (self.0 / unit, self.0 % unit);
        if fraction == 0 {
            return write!(f, "{whole}");
        }
        let digits = format!("{fraction:0width$}", width = self.1 as usize);
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

/// A time of day as minutes since midnight, at most `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock<const MAX: u16>(u16);

/// When allowed hours begin: 00:00–23:59.
pub(super) type ClockFrom = Clock<1439>;
/// When they end: 00:00–24:00.
pub(super) type ClockTo = Clock<1440>;

impl<const MAX: u16> Clock<MAX> {
    /// Minutes since midnight.
    pub fn minute(self) -> u16 {
        self.0
    }
}

impl<'de, const MAX: u16> Deserialize<'de> for Clock<MAX> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_str(ClockVisitor)
    }
}

struct ClockVisitor<const MAX: u16>;

impl<const MAX: u16> Visitor<'_> for ClockVisitor<MAX> {
    type Value = Clock<MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a time from \"00:00\" to \"{}\"", clock_text(MAX))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Clock<MAX>, E> {
        minute_of_day(value)
            .filter(|minute| *minute <= MAX)
            .map(Clock)
            .ok_or_else(|| E::invalid_value(Unexpected::Str(value), &self))
    }
}

/// `08:05`; also used in messages.
pub(super) fn clock_text(minute: u16) -> String {
    format!("{:02}:{:02}", minute / 60, minute % 60)
}

fn minute_of_day(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let two_digits = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    if !two_digits(hour) || !two_digits(minute) {
        return None;
    }
    let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
    (minute < 60).then_some(hour * 60 + minute)
}

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Day {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

/// Days of the week, at least one; bit 0 is Monday.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Days(u8);

impl Days {
    /// Every day.
    pub const ALL: Days = Days(0b111_1111);

    /// Bit 0 = Monday … bit 6 = Sunday.
    pub fn bits(self) -> u8 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Days {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let days: Vec<Day> = Vec::deserialize(d)?;
        if days.is_empty() {
            return Err(D::Error::invalid_value(Unexpected::Seq, &"a list of at least one day"));
        }
        Ok(Days(days.into_iter().fold(0, |bits, day| bits | 1 << day as u8)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_become_whole_numbers_without_rounding() {
        assert_eq!(scale(0.29, 2), Some(29));
        assert_eq!(scale(12.5, 6), Some(12_500_000));
        assert_eq!(scale(99_999_999.999_999, 6), Some(99_999_999_999_999));
        assert_eq!(scale(0.000_000_1, 6), None);
        assert_eq!(scale(1e300, 6), None);
        for refused in [-1.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(scale(refused, 3), None, "{refused}");
        }
    }

    #[test]
    fn numbers_keep_to_their_range_and_decimals() {
        let read = |json: &str| serde_json::from_str::<ThresholdTenths>(json).ok().map(ThresholdTenths::get);
        assert_eq!(read("1"), Some(10));
        assert_eq!(read("10.0"), Some(100));
        assert_eq!(read("10.5"), Some(105));
        assert_eq!(read("50"), Some(500));
        assert_eq!(read("10.55"), Some(105), "what is beyond the first decimal decides nothing");
        assert_eq!(read("10.99999"), Some(109));
        for refused in ["0.99", "50.1", "50.01", "-10", "1e300", "\"10\"", "null", "18446744073709551615"] {
            assert_eq!(read(refused), None, "{refused}");
        }
        assert!(serde_json::from_str::<WindowSize>("20.0").is_err(), "a whole number has no point");
    }

    #[test]
    fn times_are_two_digits_each() {
        let read = |text: &str| minute_of_day(text);
        assert_eq!(read("08:05"), Some(485));
        assert_eq!(read("24:00"), Some(1440));
        for refused in ["8:00", "08:60", "+8:00", "0800", "", ":", "08:00:00"] {
            assert_eq!(read(refused), None, "{refused}");
        }
    }
}
