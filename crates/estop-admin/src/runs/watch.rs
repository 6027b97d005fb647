//! A line to a supervisor (TL-2, TL-3): it says what it runs, and is told when that must end.
//!
//! The answer is a stream of JSON lines that stays open. It takes no place from anybody who comes to press the button.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use estop_core::ids::Name;
use estop_core::operator::{AgentView, RunStep, Watch, Watched};
use estop_core::policy::{Limits, RunLimits};
use estop_core::run::RunState;
use http::header::CONTENT_TYPE;
use http_body::Frame;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior};
use utoipa::ToSchema;

use super::{RunIn, begin, id_of, live_runs, own, shown};
use crate::access::{Caller, random_id};
use crate::connection_slot::ConnectionSlot;
use crate::input::JsonIn;
use crate::problem::{Kind, Problem};
use crate::state::App;
use crate::supervisor_connections::Permit;

/// How often a line says that it is alive: a supervisor notices a broken one.
const ALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Words on their way; whoever is told twice to end needs to hear it once.
const WORDS_AHEAD: usize = 4;
/// A supervisor that does not come back within this time is gone, and its run over; a little more than its ticket is good.
const GONE_AFTER: Duration = Duration::from_secs(31);

/// What a supervisor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum WatchKind {
    /// A program and everything it starts.
    Program,
    /// Calls of a tool.
    Call,
}

/// Who is watched.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WatchIn {
    /// The agent; becomes known if it is not.
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$")]
    agent: String,
    /// Its run; made up if left out and one is to begin.
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$")]
    run: Option<String>,
    /// The role it runs under; its limits hold for this run.
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$")]
    role: Option<String>,
    /// A person sits at it: a guard has it refused, only the button ends it.
    #[serde(default)]
    attended: bool,
    #[schema(inline)]
    kind: WatchKind,
    /// SHA-256 of the ticket that names agent and run, in hex. It is good while the line is open, and 30 seconds more.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    ticket_sha256: Option<String>,
    /// The process that asks, if it is on estop's machine: it is sent SIGCONT when it must end, in case it was stopped.
    #[schema(minimum = 2)]
    pid: Option<u32>,
    /// The issue it works on.
    #[schema(min_length = 1, max_length = 256, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$")]
    issue: Option<String>,
    /// The branch it works on.
    #[schema(min_length = 1, max_length = 256, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$")]
    branch: Option<String>,
    /// The client's session.
    #[schema(min_length = 1, max_length = 256, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$")]
    session: Option<String>,
    /// Limits for this run alone, over those of its role.
    #[serde(default, deserialize_with = "shown::read_limits")]
    #[schema(schema_with = shown::limits_schema)]
    limits: RunLimits,
    /// Labels; spend is summed up by them.
    #[serde(default)]
    #[schema(schema_with = shown::labels_schema)]
    labels: BTreeMap<String, String>,
    /// Begin the run. Without it, it must be there.
    #[serde(default)]
    begin: bool,
}

/// Says what is run, and is told when it must end.
///
/// The answer stays open: one JSON object in each line. First `{"watching": true, …}`, then `{"alive": true}` every ten
/// seconds, and `{"end": "why"}` when it must end.
#[utoipa::path(post, path = "/api/runs/watch", tag = "runs", request_body = WatchIn,
    responses((status = 200, body = String, content_type = "application/jsonl")))]
pub(super) async fn watch(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    seat: Option<Extension<ConnectionSlot>>,
    JsonIn(mut new): JsonIn<WatchIn>,
) -> Result<Response, Problem> {
    new.agent = app.operator.canonical(&new.agent).into();
    let others = new.kind == WatchKind::Call || caller.only.is_some();
    let place = app.lines.place(&new.agent, others).ok_or_else(|| {
        let detail = "There are too many lines to supervisors: end some programs under `estop run` first.";
        Problem::new(Kind::Unavailable, detail).retry_after(5)
    })?;
    let (sender, receiver) = mpsc::channel(WORDS_AHEAD);
    let asked = Arc::clone(&app);
    let seat = seat.map(|Extension(seat)| seat).unwrap_or_default();
    let held = Held {
        watch: None,
        left: None,
        app: Arc::clone(&app),
        seat,
        runtime: Handle::current(),
        _place: place,
    };
    let tell = sender.clone();
    let (first, held) = app.work(move || open(&asked, &new, &caller, tell, held)).await?;
    // The channel is empty so far, or was told to end: then it is told in this order, too.
    let mut alive = tokio::time::interval(ALIVE_INTERVAL);
    alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    alive.reset();
    let line = Line { first: Some(first), words: receiver, alive, _held: held };
    Ok(([(CONTENT_TYPE, "application/jsonl")], Body::new(line)).into_response())
}

