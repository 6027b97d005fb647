//! Recording an agent's traffic for a person (LD-7): a stream of JSON lines that ends with its connection.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use estop_core::operator::{NewRecording, RECORDING_LINE_MAX, Recording, RecordingLine, RecordingView};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http_body::Frame;
use serde::{Deserialize, Serialize};
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

/// Bytes on their way: who reads slowly has the queue before them fill up, where it is counted.
const AHEAD_MAX: usize = RECORDING_LINE_MAX;
/// Who makes no room for a line for so long, stopped by Ctrl-Z for one, gets no more.
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
    let seat = seat.map(|Extension(seat)| seat).unwrap_or_default();
    let lines = Arc::new(Lines { seat, ..Lines::default() });
    let sender = Sender(Arc::clone(&lines));
    let on_line = move |line: RecordingLine| sender.send(line, STUCK_AFTER);
    let operator = Arc::clone(&app.operator);
    let begun = app.work(move || Ok(operator.record(wanted, &caller.by, Box::new(on_line))?)).await?;
    lines.seat.keep(true);
    let body = LinesBody { lines, _recording: begun };
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

/// Lines on their way to who records.
#[derive(Default)]
struct Lines {
    ahead: Mutex<Ahead>,
    /// There is more room.
    taken: Condvar,
    seat: ConnectionSlot,
}

#[derive(Default)]
struct Ahead {
    lines: VecDeque<Bytes>,
    bytes: usize,
    /// Nothing follows, or nobody reads it.
    is_over: bool,
    waker: Option<Waker>,
}

impl Lines {
    fn ahead(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing follows.
    fn end(&self) {
        let mut ahead = self.ahead();
        ahead.is_over = true;
        let waker = ahead.waker.take();
        drop(ahead);
        waker.into_iter().for_each(Waker::wake);
        self.taken.notify_all();
    }
}

/// Dropped, it ends the lines.
struct Sender(Arc<Lines>);

impl Sender {
    /// Sends a line when there is room for it, or forgets all that were not taken if there is none in time. The last one
    /// needs no room. Whether it was sent.
    fn send(&self, line: RecordingLine, within: Duration) -> bool {
        let (mut text, needs_room) = match line {
            RecordingLine::Next(text) => (text, true),
            RecordingLine::Last(text) => (text, false),
        };
        text.push('\n');
        text.shrink_to_fit();
        let is_full = |ahead: &mut Ahead| {
            let has_room = ahead.lines.is_empty() || ahead.bytes + text.len() <= AHEAD_MAX;
            needs_room && !ahead.is_over && !has_room
        };
        let waited = self.0.taken.wait_timeout_while(self.0.ahead(), within, is_full);
        let (mut ahead, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if ahead.is_over {
            return false;
        }
        if waited.timed_out() {
            ahead.lines = VecDeque::new();
            ahead.bytes = 0;
            // Whoever comes may have its place.
            self.0.seat.keep(false);
            return false;
        }
        ahead.bytes += text.len();
        ahead.lines.push_back(text.into());
        let waker = ahead.waker.take();
        drop(ahead);
        waker.into_iter().for_each(Waker::wake);
        true
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The lines of a recording. Dropped with its connection, it ends the recording.
struct LinesBody {
    lines: Arc<Lines>,
    _recording: Recording,
}

impl http_body::Body for LinesBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::convert::Infallible>>> {
        let mut ahead = self.lines.ahead();
        let Some(line) = ahead.lines.pop_front() else {
            ahead.waker = Some(cx.waker().clone());
            return if ahead.is_over { Poll::Ready(None) } else { Poll::Pending };
        };
        ahead.bytes -= line.len();
        drop(ahead);
        self.lines.taken.notify_all();
        Poll::Ready(Some(Ok(Frame::data(line))))
    }
}

impl Drop for LinesBody {
    fn drop(&mut self) {
        self.lines.seat.keep(false);
        self.lines.end();
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body;

    use super::*;

    fn next(body: &mut LinesBody) -> Poll<Option<Bytes>> {
        let mut cx = Context::from_waker(Waker::noop());
        let frame = Pin::new(body).poll_frame(&mut cx);
        frame.map(|frame| frame.and_then(Result::ok).and_then(|frame| frame.into_data().ok()))
    }

    #[test]
    fn ld_7_a_reader_that_stalls_holds_no_more_than_the_limit_and_is_told_at_last() {
        let lines: Arc<Lines> = Arc::default();
        let (sender, mut body) =
            (Sender(Arc::clone(&lines)), LinesBody { lines: Arc::clone(&lines), _recording: Box::new(()) });
        lines.seat.keep(true);
        let line = || RecordingLine::Next("x".repeat(AHEAD_MAX / 4 - 1));
        let sent = (0..4).all(|_| sender.send(line(), Duration::ZERO));
        assert!(sent && lines.ahead().bytes == AHEAD_MAX && next(&mut body).is_ready());
        assert!(sender.send(line(), Duration::ZERO), "what was taken makes room");
        assert!(!sender.send(line(), Duration::ZERO), "there is no room for more");
        assert_eq!(lines.ahead().bytes, 0, "nothing of it is held");
        assert!(!lines.seat.is_kept(), "others may have its place");
        assert!(sender.send(RecordingLine::Last("end".to_owned()), Duration::ZERO));
        drop(sender);
        assert_eq!(next(&mut body), Poll::Ready(Some("end\n".into())));
        assert_eq!(next(&mut body), Poll::Ready(None));
    }

    #[test]
    fn ld_7_nothing_is_sent_to_a_reader_who_is_gone() {
        let lines: Arc<Lines> = Arc::default();
        let sender = Sender(Arc::clone(&lines));
        let mut body = LinesBody { lines, _recording: Box::new(()) };
        assert!(next(&mut body).is_pending());
        drop(body);
        assert!(!sender.send(RecordingLine::Next("x".to_owned()), STUCK_AFTER));
    }
}
