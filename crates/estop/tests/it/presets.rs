//! Presets and backtests of a whole estop: what was set holds over a restart and a reload (PO-5), and the dashboard's numbers
//! are those of `estop replay` (TW-8).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::house::{Estop, House, until};
use serde_json::{Value, json};

fn api(house: &House, method: &str, path: &str, body: &Value) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (status, said) = house.owner(method, path, &body);
    assert!((200..300).contains(&status), "{method} {path}: {status} {said}");
    serde_json::from_str(&said).unwrap_or_default()
}

/// The mode of a guard that no test writes a rule for, and the preset.
fn gate_of(house: &House, agent: &str) -> (String, String) {
    let policy = api(house, "GET", &format!("/api/agents/{agent}/policy"), &Value::Null);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&policy["effective"]["guards"]["gate"]), text(&policy["origins"]["preset"]))
}

fn is_strict(house: &House, agent: &str) -> bool {
    gate_of(house, agent) == ("enforce".to_owned(), "api".to_owned())
}

#[test]
fn po_5_everybodys_preset_holds_over_a_reload_and_kill_9_until_it_is_taken_back() {
    let house = House::new("");
    let estop = house.start();
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200);
    assert_eq!(gate_of(&house, "a").0, "shadow");
    api(&house, "PUT", "/api/preset", &json!({"preset": "strict"}));
    assert!(is_strict(&house, "a"));
    assert_eq!(estop.ask("newcomer", "Hello").unwrap().0, 200);
    assert!(is_strict(&house, "newcomer"), "who comes later begins there, too");

    house.configure("policy: {kill_switch_window_size: 33}");
    let window = |agent: &str| api(&house, "GET", &format!("/api/agents/{agent}/kill-switch"), &Value::Null);
    until("the new file", || window("a")["window_size"] == 33);
    assert!(is_strict(&house, "a"), "a reload changes what lies below");

    estop.kill_9();
    let estop = house.start();
    assert!(is_strict(&house, "a") && is_strict(&house, "newcomer"), "it was on the disk");
    api(&house, "DELETE", "/api/preset", &Value::Null);
    assert_eq!(gate_of(&house, "a"), ("shadow".to_owned(), "preset".to_owned()));
    // The list follows the journal a moment later.
    until("the record of both", || {
        let told = api(&house, "GET", "/api/events?type=preset_changed", &Value::Null);
        let presets = told["events"].as_array().unwrap().iter().map(|e| e["detail"]["preset"].clone());
        presets.eq([Value::Null, json!("strict")])
    });
    estop.end();
    house.verified();
}

fn repeat(estop: &Estop, agent: &str, times: usize) {
    for _ in 0..times {
        assert_eq!(estop.ask(agent, "Is the build done?").unwrap().0, 200);
    }
}

#[test]
fn tw_8_the_dashboards_backtest_and_replay_find_the_same_stops() {
    let house = House::new("");
    let estop = house.start();
    for (agent, times) in [("short", 3), ("longer", 5), ("longest", 9)] {
        repeat(&estop, agent, times);
    }
    until("the records", || {
        api(&house, "POST", "/api/agents/longest/backtest", &json!({}))["records"].as_u64() >= Some(18)
    });
    let mut found = 0;
    for threshold in [3.0, 5.5, 12.0, 40.0] {
        let policy = json!({"policy": {"kill_switch_enabled": true, "kill_switch_threshold": threshold}});
        std::fs::write(house.data().join("tried.yaml"), policy.to_string()).unwrap();
        let (fine, journal) = house.run(&["journal", "export", "--data-dir", "data"]);
        assert!(fine, "{journal}");
        std::fs::write(house.data().join("j.jsonl"), journal).unwrap();
        let replay = ["replay", "data/j.jsonl", "--policy", "data/tried.yaml", "--allow-unsealed", "--json"];
        let (_, said) = house.run(&replay);
        let replay: Value = serde_json::from_str(&said).unwrap_or_else(|_| unreachable!("{said}"));
        for agent in ["short", "longer", "longest"] {
            let asked = json!({"threshold": threshold, "days": 1});
            let tried =
                api(&house, "POST", &format!("/api/agents/{agent}/backtest"), &asked)["tried"].clone();
            let by_loop = |stop: &&Value| stop["guard"] == "loop";
            let stops: Vec<&Value> =
                replay["agents"][agent]["stops"].as_array().unwrap().iter().filter(by_loop).collect();
            assert_eq!(tried["stops"], stops.len(), "{agent} at {threshold}: {tried} {stops:?}");
            let first =
                tried["newest"].as_array().unwrap().last().map(|stop| (&stop["seq"], &stop["reason"]));
            assert_eq!(first, stops.first().map(|stop| (&stop["seq"], &stop["reason"])));
            found += stops.len();
        }
    }
    assert!(found >= 5, "{found}");
    estop.end();
}

#[test]
fn ld_4_a_start_says_whose_loops_are_stopped() {
    for (configuration, says) in [
        (
            "agents: {coder: {policy: {kill_switch_enabled: true}}}",
            "loops stop 1 agent (coder), and are only watched for others",
        ),
        (
            "preset: strict\nagents: {coder: {policy: {kill_switch_enabled: false}}}",
            "loops stop agents, and are only watched for 1 agent (coder)",
        ),
        ("", "WATCHED: a loop is recorded and stops nothing"),
    ] {
        let estop = House::new(configuration);
        let estop = (estop.start(), estop);
        let said = estop.0.told("Mode: ");
        assert!(said.starts_with(says), "{said}");
    }
}

#[test]
fn ui_3_an_agent_of_the_configuration_is_named_by_it_whoever_calls_first() {
    let house = House::new("agents: {coder: {role: pm}}");
    let estop = house.start();
    assert_eq!(estop.ask("coder", "Hello").unwrap().0, 200);
    assert_eq!(estop.ask("other", "Hello").unwrap().0, 200);
    let origin =
        |agent: &str| api(&house, "GET", &format!("/api/agents/{agent}"), &Value::Null)["origin"].clone();
    assert_eq!((origin("coder"), origin("other")), (json!("config"), json!("traffic")));
    estop.end();
}
