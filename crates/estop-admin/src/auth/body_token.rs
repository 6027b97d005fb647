//! `adminToken` in the body of an emergency call: as good as the Authorization header (KS-6).

use std::time::Duration;

use axum::body::Body;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderValue, Method};
use serde_json::Value;

use crate::input::{KILL_BODY_TIMEOUT, read};
use crate::problem::{Kind, Problem};

/// The most that is read of a body before anybody is known.
const BODY_MAX: usize = 64 << 10;
/// And how long it may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// The token was in the body.
#[derive(Clone, Copy)]
struct FromBody;

/// The routes of the red button.
fn is_button(head: &Parts) -> bool {
    head.method == Method::POST && head.uri.path().starts_with("/api/emergency/")
}

/// Whether the button is pressed.
pub(crate) fn is_kill(head: &Parts) -> bool {
    head.method == Method::POST && head.uri.path() == "/api/emergency/kill"
}

/// Makes a header of the token, where the path may have one in its body and no header says who asks.
pub(crate) async fn lift(head: &mut Parts, body: Body) -> Result<Body, Problem> {
    if !is_button(head) || head.headers.contains_key(AUTHORIZATION) {
        return Ok(body);
    }
    let bytes = if is_kill(head) {
        // Too late, too long or broken off: a session may still press.
        read(body, BODY_MAX, KILL_BODY_TIMEOUT).await.unwrap_or_default()
    } else {
        // An empty body would unlock the present epoch, whichever the caller named.
        read(body, BODY_MAX, BODY_TIMEOUT).await?
    };
    // As a value: a struct would also be read from a list, by position.
    let body = serde_json::from_slice::<Value>(&bytes).unwrap_or_default();
    let token = body.get("adminToken").and_then(Value::as_str);
    let header = token.and_then(|token| HeaderValue::try_from(format!("Bearer {token}")).ok());
    if let Some(mut header) = header {
        header.set_sensitive(true);
        head.headers.insert(AUTHORIZATION, header);
        head.extensions.insert(FromBody);
    }
    Ok(Body::from(bytes))
}

/// Without a good token the red button answers 403 with `error: "Unauthorized"`, wherever the token was expected (KS-6). A
/// session that has ended stays a 401: its page then asks to log in again.
pub(crate) fn refused(head: &Parts, problem: Problem) -> Problem {
    if problem.kind() != Kind::Unauthenticated || !is_button(head) {
        return problem;
    }
    if head.extensions.get::<FromBody>().is_some() {
        return Problem::new(Kind::Forbidden, "The adminToken is not one of estop's.");
    }
    Problem::new(Kind::Forbidden, problem.detail().to_owned())
}
