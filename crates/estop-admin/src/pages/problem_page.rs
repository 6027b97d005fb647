//! What went wrong, as a page for people: the same title and detail as the problem document.

use askama::Template;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use serde_json::Value;

/// A problem document is small; what is larger stays as it is made.
const DOCUMENT_MAX: usize = 65_536;

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage {
    status: u16,
    title: String,
    detail: String,
}

/// Turns problem documents into pages for browsers that ask for one. The API's stay documents.
pub(crate) async fn for_browsers(request: Request, next: Next) -> Response {
    let reads = asks_for_html(request.headers());
    let is_api = request.uri().path().starts_with("/api/");
    let response = next.run(request).await;
    let is_problem =
        response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/problem+json");
    if !reads || is_api || !is_problem {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let document = to_bytes(body, DOCUMENT_MAX).await.unwrap_or_default();
    let document: Value = serde_json::from_slice(&document).unwrap_or_default();
    let text = |key: &str| document[key].as_str().unwrap_or_default().to_owned();
    let page = ProblemPage { status: head.status.as_u16(), title: text("title"), detail: text("detail") };
    head.headers.remove(CONTENT_LENGTH);
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    let html = page.render().unwrap_or_default();
    let mut shown = super::shown(&html);
    *shown.status_mut() = head.status;
    *shown.headers_mut() = head.headers;
    shown
}

fn asks_for_html(headers: &HeaderMap) -> bool {
    let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepts.contains("text/html")
}
