//! Whether estop lives (`/healthz`) and can do its job (`/readyz`).

use axum::Json;
use axum::extract::State;
use estop_core::system::{Channel, Channels, SystemState};
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

/// It serves agents.
#[derive(Serialize, ToSchema)]
#[schema(as = Readiness)]
struct ReadyOut {
    /// `ok`.
    status: &'static str,
    /// Channels that are shut, by a person, a trigger or the configuration: `llm`, `tools`, `messaging`. The others serve.
    shut: Vec<&'static str>,
}

/// It serves agents: it is RUNNING, was not told to end, can write its journal, none of its parts is stuck, and its store
/// answers. In SHUTDOWN and SAFE_MODE it answers 503 and names the state; so it does when every channel is shut, one
/// by one. One shut channel is no reason to send the traffic of the others elsewhere: `shut` names it. `/healthz` goes on
/// answering 200.
#[utoipa::path(get, path = "/readyz", tag = "health", responses((status = 200, body = ReadyOut)))]
async fn ready(State(app): State<App>) -> Answer<ReadyOut> {
    // What is broken is said first: a button may be pressed because of it.
    if let Some(trouble) = app.operator.journal_failure() {
        return Err(Problem::new(Kind::Unavailable, trouble.text()));
    }
    if let Some(part) = app.operator.stuck_parts().first() {
        return Err(Problem::new(Kind::Unavailable, part.text()));
    }
    if app.operator.is_ending() {
        let detail = "estop is ending: it takes no new connections, and answers in progress may end. Send requests elsewhere \
                      until it is started again.";
        return Err(Problem::new(Kind::Unavailable, detail));
    }
    let gate = app.operator.gate();
    let not_ready = match gate.state {
        SystemState::Running if gate.shut == Channels::ALL => {
            Some("running, and every channel is shut: every request is refused.")
        }
        SystemState::Running => None,
        SystemState::Starting => Some("starting: nothing passes yet."),
        SystemState::Shutdown => Some("shutdown: the emergency stop is pressed, every request is refused."),
        SystemState::SafeMode => Some("safe_mode: every request is refused until an admin clears it."),
    };
    if let Some(state) = not_ready {
        return Err(Problem::new(Kind::Unavailable, format!("The state is {state}")));
    }
    app.store(|store| store.last_seq()).await.map_err(|_| {
        Problem::new(Kind::Unavailable, "The store does not answer. Traffic is judged all the same.")
    })?;
    let all = [(Channel::Llm, "llm"), (Channel::Tools, "tools"), (Channel::Messaging, "messaging")];
    let shut = all.into_iter().filter(|(channel, _)| gate.shut.contains(*channel)).map(|(_, name)| name);
    Ok(Json(ReadyOut { status: "ok", shut: shut.collect() }))
}
