//! The lines of a recording: JSON, every text of it masked and of bounded length.

use std::collections::BTreeMap;

use estop_core::ended::Ended;
use estop_core::fingerprint::signature;
use estop_core::ids::Hash64;
use estop_wire::mask::Masker;
use estop_wire::request::{self, StepIn};
use serde::Serialize;

use super::{AnswerEnd, CapturedAnswer, CapturedRequest};

/// Of a longer text the middle is left out. Coding agents cut results at about this size.
const TEXT_MAX: usize = 32 << 10;
/// Names and ids have some dozens.
const NAME_MAX: usize = 256;
/// Conversations whose words are not told again.
const TOLD_MAX: usize = 1_024;

/// Said now and then.
pub(super) const ALIVE: &str = r#"{"alive":true}"#;

#[derive(Serialize)]
struct RequestLine<'a> {
    request: u64,
    at_ms: u64,
    conversation: String,
    run: Option<&'a str>,
    model: Option<String>,
    /// How much had been left out by now.
    dropped: u64,
    #[serde(flatten)]
    words: Words,
    continues: bool,
    text_bytes: usize,
    steps: Vec<StepLine>,
}

/// What a conversation repeats in each request is told when it changes.
#[derive(Serialize)]
struct Words {
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_user: Option<String>,
}

/// What was told last in each conversation, as hashes.
#[derive(Default)]
pub(super) struct Told(BTreeMap<Hash64, [Hash64; 3]>);

impl Told {
    /// Whether system prompt, first and last words are news.
    fn is_new(&mut self, conversation: Hash64, words: [&str; 3]) -> [bool; 3] {
        if self.0.len() == TOLD_MAX && !self.0.contains_key(&conversation) {
            self.0.clear();
        }
        let hashes = words.map(signature::text);
        let before = self.0.insert(conversation, hashes);
        std::array::from_fn(|at| before.is_none_or(|before| before[at] != hashes[at]))
    }
}

#[derive(Serialize)]
struct StepLine {
    tool: String,
    args: String,
    result: String,
    ended: Ended,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<String>,
}

#[derive(Serialize)]
struct AnswerLine {
    answer: u64,
    at_ms: u64,
    text: String,
    calls: Vec<CallLine>,
    ended: &'static str,
}

#[derive(Serialize)]
struct CallLine {
    id: String,
    tool: String,
    args: String,
}

#[derive(Serialize)]
struct EndLine {
    end: &'static str,
    requests: u64,
    dropped: u64,
    unread: u64,
}

/// A request; `None` if it cannot be read, as those of other kinds than talk.
pub(super) fn request(
    masker: &Masker,
    told: &mut Told,
    captured: &CapturedRequest,
    dropped: u64,
) -> Option<String> {
    let CapturedRequest { request, at, protocol, body, conversation, run } = captured;
    let said = protocol.is_generation().then(|| request::read(*protocol, body))?.ok()?;
    let text = |text: &str| masker.excerpt(text, TEXT_MAX).into_owned();
    let name = |name: &str| masker.excerpt(name, NAME_MAX).into_owned();
    let [system, first, last] = told.is_new(*conversation, [&said.system, &said.first_user, &said.last_user]);
    let step = |step: &StepIn<'_>| StepLine {
        tool: name(&step.tool),
        args: text(&step.args),
        result: text(&step.result),
        ended: step.ended,
        call_id: step.call_id.as_deref().map(name),
    };
    Some(json(&RequestLine {
        request: request.0,
        at_ms: at.0,
        // The hash itself would let who has the file try out the words it is made of.
        conversation: masker.digest(&conversation.0.to_le_bytes()),
        run: run.as_deref(),
        model: said.model.as_deref().map(name),
        dropped,
        words: Words {
            system: system.then(|| text(&said.system)),
            first_user: first.then(|| text(&said.first_user)),
            last_user: last.then(|| text(&said.last_user)),
        },
        continues: said.continues,
        text_bytes: said.text_bytes,
        steps: said.steps.iter().map(step).collect(),
    }))
}

/// An answer.
pub(super) fn answer(masker: &Masker, captured: &CapturedAnswer) -> String {
    let CapturedAnswer { request, at, text, calls, ended } = captured;
    let name = |name: &str| masker.excerpt(name, NAME_MAX).into_owned();
    let calls = calls.iter().map(|call| CallLine {
        id: name(&call.id),
        tool: name(&call.name),
        args: masker.excerpt(&call.args, TEXT_MAX).into_owned(),
    });
    let ended = match ended {
        AnswerEnd::Ok => "ok",
        AnswerEnd::Failed => "failed",
        AnswerEnd::Aborted => "aborted",
    };
    let text = masker.excerpt(text, TEXT_MAX).into_owned();
    json(&AnswerLine { answer: request.0, at_ms: at.0, text, calls: calls.collect(), ended })
}

/// Why it is over, and how much there was.
pub(super) fn end(why: &'static str, requests: u64, dropped: u64, unread: u64) -> String {
    json(&EndLine { end: why, requests, dropped, unread })
}

fn json(line: &impl Serialize) -> String {
    serde_json::to_string(line).unwrap_or_default()
}
