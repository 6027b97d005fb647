//! `retention:`, how long things are kept (ST-1, ST-3), and how often a proof test is due. Each is a number or `off`.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

use super::values::{Bytes, given, size_text};

/// `prooftest:`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ProoftestIn {
    #[serde(deserialize_with = "given")]
    pub(super) every_days: Option<KeepDays>,
}

/// `retention:`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RetentionIn {
    #[serde(deserialize_with = "given")]
    pub(super) journal_days: Option<KeepDays>,
    #[serde(deserialize_with = "given")]
    pub(super) journal_bytes: Option<KeepBytes>,
    #[serde(deserialize_with = "given")]
    pub(super) events_days: Option<KeepDays>,
    #[serde(deserialize_with = "given")]
    pub(super) cases_days: Option<KeepDays>,
    #[serde(deserialize_with = "given")]
    pub(super) evidence_days: Option<KeepDays>,
    #[serde(deserialize_with = "given")]
    pub(super) runs_days: Option<KeepDays>,
    #[serde(deserialize_with = "given")]
    pub(super) spend_days: Option<KeepDays>,
    #[serde(deserialize_with = "given")]
    pub(super) alerts_days: Option<KeepDays>,
    #[serde(deserialize_with = "given")]
    pub(super) access_days: Option<KeepDays>,
}

/// How long things are kept; `None` = for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Records of the journal.
    pub journal_days: Option<u32>,
    /// Bytes of records; beyond it the oldest go, however young.
    pub journal_bytes: Option<u64>,
    /// Events people look for.
    pub events_days: Option<u32>,
    /// Incidents and escalations that are closed.
    pub cases_days: Option<u32>,
    /// The steps before stops.
    pub evidence_days: Option<u32>,
    /// Runs that ended.
    pub runs_days: Option<u32>,
    /// What was spent, by day.
    pub spend_days: Option<u32>,
    /// Alerts that were delivered or given up.
    pub alerts_days: Option<u32>,
    /// Tokens and keys that were taken back or ended.
    pub access_days: Option<u32>,
}

/// Chosen: a quarter of a year of records, a little more than a year of what people compare; 16 GiB is some 15 million
/// records.
impl Default for Retention {
    fn default() -> Retention {
        Retention {
            journal_days: Some(90),
            journal_bytes: Some(16 << 30),
            events_days: Some(400),
            cases_days: Some(400),
            evidence_days: Some(30),
            runs_days: Some(400),
            spend_days: Some(800),
            alerts_days: Some(30),
            access_days: Some(400),
        }
    }
}

/// The defaults with what is given.
pub(super) fn retention(given: &RetentionIn) -> Retention {
    let usual = Retention::default();
    let days = |given: Option<KeepDays>, usual| given.map_or(usual, |days| days.0);
    Retention {
        journal_days: days(given.journal_days, usual.journal_days),
        journal_bytes: given.journal_bytes.map_or(usual.journal_bytes, |bytes| bytes.0),
        events_days: days(given.events_days, usual.events_days),
        cases_days: days(given.cases_days, usual.cases_days),
        evidence_days: days(given.evidence_days, usual.evidence_days),
        runs_days: days(given.runs_days, usual.runs_days),
        spend_days: days(given.spend_days, usual.spend_days),
        alerts_days: days(given.alerts_days, usual.alerts_days),
        access_days: days(given.access_days, usual.access_days),
    }
}

/// After how many days a proof test is due again. Chosen: a month, as for alarms that people rely on.
const PROOFTEST_EVERY_DAYS: u32 = 30;

/// The default, or what is given.
pub(super) fn prooftest_every_days(given: &ProoftestIn) -> Option<u32> {
    given.every_days.map_or(Some(PROOFTEST_EVERY_DAYS), |days| days.0)
}

/// A hundred years: more is a typing error.
const DAYS_MAX: u32 = 36_500;
const BYTES_MIN: u64 = 16 << 20;
const BYTES_MAX: u64 = 1 << 40;

/// Days, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeepDays(Option<u32>);

impl<'de> Deserialize<'de> for KeepDays {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(DaysVisitor)
    }
}

struct DaysVisitor;

impl Visitor<'_> for DaysVisitor {
    type Value = KeepDays;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number of days from 1 to {DAYS_MAX}, or off")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<KeepDays, E> {
        let days = u32::try_from(value).ok().filter(|days| (1..=DAYS_MAX).contains(days));
        days.map(|days| KeepDays(Some(days)))
            .ok_or_else(|| E::invalid_value(Unexpected::Unsigned(value), &self))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<KeepDays, E> {
        match u64::try_from(value) {
            Ok(value) => self.visit_u64(value),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(value), &self)),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<KeepDays, E> {
        Err(E::invalid_value(Unexpected::Float(value), &self))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<KeepDays, E> {
        if value == "off" {
            return Ok(KeepDays(None));
        }
        Err(E::invalid_value(Unexpected::Str(value), &self))
    }
}

/// Bytes, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeepBytes(Option<u64>);

impl<'de> Deserialize<'de> for KeepBytes {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(BytesVisitor)
    }
}

struct BytesVisitor;

impl BytesVisitor {
    fn read<E: Error>(&self, bytes: Result<Bytes, E>, found: Unexpected<'_>) -> Result<KeepBytes, E> {
        let bytes = bytes.ok().map(Bytes::get).filter(|bytes| (BYTES_MIN..=BYTES_MAX).contains(bytes));
        bytes.map(|bytes| KeepBytes(Some(bytes))).ok_or_else(|| E::invalid_value(found, self))
    }
}

impl Visitor<'_> for BytesVisitor {
    type Value = KeepBytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [min, max] = [BYTES_MIN, BYTES_MAX].map(size_text);
        write!(f, "a size from {min} to {max}, in bytes or with KiB, MiB, GiB or TiB, or off")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<KeepBytes, E> {
        let bytes = Bytes::deserialize(serde::de::value::U64Deserializer::<E>::new(value));
        self.read(bytes, Unexpected::Unsigned(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<KeepBytes, E> {
        match u64::try_from(value) {
            Ok(value) => self.visit_u64(value),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(value), &self)),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<KeepBytes, E> {
        Err(E::invalid_value(Unexpected::Float(value), &self))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<KeepBytes, E> {
        if value == "off" {
            return Ok(KeepBytes(None));
        }
        let bytes = Bytes::deserialize(serde::de::value::StrDeserializer::<E>::new(value));
        self.read(bytes, Unexpected::Str(value))
    }
}
