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
use crate::cases::{ResolvedOut, unresolved};
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
    resolved: ResolvedOut,
}

/// Gives a run that reached a limit another full allowance, and resolves its escalation. The run without a name has the id
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
        let agent = path.id.split_once(':').map_or(&*path.id, |(agent, _)| agent);
        let open = unresolved(&asked, agent);
        let run = step(&asked, &path.id, |_| RunStep::Extend, &caller)?;
        let resolved = open.resolved(&asked)?;
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
            resolved.sentence()
        );
        Ok(Json(ExtendedOut { run, message, resolved }))
    })
    .await
}
