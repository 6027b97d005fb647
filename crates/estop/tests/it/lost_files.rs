//! Files of a data directory that are gone, damaged or half put back: nothing passes, nothing more is lost, and it is said.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use crate::house::House;
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
    house.estop(&["restore", "copy.db"]).is(1, "is in use");
    house.estop(&["doctor"]).is(1, why);
    estop.end();
}

#[test]
fn st_1_a_tail_whose_database_is_gone_waits_for_it_through_any_number_of_starts() {
    let house = House::new("");
    let estop = house.start();
    (0..3).for_each(|n| assert_eq!(estop.ask("a", &format!("early {n}")).unwrap().0, 200));
    estop.end();
    let estop = house.start();
    (0..5).for_each(|n| assert_eq!(estop.ask("a", &format!("late {n}")).unwrap().0, 200));
    estop.kill_9();
    let away = tempfile::tempdir().unwrap();
    move_database(&house.data(), away.path());
    for _ in 0..3 {
        starts_shut(&house, "tail of its journal");
        assert!(!house.data().join("estop.db").exists(), "it would be taken for the tail's");
    }
    move_database(away.path(), &house.data());
    // Shut it stays until somebody who looked lets it go on.
    let estop = house.start();
    house.estop(&["emergency", "restart"]).is(0, "SAFE_MODE");
    house.estop(&["emergency", "clear"]).is(0, "RUNNING");
    assert_eq!(estop.ask("a", "and one more").unwrap().0, 200);
    estop.end();
    let query = SpendQuery { by: SpendBy::Agent, from_day: 0, to_day: i32::MAX, agent: None, limit: 9 };
    assert_eq!(house.store().spend(&query).unwrap()[0].sum.requests, 9);
    house.verified();
}

#[test]
fn st_1_a_restore_that_was_cut_short_is_done_again_before_anything_passes() {
    let house = House::new("");
    let estop = house.start();
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200);
    house.estop(&["backup", "copy.db"]).is(0, "Copied");
    assert_eq!(estop.ask("late", "Hello").unwrap().0, 200);
    estop.kill_9();
    // What it does, up to the moment when half of what belongs to the old one is moved.
    let at = |name: &str| house.data().join(name);
    std::fs::copy(house.folder.path().join("copy.db"), at("estop.db.restoring")).unwrap();
    std::fs::hard_link(at("estop.db"), at("estop.db.before-restore-20261117T000000Z")).unwrap();
    std::fs::rename(at("estop.db-wal"), at("estop.db.before-restore-20261117T000000Z-wal")).unwrap();
    starts_shut(&house, "cut short");
    house.estop(&["journal", "verify"]).is(1, "cut short");
    house.estop(&["restore", "data/estop.db.restoring"]).is(0, "before-restore-20261117T000000Z");
    assert!(!at("estop.db.restoring").exists());
    house.estop(&["journal", "verify"]).is(0, "Whole");
    let names =
        std::fs::read_dir(house.data()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let tails: Vec<_> = names.filter(|name| name.contains("tail-")).collect();
    assert_eq!(tails, ["estop.db.before-restore-20261117T000000Z.tail-1.jsonl"], "beside what it belongs to");
}

#[test]
fn st_1_a_copy_with_a_damaged_block_is_refused() {
    let house = House::new("");
    let estop = house.start();
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200);
    estop.end();
    house.estop(&["backup", "copy.db"]).is(0, "Copied");
    let damage = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); \
        n = c.execute(\"UPDATE block SET lines = CAST(substr(lines, 1, length(lines) - 1) || x'00' AS BLOB)\").rowcount; \
        c.commit(); print(n > 0)";
    let copy = house.folder.path().join("copy.db");
    let damaged = Command::new("python3").args(["-c", damage]).arg(copy).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&damaged.stdout).trim(), "True", "{damaged:?}");
    let before = std::fs::read(house.data().join("estop.db")).unwrap();
    house.estop(&["restore", "copy.db"]).is(1, "a block of the journal");
    assert!(std::fs::read(house.data().join("estop.db")).unwrap() == before, "what was there stays");
}
