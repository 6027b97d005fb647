//! The red button from the command line (KS-5, KS-6): with an estop that answers, one that hangs, and none at all.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::house::person::finish;
use crate::house::{Estop, House, PATIENCE};
use estop_core::system::button::Latched;
use estop_core::system::{Channel, SystemState};
use estop_store::{FoundLatch, LatchFile};

fn latch(house: &House) -> Latched {
    match LatchFile::look(&house.data()) {
        FoundLatch::Valid(latched) => latched,
        other @ (FoundLatch::Missing | FoundLatch::Damaged(_)) => panic!("{other:?}"),
    }
}

fn ask(estop: &Estop, agent: &str) -> u16 {
    estop.ask(agent, "hello").unwrap().0
}

fn says(estop: &Estop, agent: &str) -> String {
    estop.ask(agent, "hello").unwrap().1
}

#[test]
fn ks_6_kill_restart_and_clear_through_the_owners_socket() {
    let house = House::new("");
    let estop = house.start();
    assert_eq!(ask(&estop, "a1"), 200);
    house.estop(&["emergency", "status"]).is(0, "RUNNING");
    let killed = house.estop(&[
        "emergency",
        "kill",
        "--reason",
        "security_incident",
        "--note",
        "it deletes mail",
        "--json",
    ]);
    let killed = killed.is(0, "").json();
    assert_eq!((&killed["status"], &killed["persisted"]), (&"shutdown".into(), &true.into()));
    assert!(killed["stopped"]["model_calls"].is_u64() && killed["took"]["gate_us"].is_u64(), "{killed}");
    assert_ne!(ask(&estop, "a1"), 200);
    let status = house.estop(&["emergency", "status", "--json"]);
    let status = status.is(1, "").json();
    assert_eq!(
        (&status["reason"], &status["note"]),
        (&"security_incident".into(), &"it deletes mail".into())
    );
    assert_eq!((&status["source"], &status["metadata"]["user"]), (&"cli".into(), &"ann".into()));

    let data = house.data();
    let next = |step: &str| format!("estop emergency {step} --data-dir {}", data.display());
    house.estop(&["emergency", "clear"]).is(1, "restart into safe mode first").is(1, &next("unlock"));
    house.estop(&["emergency", "restart"]).is(0, "SAFE_MODE").is(0, &next("clear"));
    house.estop(&["emergency", "restart"]).is(1, &next("clear"));
    assert!(says(&estop, "a1").contains("safe mode"));
    house.estop(&["emergency", "clear", "--reason", "mail restored"]).is(0, "RUNNING");
    assert_eq!(ask(&estop, "a1"), 200);
    house.estop(&["emergency", "restart"]).is(1, "nothing to restart");
}

/// KS-5 exempts the kill alone: unlocking needs an admin token, by whichever way, and a wrong one is refused everywhere.
#[test]
fn ks_5_unlocking_needs_an_admin_token_also_over_the_owners_socket() {
    let house = House::new("");
    let estop = house.start();
    let token = estop.token();
    let at_socket = |args: &[&str]| finish(house.command(args).args(["--data-dir", "data"]));
    at_socket(&["kill", "--admin-token", "estop_admin_wrong"]).is(1, "Unknown, revoked or expired token");
    assert_eq!(ask(&estop, "a1"), 200, "a wrong token stops nothing");
    let mut stale = house.command(&["kill", "--data-dir", "data"]);
    finish(stale.env("ESTOP_TOKEN", "stale").env("ESTOP_ADMIN_TOKEN", "stale"))
        .is(0, "Everything is stopped");
    for step in ["restart", "clear"] {
        at_socket(&["emergency", step]).is(1, "needs an admin token").is(1, "estop token reset");
        at_socket(&["emergency", step, "--admin-token", "estop_admin_wrong"])
            .is(1, "Unknown, revoked or expired token");
    }
    assert_eq!(house.owner_with(None, "POST", "/api/emergency/restart", "{}").0, 403);
    let operator = house.estop(&["token", "create", "--role", "operator", "--name", "op", "--json"]).json();
    let operator = operator["token"].as_str().unwrap();
    at_socket(&["emergency", "restart", "--admin-token", operator]).is(1, "role admin");
    house.estop(&["emergency", "status"]).is(1, "SHUTDOWN");

    let restarted = at_socket(&["emergency", "restart", "--admin-token", &token]);
    assert!(restarted.is(0, "SAFE_MODE").err.contains("can be seen by everybody"), "{restarted:?}");
    let cleared = house.estop_reading(&["emergency", "clear", "--admin-token", "-"], &format!("{token}\n"));
    assert!(!cleared.is(0, "RUNNING").err.contains("can be seen"), "{cleared:?}");
}

