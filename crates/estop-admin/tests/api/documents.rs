//! The OpenAPI document, its page, and the form of every answer.

use std::collections::BTreeSet;

use axum::body::Body;
use estop_core::operator::JournalFailure;
use serde_json::{Value, json};

use crate::support::{Plane, anonymous, set};

#[tokio::test]
async fn ui_3_every_route_is_in_the_openapi_document() {
    let plane = Plane::new();
    let document = plane.send(anonymous("GET", "/api/openapi.json", None)).await.expect(200).json();
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")));
    let mut ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            assert!(operation["x-estop-role"].is_string(), "{method} {path} has no role");
            assert!(operation["summary"].is_string(), "{method} {path} has no summary");
            assert!(ids.insert(operation["operationId"].as_str().unwrap().to_owned()), "{method} {path}");
            let secured = operation["x-estop-role"] != "anyone";
            let answers = operation["responses"].as_object().unwrap();
            assert_eq!(operation.get("security").is_some(), secured, "{method} {path}");
            assert!(!secured || ["401", "403", "429"].iter().all(|status| answers.contains_key(*status)));
            assert!(operation.get("parameters").is_none_or(Value::is_array), "{method} {path}");
            let has_id = path.contains('{');
            assert!(!has_id || answers.contains_key("404"), "{method} {path}");
            let has_body = operation.get("requestBody").is_some();
            assert!(!has_body || ["400", "413", "415"].iter().all(|status| answers.contains_key(*status)));
            for (status, answer) in answers.iter().filter(|(status, _)| status.starts_with(['4', '5'])) {
                assert!(
                    answer["content"]["application/problem+json"].is_object(),
                    "{method} {path} {status}"
                );
            }
        }
    }
}

