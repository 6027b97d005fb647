//! Agents and their kill switches.

use estop_core::loop_detector::LoopFinding;
use estop_core::operator::Operator;
use estop_store::AgentRepo;
use serde_json::{Value, json};

use crate::support::{Plane, set};

#[tokio::test]
async fn ui_3_agents_come_in_pages_without_gaps_or_doubles() {
    let plane = Plane::with_agents(7).await;
    let mut names = Vec::new();
    let mut path = "/api/agents?limit=3".to_owned();
    loop {
        let page = plane.get(&path).await.expect(200).json();
        let agents = page["agents"].as_array().cloned().unwrap_or_default();
        assert!(agents.len() <= 3);
        names.extend(agents.iter().map(|agent| agent["id"].as_str().unwrap_or_default().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/agents?limit=3&after={next}");
    }
    assert_eq!(names, ["a0", "a1", "a2", "a3", "a4", "a5", "a6"]);
    for bad in ["limit=0", "limit=501", "limit=x", "limit=-1", "agnet=a"] {
        let problem = plane.get(&format!("/api/agents?{bad}")).await.expect(400).json();
        assert!(problem["errors"][0]["message"].is_string(), "{problem}");
    }
}

/// The default agent always has a place, and is not listed as long as nobody uses it.
#[tokio::test]
async fn ui_3_no_page_of_agents_is_empty_for_one_that_is_not_listed() {
    let plane = Plane::new();
    for id in ["a", "b", "estop", "z"] {
        plane.post("/api/agents", json!({ "id": id })).await.expect(201);
    }
    plane.operator.add_agent("default").expect("it has a place");
    let mut names = Vec::new();
    let mut path = "/api/agents?limit=1".to_owned();
    loop {
        let page = plane.get(&path).await.expect(200).json();
        names.push(page["agents"][0]["id"].as_str().unwrap_or_default().to_owned());
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/agents?limit=1&after={next}");
    }
    assert_eq!(names, ["a", "b", "estop", "z"]);
}

#[tokio::test]
async fn ui_3_an_agent_is_added_changed_and_deleted_by_its_version() {
    let plane = Plane::new();
    let added = plane.post("/api/agents", json!({"id": "coder", "role": "pm"})).await.expect(201);
    assert_eq!(
        (added.header("location"), added.json()["role"].clone()),
        ("/api/agents/coder".to_owned(), json!("pm"))
    );
    plane.post("/api/agents", json!({"id": "coder"})).await.expect(409);
    let tag = plane.get("/api/agents/coder").await.expect(200).header("etag");
    let patch = || plane.request("PATCH", "/api/agents/coder", Some(json!({"role": "security-review"})));
    plane.send(set(patch(), "if-match", "\"999\"")).await.expect(412);
    let changed = plane.send(set(patch(), "if-match", &tag)).await.expect(200);
    assert_eq!(changed.json()["role"], "security-review");
    assert_ne!(changed.header("etag"), tag);
    plane.send(set(patch(), "if-match", &tag)).await.expect(412);
    let switched = json!({"kill_switch_enabled": true, "kill_switch_threshold": 8.5});
    let changed = plane.send(plane.request("PATCH", "/api/agents/coder", Some(switched))).await.expect(200);
    assert_eq!(changed.json()["kill_switch_threshold"], 8.5);
    let beyond = json!({"kill_switch_window_size": 4});
    let refused = plane.send(plane.request("PATCH", "/api/agents/coder", Some(beyond))).await.expect(400);
    assert_eq!(refused.json()["errors"][0]["field"], "kill_switch_window_size");

    let delete = || plane.request("DELETE", "/api/agents/coder", None);
    plane.send(delete()).await.expect(428);
    plane.send(set(delete(), "if-match", &tag)).await.expect(412);
    plane.send(set(delete(), "if-match", &changed.header("etag"))).await.expect(204);
    plane.get("/api/agents/coder").await.expect(404);
    plane.send(plane.request("POST", "/api/agents/coder/activate", None)).await.expect(404);
    assert_eq!(plane.get("/api/agents").await.json()["agents"], json!([]));
    assert!(
        plane.operator.done().contains(&"Deactivate coder by admin".to_owned()),
        "{:?}",
        plane.operator.done()
    );
}

#[tokio::test]
async fn ld_4_activating_and_deactivating_say_who_and_why() {
    let plane = Plane::with_agents(1).await;
    let steer = async |what: &str| {
        let request = plane.request("POST", &format!("/api/agents/a0/{what}"), None);
        plane.send(request).await.expect(200).json()
    };
    let off = steer("deactivate").await;
    assert_eq!((&off["active"], &off["deactivated_by"]), (&json!(false), &json!("manual")));
    let on = steer("activate").await;
    assert_eq!(
        (&on["active"], &on["deactivated_by"], &on["health"]),
        (&json!(true), &Value::Null, &json!(800))
    );
    assert_eq!(steer("pause").await["paused"], true);
    assert_eq!(steer("resume").await["paused"], false);
    plane.send(plane.request("POST", "/api/agents/nobody/deactivate", None)).await.expect(404);
}

#[tokio::test]
async fn ld_1_kill_switch_bounds_are_named() {
    let plane = Plane::with_agents(1).await;
    let patch = async |body: Value| {
        plane.send(plane.request("PATCH", "/api/agents/a0/kill-switch", Some(body))).await
    };
    for (body, field, bound) in [
        (json!({"window_size": 4}), "window_size", "from 5 to 100"),
        (json!({"window_size": 101}), "window_size", "from 5 to 100"),
        (json!({"threshold": 0.9}), "threshold", "from 1 to 50"),
        (json!({"threshold": 50.5}), "threshold", "from 1 to 50"),
        (json!({"threshold": 50.04}), "threshold", "from 1 to 50"),
    ] {
        let problem = patch(body).await.expect(400).json();
        assert_eq!(problem["errors"][0]["field"], field);
        assert!(problem["errors"][0]["message"].as_str().unwrap_or_default().contains(bound), "{problem}");
    }
    let both = patch(json!({"window_size": 1, "threshold": 99})).await.expect(400).json();
    assert_eq!(both["errors"].as_array().map(Vec::len), Some(2), "everything at once");

    let set = patch(json!({"enabled": true, "window_size": 5, "threshold": 12.5})).await.expect(200).json();
    assert_eq!(
        set,
        json!({"enabled": true, "window_size": 5, "threshold": 12.5, "notification_missing": true})
    );
    let row = plane.store.agent("a0").unwrap().unwrap();
    assert_eq!((row.kill_switch_enabled, row.kill_switch_threshold_tenths), (Some(true), Some(125)));
    let agent = plane.get("/api/agents/a0").await.json();
    assert_eq!(
        (&agent["kill_switch_enabled"], &agent["kill_switch_threshold"]),
        (&json!(true), &json!(12.5))
    );
    let back = patch(json!({"window_size": null})).await.expect(200).json();
    assert_eq!(
        (&back["window_size"], &back["enabled"]),
        (&json!(30), &json!(true)),
        "null = as the file says"
    );
}

#[tokio::test]
async fn ld_1_the_score_is_shown_with_its_parts() {
    let plane = Plane::with_agents(1).await;
    let finding = LoopFinding {
        score: 105,
        max: 100,
        prompts: 3,
        responses: 3,
        calls: 1,
        window: 9,
        repetition: None,
        stretch: None,
        other: None,
    };
    plane.operator.set_score("a0", finding);
    let score = plane.get("/api/agents/a0/score").await.expect(200).json();
    for (key, value) in [
        ("score", json!(10.5)),
        ("similar_prompts", json!(3)),
        ("similar_responses", json!(3)),
        ("repeated_tool_calls", json!(1)),
        ("threshold", json!(10.0)),
        ("window", json!(9)),
        ("is_loop", json!(true)),
    ] {
        assert_eq!(score[key], value, "{key}");
    }
    plane.get("/api/agents/nobody/score").await.expect(404);
}

#[tokio::test]
async fn id_2_a_key_is_shown_once() {
    let plane = Plane::with_agents(1).await;
    let made = plane.send(plane.request("POST", "/api/agents/a0/keys", None)).await.expect(201).json();
    let key = made["key"].as_str().unwrap().to_owned();
    assert!(key.starts_with("estop_key_") && key.len() == 74, "256 bits");
    let hashes = plane.operator.keys();
    assert_eq!((hashes.len(), &*hashes[0].agent), (1, "a0"));
    let listed = plane.get("/api/agents/a0/keys").await.expect(200);
    assert!(!listed.text().contains(&key), "only its beginning is shown again");
    assert_eq!(listed.json()["keys"][0]["id"], made["id"]);
    let id = made["id"].as_str().unwrap();
    let revoke = || plane.request("DELETE", &format!("/api/agents/a0/keys/{id}"), None);
    plane.send(revoke()).await.expect(204);
    assert!(plane.operator.keys().is_empty(), "the operator knows at once");
    plane.send(revoke()).await.expect(404);
}
