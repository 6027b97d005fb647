//! What the model saw: requests, how they ended, and connections.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// So much of a body is kept.
const BODY_BYTES_KEPT: usize = 64 * 1024;

/// A request that came.
#[derive(Clone, Debug, Serialize)]
pub struct Seen {
    /// Its number, from 1, in order of arrival.
    pub number: u64,
    /// The number of its connection, from 1.
    pub connection: u64,
    /// `HTTP/1.1` or `HTTP/2.0`.
    pub version: String,
    /// Method.
    pub method: String,
    /// Path, without the query.
    pub path: String,
    /// Query, without the `?`.
    pub query: String,
    /// Headers in order, secrets included: this is a test tool.
    pub headers: Vec<(String, String)>,
    /// The body was read to its end.
    pub body_read: bool,
    /// Length of the body.
    pub body_length: usize,
    /// SHA-256 of the body, in hex.
    pub body_sha256: String,
    /// The first 64 kB of the body.
    pub body: String,
    /// When it began, in microseconds since the start of the model.
    pub began_us: u64,
    /// When it ended.
    pub ended_us: Option<u64>,
    /// How it ended.
    pub outcome: Outcome,
    /// The status that was answered; 0 before headers.
    pub status: u16,
    /// Bytes of the answer's body handed to the connection.
    pub sent_bytes: u64,
}

impl Seen {
    /// A header's value, by lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It has not.
    Open,
    /// The whole answer was handed to the connection.
    Completed,
    /// The client went away first.
    Gone,
    /// The script broke it off.
    Aborted,
}

/// Connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Connections {
    /// Accepted so far.
    pub accepted: u64,
    /// Open at this moment.
    pub open: u64,
}

/// The record of all that was seen.
pub(crate) struct Log {
    state: Mutex<State>,
    changed: Condvar,
    started: Instant,
    requests_kept: usize,
}

#[derive(Default)]
struct State {
    requests: VecDeque<Seen>,
    last_number: u64,
    accepted: u64,
    /// Open connections with their open requests.
    open: BTreeMap<u64, BTreeSet<u64>>,
}

impl Log {
    pub(crate) fn new(requests_kept: usize) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), started: Instant::now(), requests_kept }
    }

    pub(crate) fn connection_opened(&self) -> u64 {
        let mut state = self.lock();
        state.accepted += 1;
        let number = state.accepted;
        state.open.insert(number, BTreeSet::new());
        self.changed.notify_all();
        number
    }

    /// The connection's other end is gone: so are its open requests.
    pub(crate) fn connection_lost(&self, connection: u64) {
        let mut state = self.lock();
        let requests = state.open.get(&connection).cloned().unwrap_or_default();
        for number in requests {
            self.end_in(&mut state, number, Outcome::Gone);
        }
        self.changed.notify_all();
    }

    pub(crate) fn connection_closed(&self, connection: u64) {
        self.connection_lost(connection);
        self.lock().open.remove(&connection);
        self.changed.notify_all();
    }

    /// Notes a request; gives its number.
    pub(crate) fn begin(&self, connection: u64, request: &http::request::Parts) -> u64 {
        let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let mut state = self.lock();
        state.last_number += 1;
        let number = state.last_number;
        state.requests.push_back(Seen {
            number,
            connection,
            version: format!("{:?}", request.version),
            method: request.method.to_string(),
            path: request.uri.path().to_owned(),
            query: request.uri.query().unwrap_or_default().to_owned(),
            headers: request.headers.iter().map(header).collect(),
            body_read: false,
            body_length: 0,
            body_sha256: String::new(),
            body: String::new(),
            began_us: self.now_us(),
            ended_us: None,
            outcome: Outcome::Open,
            status: 0,
            sent_bytes: 0,
        });
        if state.requests.len() > self.requests_kept {
            state.requests.pop_front();
        }
        state.open.entry(connection).or_default().insert(number);
        self.changed.notify_all();
        number
    }

    pub(crate) fn body(&self, number: u64, body: &[u8]) {
        let digest = Sha256::digest(body);
        let kept = String::from_utf8_lossy(&body[..body.len().min(BODY_BYTES_KEPT)]).into_owned();
        self.change(number, |seen| {
            seen.body_read = true;
            seen.body_length = body.len();
            seen.body_sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            seen.body = kept;
        });
    }

    pub(crate) fn status(&self, number: u64, status: u16) {
        self.change(number, |seen| seen.status = status);
    }

    pub(crate) fn sent(&self, number: u64, bytes: usize) {
        self.change(number, |seen| seen.sent_bytes += u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// The request ended so, if it has not ended before.
    pub(crate) fn end(&self, number: u64, outcome: Outcome) {
        self.end_in(&mut self.lock(), number, outcome);
        self.changed.notify_all();
    }

    pub(crate) fn all(&self) -> Vec<Seen> {
        self.lock().requests.iter().cloned().collect()
    }

    pub(crate) fn request(&self, number: u64) -> Option<Seen> {
        find(&mut self.lock(), number).cloned()
    }

    pub(crate) fn is_connection_open(&self, connection: u64) -> bool {
        self.lock().open.contains_key(&connection)
    }

    pub(crate) fn requests(&self) -> u64 {
        self.lock().last_number
    }

    pub(crate) fn connections(&self) -> Connections {
        let state = self.lock();
        Connections { accepted: state.accepted, open: state.open.len() as u64 }
    }

    /// Forgets requests; numbers begin at 1 again. Connections stay.
    pub(crate) fn reset(&self) {
        let mut state = self.lock();
        state.requests.clear();
        state.last_number = 0;
        state.open.values_mut().for_each(BTreeSet::clear);
        self.changed.notify_all();
    }

    /// Waits until the question has an answer.
    pub(crate) fn wait<T>(&self, timeout: Duration, mut ask: impl FnMut(&Self) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(answer) = ask(self) {
                return Some(answer);
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            // A change between the question and the wait is caught after 5 ms at the latest.
            let nap = left.min(Duration::from_millis(5));
            drop(self.changed.wait_timeout(self.lock(), nap).unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn change(&self, number: u64, change: impl FnOnce(&mut Seen)) {
        if let Some(seen) = find(&mut self.lock(), number) {
            change(seen);
        }
        self.changed.notify_all();
    }

    fn end_in(&self, state: &mut State, number: u64, outcome: Outcome) {
        let now = self.now_us();
        let Some(seen) = find(state, number).filter(|seen| seen.outcome == Outcome::Open) else { return };
        seen.outcome = outcome;
        seen.ended_us = Some(now);
        let connection = seen.connection;
        if let Some(requests) = state.open.get_mut(&connection) {
            requests.remove(&number);
        }
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn find(state: &mut State, number: u64) -> Option<&mut Seen> {
    let first = state.requests.front()?.number;
    let at = usize::try_from(number.checked_sub(first)?).ok()?;
    state.requests.get_mut(at)
}
