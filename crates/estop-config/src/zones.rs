//! Time zones, from the database compiled into the binary: the same on every machine.

use std::sync::LazyLock;

use estop_core::time::Zone;
use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;

use super::suggest::closest;

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// 2020-01-01 UTC. Journals are younger; earlier moments have the offset of that day.
const FIRST_SECOND: i64 = 1_577_836_800;
/// 2040-01-01 UTC. Later moments have the offset of that day; until then rules change anyway.
const END_SECOND: i64 = 2_208_988_800;

/// The zone of an IANA name, any case, with every change of its offset from 2020 until 2040.
pub fn find(name: &str) -> Option<Zone> {
    let zone = DATABASE.get(name).ok()?;
    let name = zone.iana_name().unwrap_or(name);
    let first = Timestamp::from_second(FIRST_SECOND).ok()?;

    let offset_s = zone.to_offset(first).seconds();
    let mut changes = Vec::new();
    let mut offset_before_s = offset_s;
    for change in zone.following(first).take_while(|change| change.timestamp().as_second() < END_SECOND) {
        let offset_s = change.offset().seconds();
        if offset_s != offset_before_s {
            changes.push((change.timestamp().as_millisecond(), offset_s));
        }
        offset_before_s = offset_s;
    }
    Some(Zone { name: name.into(), offset_s, changes })
}

/// The name that is probably meant; a city alone will do.
pub(super) fn suggest(name: &str) -> Option<String> {
    let names: Vec<String> = DATABASE.available().map(|name| name.as_str().to_owned()).collect();
    if let Some(name) = closest(name, names.iter().map(String::as_str)) {
        return Some(name.to_owned());
    }
    let city = |name: &str| name.rsplit('/').next().unwrap_or(name).to_owned();
    let cities: Vec<String> = names.iter().map(|name| city(name)).collect();
    let meant = closest(&city(name), cities.iter().map(String::as_str))?;
    names.into_iter().find(|name| city(name) == meant)
}
