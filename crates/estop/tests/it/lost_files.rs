//! Files of a data directory that are gone, damaged or half put back: nothing passes, nothing more is lost, and it is said.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use crate::house::{House, ask_with};
use crate::written_journal::WrittenJournal;
use estop_store::{Ledger, SpendBy, SpendQuery};

const DATABASE: [&str; 3] = ["estop.db", "estop.db-wal", "estop.db-shm"];

/// Moves what is there of a database.
fn move_database(from: &Path, to: &Path) {
    for name in DATABASE.into_iter().filter(|name| from.join(name).exists()) {
        std::fs::rename(from.join(name), to.join(name)).unwrap();
    }
}

/// A start finds it untrusted: nothing passes, and it says why.
fn starts_shut(house: &House, why: &str) {
    let seen = house.model.requests();
    let estop = house.start();
    assert_ne!(estop.ask("a", "Hello").unwrap().0, 200);
    assert_eq!(house.model.requests(), seen, "the model was asked");
    // It has the data directory, as one that works.
    house.estop(&["serve", "--config", "estop.yaml"]).is(2, "is in use by another estop");
    house.estop(&["restore", "copy.tar"]).is(1, "is in use");
    house.estop(&["doctor"]).is(1, why);
    // Its owner is told why by any command, and none opens the gate.
    house.estop(&["status"]).is(1, why);
    house.estop(&["emergency", "restart"]).is(1, why);
    estop.end();
}

#[test]
fn st_1_a_database_that_is_gone_is_made_anew_from_the_journal() {
    let house = House::new("");
    let estop = house.start();
    (0..3).for_each(|n| assert_eq!(estop.ask("a", &format!("early {n}")).unwrap().0, 200));
    assert_eq!(estop.ask("stopped", "Hello").unwrap().0, 200);
    house.estop(&["agents", "deactivate", "stopped"]).is(0, "");
    estop.end();
    let estop = house.start();
    (0..5).for_each(|n| assert_eq!(estop.ask("a", &format!("late {n}")).unwrap().0, 200));
    estop.kill_9();
    let away = tempfile::tempdir().unwrap();
    move_database(&house.data(), away.path());
    let estop = house.start();
    assert_eq!(estop.ask("a", "and one more").unwrap().0, 200);
    assert_eq!(estop.ask("stopped", "Hello").unwrap().0, 400, "it works again");
    estop.end();
    let query = SpendQuery { by: SpendBy::Agent, from_day: 0, to_day: i32::MAX, agent: None, limit: 9 };
    let spent: u64 = house.store().spend(&query).unwrap().iter().map(|group| group.sum.requests).sum();
    assert_eq!(spent, 10);
    house.verified();
}

/// Of a whole journal alone, and never under a running estop.
#[test]
fn st_1_reindex_sets_the_database_aside_only_where_the_journal_is_whole() {
    let house = House::new("");
    house.estop(&["journal", "reindex"]).is(2, "there is no journal");
    let estop = house.start();
    (0..3).for_each(|n| assert_eq!(estop.ask("a", &format!("early {n}")).unwrap().0, 200));
    assert_eq!(estop.ask("stopped", "Hello").unwrap().0, 200);
    house.estop(&["agents", "deactivate", "stopped"]).is(0, "");
    house.estop(&["journal", "reindex"]).is(1, "is in use");
    estop.end();
    let segment = house.data().join("journal/00000001.jsonl");
    let whole = std::fs::read(&segment).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    std::fs::write(&segment, flipped).unwrap();
    house.estop(&["journal", "reindex"]).is(1, "The database was left as it is");
    assert!(house.data().join("estop.db").exists());
    std::fs::write(&segment, whole).unwrap();
    let told = house.estop(&["journal", "reindex", "--json"]).is(0, "kept_as").json();
    assert!(!house.data().join("estop.db").exists());
    let kept = Path::new(told["kept_as"].as_str().unwrap()).file_name().unwrap();
    assert!(house.data().join(kept).join("estop.db").exists());
    house.estop(&["journal", "reindex"]).is(1, "there is no database");
    let estop = house.start();
    assert_eq!(estop.ask("a", "and one more").unwrap().0, 200);
    assert_eq!(estop.ask("stopped", "Hello").unwrap().0, 400, "it works again");
    estop.end();
    house.verified();
}

