//! What an agent was answered lately, for clients that name an answer instead of repeating the conversation
//! (Responses with `previous_response_id`): without it, such a client would begin a new conversation each time.

use std::collections::VecDeque;

use estop_core::ended::Ended;
use estop_core::fingerprint::simhash::SimHash;
use estop_core::fingerprint::{RequestFingerprint, ResponseFingerprint, signature};
use estop_core::ids::{Hash64, Name};
use estop_wire::request::RequestIn;
use estop_wire::response::Observed;

/// Answers remembered. Chosen: parallel sessions of one agent are a few dozen at most.
const ANSWERS_MAX: usize = 64;
/// Calls remembered.
const CALLS_MAX: usize = 256;

/// What an agent was answered lately.
#[derive(Default)]
pub struct PreviousResponses {
    answers: VecDeque<Answer>,
    calls: VecDeque<Call>,
}

struct Answer {
    id: Hash64,
    conversation: Hash64,
    ask: Hash64,
    prompt: Option<SimHash>,
}

struct Call {
    id: Hash64,
    tool: Name,
    action: Hash64,
    test_run: bool,
}

/// The part of a request's print that its answer is remembered with.
#[derive(Clone, Copy, Debug)]
pub struct RequestSummary {
    pub conversation: Hash64,
    ask: Hash64,
    prompt: Option<SimHash>,
}

impl RequestSummary {
    /// Of a request's print.
    pub fn of(print: &RequestFingerprint) -> RequestSummary {
        RequestSummary { conversation: print.conversation, ask: print.ask, prompt: print.prompt }
    }
}

impl PreviousResponses {
    /// Fills in what a request leaves to the answer it goes on from.
    pub fn complete(&self, request: &RequestIn<'_>, print: &mut RequestFingerprint) {
        let Some(previous) = &request.previous_response else { return };
        let id = signature::text(previous);
        if let Some(answer) = self.answers.iter().rev().find(|answer| answer.id == id) {
            print.conversation = answer.conversation;
            if request.last_user.is_empty() {
                print.ask = answer.ask;
                print.prompt = answer.prompt;
            }
        }
        for (step, said) in print.steps.iter_mut().zip(&request.steps) {
            let Some(call_id) = said.call_id.as_deref().map(signature::text) else { continue };
            if let Some(call) = self.calls.iter().rev().find(|call| call.id == call_id) {
                step.tool = call.tool.clone();
                step.action = call.action;
                step.test_run = call.test_run && step.ended != Ended::Unknown;
            }
        }
    }

    /// Remembers an answer that a later request may name.
    pub fn remember(&mut self, summary: RequestSummary, said: &Observed, print: &ResponseFingerprint) {
        let Some(id) = said.id.as_deref().map(signature::text) else { return };
        let RequestSummary { conversation, ask, prompt } = summary;
        push(&mut self.answers, Answer { id, conversation, ask, prompt }, ANSWERS_MAX);
        for (call, print) in said.calls.iter().zip(&print.calls).filter(|(call, _)| !call.id.is_empty()) {
            let (tool, action, test_run) = (print.tool.clone(), print.action, print.test_run);
            let call = Call { id: signature::text(&call.id), tool, action, test_run };
            push(&mut self.calls, call, CALLS_MAX);
        }
    }
}

fn push<T>(queue: &mut VecDeque<T>, item: T, max: usize) {
    if queue.len() >= max {
        queue.pop_front();
    }
    queue.push_back(item);
}
