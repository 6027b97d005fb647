//! Runs and their states.

use serde_json::{Value, json};

use crate::support::Plane;

#[tokio::test]
async fn cb_7_runs_go_through_their_states_and_refuse_illegal_steps() {
    let plane = Plane::with_agents(1).await;
    let new =
        json!({"agent": "a0", "run": "ticket-7", "issue": "#7", "branch": "fix", "labels": {"team": "core"}});
    let run = plane.post("/api/runs", new).await.expect(201).json();
    assert_eq!((&run["id"], &run["state"]), (&json!("a0:ticket-7"), &json!("ACTIVE")));
    let step = async |step: &str, status: u16| -> Value {
        let request = plane.request("POST", &format!("/api/runs/a0:ticket-7/{step}"), None);
        plane.send(request).await.expect(status).json()
    };
    let refused = step("wake", 409).await;
    assert!(refused["detail"].as_str().unwrap_or_default().contains("ACTIVE"), "{refused}");
    assert_eq!(step("sleep", 200).await["state"], "SLEEPING");
    assert_eq!(step("wake", 200).await["state"], "ACTIVE");
    let done = step("complete", 200).await;
    assert_eq!((&done["state"], &done["labels"]), (&json!("COMPLETED"), &json!({"team": "core"})));
    assert!(done["ended_at"].is_string());
    step("extend", 409).await;
    assert_eq!(step("activate", 200).await["state"], "ACTIVE");
    plane.get("/api/runs/a0:nothing").await.expect(404);
    plane.get("/api/runs/nothing").await.expect(404);
    let begun = plane.post("/api/runs", json!({"agent": "nobody-yet", "run": "r"})).await.expect(201);
    assert_eq!(begun.json()["id"], "nobody-yet:r", "an agent begins with its first run");
    plane.get("/api/agents/nobody-yet").await.expect(200);
}

#[tokio::test]
async fn po_6_runs_are_listed_by_agent_and_state() {
    let plane = Plane::with_agents(2).await;
    for (agent, run) in [("a0", "one"), ("a0", "two"), ("a1", "three")] {
        plane.post("/api/runs", json!({"agent": agent, "run": run})).await.expect(201);
        plane.pass_ms(1000);
    }
    let made_up = plane.post("/api/runs", json!({"agent": "a1"})).await.expect(201).json();
    assert!(made_up["run"].as_str().unwrap_or_default().starts_with("run-"));
    plane.send(plane.request("POST", "/api/runs/a0:one/sleep", None)).await.expect(200);
    let ids = async |query: &str| -> Vec<String> {
        let list = plane.get(&format!("/api/runs?{query}")).await.expect(200).json();
        let runs = list["runs"].as_array().cloned().unwrap_or_default();
        runs.iter().map(|run| run["id"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(ids("agent=a0").await, ["a0:two", "a0:one"]);
    assert_eq!(ids("state=SLEEPING").await, ["a0:one"]);
    assert_eq!(ids("agent=a0&limit=1").await, ["a0:two"]);
    plane.get("/api/runs?state=asleep").await.expect(400);
    plane.get("/api/runs?before=yesterday").await.expect(400);
    let wrong = json!({"agent": "a0", "run": "no spaces", "issue": "", "labels": {"": "x"}});
    assert_eq!(
        plane.post("/api/runs", wrong).await.expect(400).json()["errors"].as_array().map(Vec::len),
        Some(3)
    );
}

#[tokio::test]
async fn cb_1_limits_of_a_run_are_read_strictly() {
    let plane = Plane::with_agents(1).await;
    let ask = async |run: &str, limits: Value| {
        plane.post("/api/runs", json!({"agent": "a0", "run": run, "limits": limits})).await
    };
    ask("one", json!({"max_turns": 5.0, "max_tool_calls": "off"})).await.expect(201);
    for (wrong, named) in [
        (json!([5, 5]), "limits"),
        (json!({"max_turns": 0}), "max_turns"),
        (json!({"max_turns": 1.5}), "max_turns"),
        (json!({"max_speed": 1}), "max_speed"),
    ] {
        let problem = ask("two", wrong).await.expect(400).json();
        assert!(problem["detail"].as_str().unwrap_or_default().contains(named), "{problem}");
    }
}
