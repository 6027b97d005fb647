//! Time zones as tables.

use estop_config::find_zone;
use estop_core::time::Zone;

/// `2026-07-01T12:00:00Z` and the like, as wall-clock milliseconds.
fn at(time: &str) -> i64 {
    time.parse::<jiff::Timestamp>().expect("a time").as_millisecond()
}

fn zone(name: &str) -> Zone {
    find_zone(name).expect(name)
}

#[test]
fn po_3_summer_time_comes_and_goes() {
    let berlin = zone("Europe/Berlin");
    let hour = |time| berlin.local(at(time)).minute / 60;
    assert_eq!(hour("2026-03-29T00:59:59Z"), 1);
    assert_eq!(hour("2026-03-29T01:00:00Z"), 3);
    assert_eq!(hour("2026-10-25T00:59:59Z"), 2);
    assert_eq!(hour("2026-10-25T01:00:00Z"), 2);
    assert_eq!(hour("2039-07-01T12:00:00Z"), 14, "until 2040");
    assert_eq!(berlin.changes.len(), 40, "two a year for twenty years");
}

#[test]
fn po_3_the_tables_agree_with_the_database_for_every_zone() {
    let database = jiff::tz::TimeZoneDatabase::bundled();
    let names: Vec<String> = database.available().map(|name| name.as_str().to_owned()).collect();
    assert!(names.len() > 400, "{}", names.len());
    let week_ms = 7 * 86_400_000;
    for name in names {
        let (table, original) = (zone(&name), database.get(&name).expect("listed"));
        assert!(table.changes.is_sorted_by(|a, b| a.0 < b.0), "{name}");
        let mut wall_ms = at("2020-01-01T00:00:00Z");
        while wall_ms < at("2040-01-01T00:00:00Z") {
            let timestamp = jiff::Timestamp::from_millisecond(wall_ms).expect("in range");
            let local = original.to_datetime(timestamp);
            let minute =
                u16::from(local.hour().unsigned_abs()) * 60 + u16::from(local.minute().unsigned_abs());
            assert_eq!(table.local(wall_ms).minute, minute, "{name} at {timestamp}");
            wall_ms += week_ms;
        }
    }
}

#[test]
fn po_3_names_are_found_in_any_case_and_kept_in_the_right_one() {
    assert_eq!(&*zone("europe/berlin").name, "Europe/Berlin");
    assert_eq!(zone("utc"), Zone::default());
    assert_eq!(zone("Asia/Kolkata").offset_s, 19_800);
    for unknown in ["", "Europe", "Berlin", "+02:00", "CET-1CEST", "../../etc/passwd", "Europe/Berlin\0"] {
        assert_eq!(find_zone(unknown), None, "{unknown:?}");
    }
}
