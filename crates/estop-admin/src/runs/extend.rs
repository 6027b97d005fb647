//! Another full allowance for a run at its limit (CB-6, ID-7).

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use estop_core::operator::RunStep;
use serde::Serialize;
use utoipa::ToSchema;

use super::shown::RunOut;
use super::{RunPath, step};
use crate::access::Caller;
use crate::cases::{ClosedOut, close_escalations};
use crate::input::PathIn;
use crate::output::Answer;
use crate::state::App;

/// A run that has another full allowance.
#[derive(Serialize, ToSchema)]
#[schema(as = ExtendedRun)]
pub(super) struct ExtendedOut {
    #[serde(flatten)]
    run: RunOut,
    /// What was done, and what still stands in the agent's way.
    message: String,
    /// The escalations that are answered by it.
    closed: ClosedOut,
}

/// Gives a run that reached a limit another full allowance, and closes its escalation. The run without a name has the id
/// `agent:`.
#[utoipa::path(post, path = "/api/runs/{id}/extend", tag = "runs", params(RunPath),
    responses((status = 200, body = ExtendedOut)))]
pub(super) async fn extend(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<RunPath>,
) -> Answer<ExtendedOut> {
    let asked = Arc::clone(&app);
    app.work(move || {
        let run = step(&asked, &path.id, |_| RunStep::Extend, &caller)?;
        let closed = close_escalations(&asked, run.agent(), run.name(), &caller.by)?;
        let which =
            run.name().map_or_else(|| "The run without a name".to_owned(), |name| format!("Run {name}"));
        let refused = asked.operator.agent(run.agent()).map(|view| view.status);
        let refused = refused.filter(|status| !status.passes).map(|status| {
            format!(" The agent's requests are still refused ({}). {}", status.label, status.sentence)
        });
        let message = format!(
            "{which} of {} has another full allowance.{}{}",
            run.agent(),
            refused.unwrap_or_default(),
            closed.sentence()
        );
        Ok(Json(ExtendedOut { run, message, closed }))
    })
    .await
}
