//! What the designs say in their own words and fields, over the real binary: reasons, metadata, numbers (CB-5, CB-6, KS-8,
//! TW-1, TW-4, TW-5).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::house::{House, ask_with, wait_for};
use serde_json::{Value, json};

fn get(house: &House, path: &str) -> Value {
    let (status, body) = house.owner("GET", path, "");
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

fn post(house: &House, path: &str, body: &Value) -> Value {
    let (status, said) = house.owner("POST", path, &body.to_string());
    assert!((200..300).contains(&status), "{path}: {status} {said}");
    serde_json::from_str(&said).unwrap_or_default()
}

/// The first event of this type of the agent, once it is stored.
fn event(house: &House, agent: &str, event_type: &str) -> Value {
    let path = format!("/api/events?agent={agent}&type={event_type}");
    wait_for(event_type, || get(house, &path)["events"].as_array()?.first().cloned())
}

/// A tool call of `coder`, by hook; it fails.
fn fails(house: &House, call: u32) {
    let asked =
        json!({"agent": "coder", "run": "r1", "call": call.to_string(), "tool": "bash", "args": {"n": call}});
    post(house, "/api/hooks/pre-tool-use", &asked);
    let mut done = asked;
    done["result"] = json!(format!("Error {call}"));
    done["failed"] = json!(true);
    post(house, "/api/hooks/post-tool-use", &done);
}

#[test]
fn tw_5_a_soft_suspend_and_a_hard_stop_say_why_and_what_to_do() {
    let house = House::new("agents: {coder: {}}\npolicy: {guards: {health: enforce, breaker: off}}");
    let estop = house.start();
    post(&house, "/api/runs", &json!({"agent": "coder", "run": "r1", "attended": true}));
    (1..=11).for_each(|call| fails(&house, call));
    let why = "Health is 550 of 1000 (paused below 600, stopped below 300): 9 failed tool calls (-450).";
    let paused = event(&house, "coder", "paused");
    assert_eq!(
        (&paused["detail"]["reason"], &paused["detail"]["harm"]),
        (&json!(why), &json!("tool_failures"))
    );
    let incidents = get(&house, "/api/incidents?agent=coder")["incidents"].clone();
    assert_eq!((&incidents[0]["kind"], &incidents[0]["summary"]), (&json!("health"), &json!(why)));
    let (status, said) = estop.ask("coder", "Hello").unwrap();
    assert!(
        status == 429 && said.contains("A person must review what agent coder did and resume it."),
        "{status} {said}"
    );
    assert_eq!(house.estop(&["agents", "resume", "coder"]).code, 0);
    // Calls that were allowed before the pause still end: from 800, thirteen more failures end below 300.
    let open: Vec<Value> = (20..33)
        .map(|call: u32| {
            let asked = json!({"agent": "coder", "run": "r1", "call": call.to_string(), "tool": "bash", "args": {"n": call}});
            assert_eq!(post(&house, "/api/hooks/pre-tool-use", &asked)["permission"], "allow");
            asked
        })
        .collect();
    for mut done in open {
        done["failed"] = json!(true);
        done["result"] = json!("Error");
        post(&house, "/api/hooks/post-tool-use", &done);
    }
    let stopped = event(&house, "coder", "kill_switch");
    let reason = stopped["detail"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("Health is 2") && reason.contains("failed tool calls (-"), "{reason}");
    estop.end();
    house.verified();
}

#[test]
fn ks_8_the_watchdog_keeps_what_it_counted_with_the_kill() {
    let house = House::new("agents: {coder: {}}\nwatchdog: {scope: system, max_calls_per_minute: 3}");
    let estop = house.start();
    let statuses = [1, 2, 3, 4].map(|n| estop.ask("coder", &format!("question {n}")).unwrap().0);
    assert_eq!(statuses[..3], [200, 200, 200]);
    let seed = json!({"apiCallCount": 4, "timeWindow": 60_000});
    house.until_pressed();
    let status = get(&house, "/api/emergency/status");
    assert_eq!((&status["reason"], &status["metadata"]), (&json!("runaway_agent"), &seed));
    assert_eq!(event(&house, "coder", "watchdog")["detail"]["metadata"], seed);
    let killed = wait_for("the kill's event", || {
        get(&house, "/api/events?type=system_kill")["events"].as_array()?.first().cloned()
    });
    assert_eq!(killed["detail"]["metadata"], seed);
    // And where it is shown.
    let policy = get(&house, "/api/agents/coder/policy");
    assert_eq!(policy["effective"]["watchdog"], json!({"max_calls_per_minute": 3, "scope": "system"}));
    assert_eq!(
        (&policy["origins"]["watchdog"], &policy["origins"]["gate"]),
        (&json!("file"), &json!("preset"))
    );
    assert_eq!(policy["effective"]["gate"]["tempo_compression_ratio"], 0.3);
    assert_eq!(policy["effective"]["gate"].as_object().unwrap().len(), 12);
    let shown = house.estop(&["policy", "show", "coder"]).out;
    for part in ["gate.max_tokens_per_minute", "gate.recovery_cap", "watchdog.scope"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    estop.end();
}

#[test]
fn tw_4_the_veto_that_decided_is_machine_readable() {
    let house = House::new(
        "agents: {coder: {}}\npolicy: {guards: {gate: enforce}}\ngate: {max_tool_calls_per_minute: 2, tool_call_warning_threshold: 1}",
    );
    let estop = house.start();
    for call in ["1", "2"] {
        let asked = json!({"agent": "coder", "run": "r1", "call": call, "tool": "bash", "args": {"n": call}});
        assert_eq!(post(&house, "/api/hooks/pre-tool-use", &asked)["permission"], "allow");
    }
    let (status, said) = estop.ask("coder", "Hello").unwrap();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((status, &said["error"]["code"]), (429, &json!("gate_rate_limit_exceeded")));
    let refused = event(&house, "coder", "refused")["detail"].clone();
    assert_eq!((&refused["guard"], &refused["vetoReason"]), (&json!("gate"), &json!("RATE_LIMIT_EXCEEDED")));
    assert_eq!(refused["remainingBudget"], 50_000, "{refused}");
    let (_, said) = estop.ask("coder", "Hello").unwrap();
    assert!(said.contains("gate_rate_limit_exceeded"), "the first that applies is the verdict: {said}");
    estop.end();
    house.verified();
    let journal = std::fs::read_to_string(house.folder.path().join("journal.jsonl")).unwrap();
    assert!(journal.contains(
        r#""vetoReason":"RATE_LIMIT_EXCEEDED","vetoes":["RATE_LIMIT_EXCEEDED"],"remainingBudget":50000"#
    ));
}

#[test]
fn cb_5_a_silent_run_keeps_its_active_time_over_sigterm_and_kill_9() {
    let house = House::new("agents: {coder: {}}");
    let estop = house.start();
    post(&house, "/api/runs", &json!({"agent": "coder", "run": "silent"}));
    let active = || get(&house, "/api/runs/coder:silent")["active_ms"].as_u64().unwrap();
    let wait = |least: u64| wait_for("active time", || Some(active()).filter(|ms| *ms >= least));
    let before = wait(1_500);
    estop.end();
    let estop = house.start();
    let after = active();
    assert!(after >= before, "{after} after SIGTERM at {before}");
    // A sign of life comes each second: no more than that is lost, and nothing while estop was away is added.
    let before = wait(after + 2_500);
    estop.kill_9();
    let estop = house.start();
    let after = active();
    assert!(after + 1_500 >= before && after > 2_500, "{after} after kill -9 at {before}");
    estop.end();
    house.verified();
}

#[test]
fn cb_6_the_third_request_to_sum_up_escalates_at_once() {
    let house = House::new("agents: {coder: {}}");
    let estop = house.start();
    post(&house, "/api/runs", &json!({"agent": "coder", "run": "r1", "limits": {"max_tool_calls": 1}}));
    let asked = json!({"agent": "coder", "run": "r1", "call": "1", "tool": "bash", "args": {}});
    assert_eq!(post(&house, "/api/hooks/pre-tool-use", &asked)["permission"], "deny");
    let ask = || ask_with(estop.address, "coder", "sum up", "x-estop-run: r1\r\n").unwrap().0;
    assert_eq!([ask(), ask(), ask()], [200, 200, 200]);
    let run = wait_for("the escalation", || {
        Some(get(&house, "/api/runs/coder:r1")).filter(|run| run["state"] == "ESCALATED")
    });
    assert!(run["active_ms"].as_u64().unwrap() < 30_000, "not after 60 s: {run}");
    assert_eq!(ask(), 400);
    estop.end();
}
