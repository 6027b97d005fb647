//! The stream that tells pages to look again: `changed` at most twice a second, `pressed` at once.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use tokio::sync::mpsc;

use super::Page;
use crate::output::Pieces;
use crate::problem::{Kind, Problem};
use crate::state::App;

/// How often it is looked whether something happened: two reads of memory.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Until what was told is surely stored.
const STORED_AFTER: Duration = Duration::from_millis(150);
/// Looks between two `changed`.
const LOOKS: u32 = 5;
/// Looks after which a word is said in any case, so that a dead connection is noticed.
const LOOKS_QUIET: u32 = 150;
/// Pages that follow at once. Each is a connection, and the admin port has 128 places in all.
pub(crate) const FOLLOWERS_MAX: usize = 64;

pub(super) async fn stream(State(app): State<App>) -> Page {
    let place = Arc::clone(&app.followers).try_acquire_owned();
    let place = place.map_err(|_| Problem::new(Kind::Unavailable, "Too many pages are open: close some."))?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let _place = place;
        follow(&app, &sender).await;
    });
    let body = Body::new(Pieces(receiver));
    Ok::<Response, Problem>(([(CONTENT_TYPE, "text/event-stream")], body).into_response())
}

/// Says what happens until nobody listens any more.
async fn follow(app: &App, listener: &mpsc::Sender<Bytes>) {
    let (mut gate, mut pulse) = (app.operator.gate().epoch, app.operator.pulse());
    let mut word = ": hello\n\n".to_owned();
    let mut looks = 0;
    while listener.send(word.into()).await.is_ok() {
        word = loop {
            tokio::time::sleep(LOOK_EVERY).await;
            looks += 1;
            let (gate_now, pulse_now) = (app.operator.gate().epoch, app.operator.pulse());
            if gate_now != gate {
                break format!("event: pressed\ndata: {gate_now}\n\n");
            }
            if pulse_now != pulse && looks >= LOOKS {
                // What follows from a record is stored a moment after it.
                tokio::time::sleep(STORED_AFTER).await;
                pulse = pulse_now;
                break format!("event: changed\ndata: {pulse_now}\n\n");
            }
            if looks >= LOOKS_QUIET || listener.is_closed() {
                break ": quiet\n\n".to_owned();
            }
        };
        (gate, looks) = (app.operator.gate().epoch, 0);
    }
}
