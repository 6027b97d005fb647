//! Every route with every role, as the document says (UI-3, A8).

use http::StatusCode;
use serde_json::{Value, json};

use crate::support::{Plane, anonymous, send, set};

/// Who asks, from nobody to an admin.
const RANKS: [&str; 5] = ["nobody", "agent key", "viewer", "operator", "admin"];

/// An operation of the document.
struct Operation {
    method: String,
    path: String,
    role: String,
    /// Agents may call it by their keys, runs by their tickets.
    takes: Vec<String>,
}

/// Every operation of the document.
async fn operations(plane: &Plane) -> Vec<Operation> {
    let document = plane.get("/api/openapi.json").await.expect(200).json();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            let role = operation["x-estop-role"].as_str();
            let role = role.unwrap_or_else(|| unreachable!("{method} {path} is not in the table of roles"));
            let schemes = operation["security"].as_array().into_iter().flatten();
            let takes = schemes.filter_map(|scheme| scheme.as_object()?.keys().next().cloned()).collect();
            let (method, path, role) = (method.to_uppercase(), path.clone(), role.to_owned());
            found.push(Operation { method, path, role, takes });
        }
    }
    found
}

/// A body each route accepts or refuses by itself; roles are asked before.
fn body(method: &str, path: &str) -> Option<Value> {
    (method != "GET" && path != "/api/agents/{id}/keys").then(|| json!({}))
}

/// A place where nothing is; for an agent, one of its own.
fn place(path: &str) -> String {
    let id = if path.starts_with("/api/runs/") { "a0:nothing" } else { "nothing" };
    let path = path.replace("{id}", id).replace("{key_id}", "nothing").replace("{name}", "nothing");
    path.replace("{client}", "generic").replace("{event}", "turn-end")
}

#[tokio::test]
async fn ui_3_every_route_lets_in_exactly_the_roles_of_the_table() {
    let plane = Plane::with_agents(1).await;
    let key = plane.send(plane.request("POST", "/api/agents/a0/keys", None)).await.expect(201).json();
    let tokens = [
        None,
        key["key"].as_str().map(str::to_owned),
        Some(plane.token("viewer").await),
        Some(plane.token("operator").await),
        Some(plane.token.clone()),
    ];
    let mut seen = 0;
    for Operation { method, path, role, takes } in operations(&plane).await {
        let needed = match role.as_str() {
            "anyone" => 0,
            role => RANKS.iter().position(|known| *known == role).expect("a known role"),
        };
        for (rank, token) in tokens.iter().enumerate() {
            // Failed attempts are counted; this test makes many on purpose.
            plane.pass_ms(60_000);
            let mut request = anonymous(&method, &place(&path), body(&method, &path));
            if let Some(token) = token {
                request = set(request, "authorization", &format!("Bearer {token}"));
            }
            let status = plane.send(request).await.status;
            let denied = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status);
            let who = RANKS[rank];
            let is_agent = who == "agent key" && takes.iter().any(|scheme| scheme == "key");
            assert_eq!(denied, rank < needed && !is_agent, "{method} {path} for {who}: {status}");
            if rank < 2 && needed > 0 && !is_agent {
                let is_button = path.starts_with("/api/emergency/") && method == "POST";
                let expected = if is_button { StatusCode::FORBIDDEN } else { StatusCode::UNAUTHORIZED };
                assert_eq!(status, expected, "{method} {path} for {who}");
            }
            seen += 1;
        }
    }
    assert!(seen >= 5 * 50, "{seen}");
}

#[tokio::test]
async fn id_7_a_ticket_narrows_what_its_bearer_may_do_on_every_route_by_both_doors() {
    let plane = Plane::with_agents(1).await;
    let mut refused = 0;
    for Operation { method, path, role, takes } in operations(&plane).await {
        let may = role == "anyone" || takes.iter().any(|scheme| scheme == "ticket");
        let place = place(&path).replace("a0:nothing", "a0:task");
        let ask = || set(anonymous(&method, &place, body(&method, &path)), "x-estop-ticket", "a ticket");
        let by_admin = set(ask(), "authorization", &format!("Bearer {}", plane.token));
        for (door, router, request) in [
            ("the port", plane.router.clone(), ask()),
            ("the port, with an admin's token", plane.router.clone(), by_admin),
            ("the owner's socket", plane.admin.router_for_owner(), ask()),
        ] {
            let status = send(router, request).await.status;
            assert_eq!(status == StatusCode::FORBIDDEN, !may, "{method} {path} by {door}: {status}");
            refused += usize::from(!may);
        }
    }
    assert!(refused >= 3 * 30, "{refused}");
    for page in ["/", "/incidents"] {
        let request = set(anonymous("GET", page, None), "x-estop-ticket", "a ticket");
        send(plane.admin.router_for_owner(), request).await.expect(403);
    }
}

