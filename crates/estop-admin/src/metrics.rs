//! `/metrics`, for Prometheus (OB-2).

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::problem::Problem;
use crate::state::App;

/// What Prometheus calls the format.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(metrics))
}

/// Counters and gauges in the text format of OpenMetrics, for Prometheus. It needs a token as everything else does: names of
/// agents and what they cost are in it.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "health",
    responses((status = 200, body = String, content_type = "application/openmetrics-text"))
)]
async fn metrics(State(app): State<App>) -> Result<Response, Problem> {
    let made = Arc::clone(&app.metrics);
    let text = app.work(move || Ok(made())).await?;
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}
