//! What the model is told to do: rules, each with what it matches and what it answers.
//!
//! ```json
//! [{"match": {"path": "/v1/messages", "contains": "hello"}, "times": 2, "reply": {"status": 529}}]
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answer::{Finish, ToolCall, Usage};

/// One rule. The first that matches answers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What it matches; everything if left out.
    #[serde(default, rename = "match")]
    pub when: Match,
    /// How often it applies; for ever if left out.
    #[serde(default)]
    pub times: Option<u64>,
    /// What it answers.
    #[serde(default)]
    pub reply: Reply,
}

/// What a request must be; all that are set must hold.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Match {
    /// Part of the path.
    pub path: Option<String>,
    /// The model, exactly.
    pub model: Option<String>,
    /// Part of the body's text.
    pub contains: Option<String>,
}

/// An answer. What is left out is as in the default dialogue.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reply {
    /// The assistant's text.
    pub text: Option<String>,
    /// Reasoning before the text.
    pub reasoning: Option<String>,
    /// Tool calls, after the text.
    pub tool_calls: Vec<ToolCall>,
    /// Run this command line with the client's best shell tool, after the text.
    pub shell: Option<String>,
    /// The default dialogue's tool call, also after a result.
    #[serde(rename = "loop")]
    pub repeat_call: bool,
    /// The same, alternating between two commands: some clients end by themselves after five identical calls.
    #[serde(rename = "loop_turns")]
    pub repeat_call_in_turns: bool,
    /// Say `text` (or a sentence) this many times.
    pub chant: Option<usize>,
    /// Say `text` for ever; streams only.
    pub endless: bool,
    /// Text of this many bytes.
    pub size: Option<usize>,
    /// When it was made, in seconds since 1970; now if left out.
    pub created: Option<i64>,
    /// Why the model stopped.
    pub finish: Finish,
    /// What it used: `"none"` or numbers; guessed if left out.
    pub usage: Option<UsageReply>,

    /// HTTP status; from 400 on the body is an error.
    pub status: Option<u16>,
    /// The error's message.
    pub message: Option<String>,
    /// The whole body, as JSON, whatever the status.
    pub json: Option<Value>,
    /// The whole body, as text.
    pub body: Option<String>,
    /// The whole body, as bytes.
    pub body_base64: Option<String>,
    /// Bytes written to the socket past HTTP, which is then closed (HTTP/1.1 without TLS only).
    pub raw_base64: Option<String>,
    /// Headers added or replaced.
    pub headers: BTreeMap<String, String>,

    /// When things happen.
    pub delay: Delay,
    /// Wait for ever at this point.
    pub hold: Option<Hold>,
    /// Send nothing but keep-alive comments, every `delay.chunk_ms` (default 100 ms).
    pub keep_alive: bool,
    /// How the body is cut into writes.
    pub split: Option<Split>,
    /// Lines of a stream end in CR LF.
    pub crlf: bool,
    /// Content encoding, chunk by chunk in a stream.
    pub encoding: Option<Encoding>,
    /// Break off.
    pub abort: Option<Abort>,
}

/// Milliseconds to wait.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Delay {
    /// Before the request's body is read. Only rules that match by path alone can say so.
    pub body_ms: u64,
    /// Before the headers are sent.
    pub headers_ms: u64,
    /// Between headers and the first byte of the body.
    pub first_byte_ms: u64,
    /// Between the chunks of the body.
    pub chunk_ms: u64,
}

/// Where to wait for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// Never read the request's body. Only rules that match by path alone can say so.
    Upload,
    /// Never send headers.
    Headers,
    /// Send headers, never a body.
    Body,
    /// Send half of the body, never the rest.
    MidStream,
}

/// What to say about usage.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum UsageReply {
    /// `"none"`: nothing.
    Nothing(NoUsage),
    /// These numbers.
    Numbers(Usage),
}

/// The word `none`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoUsage {
    /// Say nothing.
    None,
}

/// How the body is cut into writes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// This many bytes a write.
    Bytes(usize),
    /// 1 to 40 bytes a write, by this seed.
    Random(u64),
}

/// Content encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// gzip
    Gzip,
    /// deflate, which is zlib
    Deflate,
    /// Brotli
    Br,
    /// Zstandard; each chunk of a stream is a frame of its own.
    Zstd,
}

/// Breaking off.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Abort {
    /// When.
    pub at: AbortAt,
    /// How.
    #[serde(default)]
    pub how: AbortHow,
    /// Mid-stream: after this many events.
    #[serde(default = "events_before_abort")]
    pub after_events: usize,
}

/// Three events are past the head of every protocol, and before the end of the shortest answer.
fn events_before_abort() -> usize {
    3
}

/// When to break off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbortAt {
    /// After the request was read.
    BeforeHeaders,
    /// Before the first byte of the body.
    AfterHeaders,
    /// In the body: after some events, or after half of a plain body.
    MidStream,
}

/// How to break off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbortHow {
    /// The connection is reset (SO_LINGER 0).
    #[default]
    Rst,
    /// The connection is closed without finishing the body; HTTP/2: the stream is reset.
    Fin,
    /// The body ends as if it were whole, without the protocol's last events.
    Eof,
    /// The protocol's error event, then a clean end.
    ErrorEvent,
}

/// Rules with their counts.
#[derive(Debug, Default)]
pub(crate) struct Script {
    rules: Vec<Rule>,
}

impl Script {
    pub(crate) fn new(rules: Vec<Rule>) -> Self {
        Self { rules }
    }

    /// What to do before the body is read: the first rule by path alone. It is not used up by this.
    pub(crate) fn before_body(&self, path: &str) -> Option<(Delay, Option<Hold>)> {
        let by_path = |rule: &&Rule| rule.when.model.is_none() && rule.when.contains.is_none();
        let rule = self.rules.iter().filter(by_path).find(|rule| rule.applies(path, "", ""))?;
        Some((rule.reply.delay, rule.reply.hold))
    }

    /// The reply of the first rule that matches; uses up one of its times.
    pub(crate) fn take(&mut self, path: &str, model: &str, body: &str) -> Option<Reply> {
        let rule = self.rules.iter_mut().find(|rule| rule.applies(path, model, body))?;
        rule.times = rule.times.map(|times| times - 1);
        Some(rule.reply.clone())
    }
}

impl Rule {
    fn applies(&self, path: &str, model: &str, body: &str) -> bool {
        self.times != Some(0)
            && self.when.path.as_ref().is_none_or(|part| path.contains(part.as_str()))
            && self.when.model.as_ref().is_none_or(|name| name == model)
            && self.when.contains.as_ref().is_none_or(|part| body.contains(part.as_str()))
    }
}