/// The database alone knows that somebody was stopped since.
#[test]
fn st_1_reindex_refuses_a_journal_that_lags_behind_the_database() {
    let house = House::new("");
    let estop = house.start();
    assert_eq!(estop.ask("stopped", "Hello").unwrap().0, 200);
    estop.end();
    let (place, old) = (house.data().join("journal"), tempfile::tempdir().unwrap());
    for file in std::fs::read_dir(&place).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), old.path().join(file.file_name())).unwrap();
    }
    let estop = house.start();
    house.estop(&["agents", "deactivate", "stopped"]).is(0, "");
    estop.end();
    std::fs::rename(&place, house.folder.path().join("newer")).unwrap();
    std::fs::create_dir(&place).unwrap();
    for file in std::fs::read_dir(old.path()).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), place.join(file.file_name())).unwrap();
    }
    house.estop(&["journal", "reindex"]).is(1, "the database knows of record");
    assert!(house.data().join("estop.db").exists());
    starts_shut(&house, "cut or replaced");
    for file in std::fs::read_dir(&place).unwrap().map(Result::unwrap) {
        std::fs::remove_file(file.path()).unwrap();
    }
    house.estop(&["journal", "reindex"]).is(1, "the database knows of record");
    assert!(house.data().join("estop.db").exists());
}

/// Yesterday's database, and none at all: the journal knows who may come in, and by which rules.
#[test]
fn st_1_an_older_or_missing_database_brings_back_no_revoked_key_and_no_older_rule() {
    let house = House::new("");
    let estop = house.start();
    for agent in ["lost", "good", "strict"] {
        assert_eq!(estop.ask(agent, "Hello").unwrap().0, 200);
    }
    let made = |name: &str| house.estop(&["agents", "key", name, "--json"]).is(0, "estop_key_").json();
    let (lost, good) = (made("lost"), made("good"));
    let header = |key: &serde_json::Value| format!("x-estop-key: {}\r\n", key["key"].as_str().unwrap());
    estop.end();
    let old = tempfile::tempdir().unwrap();
    std::fs::copy(house.data().join("estop.db"), old.path().join("estop.db")).unwrap();
    let estop = house.start();
    house.estop(&["agents", "key", "lost", "--revoke", lost["id"].as_str().unwrap()]).is(0, "Revoked");
    house.estop_reading(&["policy", "set", "strict", "-"], "limits: {max_turns: 1}").is(0, "");
    estop.kill_9();
    for is_older in [true, false] {
        let away = tempfile::tempdir().unwrap();
        move_database(&house.data(), away.path());
        if is_older {
            std::fs::copy(old.path().join("estop.db"), house.data().join("estop.db")).unwrap();
        }
        let estop = house.start();
        let ask = |agent: &str, key: &serde_json::Value| {
            ask_with(estop.address, agent, "Hello", &header(key)).unwrap().0
        };
        assert_eq!(ask("good", &good), 200, "older: {is_older}");
        assert_eq!(ask("lost", &lost), 401, "older: {is_older}");
        house.estop(&["policy", "show", "strict"]).is(0, "max_turns");
        estop.kill_9();
    }
    house.start().end();
    house.verified();
}

#[test]
fn st_1_a_journal_that_is_gone_is_waited_for_through_any_number_of_starts() {
    let house = House::new("");
    let estop = house.start();
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200);
    estop.kill_9();
    let (place, away) = (house.data().join("journal"), house.folder.path().join("away"));
    std::fs::rename(&place, &away).unwrap();
    for _ in 0..3 {
        starts_shut(&house, "the journal is gone");
        assert!(!place.exists(), "another would be taken for the one that is gone");
    }
    std::fs::rename(&away, &place).unwrap();
    // Shut it stays until somebody who looked lets it go on.
    let estop = house.start();
    house.estop(&["emergency", "restart"]).is(0, "SAFE_MODE");
    house.estop(&["emergency", "clear"]).is(0, "RUNNING");
    assert_eq!(estop.ask("a", "and one more").unwrap().0, 200);
    estop.end();
    house.verified();
}