/// Who lost it makes another one, which is written down; the old one, and the file it is in, open nothing.
#[test]
fn ks_5_a_lost_token_is_replaced_over_the_owners_socket() {
    let house = House::new("");
    let estop = house.start();
    let old = estop.token();
    house.estop(&["kill"]).is(0, "Everything is stopped");
    let reset = house.estop(&["token", "reset", "--json"]).json();
    let new = reset["token"].as_str().unwrap();
    assert_eq!(house.admin_token(), None, "what is in it opens nothing any more");
    let restart = |token: &str| house.owner_with(Some(token), "POST", "/api/emergency/restart", "{}").0;
    assert_eq!((restart(&old), restart(new)), (403, 200));
    let events = house.owner("GET", "/api/events?type=access_changed", "").1;
    assert!(events.contains("admin token made over the owner's socket"), "{events}");
}

#[test]
fn ks_5_a_kill_in_between_is_not_cleared_by_who_did_not_see_it() {
    let house = House::new("");
    let estop = house.start();
    house.estop(&["kill"]).is(0, "Everything is stopped");
    let seen = house.estop(&["emergency", "status", "--json"]).json()["epoch"].to_string();
    house.estop(&["kill", "--note", "again"]).is(0, "Everything is stopped");
    let refused = house.estop(&["emergency", "restart", "--epoch", &seen, "--json"]);
    assert_eq!(refused.is(1, "newer kill").json()["status"], 409);
    house.estop(&["emergency", "restart"]).is(0, "SAFE_MODE");
    assert!(says(&estop, "a1").contains("safe mode"));
}

#[test]
fn ks_6_over_the_admin_port_with_a_token() {
    let house = House::new("");
    let estop = house.start();
    let token = estop.token();
    house.estop_at(&estop, &["kill"]).is(1, "ESTOP_TOKEN");
    house.estop_at(&estop, &["kill", "--admin-token", "estop_admin_wrong"]).is(1, "");
    assert_eq!(ask(&estop, "a1"), 200);
    house.estop_at(&estop, &["kill", "--channel", "llm", "--admin-token", &token]).is(0, "Stopped: llm (");
    assert_ne!(ask(&estop, "a1"), 200);
    let mut by_variable = house.command(&["emergency", "clear", "--url", estop.admin()]);
    finish(by_variable.env("ESTOP_ADMIN_TOKEN", &token)).is(0, "RUNNING");
    assert_eq!(ask(&estop, "a1"), 200);
    house
        .estop_at(&estop, &["kill", "--reason", "no such reason", "--admin-token", &token])
        .is(0, "Everything is stopped");
    let status = house.estop(&["emergency", "status", "--json"]).json();
    assert_eq!((&status["reason"], &status["note"]), (&"manual".into(), &"no such reason".into()));
    let admin = estop.admin().to_owned();
    estop.end();
    let mut nobody = house.command(&["kill", "--url", &admin, "--admin-token", &token]);
    finish(&mut nobody).is(3, "NOTHING WAS STOPPED");
}