#[tokio::test]
async fn ui_3_every_reference_of_the_document_leads_somewhere() {
    let plane = Plane::new();
    let document = plane.get("/api/openapi.json").await.expect(200).json();
    let mut references = Vec::new();
    collect(&document, &mut references);
    assert!(references.len() > 100);
    for reference in references {
        let target = document.pointer(reference.trim_start_matches('#'));
        assert!(target.is_some_and(Value::is_object), "{reference}");
    }
    let rules = &document["components"]["schemas"]["PolicyRules"]["properties"];
    assert!(rules["kill_switch_threshold"].is_object());
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|value| collect(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| collect(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[tokio::test]
async fn ui_3_the_page_has_no_script_and_names_every_route() {
    let plane = Plane::new();
    let page = plane.send(anonymous("GET", "/api/docs", None)).await.expect(200);
    let text = page.text();
    assert!(page.header("content-type").starts_with("text/html"));
    assert!(
        !text.contains("<script")
            && !text.contains(" style=")
            && !text.contains("http://")
            && !text.contains("https://")
    );
    let document = plane.get("/api/openapi.json").await.json();
    for path in document["paths"].as_object().unwrap().keys() {
        assert!(text.contains(path.as_str()), "{path}");
    }
    assert!(text.contains("id=\"if_match_missing\""), "the type of a problem leads here");
    plane.send(anonymous("GET", "/api/docs.css", None)).await.expect(200);
}

#[tokio::test]
async fn ui_3_every_answer_has_the_safe_headers() {
    let plane = Plane::new();
    for (method, path) in
        [("GET", "/api/agents"), ("GET", "/nothing"), ("POST", "/healthz"), ("GET", "/api/docs")]
    {
        let answer = plane.send(anonymous(method, path, None)).await;
        assert!(answer.header("content-security-policy").contains("default-src 'none'"), "{path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("cache-control"), "no-store");
        assert!(answer.headers.get("access-control-allow-origin").is_none());
    }
}

#[tokio::test]
async fn ui_3_unknown_paths_and_methods_are_problems() {
    let plane = Plane::new();
    for path in ["/api", "/api/nothing", "/api/agents/", "/api/agents//score", "/API/agents"] {
        plane.get(path).await.expect(404);
    }
    for (method, path, allow) in [
        ("PUT", "/api/agents", "GET, POST, HEAD"),
        ("TRACE", "/api/agents/x", "GET, PATCH, DELETE, HEAD"),
        ("OPTIONS", "/api/emergency/kill", "POST"),
        ("QUERY", "/healthz", "GET, HEAD"),
    ] {
        let answer = plane.send(plane.request(method, path, None)).await.expect(405);
        assert_eq!(answer.header("allow"), allow);
    }
    let head = plane.send(plane.request("HEAD", "/api/agents", None)).await;
    assert_eq!((head.status.as_u16(), head.bytes.len()), (200, 0));
    plane.get("/api/agents/%FF").await.expect(404);
    plane.get("/api/agents/%00").await.expect(404);
}

#[tokio::test]
async fn ui_3_bodies_are_read_strictly() {
    let plane = Plane::new();
    let raw = async |body: &str, content_type: &str| {
        let mut request = plane.request("POST", "/api/agents", None);
        *request.body_mut() = Body::from(body.to_owned());
        plane.send(set(request, "content-type", content_type)).await
    };
    let json_type = "application/json; charset=utf-8";
    assert_eq!(raw("{\"id\":", json_type).await.expect(400).json()["code"], "bad_request");
    assert_eq!(raw("{\"id\":\"a\"} {}", json_type).await.expect(400).json()["code"], "bad_request");
    raw("", json_type).await.expect(400);
    raw("[\"a\"]", json_type).await.expect(400);
    raw("{\"id\":\"a\",\"id\":\"b\"}", json_type).await.expect(400);
    raw("\u{feff}{\"id\":\"a\"}", json_type).await.expect(400);
    raw(&"[".repeat(5000), json_type).await.expect(400);
    raw("{\"id\":\"a\"}", "text/plain").await.expect(415);
    raw(&format!("{{\"id\":\"{}\"}}", "a".repeat(1024 * 1024)), json_type).await.expect(413);
    for (body, field) in [
        (json!({"id": "a", "colour": "red"}), "colour"),
        (json!({"id": 5}), "id"),
        (json!({"id": "no spaces"}), "id"),
        (json!({"id": "a".repeat(65)}), "id"),
        (json!({"id": "system"}), "id"),
        (json!({"id": "<script>"}), "id"),
        (json!({}), ""),
    ] {
        let problem = plane.post("/api/agents", body).await.expect(400).json();
        assert_eq!((&problem["code"], &problem["errors"][0]["field"]), (&json!("invalid"), &json!(field)));
    }
    let mut many = plane.request("GET", "/api/agents", None);
    for _ in 0..65 {
        many.headers_mut().append("x-many", "1".parse().unwrap());
    }
    plane.send(many).await.expect(431);
}

#[tokio::test]
async fn ui_4_who_refuses_everything_is_not_ready_and_says_why() {
    let plane = Plane::new();
    for trouble in [JournalFailure::Failed, JournalFailure::Stuck] {
        plane.operator.set_trouble(Some(trouble));
        let ready = plane.send(anonymous("GET", "/readyz", None)).await.expect(503);
        assert_eq!(ready.json()["detail"], trouble.text());
        let status = plane.send(plane.request("GET", "/api/emergency/status", None)).await.expect(200).json();
        assert_eq!((&status["state"], &status["operational"]), (&json!("running"), &json!(false)));
        assert_eq!(status["journalProblem"], trouble.text());
    }
    plane.operator.set_trouble(None);
    plane.send(anonymous("GET", "/readyz", None)).await.expect(200);
    let status = plane.send(plane.request("GET", "/api/emergency/status", None)).await.expect(200).json();
    assert_eq!((&status["operational"], &status["journalProblem"]), (&json!(true), &json!(null)));
}

#[tokio::test]
async fn ui_4_health_needs_no_token_and_ready_means_that_agents_are_served() {
    let plane = Plane::new();
    plane.send(anonymous("GET", "/healthz", None)).await.expect(200);
    plane.send(anonymous("GET", "/readyz", None)).await.expect(200);
    for (step, state) in [("kill", "shutdown"), ("restart", "safe_mode")] {
        plane.send(plane.request("POST", &format!("/api/emergency/{step}"), None)).await.expect(200);
        let ready = plane.send(anonymous("GET", "/readyz", None)).await.expect(503).json();
        assert!(ready["detail"].as_str().is_some_and(|detail| detail.contains(state)), "{ready}");
        plane.send(anonymous("GET", "/healthz", None)).await.expect(200);
    }
    plane.send(plane.request("POST", "/api/emergency/clear", None)).await.expect(200);
    plane.send(anonymous("GET", "/readyz", None)).await.expect(200);
}

#[tokio::test]
async fn ui_4_one_shut_channel_leaves_estop_ready_and_is_named() {
    let plane = Plane::new();
    for (channel, shut) in [("tools", json!(["tools"])), ("messaging", json!(["tools", "messaging"]))] {
        plane.post("/api/emergency/kill", json!({"channels": [channel]})).await.expect(200);
        let ready = plane.send(anonymous("GET", "/readyz", None)).await.expect(200).json();
        assert_eq!(ready, json!({"status": "ok", "shut": shut}));
    }
    plane.post("/api/emergency/kill", json!({"channels": ["llm"]})).await.expect(200);
    plane.send(anonymous("GET", "/readyz", None)).await.expect(503);
}
