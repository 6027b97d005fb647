//! The messages between one client and one server, and the calls among them.
//!
//! A call is on the list from before it is asked about until it is answered. Whoever decides about it does so under the
//! list's lock: a call that was stopped meanwhile is not on it any more, and is not forwarded.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use estop_wire::mcp::{self, Answered, Call, Id, Message, Part};
use tokio::runtime::Handle;

use super::daemon::{Asked, Daemon};
use super::outbox::Outbox;
use super::reading::ErrorReplies;
use super::unreachable::Rule;

/// Calls at once. Clients run a few; more than these is a loop.
const OPEN_MAX: usize = 1024;
/// Stopped calls whose answers are dropped should they come: the client has its answer.
const STOPPED_MAX: usize = 4096;
/// JSON-RPC: not a request that can be served.
const INVALID_REQUEST: i32 = -32600;

/// What a session is made of.
pub(super) struct Parts {
    pub(super) server: String,
    pub(super) to_server: Arc<Outbox>,
    pub(super) to_client: Arc<Outbox>,
    pub(super) rule: Rule,
    pub(super) daemon: Arc<Daemon>,
    pub(super) runtime: Handle,
}

/// The messages between one client and one server.
pub(super) struct Session {
    pub(super) parts: Parts,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    open: BTreeMap<Id, Open>,
    stopped: VecDeque<Id>,
    numbers: u64,
    /// Messages that somebody decides about.
    asking: usize,
    client_is_done: bool,
    /// Nothing may run any more, for this reason.
    pub(super) shut: Option<String>,
}

struct Open {
    call: Call<'static>,
    number: u64,
    is_running: bool,
}

/// A message with calls that somebody decides about.
struct Deciding {
    line: Vec<u8>,
    calls: Vec<(Call<'static>, u64)>,
    /// Other requests of the same batch.
    others: Vec<Id>,
    is_batch: bool,
}

/// The answer to a message whose calls cannot be decided about.
struct Refused(String);

impl Session {
    pub(super) fn new(parts: Parts) -> Arc<Session> {
        Arc::new(Session { parts, state: Mutex::default() })
    }

    pub(super) fn daemon(&self) -> Arc<Daemon> {
        Arc::clone(&self.parts.daemon)
    }

    /// A line of the client.
    pub(super) fn client_said(self: &Arc<Self>, line: Vec<u8>) {
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let is_blank = text.trim_ascii().is_empty();
        match mcp::read_line(text) {
            Ok(message) if message.calls().next().is_some() => {
                // The client is not read meanwhile.
                self.parts.to_server.room(line.len());
                match self.begin(&message) {
                    Ok(deciding) => self.decide(Deciding { line, ..deciding }),
                    Err(Refused(answer)) => {
                        self.parts.to_server.drop_room(line.len());
                        self.parts.to_client.say(&answer);
                    }
                }
            }
            Ok(message) if message.is_work() => {
                self.withdraw(&message);
                let unpassed = ErrorReplies::of(&message);
                self.pass_if_working(line, &unpassed);
            }
            Ok(message) => {
                self.withdraw(&message);
                self.parts.to_server.pass(line);
            }
            Err(_) if is_blank => self.parts.to_server.pass(line),
            Err(_) if mcp::cannot_be_call(text) => self.pass_if_working(line, &ErrorReplies::default()),
            Err(unread) => {
                let words =
                    format!("estop cannot read this message, so it does not reach the server: {unread}.");
                self.parts.to_client.say(&mcp::error(unread.id.as_ref(), unread.code, &words));
            }
        }
    }

    /// A line of the client that is too long.
    pub(super) fn too_long(&self) {
        let max = mcp::MESSAGE_BYTES_MAX;
        let words = format!("estop does not pass on messages of more than {max} bytes to a server.");
        self.parts.to_client.say(&mcp::error(None, INVALID_REQUEST, &words));
    }

    /// The client sends nothing more.
    pub(super) fn client_is_done(&self) {
        let mut state = self.state();
        state.client_is_done = true;
        self.close_if_done(&state);
    }

    /// A line of the server.
    pub(super) fn server_said(&self, line: Vec<u8>) {
        if self.is_for_client(&line) {
            self.parts.to_client.pass(line);
        }
    }

    /// A part of a line of the server that is too long to be looked at.
    pub(super) fn pass_to_client(&self, bytes: Vec<u8>) {
        self.parts.to_client.pass(bytes);
    }

    /// The agent, its run or the channel is stopped: every call under way is taken back and answered.
    pub(super) fn end(&self, why: &str) {
        let mut state = self.state();
        for (id, open) in std::mem::take(&mut state.open) {
            // One that was not written never reaches the server.
            if open.is_running && !self.parts.to_server.take_back(&id) {
                self.parts.to_server.say(&mcp::cancelled(&id, why));
            }
            if open.is_running {
                if state.stopped.len() == STOPPED_MAX {
                    state.stopped.pop_front();
                }
                state.stopped.push_back(id);
            }
            self.parts.to_client.say(&mcp::denied(&open.call, why));
        }
    }