#[test]
fn ks_5_a_kill_that_says_things_twice_kills_and_the_last_word_counts() {
    let house = House::new("");
    let estop = house.start();
    let twice = r#"{"reason":"manual","note":"first","reason":"emergency","note":"second","note":"third"}"#;
    let (code, said) = house.owner("POST", "/api/emergency/kill", twice);
    assert_eq!((code, said.contains("\"shutdown\"")), (200, true), "{said}");
    assert_ne!(ask(&estop, "a1"), 200);
    let status = house.estop(&["emergency", "status", "--json"]).json();
    assert_eq!((&status["reason"], &status["note"]), (&"emergency".into(), &"third".into()));
    // Also of the channels; a list that is empty or wrong is the whole system.
    house.estop(&["emergency", "restart"]).is(0, "SAFE_MODE");
    house.estop(&["emergency", "clear"]).is(0, "RUNNING");
    for last in [r#"[]"#, r#"["lm"]"#, r#""llm""#] {
        let body = format!(r#"{{"channels":["llm"],"channels":{last}}}"#);
        let (code, said) = house.owner("POST", "/api/emergency/kill", &body);
        assert_eq!((code, said.contains("\"shutdown\"")), (200, true), "{body}: {said}");
        house.estop(&["emergency", "restart"]).is(0, "SAFE_MODE");
        house.estop(&["emergency", "clear"]).is(0, "RUNNING");
    }
}

#[test]
fn ks_5_a_kill_without_an_estop_makes_the_next_one_come_up_stopped() {
    let house = House::new("");
    house.estop(&["kill"]).is(3, "NOTHING WAS STOPPED");
    assert!(!house.data().exists(), "a wrong name makes no folder");
    let estop = house.start();
    assert_eq!(ask(&estop, "a1"), 200);
    estop.end();
    let before = latch(&house).gate.epoch;
    house.estop(&["kill", "--note", "at night"]).is(0, "a start comes up stopped").is(0, "no estop runs");
    let kept = latch(&house);
    assert_eq!((kept.gate.state, &*kept.source), (SystemState::Shutdown, "cli"));
    assert!(kept.gate.epoch > before);
    let estop = house.start();
    assert_ne!(ask(&estop, "a1"), 200);
    let status = house.estop(&["emergency", "status", "--json"]).json();
    assert_eq!((&status["state"], &status["note"]), (&"shutdown".into(), &"at night".into()));
    house.estop(&["emergency", "restart"]).is(0, "SAFE_MODE");
    house.estop(&["emergency", "clear"]).is(0, "RUNNING");
    assert_eq!(ask(&estop, "a1"), 200);
    estop.end();
    let json = house.estop(&["kill", "--channel", "llm", "--json"]);
    assert_eq!(json.is(0, "").json()["daemon"]["state"], "none");
    let kept = latch(&house);
    assert_eq!(kept.gate.state, SystemState::Running);
    assert!(kept.gate.shut.contains(Channel::Llm) && !kept.gate.shut.contains(Channel::Tools));
    assert_ne!(ask(&house.start(), "a1"), 200);
}

#[test]
fn ks_5_an_estop_that_hangs_is_named_and_stops_when_it_goes_on() {
    let house = House::new("");
    let estop = house.start();
    estop.freeze();
    let pid = estop.process.id();
    let ran = house.estop(&["kill", "--json"]);
    let said = ran.is(3, &format!("kill -9 {pid}")).json();
    assert_eq!((&said["daemon"]["state"], &said["daemon"]["pid"]), (&"may_run".into(), &pid.into()));
    assert_eq!(said["latch"]["written"], true);
    assert_eq!(latch(&house).gate.state, SystemState::Shutdown);
    estop.signal("-CONT");
    let begun = Instant::now();
    while house.estop(&["emergency", "status", "--json"]).json()["state"] != "shutdown" {
        assert!(begun.elapsed() < PATIENCE, "it does not obey");
    }
    assert_ne!(ask(&estop, "a1"), 200);
}

#[test]
fn ks_5_an_estop_that_hangs_is_ended_by_force_and_comes_up_stopped() {
    let house = House::new("");
    let mut estop = house.start();
    estop.freeze();
    house.estop(&["kill", "--force"]).is(0, "is gone");
    estop.process.wait().unwrap();
    drop(estop);
    let estop = house.start();
    assert_ne!(ask(&estop, "a1"), 200);
    house.estop(&["emergency", "status"]).is(1, "SHUTDOWN");
}

#[test]
fn ks_5_an_estop_whose_socket_is_gone_obeys_the_signal() {
    let house = House::new("");
    let estop = house.start();
    std::fs::remove_file(house.data().join("estop.sock")).unwrap();
    house.estop(&["kill"]).is(0, "it obeyed");
    assert_ne!(ask(&estop, "a1"), 200);
}

#[test]
fn ks_5_two_who_kill_an_estop_that_hangs_are_not_taken_for_it() {
    let house = House::new("");
    let estop = house.start();
    estop.freeze();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                house.estop(&["kill"]).is(3, "NOT KNOWN TO BE STOPPED");
            });
        }
    });
    estop.signal("-CONT");
}

