//! Who sees a page: whoever has a session; everybody else is sent to the login.

use askama::Template;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use http::Method;
use serde::Deserialize;

use super::{Page, render};
use crate::auth::{AuthState, put_headers, visitor};
use crate::input::QueryIn;
use crate::problem::{Kind, Problem};

/// Pages of people who are logged in.
pub(super) async fn members(State(gate): State<AuthState>, request: Request, next: Next) -> Response {
    let mut response = match admitted(&gate, request).await {
        Ok(request) => next.run(request).await,
        Err(response) => response,
    };
    put_headers(response.headers_mut());
    response
}

async fn admitted(gate: &AuthState, request: Request) -> Result<Request, Response> {
    let (mut head, body) = request.into_parts();
    match visitor(gate, &head).await {
        Ok(caller) => {
            head.extensions.insert(caller);
            Ok(Request::from_parts(head, body))
        }
        Err(problem) if problem.kind() == Kind::Unauthenticated && head.uri.path() != "/live" => {
            let here = head.uri.path_and_query().map_or("/", |path| path.as_str());
            Err(Redirect::to(&format!("/login?next={}", encoded(here))).into_response())
        }
        Err(problem) => Err(problem.into_response()),
    }
}

/// The login and what it is dressed in: for everybody who asks for this machine.
pub(super) async fn strangers(State(gate): State<AuthState>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let screened = gate.screen(&head);
    let mut response = match screened {
        Ok(()) if head.method == Method::GET || head.method == Method::HEAD => {
            next.run(Request::from_parts(head, body)).await
        }
        Ok(()) => Problem::allow("GET").into_response(),
        Err(problem) => problem.into_response(),
    };
    put_headers(response.headers_mut());
    response
}

#[derive(Deserialize)]
pub(super) struct Next_ {
    #[serde(default)]
    next: String,
}

#[derive(Template)]
#[template(path = "login.html")]
struct Login {
    next: String,
}

pub(super) async fn login(QueryIn(Next_ { next }): QueryIn<Next_>) -> Page {
    // Only pages of ours: `//host` would be another site.
    let is_ours = next.starts_with('/') && !next.starts_with("//") && !next.contains('\\');
    render(&Login { next: if is_ours { next } else { "/".to_owned() } })
}

fn encoded(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/-_.~".contains(&b);
    let one = |b: u8| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") };
    text.bytes().map(one).collect()
}
