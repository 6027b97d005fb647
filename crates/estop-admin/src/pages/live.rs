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
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Until what was told is surely stored: it is gathered for 200 ms first.
const STORED_AFTER: Duration = Duration::from_millis(300);
/// Looks between two `changed`.
const LOOKS: u32 = 5;
/// Looks after which a word is said in any case, so that a dead connection is noticed.
const LOOKS_QUIET: u32 = 150;

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
    let mut told = LastPush::new(app.operator.gate().epoch, app.operator.pulse());
    let mut word = ": hello\n\n".to_owned();
    while listener.send(word.into()).await.is_ok() {
        word = loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            if listener.is_closed() {
                return;
            }
            match told.look(app.operator.gate().epoch, app.operator.pulse()) {
                Some(LiveUpdate::Pressed(epoch)) => break format!("event: pressed\ndata: {epoch}\n\n"),
                Some(LiveUpdate::Changed(pulse)) => {
                    // What follows from a record is stored a moment after it.
                    tokio::time::sleep(STORED_AFTER).await;
                    break format!("event: changed\ndata: {pulse}\n\n");
                }
                Some(LiveUpdate::Quiet) => break ": quiet\n\n".to_owned(),
                None => {}
            }
        };
    }
}

/// What a follower is told.
#[derive(Debug, PartialEq, Eq)]
enum LiveUpdate {
    Pressed(u64),
    Changed(u64),
    Quiet,
}

/// What a follower was told last. However much happens, it is told of it once in `LOOKS` looks; a press at the next look.
struct LastPush {
    gate: u64,
    pulse: u64,
    looks: u32,
}

impl LastPush {
    fn new(gate: u64, pulse: u64) -> LastPush {
        LastPush { gate, pulse, looks: 0 }
    }

    fn look(&mut self, gate: u64, pulse: u64) -> Option<LiveUpdate> {
        self.looks += 1;
        let word = if gate != self.gate {
            self.gate = gate;
            LiveUpdate::Pressed(gate)
        } else if pulse != self.pulse && self.looks >= LOOKS {
            self.pulse = pulse;
            LiveUpdate::Changed(pulse)
        } else if self.looks >= LOOKS_QUIET {
            LiveUpdate::Quiet
        } else {
            return None;
        };
        self.looks = 0;
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ui_1_a_burst_is_told_at_most_twice_a_second_and_a_press_at_once() {
        let mut told = LastPush::new(1, 0);
        let ten_seconds = 10_000 / POLL_INTERVAL.as_millis() as u64;
        let words: Vec<LiveUpdate> = (1..=ten_seconds).filter_map(|look| told.look(1, look * 1000)).collect();
        assert_eq!(words.len(), 20, "{words:?}");
        assert_eq!(words.last(), Some(&LiveUpdate::Changed(100_000)), "nothing is left untold");
        assert_eq!(told.look(2, 100_001), Some(LiveUpdate::Pressed(2)));
        let after: Vec<LiveUpdate> = (0..LOOKS).filter_map(|_| told.look(2, 100_001)).collect();
        assert_eq!(after, [LiveUpdate::Changed(100_001)], "what came with the press is told too");
    }

    #[test]
    fn ui_1_who_is_told_nothing_hears_a_word_now_and_then() {
        let mut told = LastPush::new(1, 5);
        let words: Vec<LiveUpdate> = (0..LOOKS_QUIET * 2).filter_map(|_| told.look(1, 5)).collect();
        assert_eq!(words, [LiveUpdate::Quiet, LiveUpdate::Quiet]);
    }
}