#[test]
fn ks_5_a_channel_killed_in_safe_mode_without_an_estop_stays_shut_when_it_is_cleared() {
    let house = House::new("");
    let estop = house.start();
    house.estop(&["kill"]).is(0, "Everything is stopped");
    house.estop(&["emergency", "restart"]).is(0, "SAFE_MODE");
    estop.end();
    house.estop(&["kill", "--channel", "llm"]).is(0, "no estop runs");
    let estop = house.start();
    house.estop(&["emergency", "clear"]).is(0, "RUNNING");
    assert_ne!(ask(&estop, "a1"), 200);
}

#[test]
fn ks_3_a_restart_and_a_clear_say_that_they_are_on_the_disk() {
    let house = House::new("");
    let estop = house.start();
    for _ in 0..5 {
        house.estop(&["kill"]).is(0, "Everything is stopped");
        for step in ["restart", "clear"] {
            assert_eq!(
                house.estop(&["emergency", step, "--json"]).is(0, "").json()["persisted"],
                true,
                "{step}"
            );
        }
    }
    estop.end();
}

#[test]
fn ks_5_a_mistake_in_the_configuration_keeps_nobody_from_a_kill() {
    let house = House::new("");
    let estop = house.start();
    let kill = |file: &str, variable: (&str, &str)| {
        std::fs::write(house.folder.path().join("later.yaml"), format!("data_dir: data # here\n{file}"))
            .unwrap();
        let mut command = house.command(&["kill", "--config", "later.yaml"]);
        finish(command.env(variable.0, variable.1)).is(0, "Everything is stopped");
        house.estop(&["emergency", "restart"]).is(0, "SAFE_MODE");
        house.estop(&["emergency", "clear"]).is(0, "RUNNING");
    };
    let nothing = ("ESTOP_TEST_NOTHING", "");
    kill("providers: {openai: {api_key_env: NOT_SET_HERE}}\n", nothing);
    kill("policy: {kill_swich: true}\n", nothing);
    kill("policy: [\n", nothing);
    kill("", ("ESTOP_POLICY__KILL_SWICH", "true"));
    kill("", ("ESTOP_PROVIDERS__OPENAI__API_KEY_ENV", "NOT_SET_HERE"));
    finish(&mut house.command(&["kill", "--config", "nowhere.yaml"])).is(2, "NOTHING WAS STOPPED");
    estop.end();
}

#[test]
fn ks_2_a_standard_error_that_is_gone_keeps_no_kill_from_the_disk() {
    let house = House::new("");
    house.start().end();
    let mut process = house
        .command(&["serve", "--config", "estop.yaml", "--data-dir", "data"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(process.stderr.take());
    let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().starts_with("Admin API")));
    let latch = house.data().join("estop.latch");
    std::fs::remove_file(&latch).unwrap();
    std::fs::create_dir(&latch).unwrap();
    let killed = house.estop(&["kill", "--json"]);
    assert_eq!(killed.is(0, "").json()["persisted"], false);
    std::fs::remove_dir(&latch).unwrap();
    let begun = Instant::now();
    while !matches!(LatchFile::look(&house.data()), FoundLatch::Valid(found) if found.gate.state == SystemState::Shutdown)
    {
        assert!(begun.elapsed() < PATIENCE, "it is not written");
        std::thread::sleep(Duration::from_millis(20));
    }
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn ks_6_a_clear_says_what_stays_shut_and_which_step_is_missing() {
    let house = House::new("");
    let estop = house.start_with(&[("LLM_ENABLED", "false")]);
    house.estop(&["kill"]).is(0, "");
    house.estop(&["emergency", "clear"]).is(1, "Next: `estop emergency unlock --data-dir ");
    house.estop(&["emergency", "restart"]).is(0, "SAFE_MODE");
    house
        .estop(&["emergency", "clear"])
        .is(0, "but these channels stay shut: llm.")
        .is(0, "LLM_ENABLED=false");
    estop.end();
}
