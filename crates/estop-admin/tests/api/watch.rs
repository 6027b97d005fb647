//! Lines to supervisors: what they may say, and what they hear first.

use serde_json::{Value, json};

use crate::support::{Plane, anonymous, send, set};

const SHA: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

fn about(run: &str) -> Value {
    json!({"agent": "a0", "run": run, "kind": "program", "attended": false, "ticket_sha256": SHA, "begin": true})
}

#[tokio::test]
async fn tl_2_a_line_begins_a_run_and_says_where_estop_is() {
    let plane = Plane::with_agents(1).await;
    let said = plane.post("/api/runs/watch", about("r1")).await.expect(200);
    assert_eq!(said.header("content-type"), "application/jsonl");
    let first: Value =
        serde_json::from_str(said.text().lines().next().unwrap_or_default()).unwrap_or_default();
    assert_eq!((&first["watching"], &first["id"]), (&json!(true), &json!("a0:r1")));
    assert_eq!(first["data_url"], "http://127.0.0.1:4100");
    assert!(!said.text().contains(SHA), "the ticket's hash is nobody's business");
    assert_eq!(plane.get("/api/runs/a0:r1").await.expect(200).json()["state"], "ACTIVE");
    plane.post("/api/runs/watch", about("r1")).await.expect(409);
    let again = json!({"agent": "a0", "run": "r1", "kind": "program", "begin": false});
    plane.post("/api/runs/watch", again).await.expect(200);
}

#[tokio::test]
async fn tl_2_an_agent_nobody_has_heard_of_becomes_known() {
    let plane = Plane::with_agents(0).await;
    let mut new = about("r1");
    new["agent"] = json!("new-one");
    plane.post("/api/runs/watch", new).await.expect(200);
    plane.get("/api/runs/new-one:r1").await.expect(200);
}

#[tokio::test]
async fn tl_2_what_a_line_cannot_be_is_refused_by_field() {
    let plane = Plane::with_agents(1).await;
    let unknown = json!({"agent": "a0", "run": "nothing", "kind": "program", "begin": false});
    plane.post("/api/runs/watch", unknown).await.expect(404);
    for (field, value) in [
        ("ticket_sha256", json!("00ff")),
        ("ticket_sha256", json!(SHA.to_uppercase())),
        ("limits", json!({"max_tool_calls": 0})),
        ("limits", json!({"max_calls": 5})),
        ("kind", json!("dance")),
        ("agent", json!("no spaces")),
    ] {
        let mut new = about("r2");
        new[field] = value.clone();
        let refused = plane.post("/api/runs/watch", new).await.expect(400).json();
        let named = refused["errors"][0]["field"].as_str().unwrap_or_default().to_owned();
        assert!(named.starts_with(field), "{field} {value}: {refused}");
    }
}

#[tokio::test]
async fn id_7_an_agents_key_watches_its_own_runs_alone_and_loosens_nothing() {
    let plane = Plane::with_agents(2).await;
    let made = plane.post("/api/agents/a0/keys", json!({"name": "k"})).await.expect(201).json();
    let key = format!("Bearer {}", made["key"].as_str().unwrap_or_default());
    let ask = async |change: fn(&mut Value)| {
        let mut new = about("r3");
        change(&mut new);
        let request = anonymous("POST", "/api/runs/watch", Some(new));
        send(plane.router.clone(), set(request, "authorization", &key)).await
    };
    ask(|new| new["agent"] = json!("a1")).await.expect(403);
    ask(|new| new["attended"] = json!(true)).await.expect(400);
    ask(|new| new["limits"] = json!({"max_tool_calls": "off"})).await.expect(400);
    ask(|new| new["limits"] = json!({"max_tool_calls": 5})).await.expect(200);
}

#[tokio::test]
async fn id_7_a_ticket_says_which_calls_it_makes_and_nothing_about_its_run() {
    let plane = Plane::with_agents(1).await;
    let mut new = about("task");
    new["attended"] = json!(true);
    plane.post("/api/runs/watch", new).await.expect(200);
    let call = json!({"agent": "a0", "run": "task", "kind": "call"});
    for router in [plane.router.clone(), plane.admin.router_for_owner()] {
        let ask = async |field: &str, value: Value| {
            let mut new = call.clone();
            new[field] = value;
            let request = anonymous("POST", "/api/runs/watch", Some(new));
            send(router.clone(), set(request, "x-estop-ticket", "a ticket")).await
        };
        for (field, value) in [
            ("kind", json!("program")),
            ("begin", json!(true)),
            ("ticket_sha256", json!(SHA)),
            ("attended", json!(true)),
            ("limits", json!({"max_tool_calls": "off"})),
        ] {
            let refused = ask(field, value).await.expect(400).json();
            let named = refused["errors"][0]["field"].as_str().unwrap_or_default().to_owned();
            assert!(named.starts_with(field), "{field}: {refused}");
        }
        ask("run", json!("other")).await.expect(403);
        ask("agent", json!("a1")).await.expect(403);
        let said = ask("run", Value::Null).await.expect(200);
        assert!(said.text().contains("a0:task"), "it watches its run: {}", said.text());
    }
}

#[tokio::test]
async fn id_7_a_key_begins_no_run_anew_that_a_person_or_a_supervisor_had() {
    let plane = Plane::with_agents(1).await;
    let made = plane.post("/api/agents/a0/keys", json!({"name": "k"})).await.expect(201).json();
    let key = format!("Bearer {}", made["key"].as_str().unwrap_or_default());
    let ask = async |path: &str, body: Value| {
        send(plane.router.clone(), set(anonymous("POST", path, Some(body)), "authorization", &key)).await
    };
    let run = |run: &str| json!({"agent": "a0", "run": run});
    ask("/api/runs", run("own")).await.expect(201);
    ask("/api/runs/a0:own/complete", json!({})).await.expect(200);
    ask("/api/runs", run("own")).await.expect(201);

    plane.post("/api/runs", json!({"agent": "a0", "run": "sat", "attended": true})).await.expect(201);
    plane.post("/api/runs/watch", about("watched")).await.expect(200);
    for name in ["sat", "watched"] {
        ask(&format!("/api/runs/a0:{name}/complete"), json!({})).await.expect(200);
        let refused = ask("/api/runs", run(name)).await.expect(409).json();
        assert!(refused["detail"].as_str().unwrap_or_default().contains("operator"), "{refused}");
        let mut again = about(name);
        again["ticket_sha256"] = Value::Null;
        ask("/api/runs/watch", again).await.expect(409);
        plane.send(plane.request("POST", &format!("/api/runs/a0:{name}/activate"), None)).await.expect(200);
    }
}
