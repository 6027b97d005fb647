//! `adminToken` in the body of an emergency call: as good as the Authorization header (KS-6).

use std::time::Duration;

use axum::body::{Body, Bytes};
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderValue, Method};
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;

use crate::problem::{Kind, Problem};

/// The most that is read of a body before anybody is known.
const BODY_MAX: usize = 64 << 10;
/// And how long it may take.
const BODY_WITHIN: Duration = Duration::from_secs(5);

/// The token was in the body.
#[derive(Clone, Copy)]
struct FromBody;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenIn {
    admin_token: String,
}

/// Makes a header of the token, where the path may have one in its body and no header says who asks.
pub(super) async fn lift(head: &mut Parts, body: Body) -> Body {
    let is_emergency = head.method == Method::POST && head.uri.path().starts_with("/api/emergency/");
    if !is_emergency || head.headers.contains_key(AUTHORIZATION) {
        return body;
    }
    let bytes = match tokio::time::timeout(BODY_WITHIN, Limited::new(body, BODY_MAX).collect()).await {
        Ok(Ok(collected)) => collected.to_bytes(),
        // Too late, too long or broken off: then there is no token in it either.
        Err(_) | Ok(Err(_)) => Bytes::new(),
    };
    let token = serde_json::from_slice::<TokenIn>(&bytes).ok();
    let header = token.and_then(|token| HeaderValue::try_from(format!("Bearer {}", token.admin_token)).ok());
    if let Some(mut header) = header {
        header.set_sensitive(true);
        head.headers.insert(AUTHORIZATION, header);
        head.extensions.insert(FromBody);
    }
    Body::from(bytes)
}

/// A wrong token in the body is a 403; one in the header is a 401, as everywhere.
pub(super) fn refused(head: &Parts, problem: Problem) -> Problem {
    if problem.kind() == Kind::Unauthenticated && head.extensions.get::<FromBody>().is_some() {
        return Problem::new(Kind::Forbidden, "The adminToken is not one of estop's.");
    }
    problem
}
