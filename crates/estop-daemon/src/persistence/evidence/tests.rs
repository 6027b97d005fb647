//! Steps that a full disk has no room for: said, and written once it has.

use estop_store::{Meta, Sqlite, SqliteOptions, StoreError};

use super::*;

fn evidence(incident: &str) -> Evidence {
    let steps = Some(format!("{{\"steps\":[\"{}\"]}}", "x".repeat(60_000)));
    Evidence { incident: incident.into(), agent: "a".into(), stored_at: 1, steps, deleted: None }
}

#[test]
fn ev_1_of_what_is_only_watched_so_much_is_kept_and_no_more() {
    let mut quota = WatchedQuota::default();
    assert!(quota.admits("a", Millis(1)) && !quota.admits("a", Millis(WATCHED_EVERY_MS)));
    assert!(quota.admits("a", Millis(WATCHED_EVERY_MS + 1)));
    let admitted =
        (0..1_000).filter(|n| quota.admits(&format!("b{n}"), Millis(WATCHED_EVERY_MS + 2))).count();
    assert_eq!(admitted, WATCHED_PER_HOUR - 2);
    assert!(quota.latest.len() <= WATCHED_PER_HOUR);
    assert!(quota.admits("a", Millis(HOUR_MS)), "the next hour");
}

#[test]
fn ev_1_steps_that_a_full_disk_has_no_room_for_are_said_and_written_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = SqliteOptions { size_max_bytes: Some(1 << 20), ..SqliteOptions::default() };
    let store = Sqlite::open(&folder.path().join("estop.db"), options).expect("it opens");
    let filled = (0..100).find_map(|n| store.put_meta(&format!("fill {n}"), &"x".repeat(50_000)).err());
    assert_eq!(filled, Some(StoreError::Full));

    let (mut writer, log) = (EvidenceWriter::default(), StepLog::default());
    writer.save(&store, &log, evidence("i1"));
    let why = log.why_unsaved("i1").expect("it is said");
    assert!(why.contains(&StoreError::Full.to_string()) && why.contains("tries again"), "{why}");
    assert!(writer.again_at.is_some(), "and tried again");
    for n in 2..=UNSAVED_MAX + 2 {
        writer.save(&store, &log, evidence(&format!("i{n}")));
    }
    assert_eq!(writer.unsaved.len(), UNSAVED_MAX, "what waits is bounded");
    let why = log.why_unsaved("i1").expect("it is still said");
    assert!(why.contains("lost") && log.why_unsaved("i0").is_none(), "{why}");

    for n in 0..100 {
        store.put_meta(&format!("fill {n}"), "").expect("there is room again");
    }
    let first = writer.unsaved.pop_front().expect("it waits");
    writer.save(&store, &log, first);
    assert_eq!((log.why_unsaved("i3"), writer.unsaved.len()), (None, UNSAVED_MAX - 1));
    assert!(store.evidence("i3").expect("it reads").is_some_and(|kept| kept.steps.is_some()));
}
