//! Cases that are answered by what a person did to their agent (EV-3).

use std::sync::Arc;

use estop_store::{CaseStatus, Cases, Incident};
use serde_json::{Value, json};

use crate::support::{Plane, START};

fn incident(id: &str) -> Incident {
    Incident {
        id: id.into(),
        agent: "a0".into(),
        run: None,
        seq: 4,
        kind: "health".into(),
        opened_at: START,
        status: CaseStatus::Open,
        resolution: None,
        evidence: "{}".into(),
        summary: "Its health fell.".into(),
        version: 0,
    }
}

async fn steer(plane: &Plane, step: &str) -> Value {
    plane.post(&format!("/api/agents/a0/{step}"), json!({})).await.expect(200).json()
}

#[tokio::test]
async fn ev_3_resuming_a_paused_agent_closes_its_incident() {
    let plane = Plane::with_agents(1).await;
    plane.store.open_incident(&incident("i1")).unwrap();
    let active = steer(&plane, "resume").await;
    assert_eq!(active["closed"]["incidents"], json!([]), "it was not paused: {active}");
    steer(&plane, "pause").await;
    let resumed = steer(&plane, "resume").await;
    assert_eq!(resumed["closed"]["incidents"], json!(["i1"]), "{resumed}");
    let shown = plane.get("/api/incidents/i1").await.expect(200).json();
    assert_eq!(shown["status"], "closed");
    assert!(shown["resolution"].as_str().is_some_and(|text| text.ends_with("resumed the agent.")), "{shown}");
}

#[tokio::test]
async fn ev_3_a_case_that_is_stored_late_is_closed_too() {
    let plane = Plane::with_agents(1).await;
    steer(&plane, "deactivate").await;
    let store = Arc::clone(&plane.store);
    plane.operator.before_stored(move || store.open_incident(&incident("late")).unwrap());
    let activated = steer(&plane, "activate").await;
    assert_eq!(activated["closed"]["incidents"], json!(["late"]), "{activated}");
}

#[tokio::test]
async fn se_5_filters_take_an_agent_s_name_in_any_case() {
    let plane = Plane::with_agents(1).await;
    plane.store.open_incident(&incident("i1")).unwrap();
    plane.post("/api/runs", json!({"agent": "a0", "run": "r1"})).await.expect(201);
    for list in ["incidents", "runs"] {
        let kept = plane.get(&format!("/api/{list}?agent=a0")).await.expect(200).json();
        assert_eq!(kept[list].as_array().map(Vec::len), Some(1), "{kept}");
        let other = plane.get(&format!("/api/{list}?agent=A0")).await.expect(200).json();
        assert_eq!(kept, other);
    }
}
