//! Hooks over HTTP: who may call them, as whom, and what becomes of a bad body (TL-1, ID-2).

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};

use crate::support::{Answered, Plane, anonymous, set};

const TOOL: &str = "/api/hooks/pre-tool-use";

fn call() -> Value {
    json!({"tool": "Bash"})
}

/// A request with these headers and no token of a person.
fn with(path: &str, body: Value, headers: &[(&'static str, &str)]) -> Request<Body> {
    let request = anonymous("POST", path, Some(body));
    headers.iter().fold(request, |request, (name, value)| set(request, name, value))
}

async fn key_of(plane: &Plane, agent: &str) -> String {
    let made = plane.send(plane.request("POST", &format!("/api/agents/{agent}/keys"), None)).await;
    format!("Bearer {}", made.expect(201).json()["key"].as_str().unwrap_or_default())
}

/// What the operator was told last.
fn told(plane: &Plane) -> String {
    plane.operator.done().pop().unwrap_or_default()
}

#[tokio::test]
async fn tl_1_a_hook_of_any_framework_is_answered_in_our_form() {
    let plane = Plane::new();
    let answer = plane.post(TOOL, call()).await.expect(200);
    assert_eq!(answer.header("content-type"), "application/json");
    let all = json!({"permission": "allow", "reason": null, "context": null, "end": false});
    assert_eq!(answer.json(), all);
    assert_eq!(told(&plane), "Hook generic pre-tool-use None None false false None");

    let named = plane.request("POST", TOOL, Some(call()));
    let named = set(set(named, "x-estop-agent", "a7"), "x-estop-run", "r7");
    plane.send(set(named, "x-estop-branch", "fix/ü")).await.expect(200);
    assert_eq!(
        told(&plane),
        "Hook generic pre-tool-use Some(\"a7\") Some(\"r7\") false false Some(\"fix/ü\")"
    );
}

#[tokio::test]
async fn tl_1_a_bad_body_is_a_problem_that_names_the_field() {
    let plane = Plane::new();
    let problem = plane.post(TOOL, json!({"args": {}})).await.expect(400).json();
    assert_eq!((&problem["code"], &problem["errors"][0]["field"]), (&json!("invalid"), &json!("tool")));
    let plain = set(plane.request("POST", TOOL, Some(call())), "content-type", "text/plain");
    plane.send(plain).await.expect(415);
    plane.post("/api/hooks/no-such-event", call()).await.expect(404);
    plane.get(TOOL).await.expect(405);
}

#[tokio::test]
async fn tl_1_a_client_gets_its_own_answer_also_when_its_payload_cannot_be_read() {
    let plane = Plane::new();
    let own = "/api/hooks/claude-code/PreToolUse";
    let said = plane.post(own, call()).await.expect(200).json();
    assert_eq!(said["permission"], "allow", "as the operator says it");
    assert_eq!(told(&plane), "Hook claude-code PreToolUse None None false false None");
    // An error would let the tool run.
    assert_eq!(plane.post(own, json!([])).await.expect(200).json(), json!({}));
    let command = plane.post(&format!("{own}?as=command"), json!([])).await.expect(200).json();
    assert_eq!(command, json!({"stdout": "", "stderr": "refused", "exit_code": 2}));
    plane.post(&format!("{own}?as=carpet"), call()).await.expect(400);
}

#[tokio::test]
async fn tl_1_a_client_that_posts_its_hooks_gets_its_refusal_for_one_that_was_not_taken() {
    let plane = Plane::with_agents(2).await;
    let key = key_of(&plane, "a0").await;
    let own = "/api/hooks/claude-code/PreToolUse";
    let other = [("authorization", key.as_str()), ("x-estop-agent", "a1")];
    // An error would let the tool run.
    let refused = plane.send(with(own, call(), &other)).await.expect(200).json();
    assert!(refused["lost"].as_str().unwrap_or_default().contains("the agent a0 alone"), "{refused}");
    // `estop hook` takes it for a refusal, and frameworks read the status.
    plane.send(with(&format!("{own}?as=command"), call(), &other)).await.expect(403);
    plane.send(with(TOOL, call(), &other)).await.expect(403);

    let too_large = json!({"tool": "x".repeat(34 << 20)});
    let refused = plane.post(own, too_large.clone()).await.expect(200).json();
    assert!(refused["lost"].as_str().unwrap_or_default().contains("at most"), "{refused}");
    plane.post(TOOL, too_large).await.expect(413);
}

/// Four bodies that never come hold every place for large ones.
#[tokio::test]
async fn tl_1_large_hooks_that_never_arrive_have_others_refused_and_not_wait() {
    let plane = Plane::new();
    let own = "/api/hooks/claude-code/PreToolUse";
    let stuck = || plane.send(plane.request("POST", own, None).map(|_| never_coming()));
    let refused = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        stuck().await.expect(200).json()
    };
    let refused = tokio::select! {
        refused = refused => refused,
        _ = async { tokio::join!(stuck(), stuck(), stuck(), stuck()) } => unreachable!("they take longer"),
    };
    assert!(refused["lost"].as_str().unwrap_or_default().contains("Too many large hooks"), "{refused}");
}

/// A body of unknown length that never comes.
fn never_coming() -> Body {
    struct Never;
    impl http_body::Body for Never {
        type Data = bytes::Bytes;
        type Error = std::convert::Infallible;
        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<bytes::Bytes>, Self::Error>>> {
            std::task::Poll::Pending
        }
    }
    Body::new(Never)
}

#[tokio::test]
async fn id_2_a_key_acts_for_its_agent_alone() {
    let plane = Plane::with_agents(2).await;
    let key = key_of(&plane, "a0").await;
    let ask = async |path: &str, body: Value, more: &[(&'static str, &str)]| -> Answered {
        let mut headers = vec![("authorization", key.as_str())];
        headers.extend(more);
        plane.send(with(path, body, &headers)).await
    };
    ask(TOOL, call(), &[]).await.expect(200);
    assert_eq!(told(&plane), "Hook generic pre-tool-use Some(\"a0\") None true false None");
    ask(TOOL, call(), &[("x-estop-agent", "a0"), ("x-estop-run", "r1")]).await.expect(200);
    assert_eq!(told(&plane), "Hook generic pre-tool-use Some(\"a0\") Some(\"r1\") true false None");
    let refused = ask(TOOL, call(), &[("x-estop-agent", "a1")]).await.expect(403).json();
    assert!(refused["detail"].as_str().unwrap_or_default().contains("the agent a0 alone"), "{refused}");

    ask("/api/runs", json!({"agent": "a0", "run": "one"}), &[]).await.expect(201);
    ask("/api/runs", json!({"agent": "a1", "run": "one"}), &[]).await.expect(403);
    let vouches = json!({"agent": "a0", "run": "two", "attended": true});
    ask("/api/runs", vouches, &[]).await.expect(400);
    let loosens = json!({"agent": "a0", "run": "two", "limits": {"max_tool_calls": "off"}});
    ask("/api/runs", loosens, &[]).await.expect(400);
    plane.post("/api/runs", json!({"agent": "a1", "run": "two"})).await.expect(201);
    for step in ["sleep", "wake", "complete"] {
        ask(&format!("/api/runs/a0:one/{step}"), json!({}), &[]).await.expect(200);
        ask(&format!("/api/runs/a1:two/{step}"), json!({}), &[]).await.expect(403);
    }
    for step in ["extend", "activate"] {
        ask(&format!("/api/runs/a0:one/{step}"), json!({}), &[]).await.expect(401);
    }
}

#[tokio::test]
async fn id_7_a_ticket_acts_for_its_run_alone() {
    let plane = Plane::with_agents(2).await;
    let ticket = ("x-estop-ticket", "a ticket");
    plane.send(with(TOOL, call(), &[ticket])).await.expect(200);
    assert_eq!(told(&plane), "Hook generic pre-tool-use Some(\"a0\") Some(\"task\") true true None");
    plane.send(with(TOOL, call(), &[ticket, ("x-estop-run", "other")])).await.expect(403);
    plane.send(with(TOOL, call(), &[ticket, ("x-estop-agent", "a1")])).await.expect(403);
    for _ in 0..30 {
        plane.send(with(TOOL, call(), &[("x-estop-ticket", "another")])).await.expect(401);
    }
    plane.send(with("/api/runs", json!({"agent": "a0"}), &[ticket])).await.expect(403);
    // Also where nobody needs a token: a ticket narrows what its bearer may do.
    let owner = plane.admin.router_for_owner();
    let asked = async |headers: &[(&'static str, &str)]| {
        crate::support::send(owner.clone(), with(TOOL, call(), headers)).await
    };
    asked(&[ticket]).await.expect(200);
    assert_eq!(told(&plane), "Hook generic pre-tool-use Some(\"a0\") Some(\"task\") true true None");
    asked(&[("x-estop-ticket", "another")]).await.expect(401);
    asked(&[]).await.expect(200);
    assert_eq!(told(&plane), "Hook generic pre-tool-use None None false false None");
}
