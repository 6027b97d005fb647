//! Whether estop lives (`/healthz`) and can do its job (`/readyz`).

use axum::Json;
use axum::extract::State;
use estop_core::system::SystemState;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::output::Answer;
use crate::problem::{Kind, Problem};
use crate::state::App;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(lives)).routes(routes!(ready))
}

/// All is well.
#[derive(Serialize, ToSchema)]
#[schema(as = Health)]
struct HealthOut {
    /// `ok`.
    status: &'static str,
}

/// The process lives.
#[utoipa::path(get, path = "/healthz", tag = "health", responses((status = 200, body = HealthOut)))]
async fn lives() -> Json<HealthOut> {
    Json(HealthOut { status: "ok" })
}

/// It has started, can write its journal, and its store answers. A pressed button is no fault: it is ready then, too.
#[utoipa::path(get, path = "/readyz", tag = "health", responses((status = 200, body = HealthOut)))]
async fn ready(State(app): State<App>) -> Answer<HealthOut> {
    if app.operator.gate().state == SystemState::Starting {
        return Err(Problem::new(Kind::Unavailable, "estop is starting."));
    }
    if let Some(trouble) = app.operator.journal_trouble() {
        return Err(Problem::new(Kind::Unavailable, trouble.text()));
    }
    app.store(|store| store.last_seq()).await.map_err(|_| {
        Problem::new(Kind::Unavailable, "The store does not answer. Traffic is judged all the same.")
    })?;
    Ok(Json(HealthOut { status: "ok" }))
}