/// A run with a program's line.
struct Left {
    agent: Name,
    run: Name,
}

/// What is said first, and what is held: it is let go also if nobody waits for it any more.
fn open(
    app: &App,
    new: &WatchIn,
    caller: &Caller,
    tell: mpsc::Sender<Value>,
    mut held: Held,
) -> Result<(Value, Held), Problem> {
    let is_program = new.kind == WatchKind::Program;
    own::may_watch(caller, is_program, new.begin, new.ticket_sha256.is_some())?;
    let ticket = new.ticket_sha256.as_deref().map(read_sha256).transpose()?;
    let of_ticket = caller.only.as_ref().and_then(|only| only.run.as_deref()).map(str::to_owned);
    let run = match (&new.run, new.begin) {
        (None, true) => Some(format!("run-{}", random_id()?)),
        (run, _) => run.clone().or(of_ticket),
    };
    if ticket.is_some() && run.is_none() {
        return Err(Problem::field("run", "must be named: a ticket is of one run"));
    }
    let about = about(app, new, run.clone());
    about.check()?;
    caller.may_act_for(&new.agent, run.as_deref())?;
    let agent = make_known(app, &new.agent)?;
    own::may_say(&about, &agent, caller)?;
    match &run {
        Some(run) if new.begin => {
            own::may_begin(app, &agent, run, caller)?;
            drop(begin(app, &about, run, caller)?);
        }
        Some(run) if is_program => known_run(app, &new.agent, run)?,
        Some(_) | None => {}
    }
    let who = Watched {
        agent: new.agent.as_str().into(),
        run: run.as_deref().map(Name::from),
        attended: new.attended,
        ticket,
        // Only people name processes.
        supervisor: new.pid.filter(|_| caller.only.is_none()),
    };
    let on_end = move |why: &str| {
        // Full: it was told already. Closed: nobody is there any more.
        let _ = tell.try_send(json!({"end": why}));
    };
    held.watch = match app.operator.watch(who, Box::new(on_end)) {
        Ok(watch) => Some(watch),
        Err(error) => {
            if let Some(run) = run.as_deref().filter(|_| new.begin) {
                // What must not run has not begun.
                let _ = app.operator.run(&new.agent, run, RunStep::Complete, &caller.by);
            }
            return Err(error.into());
        }
    };
    if let Some(run) = run.as_deref().filter(|_| is_program) {
        let left = Left { agent: new.agent.as_str().into(), run: run.into() };
        app.lines.come(&left.agent, &left.run, ticket.is_some());
        held.left = Some(left);
    }
    held.seat.keep(true);
    let withheld = app.operator.withheld_variables();
    let first = json!({
        "watching": true,
        "agent": new.agent,
        "run": run,
        "id": run.as_deref().map(|run| id_of(&new.agent, Some(run))),
        "attended": new.attended,
        "data_url": app.place.data_url,
        "data_dir": app.place.data_dir,
        "provider_key_variables": withheld.provider_keys,
        "secret_variables": withheld.others,
    });
    Ok((first, held))
}

fn about(app: &App, new: &WatchIn, run: Option<String>) -> RunIn {
    RunIn {
        agent: new.agent.clone(),
        run,
        role: new.role.clone(),
        attended: new.attended,
        issue: new.issue.clone(),
        branch: new.branch.clone(),
        session: new.session.clone(),
        limits: limits(app, new),
        labels: new.labels.clone(),
    }
}

