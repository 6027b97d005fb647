//! The button under bad conditions: bodies that stall, break off, are too long or half wrong.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http::Request;
use http_body::Frame;
use serde_json::{Value, json};

use crate::support::{Answered, Plane, anonymous, set};

const KILL: &str = "/api/emergency/kill";
const RESTART: &str = "/api/emergency/restart";

/// A body that begins, and then stalls or breaks off.
struct Begun {
    first: Option<Bytes>,
    breaks: bool,
}

impl http_body::Body for Begun {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(Frame::data(first)))),
            None if self.breaks => Poll::Ready(Some(Err(std::io::Error::other("gone")))),
            None => Poll::Pending,
        }
    }
}

fn begun(breaks: bool) -> Body {
    Body::new(Begun { first: Some(Bytes::from_static(b"{\"epoch\": 1, ")), breaks })
}

/// Longer than any body may be.
fn too_long() -> Body {
    Body::from(format!("{{\"note\": \"{}\"}}", "a".repeat(1 << 20)))
}

/// Fails instead of waiting for ever.
async fn send(plane: &Plane, mut request: Request<Body>, body: Body) -> Answered {
    *request.body_mut() = body;
    let answer = tokio::time::timeout(Duration::from_secs(60), plane.send(request)).await;
    answer.expect("an answer, although the body does not arrive")
}

/// Makes requests of a dashboard's session: no token is in their headers.
async fn session(plane: &Plane) -> impl Fn(&str) -> Request<Body> {
    let login = anonymous("POST", "/api/session", Some(json!({"token": plane.token})));
    let answer = plane.send(login).await.expect(201);
    let cookie = answer.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
    let csrf = answer.json()["csrf"].as_str().unwrap_or_default().to_owned();
    move |path| set(set(anonymous("POST", path, None), "cookie", &cookie), "x-estop-csrf", &csrf)
}

async fn status(plane: &Plane) -> Value {
    plane.get("/api/emergency/status").await.expect(200).json()
}

#[tokio::test]
async fn ks_5_a_kill_does_not_wait_for_its_body() {
    for body in [|| begun(false), || begun(true), too_long] {
        let plane = Plane::new();
        let killed = send(&plane, plane.request("POST", KILL, None), body()).await.expect(200).json();
        assert_eq!(killed["status"], "shutdown");

        let plane = Plane::new();
        let by_session = session(&plane).await;
        let killed = send(&plane, by_session(KILL), body()).await.expect(200).json();
        assert_eq!(killed["status"], "shutdown");
        assert_eq!(status(&plane).await["reason"], "manual");

        let plane = Plane::new();
        send(&plane, anonymous("POST", KILL, None), body()).await.expect(403);
        assert_eq!(status(&plane).await["state"], "running");
    }
}

#[tokio::test]
async fn ks_5_a_body_that_does_not_arrive_unlocks_nothing() {
    let plane = Plane::new();
    let by_session = session(&plane).await;
    plane.send(plane.request("POST", KILL, None)).await.expect(200);
    let (late, late_with_header, late_elsewhere) = tokio::join!(
        send(&plane, by_session(RESTART), begun(false)),
        send(&plane, plane.request("POST", RESTART, None), begun(false)),
        send(
            &plane,
            set(plane.request("POST", "/api/agents", None), "content-type", "application/json"),
            begun(false)
        ),
    );
    for answer in [late, late_with_header, late_elsewhere] {
        let problem = answer.expect(400).json();
        assert_eq!(problem["code"], "bad_request");
        assert!(
            problem["detail"].as_str().unwrap_or_default().contains("did not arrive in time"),
            "{problem}"
        );
    }
    for name in ["restart", "clear", "heartbeat", "prooftest"] {
        let path = format!("/api/emergency/{name}");
        let problem = send(&plane, by_session(&path), too_long()).await.expect(413).json();
        assert_eq!(problem["code"], "too_large", "{name}");
        let problem = send(&plane, by_session(&path), begun(true)).await.expect(400).json();
        assert_eq!(problem["code"], "bad_request", "{name}");
    }
    assert_eq!(status(&plane).await["state"], "shutdown");
    // Nothing at all is still a body: the present epoch.
    send(&plane, by_session(RESTART), Body::empty()).await.expect(200);
}

#[tokio::test]
async fn ks_6_a_wrong_field_of_a_kill_does_not_void_the_others() {
    let metadata = json!({"ticket": 7});
    let kept = ("security_incident", json!("it mails"), metadata.clone());
    for (wrong, state, (reason, note, metadata)) in [
        (json!({"reason": "boredom"}), "running", ("manual", kept.1.clone(), kept.2.clone())),
        (json!({"reason": {"emergency": null}}), "running", ("manual", kept.1.clone(), kept.2.clone())),
        (json!({"note": 5}), "running", (kept.0, Value::Null, kept.2.clone())),
        (json!({"metadata": null}), "running", (kept.0, kept.1.clone(), Value::Null)),
        (json!({"colour": "red"}), "running", kept.clone()),
        (json!({"channels": ["messaging", "television"]}), "shutdown", kept.clone()),
        (json!({"channels": ["messaging", 5]}), "shutdown", kept.clone()),
        (json!({"channels": "messaging"}), "shutdown", kept.clone()),
        (json!({"channels": [{"messaging": null}]}), "shutdown", kept.clone()),
        (json!({"channels": []}), "shutdown", kept.clone()),
    ] {
        let plane = Plane::new();
        let mut kill =
            json!({"reason": kept.0, "channels": ["messaging"], "note": kept.1, "metadata": kept.2});
        kill.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        plane.post(KILL, kill).await.expect(200);
        let status = status(&plane).await;
        let seen = [&status["state"], &status["reason"], &status["note"], &status["metadata"]];
        assert_eq!(seen, [&json!(state), &json!(reason), &note, &metadata], "{wrong}");
    }
    for odd in [json!(["emergency", ["messaging"]]), json!("messaging"), json!(null)] {
        let plane = Plane::new();
        assert_eq!(plane.post(KILL, odd).await.expect(200).json()["status"], "shutdown");
    }
}

#[tokio::test]
async fn ks_4_a_caller_does_not_pass_for_another_trigger() {
    for (named, source) in [
        (json!({"source": "cli"}), "cli"),
        (json!({"source": "gpio"}), "api"),
        (json!({"source": "signal"}), "api"),
        (json!({"source": ["cli"]}), "api"),
        (json!("cli"), "api"),
        (json!({}), "api"),
    ] {
        let plane = Plane::new();
        plane.post(KILL, json!({"metadata": named})).await.expect(200);
        let status = status(&plane).await;
        assert_eq!((&status["source"], &status["metadata"]), (&json!(source), &named));
    }
}
