//! Guards that work as in shadow for a while (PO-7).

use serde_json::json;

use crate::support::Plane;

#[tokio::test]
async fn po_7_a_guard_is_snoozed_with_owner_and_expiry() {
    let plane = Plane::with_agents(1).await;
    let body = json!({"guard": "loop", "minutes": 120, "note": "a migration repeats itself"});
    let agent = plane.post("/api/agents/a0/snooze", body).await.expect(200).json();
    let snooze = &agent["snoozes"][0];
    assert_eq!((&snooze["guard"], &snooze["note"]), (&json!("loop"), &json!("a migration repeats itself")));
    assert!(snooze["by"].is_string() && snooze["until"].is_string(), "{agent}");
    let until = json!({"guard": "budget", "until": "2025-11-16T00:00:00Z"});
    let agent = plane.post("/api/agents/a0/snooze", until).await.expect(200).json();
    assert_eq!(agent["snoozes"].as_array().map(Vec::len), Some(2), "{agent}");
    assert_eq!(agent["snoozes"][0]["until"], "2025-11-16T00:00:00Z", "in the order of the guards: {agent}");
    let woken = plane.request("DELETE", "/api/agents/a0/snooze?guard=loop", None);
    let agent = plane.send(woken).await.expect(200).json();
    assert_eq!(agent["snoozes"].as_array().map(Vec::len), Some(1), "{agent}");
    let all = plane.send(plane.request("DELETE", "/api/agents/a0/snooze", None)).await.expect(200).json();
    assert_eq!(all["snoozes"], json!([]));
    assert_eq!(plane.get("/api/agents/a0").await.expect(200).json()["snoozes"], json!([]));
}

#[tokio::test]
async fn po_7_what_always_holds_and_what_is_too_long_is_refused() {
    let plane = Plane::with_agents(1).await;
    for (body, field, says) in [
        (json!({"guard": "system", "minutes": 5}), "guard", "`system` always holds"),
        (json!({"guard": "agent", "minutes": 5}), "guard", "`agent` always holds"),
        (json!({"guard": "run", "minutes": 5}), "guard", "`run` always holds"),
        (json!({"guard": "everything", "minutes": 5}), "guard", "must be one of hours, models"),
        (json!({"guard": "loop", "minutes": 10_081}), "minutes", "seven days"),
        (json!({"guard": "loop", "minutes": 0}), "minutes", "from 1"),
        (json!({"guard": "loop", "minutes": -5}), "minutes", "from 1"),
        (json!({"guard": "loop"}), "minutes", "either `minutes` or `until`"),
        (json!({"guard": "loop", "minutes": 5, "until": "2025-11-16T00:00:00Z"}), "minutes", "either"),
        (json!({"guard": "loop", "until": "2025-11-01T00:00:00Z"}), "until", "later than now"),
        (json!({"guard": "loop", "until": "2026-11-01T00:00:00Z"}), "until", "seven days"),
        (json!({"guard": "loop", "until": "tomorrow"}), "until", "a moment"),
        (json!({"guard": "loop", "minutes": 5, "note": ""}), "note", ""),
    ] {
        let problem = plane.post("/api/agents/a0/snooze", body.clone()).await.expect(400).json();
        let error = &problem["errors"][0];
        assert_eq!(error["field"], field, "{body}: {problem}");
        assert!(error["message"].as_str().unwrap_or_default().contains(says), "{body}: {problem}");
    }
    let wrong = plane.request("DELETE", "/api/agents/a0/snooze?guard=system", None);
    plane.send(wrong).await.expect(400);
    plane.post("/api/agents/nobody/snooze", json!({"guard": "loop", "minutes": 5})).await.expect(404);
    assert_eq!(plane.get("/api/agents/a0").await.json()["snoozes"], json!([]));
}

#[tokio::test]
async fn po_2_the_account_of_all_agents_is_shown() {
    let plane = Plane::with_agents(1).await;
    let spend = plane.get("/api/spend?by=label").await.expect(200).json();
    assert_eq!(spend["fleet"]["usd_per_day"], json!(null), "{spend}");
    assert_eq!(spend["fleet"]["spent_today"], json!({"usd": 0.0, "tokens": 0}));
    assert_eq!(spend["fleet"]["timezone"], "UTC");
}
