//! Rules over the file.

use serde_json::{Value, json};

use crate::support::Plane;

async fn put(plane: &Plane, agent: &str, rules: Value) -> crate::support::Answered {
    plane.send(plane.request("PUT", &format!("/api/agents/{agent}/policy"), Some(rules))).await
}

#[tokio::test]
async fn ui_5_api_rules_lie_over_the_file_until_they_are_deleted() {
    let plane = Plane::new();
    plane.post("/api/agents", json!({"id": "filed"})).await.expect(201);
    let before = plane.get("/api/agents/filed/policy").await.expect(200).json();
    assert_eq!(before["overrides"], json!({}));
    assert_eq!(before["role"], "pm");
    assert_eq!(before["effective"]["kill_switch_threshold"], 12.0);
    let origin = |policy: &Value, key: &str| policy["origins"][key].as_str().unwrap_or_default().to_owned();
    assert_eq!(origin(&before, "kill_switch_threshold"), "agent in file");
    assert_eq!(origin(&before, "kill_switch_window_size"), "file");
    assert_eq!(origin(&before, "budget"), "preset");

    let rules =
        json!({"kill_switch_threshold": 20, "budget": {"usd_per_day": 2.5}, "guards": {"loop": "enforce"}});
    let over = put(&plane, "filed", rules.clone()).await.expect(200).json();
    assert_eq!(origin(&over, "kill_switch_threshold"), "api");
    assert_eq!(
        origin(&over, "kill_switch_window_size"),
        "file",
        "what the API does not say, the file decides"
    );
    assert_eq!(over["effective"]["budget"]["usd_per_day"], 2.5);
    assert_eq!(over["effective"]["kill_switch_enabled"], true, "guards.loop is the same switch");
    assert_eq!(over["overrides"]["guards"], rules["guards"]);

    // Set by its other name, the switch does not contradict itself.
    let request = plane.request("PATCH", "/api/agents/filed/kill-switch", Some(json!({"enabled": false})));
    assert_eq!(plane.send(request).await.expect(200).json()["enabled"], false);

    let gone = plane.send(plane.request("DELETE", "/api/agents/filed/policy", None)).await.expect(200).json();
    assert_eq!((&gone["effective"], &gone["overrides"]), (&before["effective"], &json!({})));
}

#[tokio::test]
async fn ui_5_wrong_rules_are_refused_with_the_key() {
    let plane = Plane::with_agents(1).await;
    for (rules, field, says) in [
        (json!({"kill_swich_enabled": true}), "kill_swich_enabled", "unknown field `kill_swich_enabled`"),
        (json!({"budget": {"usd_per_year": 1}}), "budget.usd_per_year", "unknown field `usd_per_year`"),
        (json!({"kill_switch_threshold": 51}), "kill_switch_threshold", "from 1 to 50"),
        (json!({"limits": {"max_turns": 0}}), "limits.max_turns", "positive whole number"),
        (json!({"kill_switch_enabled": null}), "kill_switch_enabled", "a value"),
        (json!({"kill_switch_enabled": true, "guards": {"loop": "off"}}), "guards.loop", "same switch"),
        (json!({"budget": [5]}), "budget", "must be an object"),
        (json!({"budget": {"timezone": "Mars"}}), "budget.timezone", "unknown time zone"),
    ] {
        for path in ["/api/agents/a0/policy", "/api/policy/check"] {
            let method = if path.ends_with("check") { "POST" } else { "PUT" };
            let problem =
                plane.send(plane.request(method, path, Some(rules.clone()))).await.expect(400).json();
            let error = &problem["errors"][0];
            assert_eq!(error["field"], field, "{problem}");
            assert!(error["message"].as_str().unwrap_or_default().contains(says), "{problem}");
        }
    }
    put(&plane, "a0", json!([])).await.expect(400);
    assert_eq!(
        plane.get("/api/agents/a0/policy").await.json()["overrides"],
        json!({}),
        "nothing of it was kept"
    );
    plane.post("/api/policy/check", json!({"profile": "batch"})).await.expect(200);
}

#[tokio::test]
async fn po_5_presets_show_their_rules() {
    let plane = Plane::new();
    let presets = plane.get("/api/presets").await.expect(200).json();
    assert_eq!(presets["presets"][0]["name"], "watch");
    assert_eq!(presets["presets"][0]["policy"]["guards"]["loop"], "shadow");
    assert_eq!(presets["presets"][1]["policy"]["guards"]["loop"], "enforce");
}
