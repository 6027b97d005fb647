//! The dashboard (UI-1): pages made on the server from what the operator and the store say.
//!
//! Pages only show. Everything a person does goes through the API, with its access rules; `assets/panel.js` turns
//! buttons and forms into calls of it and keeps the page in step. No page has a script or a style in it.

mod agent;
mod alerts;
mod assets;
mod cases;
mod charts;
mod connect;
mod csv;
mod effect;
mod event_row;
mod frame;
mod incidents;
mod journal;
mod live;
mod login;
mod needs_human;
mod overview;
mod preset;
mod problem_page;
mod requests;
mod rules;
mod settings;
mod shown;
mod spend;

pub(crate) use problem_page::for_browsers;
use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use estop_core::printable::escaped_document;

use crate::auth::AuthState;
use crate::problem::{Kind, Problem};
use crate::state::App;

/// All pages, behind their own guard: who is not known is sent to the login.
pub(crate) fn routes(gate: AuthState) -> Router<App> {
    Router::new()
        .route("/", get(overview::page))
        .route("/agents/{id}", get(agent::page))
        .route("/agents/{id}/requests", get(requests::page))
        .route("/agents/{id}/requests.csv", get(requests::csv))
        .route("/agents/{id}/requests/{seq}", get(requests::one::page))
        .route("/incidents", get(incidents::list))
        .route("/incidents/{id}", get(incidents::one))
        .route("/needs-human", get(needs_human::page))
        .route("/alerts", get(alerts::page))
        .route("/spend", get(spend::page))
        .route("/spend.csv", get(spend::csv))
        .route("/events/{seq}", get(incidents::event))
        .route("/journal", get(journal::page))
        .route("/journal.csv", get(journal::csv))
        .route("/settings", get(settings::page))
        .route("/connect", get(connect::page))
        .route("/live", get(live::stream))
        .layer(from_fn_with_state(gate.clone(), login::members))
        .merge(
            Router::new()
                .route("/login", get(login::login))
                .route("/assets/{name}", get(assets::one))
                .layer(from_fn_with_state(gate, login::strangers)),
        )
}

/// A page, or why there is none.
type Page = Result<Response, Problem>;

fn render(page: &impl Template) -> Page {
    let html = page.render().map_err(|_| Problem::new(Kind::Internal, "The page could not be made."))?;
    Ok(shown(&html))
}

/// A page as it is sent. Names and texts of agents are escaped as HTML by the templates; what hides in them is shown here, for
/// every page.
fn shown(html: &str) -> Response {
    Html(escaped_document(html).into_owned()).into_response()
}

/// Makes a page on a thread that may wait for the store.
async fn made<T: Template + Send + 'static>(
    app: App,
    make: impl FnOnce(&App) -> Result<T, Problem> + Send + 'static,
) -> Page {
    let asked = Arc::clone(&app);
    let page = app.work(move || make(&asked)).await?;
    render(&page)
}
