//! The document and a page to read it: plain HTML made from the document, without any script.

mod page;

use std::sync::LazyLock;

use axum::response::{Html, IntoResponse};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::openapi::DOCUMENT;
use crate::state::App;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(document)).routes(routes!(read)).routes(routes!(style))
}

/// This document.
#[utoipa::path(get, path = "/api/openapi.json", tag = "documentation",
    responses((status = 200, body = Object, content_type = "application/json")))]
async fn document() -> impl IntoResponse {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], DOCUMENT.bytes.clone())
}

static PAGE: LazyLock<String> = LazyLock::new(|| page::render(&DOCUMENT.value));

/// This document, to read.
#[utoipa::path(get, path = "/api/docs", tag = "documentation",
    responses((status = 200, body = String, content_type = "text/html")))]
async fn read() -> Html<&'static str> {
    Html(PAGE.as_str())
}

/// How the page looks.
#[utoipa::path(get, path = "/api/docs.css", tag = "documentation",
    responses((status = 200, body = String, content_type = "text/css")))]
async fn style() -> impl IntoResponse {
    let headers = [(CONTENT_TYPE, "text/css; charset=utf-8"), (CACHE_CONTROL, "no-cache")];
    (headers, include_str!("docs/style.css"))
}
