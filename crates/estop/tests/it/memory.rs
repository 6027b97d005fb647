//! What estop remembers over kill -9, restarts and damaged files: the real binary, a real model server, a real disk.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::house;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::house::{Estop, House, ask};
use estop_store::{AgentRepo, Cases, EventFilter, Journal, Ledger, SpendBy, SpendQuery};

const POLICY: &str = "policy: {kill_switch_enabled: true}";

/// Loops until it is stopped.
fn loop_until_stopped(estop: &Estop, agent: &str) {
    for _ in 0..30 {
        if estop.ask(agent, "Is the build done?").unwrap().0 != 200 {
            return;
        }
    }
    panic!("the loop was not stopped");
}

#[test]
fn st_1_a_stopped_agent_stays_stopped_over_kill_9() {
    let house = House::new(POLICY);
    let estop = house.start();
    loop_until_stopped(&estop, "stuck");
    estop.kill_9();
    let estop = house.start();
    let (status, said) = estop.ask("stuck", "Something else entirely").unwrap();
    assert_eq!(status, 400);
    assert!(said.contains("the kill switch deactivated it (loop)"), "{said}");
    assert_eq!(estop.ask("other", "Hello").unwrap().0, 200);
    estop.end();
    house.verified();
    let store = house.store();
    let agent = store.agent("stuck").unwrap().unwrap();
    assert!(matches!(agent.standing, estop_core::agent::standing::Standing::Inactive { .. }), "{agent:?}");
    let stopped = EventFilter { event_type: Some("kill_switch".into()), ..EventFilter::default() };
    assert_eq!(store.events(&stopped, 10).unwrap().len(), 1);
    assert_eq!(store.incidents(&Default::default(), 10).unwrap().len(), 1);
}

#[test]
fn st_1_a_stopped_agent_whose_state_is_lost_is_made_anew_from_the_journal() {
    let house = House::new(POLICY);
    let estop = house.start();
    loop_until_stopped(&estop, "stuck");
    estop.end();
    let lose = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); \
        n = c.execute(\"DELETE FROM agent_snapshot WHERE agent = 'stuck'\").rowcount; c.commit(); print(n)";
    let lost =
        Command::new("python3").args(["-c", lose]).arg(house.data().join("estop.db")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&lost.stdout).trim(), "1", "{lost:?}");
    let estop = house.start();
    let (status, said) = estop.ask("stuck", "Something else entirely").unwrap();
    assert_eq!(status, 400, "a stopped agent came back: {said}");
    assert!(said.contains("the kill switch deactivated it (loop)"), "{said}");
    estop.end();
    house.verified();
}

#[test]
fn ks_3_a_pressed_button_stays_pressed_over_kill_9() {
    let house = House::new("");
    let estop = house.start();
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200);
    estop.signal("-USR1");
    house.until_pressed();
    estop.kill_9();
    let estop = house.start();
    let (status, said) = estop.ask("a", "Hello").unwrap();
    assert_eq!((status, said.contains("emergency stop is pressed")), (400, true), "{said}");
    estop.end();
    house.verified();
}

#[test]
fn ks_6_killed_by_the_api_it_stays_so_until_it_is_restarted_and_cleared() {
    let house = House::new("");
    let estop = house.start();
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200);
    assert_eq!(house.owner("POST", "/api/emergency/kill", "{\"reason\":\"security_incident\"}").0, 200);
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 400);
    estop.kill_9();
    let estop = house.start();
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 400);
    assert_eq!(house.owner("POST", "/api/emergency/clear", "{}").0, 409, "SHUTDOWN is not cleared at once");
    assert_eq!(house.owner("POST", "/api/emergency/restart", "{}").0, 200);
    let (status, said) = estop.ask("a", "Hello").unwrap();
    assert!(status == 200 && said.contains("System is in safe mode. LLM is disabled."), "{said}");
    assert_eq!(house.owner("POST", "/api/emergency/clear", "{}").0, 200);
    let (status, said) = house.owner("GET", "/api/emergency/status", "");
    assert_eq!((status, said.contains("\"state\":\"running\"")), (200, true), "{said}");
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200);
    estop.end();
    house.verified();
}

