//! Every command as a person runs it: the real binary against a real daemon, a real model server and a real disk.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Stdio;

use crate::house::person::finish;
use crate::house::ran::Ran;
use crate::house::{Estop, House, PATIENCE};
use serde_json::Value;

/// A house whose configuration names its data directory.
fn new_house(policy: &str) -> House {
    House::new(&format!("data_dir: data\n{policy}"))
}

fn file(house: &House, name: &str) -> PathBuf {
    house.folder.path().join(name)
}

/// The store is some milliseconds behind: runs until it is said.
fn soon(house: &House, args: &[&str], says: &str) -> Ran {
    let started = std::time::Instant::now();
    loop {
        let ran = house.estop(args);
        if ran.out.contains(says) || started.elapsed() > PATIENCE {
            ran.is(0, says);
            return ran;
        }
    }
}

fn ask(estop: &Estop, agent: &str, prompt: &str) -> u16 {
    estop.ask(agent, prompt).unwrap().0
}

/// The status of an answer; `run` is the run's name, or empty.
fn ask_in(estop: &Estop, agent: &str, run: &str, model: &str, prompt: &str) -> u16 {
    let messages = serde_json::json!([{"role": "user", "content": prompt}]);
    let body = serde_json::json!({"model": model, "max_tokens": 50, "messages": messages}).to_string();
    let mut stream = TcpStream::connect(estop.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let run = if run.is_empty() { String::new() } else { format!("x-estop-run: {run}\r\n") };
    let head = format!(
        "POST /agents/{agent}/openai/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\n{run}content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

fn loop_until_stopped(estop: &Estop, agent: &str) {
    let stopped = (0..30).any(|_| ask(estop, agent, "Is the build done?") != 200);
    assert!(stopped, "the loop was not stopped");
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap()).collect()
}

#[test]
fn ui_2_a_looping_agent_is_stopped_shown_and_switched_on_again() {
    let house = new_house("");
    let estop = house.start();
    house.estop(&["agents", "add", "stuck", "--role", "builder"]).is(0, "Added stuck");
    house.estop(&["agents", "add", "stuck"]).is(1, "stuck");
    house.estop(&["agents", "kill-switch", "stuck"]).is(0, "is off: window 20");
    let on = house.estop(&["agents", "kill-switch", "stuck", "--on", "--window", "10", "--threshold", "4.5"]);
    on.is(0, "is now on: window 10, threshold 4.5").is(0, "nobody would be notified");
    let switch = house.estop(&["agents", "kill-switch", "stuck", "--json"]).json();
    assert_eq!((&switch["enabled"], &switch["window_size"]), (&true.into(), &10.into()));
    house.estop(&["agents", "kill-switch", "stuck", "--window", "3"]).is(1, "5 to 100");
    house.estop(&["agents", "kill-switch", "stuck", "--on", "--off"]).is(2, "cannot be used with");

    loop_until_stopped(&estop, "stuck");
    let listed = house.estop(&["agents", "list", "--json"]).is(0, "").json();
    assert_eq!(names(&listed["agents"]), ["stuck"]);
    let agent = &listed["agents"][0];
    assert_eq!(
        (&agent["active"], &agent["deactivated_by"]),
        (&false.into(), &"kill_switch".into()),
        "{agent}"
    );
    house.estop(&["agents", "list"]).is(0, "deactivated by kill switch (loop)");
    house.estop(&["agents", "show", "stuck"]).is(0, "deactivated by kill switch").is(0, "builder");
    house.estop(&["agents", "score", "stuck"]).is(0, "similar prompts");
    assert_eq!(house.estop(&["agents", "score", "stuck", "--json"]).json()["threshold"], 4.5);
    soon(&house, &["incidents", "list"], "stuck");
    let incidents =
        house.estop(&["incidents", "list", "--agent", "stuck", "--status", "open", "--json"]).json();
    assert_eq!(incidents["incidents"].as_array().unwrap().len(), 1);
    soon(&house, &["journal", "events", "--type", "kill_switch"], "stuck");
    let status = house.estop(&["status", "--json"]).is(0, "").json();
    assert_eq!((&status["state"], &status["agents"]["deactivated"]), (&"running".into(), &1.into()));

    house.estop(&["agents", "activate", "stuck"]).is(0, "Agent stuck was reactivated by owner.");
    assert_eq!(ask(&estop, "stuck", "Something else"), 200);
    house.estop(&["agents", "pause", "stuck"]).is(0, "Agent stuck is paused");
    assert_eq!(ask(&estop, "stuck", "And now?"), 429);
    house.estop(&["agents", "resume", "stuck"]).is(0, "Agent stuck was resumed by owner.");
    house.estop(&["agents", "deactivate", "stuck", "--json"]).is(0, "\"manual\"");
    house.estop(&["agents", "remove", "stuck"]).is(0, "Removed stuck");
    house.estop(&["agents", "show", "stuck"]).is(1, "There is no agent `stuck`.");
}

#[test]
fn ui_2_without_a_daemon_commands_end_with_3_and_say_how_to_start_it() {
    let house = new_house("");
    let commands: [&[&str]; 6] = [
        &["status"],
        &["agents", "list"],
        &["token", "list"],
        &["spend", "--json"],
        &["runs", "list"],
        &["journal", "events"],
    ];
    for command in commands {
        let ran = house.estop(command);
        ran.is(3, "estop serve").is(3, "data/estop.sock");
        assert_eq!(ran.out, "", "{command:?}");
    }
    let elsewhere = house.command(&["status", "--url", "http://127.0.0.1:1"]).output().unwrap();
    Ran::of(&elsewhere).is(3, "cannot reach estop at http://127.0.0.1:1");
    // Left behind by a killed process.
    let estop = house.start();
    drop(estop);
    house.estop(&["status"]).is(3, "nobody listens on");
}

#[test]
fn ui_2_wrong_usage_ends_with_2() {
    let house = new_house("");
    let wrong: [&[&str]; 11] = [
        &["agents"],
        &["agents", "show", ""],
        &["agents", "frobnicate"],
        &["agents", "kill-switch", "a", "--threshold", "high"],
        &["agents", "kill-switch", "a", "--threshold", "inf"],
        &["agents", "kill-switch", "a", "--threshold", "NaN"],
        &["spend", "--by", "colour"],
        &["token", "create", "--role", "king", "--name", "n"],
        &["status", "--url", "https://example.com"],
        &["status", "--url", "http://127.0.0.1:1", "--token-file", "no-such-file"],
        &["journal", "verify", "--data-dir", "nowhere"],
    ];
    for command in wrong {
        let ran = finish(&mut house.command(command));
        assert_eq!((ran.code, &*ran.out), (2, ""), "{command:?}: {ran:?}");
        assert!(!ran.err.is_empty());
    }
    let both = finish(&mut house.command(&["status", "--url", "http://127.0.0.1:1", "--data-dir", "data"]));
    both.is(2, "cannot be used with");
}

#[test]
fn ui_2_policies_are_shown_with_their_origin_set_checked_and_cleared() {
    let house = new_house("policy: {kill_switch_window_size: 30}");
    let _estop = house.start();
    house.estop(&["agents", "add", "a"]).is(0, "");
    let shown = house.estop(&["policy", "show", "a"]);
    let line = |text: &str, key: &str| text.lines().find(|line| line.contains(key)).unwrap().to_owned();
    assert!(line(&shown.out, "kill_switch_window_size").contains("file"), "{shown:?}");

    std::fs::write(file(&house, "rules.yaml"), "kill_switch_threshold: 7\nbudget: {usd_per_day: 2}\n")
        .unwrap();
    house.estop(&["policy", "check", "rules.yaml"]).is(0, "can be used");
    house.estop(&["policy", "set", "a", "rules.yaml"]).is(0, "budget.usd_per_day");
    let policy = house.estop(&["policy", "show", "a", "--json"]).json();
    assert_eq!(policy["effective"]["kill_switch_threshold"], 7.0);
    assert_eq!(policy["origins"]["budget"], "api");
    house.estop_reading(&["policy", "set", "a", "-"], "\n").is(2, "it is empty, so nothing was changed");
    house.estop_reading(&["policy", "set", "a", "-"], "{\"kill_switch_enabled\": true}").is(0, "Set.");
    let policy = house.estop(&["policy", "show", "a", "--json"]).json();
    assert_eq!(policy["overrides"], serde_json::json!({"kill_switch_enabled": true}));

    std::fs::write(file(&house, "wrong.yaml"), "budget: {usd_per_day: 2}\nkill_switch_treshold: 7\n")
        .unwrap();
    house.estop(&["policy", "check", "wrong.yaml"]).is(1, "wrong.yaml:2:1").is(1, "kill_switch_threshold");
    house.estop(&["policy", "set", "a", "wrong.yaml", "--json"]).is(1, "\"invalid\"");
    house.estop(&["policy", "check", "missing.yaml"]).is(2, "cannot read missing.yaml");
    std::fs::write(file(&house, "whole.yaml"), "policy: {kill_switch_threshold: 7}\n").unwrap();
    house.estop(&["policy", "check", "whole.yaml"]).is(1, "without that key itself");
    let zone = "allowed_hours: {days: [mon], from: '08:00', to: '18:00', timezone: Mars/Olympus}";
    house.estop_reading(&["policy", "check", "-"], zone).is(1, "Mars/Olympus");

    house.estop(&["policy", "clear", "a"]).is(0, "Cleared");
    assert_eq!(house.estop(&["policy", "show", "a", "--json"]).json()["overrides"], serde_json::json!({}));
    house.estop(&["policy", "show", "nobody"]).is(1, "There is no agent");
}

#[test]
fn ks_5_a_token_reset_over_the_owners_socket_makes_the_old_token_worthless() {
    let house = new_house("");
    let estop = house.start();
    let old = estop.token();
    house.estop_as(&estop, &old, &["status"]).is(0, "RUNNING");
    house.estop_as(&estop, "nonsense", &["status"]).is(1, "ESTOP_TOKEN").is(1, "estop token reset");
    house.estop_as(&estop, "", &["status"]).is(1, "ESTOP_TOKEN");
    house.estop_as(&estop, &old, &["token", "reset"]).is(2, "owner's socket only");

    let viewer = house.estop(&["token", "create", "--role", "viewer", "--name", "wall", "--json"]).json();
    let viewer_token = viewer["token"].as_str().unwrap();
    house.estop_as(&estop, viewer_token, &["agents", "list"]).is(0, "No agents yet");
    house.estop_as(&estop, viewer_token, &["agents", "add", "a"]).is(1, "needs a token with the role admin");
    house.estop(&["token", "list"]).is(0, "wall");

    let reset = house.estop(&["token", "reset", "--json"]).is(0, "").json();
    assert_eq!(reset["revoked"].as_array().unwrap().len(), 1);
    house.estop_as(&estop, &old, &["status"]).is(1, "Unknown, revoked or expired token");
    std::fs::write(file(&house, "token"), format!("{}\n", reset["token"].as_str().unwrap())).unwrap();
    let by_file = ["token", "list", "--json", "--url", estop.admin(), "--token-file", "token"];
    let listed = finish(&mut house.command(&by_file)).json();
    assert_eq!(listed["tokens"].as_array().unwrap().len(), 2, "the viewer's stays: {listed}");
    house.estop_as(&estop, viewer_token, &["status"]).is(0, "RUNNING");
    house.estop(&["token", "revoke", viewer["id"].as_str().unwrap()]).is(0, "Revoked");
    house.estop_as(&estop, viewer_token, &["status"]).is(1, "revoked");
    house.estop(&["token", "revoke", reset["id"].as_str().unwrap()]).is(1, "last admin token");
}

#[test]
fn ui_2_keys_runs_spend_and_escalations_can_be_looked_at() {
    let house = new_house("");
    let estop = house.start();
    assert_eq!(ask(&estop, "a", "Hello"), 200);
    let key = house.estop(&["agents", "key", "a", "--json"]).is(0, "estop_key_").json();
    house.estop(&["agents", "key", "a", "--list"]).is(0, key["id"].as_str().unwrap());
    house.estop(&["agents", "key", "a", "--revoke", key["id"].as_str().unwrap()]).is(0, "Revoked");
    house.estop(&["agents", "key", "a", "--list"]).is(0, "No keys");
    house.estop(&["agents", "key", "a", "--revoke", "k-none"]).is(1, "There is no key");
    for by in ["day", "agent", "model", "run", "issue", "role", "label"] {
        house.estop(&["spend", "--by", by]).is(0, "");
    }
    let spend = soon(&house, &["spend", "--by", "agent", "--json"], "\"key\": \"a\"").json();
    assert_eq!(spend["spend"][0]["key"], "a");
    house.estop(&["spend", "--from", "yesterday"]).is(1, "must be a day like");
    house.estop(&["runs", "list", "--agent", "a"]).is(0, "");
    house.estop(&["runs", "extend", "a", "no/such run"]).is(1, "There is no run `a:no/such run`");
    house.estop(&["escalations", "list"]).is(0, "Nothing needs a human.");
    assert_eq!(house.estop(&["escalations", "list", "--json"]).json()["escalations"], serde_json::json!([]));
}

#[test]
fn cb_7_a_run_that_reached_a_limit_goes_on_after_extend() {
    let house = new_house("policy: {guards: {breaker: enforce}, limits: {max_turns: 2}}");
    let estop = house.start();
    let ask = |number: u32| ask_in(&estop, "a", "nightly", "gpt-4o-mini", &format!("Step {number}"));
    let refused = (0..10).find(|number| ask(*number) != 200).unwrap();
    let runs = house.estop(&["runs", "list", "--agent", "a", "--json"]).json();
    let run = runs["runs"].as_array().unwrap().iter().find(|run| run["run"] == "nightly").unwrap();
    assert_eq!(run["tripped"], true, "{run}");
    house.estop(&["runs", "list"]).is(0, "nightly");
    house.estop(&["runs", "extend", "a", "nightly"]).is(0, "another full allowance");
    assert_eq!(ask(refused + 1), 200);
}

#[test]
fn ui_2_what_comes_from_outside_cannot_move_the_cursor() {
    let house = new_house("");
    let estop = house.start();
    ask_in(&estop, "a", "", "gpt\u{1b}[2J\u{202e}\nfake line", "Hello");
    soon(&house, &["spend", "--by", "model"], "gpt\\u{1b}[2J\\u{202e}\\nfake line");
    let hostile = "x\u{1b}[31m\r/../y";
    std::fs::write(file(&house, "none.yaml"), "{}\n").unwrap();
    for command in [
        &["agents", "show", hostile][..],
        &["agents", "add", hostile],
        &["agents", "activate", hostile],
        &["token", "revoke", hostile],
        &["policy", "set", hostile, "none.yaml"],
    ] {
        let ran = house.estop(command);
        assert_eq!(ran.code, 1, "{command:?}: {ran:?}");
        let shown = format!("{}{}", ran.out, ran.err);
        assert!(!shown.contains(['\u{1b}', '\r', '\u{202e}']), "{command:?}: {ran:?}");
    }
    house.estop(&["agents", "show", hostile]).is(1, "x\\u{1b}[31m\\r/../y");
    house.estop(&["agents", "show", ".."]).is(1, "There is no agent `..`.");
}

#[test]
fn ui_2_status_ends_with_1_when_the_button_is_pressed() {
    let house = new_house("");
    let estop = house.start();
    house.estop(&["status"]).is(0, "RUNNING");
    estop.signal("-USR1");
    let pressed = || house.estop(&["status", "--json"]).json()["state"] == "shutdown";
    while !pressed() {}
    house.estop(&["status"]).is(1, "SHUTDOWN").is(1, "llm shut");
}

#[test]
fn ui_2_status_ends_with_1_while_a_channel_is_shut() {
    let house = new_house("");
    let estop = house.start();
    house.estop(&["kill", "--channel", "messaging"]).is(0, "");
    house.estop(&["status"]).is(1, "RUNNING").is(1, "messaging shut");
    let (status, ready) = house.owner("GET", "/readyz", "");
    assert!(status == 200 && ready.contains(r#""shut":["messaging"]"#), "{status}: {ready}");
    estop.end();
}

#[test]
fn ui_2_a_mistyped_agent_and_a_list_of_nothing_are_refused() {
    let house = new_house("");
    let estop = house.start();
    house.estop(&["agents", "add", "coder"]).is(0, "Added coder");
    let lists: [&[&str]; 5] = [
        &["journal", "events"],
        &["incidents", "list"],
        &["escalations", "list"],
        &["runs", "list"],
        &["spend"],
    ];
    for list in lists {
        let run = |more: &[&str]| house.estop(&[list, more].concat());
        run(&["--agent", "codr"]).is(1, "There is no agent `codr`. Did you mean `coder`?");
        run(&["--agent", "nobody"]).is(1, "There is no agent `nobody`. `estop agents list` shows them all.");
        run(&["--agent", "Coder"]).is(0, "");
        run(&["--limit", "0"]).is(2, if list == ["spend"] { "1..=500" } else { "from 1 to 10000" });
    }
    house.estop(&["alerts", "log", "--limit", "0"]).is(2, "from 1 to 10000");
    house.estop(&["agents", "show", "codr"]).is(1, "Did you mean `coder`?");
    estop.end();
}

#[test]
fn st_1_a_backup_of_a_running_estop_is_restored_and_what_was_there_is_kept() {
    let house = new_house("");
    let estop = house.start();
    assert_eq!(ask(&estop, "early", "Hello"), 200);
    house.estop(&["agents", "deactivate", "early"]).is(0, "");
    soon(&house, &["journal", "events", "--agent", "early", "--json"], "deactivated");
    let made = house.estop(&["backup", "copy.db", "--json"]).is(0, "").json();
    assert!(made["records"].as_u64().unwrap() > 0, "{made}");
    house.estop(&["backup", "copy.db"]).is(1, "is there already");
    assert_eq!(ask(&estop, "late", "Hello"), 200);
    house.estop(&["restore", "copy.db"]).is(1, "is in use");
    estop.end();

    std::fs::write(file(&house, "garbage.db"), "no database".repeat(100)).unwrap();
    house.estop(&["restore", "garbage.db"]).is(1, "cannot be trusted");
    house.estop(&["restore", "missing.db"]).is(2, "there is no file");
    house.estop(&["backup", "while-off.db"]).is(0, "Copied");
    let restored = house.estop(&["restore", "copy.db"]);
    restored.is(0, "is kept in").is(0, "estop serve");
    let entries = std::fs::read_dir(file(&house, "data")).unwrap().map(|entry| entry.unwrap().path());
    let is_kept = |path: &PathBuf| path.to_string_lossy().contains("/before-restore-");
    let kept: Vec<PathBuf> = entries.filter(is_kept).collect();
    assert_eq!(kept.len(), 1, "{kept:?}");

    let estop = house.start();
    let agents = house.estop(&["agents", "list", "--json"]).json();
    assert_eq!(names(&agents["agents"]), ["early"], "what came after the copy is gone");
    assert_eq!(agents["agents"][0]["active"], false);
    assert_eq!(ask(&estop, "early", "Hello"), 400);
    house.estop(&["journal", "verify"]).is(0, "Whole");
    estop.end();
    // What was there takes its place again.
    for name in ["journal", "estop.db", "estop.db-wal", "estop.db-shm"] {
        let (place, before) = (file(&house, "data").join(name), kept[0].join(name));
        let _ = std::fs::remove_dir_all(&place).or_else(|_| std::fs::remove_file(&place));
        if before.exists() {
            std::fs::rename(before, place).unwrap();
        }
    }
    let _estop = house.start();
    assert_eq!(names(&house.estop(&["agents", "list", "--json"]).json()["agents"]), ["early", "late"]);
}

#[test]
fn st_1_the_last_proof_test_goes_with_the_backup_and_one_that_is_there_stays() {
    let house = new_house("");
    let estop = house.start();
    let last = || house.estop(&["emergency", "status", "--json"]).json()["proofTest"]["last"]["at"].clone();
    house.estop(&["backup", "before.db"]).is(0, "Copied");
    assert!(!file(&house, "before.db.prooftest.json").exists(), "there was none");
    house.estop(&["prooftest"]).is(0, "");
    let tested = last();
    assert!(tested.is_string(), "{tested}");
    house.estop(&["backup", "copy.db"]).is(0, "Copied");
    house.estop(&["prooftest"]).is(0, "");
    let newer = last();
    assert_ne!(newer, tested);
    estop.end();

    house.estop(&["restore", "copy.db"]).is(0, "Restored");
    let estop = house.start();
    assert_eq!(last(), newer, "what is there is newer");
    estop.end();
    std::fs::remove_file(file(&house, "data/prooftest.json")).unwrap();
    house.estop(&["restore", "copy.db"]).is(0, "Restored");
    let _estop = house.start();
    assert_eq!(last(), tested);
}

#[test]
fn st_1_the_list_of_work_at_providers_goes_with_the_backup_and_one_that_is_there_stays() {
    let house = new_house("");
    house.start().end();
    let (listed, newer) = ("[]\n", "[ ]\n");
    std::fs::write(file(&house, "data/background.json"), listed).unwrap();
    house.estop(&["backup", "copy.db"]).is(0, "Copied");
    let read = |name: &str| std::fs::read_to_string(file(&house, name)).unwrap();
    assert_eq!(read("copy.db.background.json"), listed);
    std::fs::write(file(&house, "data/background.json"), newer).unwrap();
    house.estop(&["restore", "copy.db"]).is(0, "Restored");
    assert_eq!(read("data/background.json"), newer, "what is there is newer");
    std::fs::remove_file(file(&house, "data/background.json")).unwrap();
    house.estop(&["restore", "copy.db"]).is(0, "Restored");
    assert_eq!(read("data/background.json"), listed);
}

#[test]
fn ks_5_the_canary_of_the_proof_test_is_in_no_list_unless_asked_for() {
    let house = new_house("");
    let estop = house.start();
    assert_eq!(ask(&estop, "a", "Hello"), 200);
    let total = || house.estop(&["status", "--json"]).json()["agents"]["total"].clone();
    let before = total();
    house.estop(&["prooftest"]).is(0, "");
    soon(&house, &["agents", "show", "estop-canary"], "estop-canary");
    let listed = house.estop(&["agents", "list", "--json"]).json();
    assert_eq!(names(&listed["agents"]), ["a"]);
    assert_eq!(total(), before);
    let asked = |path: &str| -> Value { serde_json::from_str(&house.owner("GET", path, "").1).unwrap() };
    assert_eq!(names(&asked("/api/agents?canary=true")["agents"]), ["a", "estop-canary"]);
    // It takes no place on a page, and hides nobody behind it.
    assert_eq!(ask(&estop, "z", "Hello"), 200);
    soon(&house, &["agents", "list", "--json"], "\"z\"");
    let page = asked("/api/agents?limit=1");
    assert_eq!((names(&page["agents"]), &page["next"]), (vec!["a"], &"a".into()));
    // Nor does the default agent, which nobody uses.
    let page = asked("/api/agents?after=a&limit=1");
    assert_eq!((names(&page["agents"]), &page["next"]), (vec!["z"], &Value::Null));
}

#[test]
fn st_1_a_backup_under_load_is_whole() {
    let house = new_house("watchdog: {scope: off}");
    let estop = house.start();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut count = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                assert_eq!(ask(&estop, "busy", &format!("Number {count}")), 200);
                count += 1;
            }
        });
        for number in 0..5 {
            house.estop(&["backup", &format!("copy-{number}.db")]).is(0, "Copied");
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    estop.end();
    for number in 0..5 {
        house.estop(&["restore", &format!("copy-{number}.db")]).is(0, "Restored");
        house.estop(&["journal", "verify"]).is(0, "Whole");
    }
}

#[test]
fn ui_2_help_completions_and_closed_pipes_behave() {
    let house = new_house("");
    for shell in ["bash", "zsh", "fish"] {
        finish(&mut house.command(&["completions", shell])).is(0, "agents");
    }
    let help = finish(&mut house.command(&["agents", "list", "--help"]));
    help.is(0, "everybody on a machine can see");
    let mut child = house
        .command(&["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut complaint = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    assert_eq!((child.wait().unwrap().code(), &*complaint), (Some(0), ""));
}

#[test]
fn ks_5_stalled_connections_keep_nobody_from_the_button() {
    let house = new_house("");
    let estop = house.start();
    let address = estop.admin().strip_prefix("http://").unwrap();
    let stall = || {
        let mut stream = TcpStream::connect(address).unwrap();
        let head = "POST /api/session HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    // More than there are places.
    let _stalled: Vec<TcpStream> = (0..140).map(|_| stall()).collect();
    let token = estop.token();
    house.estop_as(&estop, &token, &["kill"]).is(0, "");
    house.estop(&["status"]).is(1, "SHUTDOWN");
}