#[test]
fn st_1_a_restore_that_was_cut_short_is_done_again_before_anything_passes() {
    let house = House::new("");
    let estop = house.start();
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200);
    house.estop(&["backup", "copy.tar"]).is(0, "Copied");
    assert_eq!(estop.ask("late", "Hello").unwrap().0, 200);
    estop.kill_9();
    // What it does, up to the moment when half of what is there is replaced.
    let at = |name: &str| house.data().join(name);
    let ready = at("estop.db.restoring");
    estop_store::unpack(&house.folder.path().join("copy.tar"), &ready).unwrap();
    std::fs::create_dir(ready.join("before")).unwrap();
    std::fs::rename(at("journal"), ready.join("before/journal")).unwrap();
    std::fs::rename(ready.join("journal"), at("journal")).unwrap();
    starts_shut(&house, "cut short");
    house.estop(&["journal", "verify"]).is(2, "cut short");
    house.estop(&["restore", "copy.tar"]).is(1, "cut short");
    house.estop(&["restore", "data/estop.db.restoring"]).is(0, "before-restore-");
    assert!(!ready.exists());
    house.estop(&["journal", "verify"]).is(0, "Whole");
    let entries = std::fs::read_dir(house.data()).unwrap().map(|entry| entry.unwrap().path());
    let kept = entries.filter(|path| path.to_string_lossy().contains("/before-restore-"));
    let kept: Vec<_> =
        kept.map(|path| (path.join("journal").exists(), path.join("estop.db").exists())).collect();
    assert_eq!(kept, [(true, true)], "all that was there is in one place");
    let estop = house.start();
    house.estop(&["emergency", "restart"]).is(0, "SAFE_MODE");
    house.estop(&["emergency", "clear"]).is(0, "RUNNING");
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200);
    assert!(!house.owner("GET", "/api/agents", "").1.contains("\"id\":\"late\""), "it came after the copy");
    estop.end();
    house.verified();
}

#[test]
fn st_1_a_copy_with_a_damaged_record_is_refused() {
    let house = House::new("");
    let estop = house.start();
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200);
    estop.end();
    house.estop(&["backup", "copy.tar"]).is(0, "Copied");
    let copy = house.folder.path().join("copy.tar");
    let mut bytes = std::fs::read(&copy).unwrap();
    let record = b"{\"seq\":1,\"n\":1,";
    let at = bytes.windows(record.len()).position(|part| part == record).unwrap();
    bytes[at + 7] = b'2';
    std::fs::write(&copy, bytes).unwrap();
    let read = |name: &str| std::fs::read(house.data().join(name)).unwrap();
    let (database, journal) = (read("estop.db"), read("journal/00000001.jsonl"));
    house.estop(&["restore", "copy.tar"]).is(1, "cannot be trusted");
    let is_there = read("estop.db") == database && read("journal/00000001.jsonl") == journal;
    assert!(is_there, "what was there stays");
    let estop = house.start();
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200);
    estop.end();
}

#[test]
fn tw_7_the_stored_journal_is_verified_and_a_change_is_found() {
    let house = House::new("");
    let estop = house.start();
    for number in 0..20 {
        assert_eq!(estop.ask("a", &format!("Question {number}")).unwrap().0, 200);
    }
    let live = house.estop(&["journal", "verify", "--json"]).is(0, "").json();
    assert_eq!(live["ok"], true);
    estop.end();
    let whole = house.estop(&["journal", "verify", "--json"]).is(0, "").json();
    assert_eq!((&whole["sealed"], &whole["pruned_to"]), (&true.into(), &0.into()), "{whole}");
    let exported = house.estop(&["journal", "export"]);
    let records = exported.out.lines().filter(|line| line.starts_with("{\"seq\":")).count();
    assert_eq!(records as u64, whole["count"].as_u64().unwrap());

    let segment = house.data().join("journal/00000001.jsonl");
    let text = std::fs::read_to_string(&segment).unwrap();
    std::fs::write(&segment, text.replacen("\"mono\":", "\"mono\":1", 9)).unwrap();
    house.estop(&["journal", "verify"]).is(1, "was changed");
    let broken = house.estop(&["journal", "verify", "--json"]).is(1, "").json();
    assert_eq!(broken["ok"], false);

    // As somebody would do it who knows the format: only the digest tells, if it was kept elsewhere.
    let mut forged = Vec::new();
    for line in text.lines() {
        let (line, _) = line.rsplit_once(",\"crc\"").unwrap();
        let start = forged.len();
        let is_record = line.starts_with("{\"seq\":");
        let line = if is_record { line.replacen("\"at\":\"20", "\"at\":\"19", 1) } else { line.to_owned() };
        forged.extend_from_slice(line.as_bytes());
        estop_journal::seal_line(&mut forged, start);
    }
    std::fs::write(&segment, forged).unwrap();
    let changed = house.estop(&["journal", "verify", "--json"]).is(0, "").json();
    assert_ne!(changed["digest"], whole["digest"]);

    // A bit of a sealed segment.
    std::fs::write(&segment, text).unwrap();
    WrittenJournal::open(&house.data()).seal();
    house.estop(&["journal", "verify"]).is(0, "Whole");
    let sealed = house.data().join("journal/00000001.jsonl.zst");
    let mut bytes = std::fs::read(&sealed).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&sealed, bytes).unwrap();
    house.estop(&["journal", "verify"]).is(1, "was changed after it was sealed");
}
