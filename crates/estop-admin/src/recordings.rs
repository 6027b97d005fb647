//! Recording an agent's traffic for a person (LD-7): a stream of JSON lines that ends with its connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use estop_core::operator::{NewRecording, Recording, RecordingView};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http_body::Frame;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::Caller;
use crate::agents::AgentPath;
use crate::connection_slot::ConnectionSlot;
use crate::input::{JsonIn, PathIn};
use crate::output::{Answer, moment};
use crate::problem::Problem;
use crate::state::App;

/// Lines on their way: who reads slowly has the queue before them fill up, where it is counted.
const LINES_AHEAD: usize = 16;
/// Who takes no line for so long, stopped by Ctrl-Z for one, is gone.
const STUCK_AFTER: Duration = Duration::from_secs(30);
/// A day.
const FOR_MAX_S: u64 = 86_400;
const MEGABYTES_MAX: u64 = 1_024;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(record, end)).routes(routes!(list))
}

/// What is to be recorded.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RecordingIn {
    /// It ends by itself after so many seconds.
    #[schema(minimum = 1, maximum = 86_400)]
    for_s: u64,
    /// It ends by itself after so many megabytes.
    #[schema(minimum = 1, maximum = 1_024)]
    max_mb: u64,
}

/// A recording under way.
#[derive(Serialize, ToSchema)]
#[schema(as = Recording)]
struct RecordingOut {
    agent: String,
    /// Who records.
    by: String,
    since: String,
    /// When it ends by itself.
    until: String,
}

/// The recordings under way.
#[derive(Serialize, ToSchema)]
#[schema(as = Recordings)]
struct RecordingsOut {
    recordings: Vec<RecordingOut>,
}

/// Records what an agent says and does from here on, secrets masked, and sends it to whoever asks.
///
/// The answer stays open: one JSON object in each line, `{"alive": true}` now and then, at last `{"end": "why", …}`. Nothing is
/// written to estop's disk but that it was recorded, by whom and how much. It ends with the connection.
#[utoipa::path(post, path = "/api/agents/{id}/recording", tag = "agents", params(AgentPath), request_body = RecordingIn,
    responses((status = 200, body = String, content_type = "application/jsonl")))]
async fn record(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    seat: Option<Extension<ConnectionSlot>>,
    PathIn(path): PathIn<AgentPath>,
    JsonIn(new): JsonIn<RecordingIn>,
) -> Result<Response, Problem> {
    if !(1..=FOR_MAX_S).contains(&new.for_s) {
        return Err(Problem::field("for_s", format!("must be from 1 to {FOR_MAX_S}")));
    }
    if !(1..=MEGABYTES_MAX).contains(&new.max_mb) {
        return Err(Problem::field("max_mb", format!("must be from 1 to {MEGABYTES_MAX}")));
    }
    let wanted = NewRecording { agent: path.id, for_ms: new.for_s * 1_000, bytes_max: new.max_mb << 20 };
    let (sender, receiver) = mpsc::channel(LINES_AHEAD);
    let runtime = Handle::current();
    let on_line = move |line: String| {
        let sent = sender.send_timeout((line + "\n").into(), STUCK_AFTER);
        runtime.block_on(sent).is_ok()
    };
    let operator = Arc::clone(&app.operator);
    let begun = app.work(move || Ok(operator.record(wanted, &caller.by, Box::new(on_line))?)).await?;
    let seat = seat.map(|Extension(seat)| seat).unwrap_or_default();
    seat.keep(true);
    let body = Lines { receiver, seat, _recording: begun };
    Ok(([(CONTENT_TYPE, "application/jsonl")], Body::new(body)).into_response())
}

/// Ends the recording of an agent. What was said before is still sent to whoever records.
#[utoipa::path(delete, path = "/api/agents/{id}/recording", tag = "agents", params(AgentPath), responses((status = 204)))]
async fn end(State(app): State<App>, PathIn(path): PathIn<AgentPath>) -> Result<StatusCode, Problem> {
    let agent = path.id;
    if app.operator.end_recording(&agent) {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(Problem::not_found("recording", &agent))
}

/// Lists the recordings under way.
#[utoipa::path(get, path = "/api/recordings", tag = "agents", responses((status = 200, body = RecordingsOut)))]
async fn list(State(app): State<App>) -> Answer<RecordingsOut> {
    let shown = |view: RecordingView| RecordingOut {
        agent: view.agent.into(),
        by: view.by.into(),
        since: moment(view.since),
        until: moment(view.until),
    };
    Ok(Json(RecordingsOut { recordings: app.operator.recordings().into_iter().map(shown).collect() }))
}

/// The lines of a recording. Dropped with its connection, it ends the recording.
struct Lines {
    receiver: mpsc::Receiver<Bytes>,
    seat: ConnectionSlot,
    _recording: Recording,
}

impl http_body::Body for Lines {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::convert::Infallible>>> {
        self.receiver.poll_recv(cx).map(|line| line.map(|line| Ok(Frame::data(line))))
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.seat.keep(false);
    }
}