fn read_sha256(text: &str) -> Result<[u8; 32], Problem> {
    let digit = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
    let mut out = [0; 32];
    let pairs = text.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => {
            digit(*high).zip(digit(*low)).and_then(|(high, low)| u8::try_from(high << 4 | low).ok())
        }
        _ => None,
    });
    let read: Option<Vec<u8>> = pairs.collect();
    match read.filter(|read| read.len() == out.len()) {
        Some(read) => {
            out.copy_from_slice(&read);
            Ok(out)
        }
        None => Err(Problem::field("ticket_sha256", "must be 64 hex digits in small letters")),
    }
}

/// An agent that nobody has heard of is made known; a deleted one stays deleted.
fn make_known(app: &App, agent: &str) -> Result<AgentView, Problem> {
    let stored = app.store_here().agent(agent)?;
    if stored.is_some_and(|agent| agent.deleted) {
        return Err(Problem::no_agent("agent", agent));
    }
    own::awake(app, agent)
}

fn known_run(app: &App, agent: &str, run: &str) -> Result<(), Problem> {
    let id = id_of(agent, Some(run));
    let view = live_runs(app, Some(agent)).remove(&id);
    match view.map(|view| view.state) {
        Some(RunState::Active | RunState::Sleeping | RunState::Escalated) => Ok(()),
        Some(RunState::Completed) | None => Err(Problem::not_found("run", &id)),
    }
}

/// The role's limits, under those named one by one.
fn limits(app: &App, new: &WatchIn) -> RunLimits {
    let of = |role: Option<&str>| (app.policy_file)().resolve(Some(&new.agent), role).limits;
    let RunLimits { max_iterations, max_tool_calls, max_turns, max_active_duration, max_sleep_duration } =
        new.limits;
    let role = match &new.role {
        Some(role) if of(Some(role)) != of(None) => of_role(&of(Some(role))),
        Some(_) | None => RunLimits::default(),
    };
    RunLimits {
        max_iterations: max_iterations.or(role.max_iterations),
        max_tool_calls: max_tool_calls.or(role.max_tool_calls),
        max_turns: max_turns.or(role.max_turns),
        max_active_duration: max_active_duration.or(role.max_active_duration),
        max_sleep_duration: max_sleep_duration.or(role.max_sleep_duration),
    }
}

fn of_role(limits: &Limits) -> RunLimits {
    RunLimits {
        max_iterations: Some(limits.max_iterations),
        max_tool_calls: Some(limits.max_tool_calls),
        max_turns: Some(limits.max_turns),
        max_active_duration: Some(limits.max_active_duration),
        max_sleep_duration: Some(limits.max_sleep_duration),
    }
}

/// An open line.
struct Line {
    first: Option<Value>,
    words: mpsc::Receiver<Value>,
    alive: Interval,
    /// Dropped when the connection ends.
    _held: Held,
}

struct Held {
    watch: Option<Watch>,
    left: Option<Left>,
    app: App,
    seat: ConnectionSlot,
    runtime: Handle,
    _place: Permit,
}

impl http_body::Body for Line {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::convert::Infallible>>> {
        let word = match self.first.take() {
            Some(first) => first,
            None => match self.words.poll_recv(cx) {
                Poll::Ready(Some(word)) => word,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending if self.alive.poll_tick(cx).is_ready() => json!({"alive": true}),
                Poll::Pending => return Poll::Pending,
            },
        };
        Poll::Ready(Some(Ok(Frame::data(format!("{word}\n").into()))))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.seat.keep(false);
        drop(self.watch.take());
        let Some(left) = self.left.take() else { return };
        let leaving = self.app.lines.leave(&left.agent, &left.run);
        let app = Arc::clone(&self.app);
        self.runtime.spawn(async move {
            tokio::time::sleep(GONE_AFTER).await;
            // What cannot be done here is done by the run's own limits.
            let asked = Arc::clone(&app);
            let _ = app.work(move || end_if_left(&asked, &left, leaving)).await;
        });
    }
}

/// A run is over when nobody has supervised it since this leaving.
fn end_if_left(app: &App, left: &Left, leaving: u64) -> Result<(), Problem> {
    let Left { agent, run } = left;
    // One that was completed stays so: a second completion would be refused, and count as a refusal of the agent.
    if app.lines.is_over(agent, run, leaving) && known_run(app, agent, run).is_ok() {
        app.operator.run(agent, run, RunStep::Complete, "estop: its supervisor is gone")?;
    }
    Ok(())
}