#[tokio::test]
async fn ks_5_killing_is_easy_and_clearing_is_hard() {
    let plane = Plane::new();
    let operator = plane.token("operator").await;
    let ask = async |path: &str, token: &str| {
        let request = set(anonymous("POST", path, None), "authorization", &format!("Bearer {token}"));
        plane.send(request).await
    };
    assert_eq!(ask("/api/emergency/restart", &plane.token).await.expect(409).json()["code"], "conflict");
    assert_eq!(ask("/api/emergency/kill", &operator).await.expect(200).json()["status"], "shutdown");
    let refused = ask("/api/emergency/restart", &operator).await.expect(403).json();
    assert_eq!(refused["error"], "Unauthorized");
    ask("/api/emergency/clear", &plane.token).await.expect(409);
    assert_eq!(ask("/api/emergency/restart", &plane.token).await.expect(200).json()["status"], "safe_mode");
    ask("/api/emergency/clear", &operator).await.expect(403);
    let stale = plane.post("/api/emergency/clear", json!({"epoch": 1})).await.expect(409).json();
    assert!(stale["detail"].as_str().unwrap_or_default().contains("newer kill"));
    assert_eq!(ask("/api/emergency/clear", &plane.token).await.expect(200).json()["status"], "running");
}

#[tokio::test]
async fn ks_5_the_stop_is_tried_out_by_operators_while_the_system_runs() {
    let plane = Plane::new();
    let (operator, viewer) = (plane.token("operator").await, plane.token("viewer").await);
    let ask = async |token: &str| {
        let request = anonymous("POST", "/api/emergency/prooftest", None);
        plane.send(set(request, "authorization", &format!("Bearer {token}"))).await
    };
    let last = async || plane.get("/api/emergency/status").await.expect(200).json()["proofTest"].clone();
    assert_eq!(last().await, json!({"last": null, "overdue": true, "everyDays": 30}));
    ask(&viewer).await.expect(403);
    let test = ask(&operator).await.expect(200).json();
    assert_eq!((&test["passed"], &test["took_us"]), (&json!(true), &json!(34)));
    assert_eq!(test["steps"][0], json!({"name": "gate", "passed": true, "took_us": 12, "what": "refused"}));
    assert_eq!((&last().await["overdue"], &last().await["last"]), (&json!(false), &test));
    plane.send(plane.request("POST", "/api/emergency/kill", None)).await.expect(200);
    assert_eq!(ask(&operator).await.expect(409).json()["code"], "conflict");
}

#[tokio::test]
async fn ks_6_the_status_names_state_and_channels() {
    let plane = Plane::new();
    let kill =
        json!({"reason": "security_incident", "channels": ["messaging"], "adminToken": "as in the seed"});
    assert_eq!(plane.post("/api/emergency/kill", kill).await.expect(200).json()["status"], "running");
    let status = plane.get("/api/emergency/status").await.expect(200).json();
    for (key, value) in [
        ("state", json!("running")),
        ("reason", json!("security_incident")),
        ("persisted", json!(true)),
        ("operational", json!(false)),
        ("llmEnabled", json!(true)),
        ("toolsEnabled", json!(true)),
        ("messagingEnabled", json!(false)),
    ] {
        assert_eq!(status[key], value, "{key}");
    }
    let odd = json!({"reason": "boredom", "channels": ["llm", "television"]});
    let killed = plane.post("/api/emergency/kill", odd).await.expect(200).json();
    assert_eq!(killed["status"], "shutdown", "a kill that cannot be read stops everything");
}

#[tokio::test]
async fn ks_6_the_token_may_stand_in_the_body() {
    let plane = Plane::new();
    let ask = async |path: &str, body: Value| plane.send(anonymous("POST", path, Some(body))).await;
    let wrong = json!({"adminToken": "estop_admin_guessed", "reason": "manual"});
    let refused = ask("/api/emergency/kill", wrong).await.expect(403).json();
    assert_eq!((&refused["error"], &refused["code"]), (&json!("Unauthorized"), &json!("forbidden")));
    ask("/api/emergency/kill", json!({"reason": "manual"})).await.expect(403);
    ask("/api/emergency/kill", json!([plane.token])).await.expect(403);

    let metadata = json!({"source": "cli", "user": "ann"});
    let kill =
        json!({"adminToken": plane.token, "reason": "emergency", "note": "smoke", "metadata": metadata});
    let killed = ask("/api/emergency/kill", kill).await.expect(200).json();
    assert_eq!(killed["message"], "System shut down successfully");
    assert_eq!((&killed["stopped"]["model_calls"], &killed["took"]["gate_us"]), (&json!(0), &json!(1)));
    let status = plane.get("/api/emergency/status").await.expect(200).json();
    for (key, value) in [
        ("state", json!("shutdown")),
        ("reason", json!("emergency")),
        ("note", json!("smoke")),
        ("source", json!("cli")),
        ("metadata", metadata),
    ] {
        assert_eq!(status[key], value, "{key}");
    }
    let unlock = json!({"adminToken": plane.token, "reason": "it was toast"});
    let safe = ask("/api/emergency/restart", unlock.clone()).await.expect(200).json();
    assert_eq!(
        (&safe["status"], &safe["message"]),
        (&json!("safe_mode"), &json!("System in safe mode. Run /clear to resume."))
    );
    let clear = ask("/api/emergency/clear", unlock).await.expect(200).json();
    assert_eq!((&clear["status"], &clear["message"]), (&json!("running"), &json!("System operational")));
    // Nowhere else.
    ask("/api/agents/a/activate", json!({"adminToken": plane.token})).await.expect(401);
}
