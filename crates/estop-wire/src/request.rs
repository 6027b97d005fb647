//! What a request says: model, stream or not, the person's words, what was done since the previous request.
//!
//! The body is inspected, never rebuilt: what is forwarded are the client's own bytes. What cannot be read without
//! doubt (broken JSON, duplicate keys, keys that differ only in case, wrong types where we look) is an error.

mod anthropic;
mod content;
mod conversation;
mod embeddings;
mod gemini;
mod insert;
mod limit;
mod ollama;
mod openai_chat;
mod openai_completions;
mod openai_responses;

use std::borrow::Cow;

use estop_core::ended::Ended;
use estop_core::fingerprint::{RequestText, StepText};

pub use crate::json::ReadError;
use crate::json::{self, ParseError, ParseErrorKind};
use crate::protocol::Protocol;

/// Reads a body. It is checked to its end, and decoded only where something is taken from it.
///
/// Calls whose shape nobody knows ([`Protocol::Other`]) are forwarded unread: for them only the checks are made.
pub fn read(protocol: Protocol, body: &[u8]) -> Result<RequestIn<'_>, ReadError> {
    json::document(body, |s| match protocol {
        Protocol::OpenAiChat => openai_chat::read(s),
        Protocol::OpenAiResponses => openai_responses::read(s),
        Protocol::OpenAiCompletions => openai_completions::read(s),
        Protocol::AnthropicMessages => anthropic::read(s),
        Protocol::Gemini => gemini::read(s),
        Protocol::OllamaChat => ollama::read_chat(s),
        Protocol::OllamaGenerate => ollama::read_generate(s),
        Protocol::Embeddings(_) => embeddings::read(s),
        Protocol::Other(_) => s.skip().map(|_| RequestIn::default()),
    })
}

/// A request, read. Texts are borrowed from the body where JSON escapes allow it.
#[derive(Clone, Debug, Default)]
pub struct RequestIn<'a> {
    /// The model it names in its body.
    pub model: Option<Cow<'a, str>>,
    /// It asks for a stream in its body (for Ollama: unless it says `false`).
    pub stream: bool,
    /// The provider goes on by itself: the answer only says that it was taken (Responses).
    pub background: bool,
    /// The most tokens it allows for its answer, all choices together.
    pub max_output_tokens: Option<u32>,
    /// How many answers it asks for; 0 where nobody can ask for more than one.
    pub answers: u32,
    /// The system prompt (FP-6).
    pub system: Cow<'a, str>,
    /// The first thing a person said.
    pub first_user: Cow<'a, str>,
    /// The newest thing a person said (FP-3).
    pub last_user: Cow<'a, str>,
    /// The newest input is tool results.
    pub continues: bool,
    /// What was done since the previous request (FP-4).
    pub steps: Vec<StepIn<'a>>,
    /// The answer this one goes on from, where the provider keeps the history (Responses).
    pub previous_response: Option<Cow<'a, str>>,
    /// It has the provider read something that it does not send: a conversation, a prompt, items or a cache kept there.
    pub refers_to_more: bool,
    /// Models the provider may take instead of the one it names (OpenRouter).
    pub other_models: Vec<Cow<'a, str>>,
    /// Bytes of all text sent, for an estimate of tokens.
    pub text_bytes: usize,
}

/// One thing an agent did, with its result.
#[derive(Clone, Debug)]
pub struct StepIn<'a> {
    /// The tool's name; empty for agents that act in text, and where only `call_id` is known.
    pub tool: Cow<'a, str>,
    /// Arguments as JSON text, or the text action itself.
    pub args: Cow<'a, str>,
    /// What came out.
    pub result: Cow<'a, str>,
    /// How it ended, as far as the protocol says.
    pub ended: Ended,
    /// The call's id, where the request has the result but not the call (Responses with `previous_response_id`).
    pub call_id: Option<Cow<'a, str>>,
}

impl RequestIn<'_> {
    /// As the core's fingerprints want it.
    pub fn text<'b>(&'b self, run: Option<&'b str>) -> RequestText<'b> {
        let step =
            |s: &'b StepIn<'_>| StepText { tool: &s.tool, args: &s.args, result: &s.result, ended: s.ended };
        RequestText {
            system: &self.system,
            first_user: &self.first_user,
            run,
            last_user: &self.last_user,
            continues: self.continues,
            steps: self.steps.iter().map(step).collect(),
        }
    }
}

/// The object that starts at `at` lacks something.
fn missing(at: usize, name: &'static str) -> ParseError {
    ParseError { at, what: ParseErrorKind::Missing(name) }
}
