//! The journal: exported as it was written, and verified from where it was pruned.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use estop_core::ids::Name;
use estop_journal::{Checker, JournalError, lines_of, records};
use estop_store::{Store, StoreError};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use http_body::Frame;
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::input::QueryIn;
use crate::output::Answer;
use crate::problem::{Kind, Problem};
use crate::state::{App, at_once};

/// Blocks on their way to a slow reader; each has some hundreds of lines.
const BLOCKS_AHEAD: usize = 4;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(export)).routes(routes!(verify)).routes(routes!(checkpoint))
}

/// Which records.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Range {
    /// The first record; the oldest that is kept if left out.
    #[param(minimum = 1, maximum = 1_000_000_000_000_000_u64)]
    from: Option<u64>,
    /// The last record; the newest if left out.
    #[param(minimum = 1, maximum = 1_000_000_000_000_000_u64)]
    to: Option<u64>,
    /// Only this agent's records. Without `from` and `to`, `estop verify` and `estop replay` take them.
    agent: Option<String>,
}

impl Range {
    fn check(&self) -> Result<(u64, u64), Problem> {
        const MAX: u64 = 1_000_000_000_000_000;
        for (field, value) in [("from", self.from), ("to", self.to)] {
            if value.is_some_and(|value| !(1..=MAX).contains(&value)) {
                return Err(Problem::field(field, format!("must be a record's number, from 1 to {MAX}")));
            }
        }
        Ok((self.from.unwrap_or(1), self.to.unwrap_or(MAX)))
    }
}

/// A checkpoint.
#[derive(Serialize, ToSchema)]
#[schema(as = JournalCheckpoint)]
struct CheckpointOut {
    /// The newest record.
    seq: u64,
}

/// Syncs the journal: the disk has all records up to the one that is named.
#[utoipa::path(post, path = "/api/journal/checkpoint", tag = "journal",
    responses((status = 200, body = CheckpointOut)))]
async fn checkpoint(State(app): State<App>) -> Answer<CheckpointOut> {
    let operator = Arc::clone(&app.operator);
    let seq = app.work(move || Ok(operator.checkpoint())).await?;
    seq.map(|seq| Json(CheckpointOut { seq })).ok_or_else(|| {
        let detail = "The disk does not take the journal. Look at `estop status`.";
        Problem::new(Kind::Unavailable, detail).retry_after(5)
    })
}

/// Exports records as they were written, one line each. Without `from` and `to` it is the whole journal and ends with a line
/// that says so, so that `estop verify` notices if its end was cut off.
#[utoipa::path(get, path = "/api/journal/export", tag = "journal", params(Range),
    responses((status = 200, body = String, content_type = "application/jsonl")))]
async fn export(State(app): State<App>, QueryIn(range): QueryIn<Range>) -> Result<Response, Problem> {
    let (from, to) = range.check()?;
    let is_whole = range.from.is_none() && range.to.is_none();
    let permit = one_of_few(&app)?;
    let asked = Arc::clone(&app);
    let only = range.agent.as_deref().map(Name::from);
    // What happened until now is part of it.
    let begin = move || {
        let only = asked.agent_filter(only)?;
        asked.operator.checkpoint();
        Ok(only)
    };
    let only = app.work(begin).await?;
    let (sender, receiver) = mpsc::channel(BLOCKS_AHEAD);
    let store = app.store_handle();
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let mut send = |lines: &[u8]| sender.blocking_send(Ok(Bytes::copy_from_slice(lines))).is_ok();
        let sent = match only {
            Some(agent) if is_whole => store.export_agent(&agent, &mut send),
            Some(agent) => store.blocks(from, to, &mut |lines| {
                let its = records(lines).filter(|(_, head)| *head.agent == *agent);
                let its = its.flat_map(|(line, _)| [line, b"\n"]).collect::<Vec<_>>().concat();
                its.is_empty() || send(&its)
            }),
            None if is_whole => store.export(&mut send),
            None => store.blocks(from, to, &mut send),
        };
        if let Err(error) = sent {
            // The answer ends without its end, so that nobody takes it for whole.
            let _ = sender.blocking_send(Err(error));
        }
    });
    let headers = [
        (CONTENT_TYPE, "application/jsonl"),
        (CONTENT_DISPOSITION, "attachment; filename=\"estop-journal.jsonl\""),
    ];
    Ok((headers, Body::new(Blocks(receiver))).into_response())
}

/// Long readings are few at a time: they would take the store's readers from everybody else.
fn one_of_few(app: &App) -> Result<OwnedSemaphorePermit, Problem> {
    Arc::clone(&app.long_reads).try_acquire_owned().map_err(|_| {
        let detail = "Two exports or verifications are in progress. Try again when one has ended.";
        Problem::new(Kind::Unavailable, detail).retry_after(5)
    })
}

/// An answer that arrives block by block.
struct Blocks(mpsc::Receiver<Result<Bytes, StoreError>>);

impl http_body::Body for Blocks {
    type Data = Bytes;
    type Error = StoreError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StoreError>>> {
        self.0.poll_recv(cx).map(|block| block.map(|block| block.map(Frame::data)))
    }
}

/// What verifying found.
#[derive(Serialize, ToSchema)]
#[schema(as = JournalCheck)]
struct VerifyOut {
    /// Every record is the one that was written, in its place.
    ok: bool,
    /// Records that were checked.
    count: u64,
    /// Records up to this one were pruned.
    pruned_to: u64,
    /// The last record that was checked.
    to: u64,
    /// Everything reaches as far as it must, so a cut end would be noticed.
    sealed: bool,
    /// The first record that is wrong.
    problem: Option<FoundWrong>,
}

/// A record that is wrong.
#[derive(Serialize, ToSchema)]
struct FoundWrong {
    /// Its number, or the one that should stand there.
    seq: u64,
    message: String,
}

/// Checks every line that is kept, and that none is missing.
#[utoipa::path(get, path = "/api/journal/verify", tag = "journal", responses((status = 200, body = VerifyOut)))]
async fn verify(State(app): State<App>) -> Answer<VerifyOut> {
    let permit = one_of_few(&app)?;
    let store = app.store_handle();
    at_once(move || {
        let _permit = permit;
        Ok(Json(check_journal(&*store)?))
    })
    .await
}

fn check_journal(store: &dyn Store) -> Result<VerifyOut, StoreError> {
    let mut checker = Checker::default();
    let (mut wrong, last) = (None, store.last_seq()?);
    let read = store.lines(&mut |lines| {
        let mut lines = lines_of(lines);
        wrong = lines.find_map(|line| checker.take(line).err());
        wrong.is_none()
    });
    let (seq, pruned_to) = (checker.state().seq, checker.begins_after());
    let unreadable = match read {
        Err(StoreError::Corrupt(message)) => Some(message),
        read => {
            read?;
            None
        }
    };
    if wrong.is_none() && unreadable.is_none() && seq < last {
        wrong = Some(JournalError::OutOfOrder { expected: seq + 1, found: last });
    }
    let message = wrong.map(|error| error.to_string()).or(unreadable);
    let problem = message.map(|message| FoundWrong { seq: seq + 1, message });
    Ok(VerifyOut {
        ok: problem.is_none(),
        count: seq - pruned_to,
        pruned_to,
        to: seq,
        sealed: problem.is_none(),
        problem,
    })
}