    /// The same for good: the button is pressed.
    pub(super) fn stop(&self, why: &str) {
        self.state().shut = Some(why.to_owned());
        self.end(why);
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the calls of a message on the list.
    fn begin(&self, message: &Message<'_>) -> Result<Deciding, Refused> {
        let (mut calls, mut others) = (Vec::new(), Vec::new());
        for part in message.parts() {
            match part {
                Part::Call(call) => calls.push(call.clone().into_owned()),
                Part::Request { id, .. } => others.push(id.clone()),
                Part::Notice { .. } | Part::Answer { .. } | Part::Other => {}
            }
        }
        let mut state = self.state();
        let mut deciding =
            Deciding { line: Vec::new(), calls: Vec::new(), others, is_batch: message.is_batch };
        let mut why_not = state.shut.clone();
        if state.open.len() + calls.len() > OPEN_MAX {
            why_not.get_or_insert("estop refused this: too many tool calls are under way.".to_owned());
        }
        for (nth, call) in calls.iter().enumerate() {
            let is_twice = calls.iter().take(nth).any(|earlier| earlier.id == call.id);
            if is_twice || state.open.contains_key(&call.id) {
                let words = "estop refused this: a call with this id is under way already.";
                return Err(Refused(mcp::error(Some(&call.id), INVALID_REQUEST, words)));
            }
        }
        for call in calls {
            state.numbers += 1;
            deciding.calls.push((call, state.numbers));
        }
        if let Some(why) = why_not {
            return Err(Refused(deciding.refusal(&why)));
        }
        for (call, number) in &deciding.calls {
            state.stopped.retain(|id| *id != call.id);
            // What it does with them is the server's; here they would wait as long as it runs.
            let call = Call { arguments: "{}".into(), ..call.clone() };
            let open = Open { call, number: *number, is_running: false };
            state.open.insert(open.call.id.clone(), open);
        }
        state.asking += 1;
        Ok(deciding)
    }

    /// Asks about all calls of a message, beside everything else that passes.
    fn decide(self: &Arc<Self>, deciding: Deciding) {
        let session = Arc::clone(self);
        self.parts.runtime.spawn(async move {
            let mut refusal = None;
            for (call, number) in &deciding.calls {
                refusal = session.ask(call, *number).await;
                if refusal.is_some() {
                    break;
                }
            }
            session.decided(deciding, refusal);
        });
    }

    /// Why a call may not run.
    async fn ask(&self, call: &Call<'_>, number: u64) -> Option<String> {
        let Parts { daemon, rule, server, .. } = &self.parts;
        let body = mcp::asks(server, call, &daemon.number(number));
        match daemon.ask("pre-tool-use", body).await {
            Asked::Allowed => {
                rule.heard();
                None
            }
            Asked::Denied(reason) => {
                rule.heard();
                Some(reason)
            }
            Asked::Unreachable(why) => rule.refusal(&why),
        }
    }

    fn decided(&self, deciding: Deciding, refusal: Option<String>) {
        let mut state = self.state();
        state.asking -= 1;
        let is_open = |state: &State, call: &Call<'_>, number: u64| {
            state.open.get(&call.id).is_some_and(|open| open.number == number)
        };
        let all_open = deciding.calls.iter().all(|(call, number)| is_open(&state, call, *number));
        if refusal.is_none() && all_open {
            let mut ids = Vec::new();
            for (call, _) in &deciding.calls {
                if let Some(open) = state.open.get_mut(&call.id) {
                    open.is_running = true;
                }
                ids.push(call.id.clone());
            }
            self.parts.to_server.call(deciding.line, ids);
        } else {
            self.parts.to_server.drop_room(deciding.line.len());
            // Those that were stopped or taken back meanwhile are answered already, or want no answer.
            let left: Vec<(Call<'static>, u64)> =
                deciding.calls.into_iter().filter(|(call, number)| is_open(&state, call, *number)).collect();
            for (call, _) in &left {
                state.open.remove(&call.id);
            }
            let words = refusal.unwrap_or_else(|| "estop refused this: its batch was taken back.".to_owned());
            let answer = Deciding { calls: left, line: Vec::new(), ..deciding };
            if !answer.calls.is_empty() || !answer.others.is_empty() {
                self.parts.to_client.say(&answer.refusal(&words));
            }
        }
        self.close_if_done(&state);
    }

    /// A call that the client takes back before it was decided about does not reach the server.
    fn withdraw(&self, message: &Message<'_>) {
        for part in message.parts() {
            if let Part::Notice { cancels: Some(id), .. } = part {
                self.state().open.remove(id);
            }
        }
    }

    /// Whether a line of the server is for the client; ends of calls are reported on the way.
    fn is_for_client(&self, line: &[u8]) -> bool {
        let mut state = self.state();
        if state.open.is_empty() && state.stopped.is_empty() {
            return true;
        }
        let Ok(message) = mcp::read_line(line.strip_suffix(b"\n").unwrap_or(line)) else { return true };
        for part in message.parts() {
            let Part::Answer { id, result, error } = part else { continue };
            if state.stopped.contains(id) {
                // It has its answer. Of a batch, the others want theirs.
                return message.is_batch;
            }
            if state.open.get(id).is_some_and(|open| open.is_running)
                && let Some(open) = state.open.remove(id)
            {
                self.report(&open, &mcp::answered(*result, *error));
            }
        }
        true
    }

    fn report(&self, open: &Open, answered: &Answered) {
        let Parts { daemon, server, .. } = &self.parts;
        let body = mcp::tells(server, &open.call.name, &daemon.number(open.number), answered);
        let daemon = Arc::clone(daemon);
        self.parts.runtime.spawn(async move {
            // Whoever cannot be told counts one end less.
            let _ = daemon.ask("post-tool-use", body).await;
        });
    }

    fn close_if_done(&self, state: &State) {
        if state.client_is_done && state.asking == 0 {
            self.parts.to_server.close(Duration::ZERO);
        }
    }
}

impl Deciding {
    /// The answer to all requests in it.
    fn refusal(&self, why: &str) -> String {
        let mut answers: Vec<String> = self.calls.iter().map(|(call, _)| mcp::denied(call, why)).collect();
        answers.extend(self.others.iter().map(|id| mcp::error(Some(id), mcp::SERVER_ERROR, why)));
        match answers.as_slice() {
            [only] if !self.is_batch => only.clone(),
            all => mcp::batch(all),
        }
    }
}
