//! The journal: exported as it was written, and verified from where it was pruned.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use estop_core::chain::Heads;
use estop_core::journal::{Base, Beginning, Chains, JournalError, Record};
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
    /// Its record; an export up to it is sealed.
    seq: u64,
}

/// Stores a checkpoint after all records there are: an export that ends with it is sealed.
#[utoipa::path(post, path = "/api/journal/checkpoint", tag = "journal",
    responses((status = 200, body = CheckpointOut)))]
async fn checkpoint(State(app): State<App>) -> Answer<CheckpointOut> {
    let operator = Arc::clone(&app.operator);
    let seq = app.work(move || Ok(operator.checkpoint())).await?;
    seq.map(|seq| Json(CheckpointOut { seq })).ok_or_else(|| {
        let detail = "The journal's writer did not store a checkpoint in time. Try again.";
        Problem::new(Kind::Unavailable, detail).retry_after(5)
    })
}

/// Exports records as they were written, one line each. Without `to` it ends with a checkpoint, so that `estop verify` notices
/// if its end was cut off.
#[utoipa::path(get, path = "/api/journal/export", tag = "journal", params(Range),
    responses((status = 200, body = String, content_type = "application/jsonl")))]
async fn export(State(app): State<App>, QueryIn(range): QueryIn<Range>) -> Result<Response, Problem> {
    let (from, mut to) = range.check()?;
    let permit = one_of_few(&app)?;
    if range.to.is_none() {
        let operator = Arc::clone(&app.operator);
        // Without one the export is as whole, and says that it is not sealed.
        to = app.work(move || Ok(operator.checkpoint())).await?.unwrap_or(to);
    }
    let (sender, receiver) = mpsc::channel(BLOCKS_AHEAD);
    let store = app.store_handle();
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let mut send = |lines: &estop_store::Lines| {
            sender.blocking_send(Ok(Bytes::copy_from_slice(&lines.bytes))).is_ok()
        };
        let beginning = send_beginning(&*store, from, &sender);
        if let Err(error) = beginning.and_then(|first| store.blocks(from.max(first), to, &mut send)) {
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

/// What the first records that are left are replayed from, if those before them are gone; the number of the first.
fn send_beginning(
    store: &dyn Store,
    from: u64,
    sender: &mpsc::Sender<Result<Bytes, StoreError>>,
) -> Result<u64, StoreError> {
    let pruned = store.pruned()?;
    let first = pruned.to_seq + 1;
    if pruned.to_seq == 0 || from > first {
        return Ok(first);
    }
    let mut lines = Beginning::new(pruned.to_seq, pruned.heads.len() as u64).line();
    for head in pruned.heads {
        let state = store.base_state(&head.chain)?.unwrap_or_default();
        lines.extend(Base { head, state: &state }.line());
        if sender.blocking_send(Ok(std::mem::take(&mut lines).into())).is_err() {
            break;
        }
    }
    // More was let go meanwhile: what was sent does not fit together.
    if store.pruned()?.to_seq == pruned.to_seq { Ok(first) } else { Err(StoreError::Busy) }
}

/// Long readings are few at a time: they would take the store's readers from everybody else.
fn one_of_few(app: &App) -> Result<OwnedSemaphorePermit, Problem> {
    Arc::clone(&app.long_reads).try_acquire_owned().map_err(|_| {
        let detail = "Two exports or verifications are under way. Try again when one is done.";
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
    /// Records up to this one were pruned; what follows is checked against their heads.
    pruned_to: u64,
    /// The last record that was checked.
    to: u64,
    /// The last record is a checkpoint, so a cut tail would be noticed.
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

/// Checks the chains over all records that are kept.
#[utoipa::path(get, path = "/api/journal/verify", tag = "journal", responses((status = 200, body = VerifyOut)))]
async fn verify(State(app): State<App>) -> Answer<VerifyOut> {
    let permit = one_of_few(&app)?;
    let store = app.store_handle();
    at_once(move || {
        let _permit = permit;
        Ok(Json(check_chains(&*store)?))
    })
    .await
}

fn check_chains(store: &dyn Store) -> Result<VerifyOut, StoreError> {
    let pruned = store.pruned()?;
    let heads = pruned.heads.into_iter().map(|head| {
        (head.chain, Heads { count: head.count, events: head.events, decisions: head.decisions })
    });
    let mut chains = Chains::resume(pruned.to_seq, heads);
    let mut wrong = None;
    let last = store.last_seq()?;
    store.blocks(pruned.to_seq + 1, last, &mut |block| {
        let lines = block.bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        wrong = lines.into_iter().find_map(|line| check_line(&mut chains, line).err());
        wrong.is_none()
    })?;
    if wrong.is_none() && chains.seq() < last {
        wrong = Some(JournalError::OutOfOrder { expected: chains.seq() + 1, found: last });
    }
    let seq = chains.seq();
    let problem = wrong.map(|error| FoundWrong { seq: seq + 1, message: error.to_string() });
    Ok(VerifyOut {
        ok: problem.is_none(),
        count: seq - pruned.to_seq,
        pruned_to: pruned.to_seq,
        to: seq,
        sealed: chains.is_sealed(),
        problem,
    })
}

fn check_line(chains: &mut Chains, line: &[u8]) -> Result<(), JournalError> {
    chains.check(&Record::parse(line)?)
}
