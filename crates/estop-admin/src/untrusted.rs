//! What answers while the data directory cannot be trusted: whoever asks anything gets the reason.

use axum::Router;
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};

use crate::problem::{Kind, Problem};

/// Answers every request with 503 and this sentence.
pub fn untrusted(detail: String) -> Router {
    Router::new().fallback(async move |headers: HeaderMap| answer(&headers, detail))
}

fn answer(headers: &HeaderMap, detail: String) -> Response {
    let accepts = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if accepts.contains("text/html") {
        let plain = [(CONTENT_TYPE, "text/plain; charset=utf-8")];
        return (StatusCode::SERVICE_UNAVAILABLE, plain, detail).into_response();
    }
    Problem::new(Kind::Unavailable, detail).into_response()
}