#[test]
fn st_1_what_was_answered_is_never_forgotten() {
    let house = House::new("watchdog: {scope: off}");
    let answered = AtomicU64::new(0);
    let mut rounds = 0_u64;
    for pause_ms in [3, 20, 55, 120, 260] {
        let estop = house.start();
        let address = estop.address;
        std::thread::scope(|scope| {
            for number in 0..4 {
                let answered = &answered;
                scope.spawn(move || {
                    let mut count = 0;
                    while let Some((status, _)) =
                        ask(address, &format!("a{number}"), &format!("Number {count}"))
                    {
                        assert_eq!(status, 200);
                        answered.fetch_add(1, Ordering::Relaxed);
                        count += 1;
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(pause_ms));
            estop.kill_9();
        });
        rounds += 1;
    }
    house.start().end();
    house.verified();
    let store = house.store();
    let all = SpendQuery { by: SpendBy::Agent, from_day: 0, to_day: i32::MAX, agent: None, limit: 100 };
    let kept: u64 = store.spend(&all).unwrap().iter().map(|group| group.sum.requests).sum();
    let answered = answered.load(Ordering::Relaxed);
    assert!(answered > 20, "only {answered} answers in {rounds} rounds");
    // Up to four more each round: settled, but killed before their client had the whole answer.
    assert!((answered..=answered + 4 * rounds).contains(&kept), "{answered} answered, {kept} remembered");
}

#[test]
fn po_2_spend_survives_a_restart() {
    let house = House::new("policy: {budget: {tokens_per_day: 400}}");
    let estop = house.start();
    let mut passed = 0;
    while estop.ask("a", &format!("Question {passed}")).unwrap().0 == 200 {
        passed += 1;
        assert!(passed < 100, "no budget holds");
    }
    assert!(passed > 0, "nothing passed");
    estop.kill_9();
    let estop = house.start();
    let (status, said) = estop.ask("a", "One more").unwrap();
    assert_eq!((status, said.contains("tokens_per_day")), (400, true), "{said}");
    estop.end();
}

#[test]
fn st_1_a_database_that_cannot_be_trusted_starts_shut() {
    type Damage = fn(&Path);
    let damage: [(&str, Damage); 3] = [
        ("garbage", |file| {
            std::fs::write(file, "this is no database, and never was one".repeat(500)).unwrap();
        }),
        ("cut off", |file| std::fs::File::options().write(true).open(file).unwrap().set_len(5_000).unwrap()),
        ("the first page", |file| {
            let mut bytes = std::fs::read(file).unwrap();
            bytes[16..2_000].fill(0x5a);
            std::fs::write(file, bytes).unwrap();
        }),
    ];
    for (what, damage) in damage {
        let house = House::new("");
        let estop = house.start();
        assert_eq!(estop.ask("a", "Hello").unwrap().0, 200);
        estop.end();
        let database = house.data().join("estop.db");
        for beside in ["estop.db-wal", "estop.db-shm"] {
            let _ = std::fs::remove_file(house.data().join(beside));
        }
        damage(&database);
        let before = std::fs::read(&database).unwrap();
        let seen = house.model.requests();
        let estop = house.start();
        let (status, _) = estop.ask("a", "Hello").unwrap();
        assert_ne!(status, 200, "{what}: it passes");
        assert_eq!(house.model.requests(), seen, "{what}: the model was asked");
        estop.signal("-TERM");
        drop(estop);
        assert!(std::fs::read(&database).unwrap() == before, "{what}: the evidence was changed");
    }
}

#[test]
fn ks_3_a_lost_database_is_no_first_start() {
    let house = House::new("");
    let estop = house.start();
    estop.signal("-USR1");
    while estop.ask("a", "Hello").unwrap().0 == 200 {}
    estop.end();
    for file in ["estop.db", "estop.db-wal", "estop.db-shm"] {
        let _ = std::fs::remove_file(house.data().join(file));
    }
    let estop = house.start();
    assert_ne!(estop.ask("a", "Hello").unwrap().0, 200, "the pressed button is forgotten");
}

#[test]
fn id_2_a_made_key_is_known_to_the_first_request_after_a_start() {
    let house = House::new("");
    let estop = house.start();
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200);
    let (status, made) = house.owner("POST", "/api/agents/a/keys", "");
    assert_eq!(status, 201, "{made}");
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    let header = format!("x-estop-key: {}\r\n", made["key"].as_str().unwrap());
    estop.kill_9();
    let estop = house.start();
    let seen = house.model.requests();
    // A key acts only as its agent; one that is not known would be refused as such.
    let (status, said) = house::ask_with(estop.address, "b", "Hello", &header).unwrap();
    assert!(status != 200 && !said.contains("unknown"), "{status}: {said}");
    assert_eq!(house.model.requests(), seen);
    assert_eq!(house::ask_with(estop.address, "a", "Hello", &header).unwrap().0, 200);
    estop.end();
}
