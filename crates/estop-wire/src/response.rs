//! What an answer says, read beside the bytes that pass through: text, tool calls, usage, how it ended.
//!
//! Reading never holds back, changes or refuses a byte. What cannot be read is left out and said so. Every part
//! that is kept has a limit, and an answer that says nothing yet keeps a few hundred bytes.
//!
//! ```
//! use estop_wire::protocol::Protocol;
//! use estop_wire::response::{Framing, Observer};
//!
//! let mut observer = Observer::new(Protocol::OpenAiChat, Framing::Sse, "");
//! assert_eq!(observer.push(b"data: {\"choices\":[{\"delta\":{\"content\":\"Hel"), "");
//! assert_eq!(observer.push(b"lo\"}}]}\n\n"), "Hello");
//! assert_eq!(observer.finish().text, "Hello");
//! ```

mod anthropic;
mod body;
mod builder;
mod elements;
pub(crate) mod field;
mod gemini;
mod ollama;
mod openai_chat;
mod openai_responses;
mod openai_usage;
mod read;
mod totals;

pub use body::WHOLE_MAX;
pub use builder::{ARGS_ALL_MAX, ARGS_MAX, CALLS_MAX, TEXT_MAX};

use crate::decode::Decoder;
use crate::protocol::Protocol;
use body::Body;
use builder::ResponseBuilder;

/// How the body of an answer is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// One JSON document.
    Plain,
    /// Server-sent events.
    Sse,
    /// One JSON document a line.
    Ndjson,
}

/// What an answer used, as the provider says it. Missing numbers are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageIn {
    /// All input tokens, cache reads and writes included.
    pub input: u64,
    /// Of these, read from a cache.
    pub cache_read: u64,
    /// Of these, written to a cache.
    pub cache_write: u64,
    /// Of those written to a cache, for an hour: they cost more.
    pub cache_write_1h: u64,
    /// All output tokens, reasoning included.
    pub output: u64,
    /// Of these, spent on reasoning.
    pub reasoning: u64,
}

/// Why the model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// It was done.
    Stop,
    /// It wants tools to run.
    ToolCalls,
    /// The output limit was reached.
    Length,
    /// A filter or a refusal.
    Filtered,
    /// Anything else the provider says.
    Other,
}

/// A tool call made in an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallIn {
    /// Its id, if it has one.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Arguments as JSON text.
    pub args: String,
}

/// What an answer said in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The answer's id (Responses: what `previous_response_id` will name).
    pub id: Option<String>,
    /// The assistant's text, up to a cap.
    pub text: String,
    /// Tool calls made, up to a cap.
    pub calls: Vec<CallIn>,
    /// What it used, if the provider said.
    pub usage: Option<UsageIn>,
    /// Why the model stopped, if it said.
    pub finish: Option<Finish>,
    /// The provider reported an error inside the answer.
    pub failed: bool,
    /// Bytes of text and arguments seen, reasoning included: for an estimate of tokens.
    pub output_bytes: u64,
    /// Part of the answer could not be read (a cap was reached, broken JSON, an unknown encoding).
    pub partial: bool,
}

/// The framing a `content-type` announces. The first byte of the body has the last word: see [`Observer`].
pub fn framing(content_type: &str, protocol: Protocol) -> Framing {
    // As it nearly always is.
    if content_type == "application/json" {
        return Framing::Plain;
    }
    let kind = content_type.split(';').next().unwrap_or("").trim();
    let is = |name: &str| kind.eq_ignore_ascii_case(name);
    if is("text/event-stream") {
        return Framing::Sse;
    }
    // Ollama streams lines unless it says that it does not.
    let by_lines = matches!(protocol, Protocol::OllamaChat | Protocol::OllamaGenerate);
    if is("application/x-ndjson") || is("application/ndjson") || by_lines && !is("application/json") {
        return Framing::Ndjson;
    }
    Framing::Plain
}

/// Reads an answer while it passes.
///
/// The framing is what the header announces; a body that begins otherwise is read as what it is. A JSON array,
/// Gemini's stream without `alt=sse`, is read element by element as it passes; one JSON object is read at its end,
/// so that its text is in [`Observed`] only.
#[derive(Debug)]
pub struct Observer {
    protocol: Protocol,
    decoder: Option<Box<Decoder>>,
    body: Body,
    builder: ResponseBuilder,
}

impl Observer {
    /// For an answer of this protocol and framing; `encoding` is its `content-encoding`, `""` if it has none.
    pub fn new(protocol: Protocol, framing: Framing, encoding: &str) -> Observer {
        let (decoder, body) = match Decoder::new(encoding) {
            Ok(decoder) => (decoder.map(Box::new), Body::Start(framing)),
            Err(_) => (None, Body::Blind),
        };
        Observer { protocol, decoder, body, builder: ResponseBuilder::default() }
    }

    /// Reads the next bytes, split anywhere. Returns the assistant's text that they bring, `""` if none.
    pub fn push(&mut self, bytes: &[u8]) -> &str {
        let Observer { protocol, decoder, body, builder } = self;
        builder.begin();
        match decoder {
            None => body.push(bytes, *protocol, builder),
            Some(decoder) => {
                decoder.push(bytes, |plain| body.push(plain, *protocol, builder));
                if decoder.stopped() {
                    builder.miss();
                }
            }
        }
        builder.fresh()
    }

    /// What is known so far: usage, if the provider has said any, and bytes of output. Before the end, the usage
    /// may lack its output (OpenAI, Anthropic say it last).
    pub fn progress(&self) -> (Option<UsageIn>, u64) {
        (self.builder.totals.usage(), self.builder.output_bytes())
    }

    /// An event or a line of our own could follow here without breaking into a half-sent one. Never so in a plain
    /// body, nor in a compressed one.
    pub fn at_boundary(&self) -> bool {
        self.decoder.is_none() && self.body.at_boundary()
    }

    /// An element of our own could follow here in a JSON array: whether a comma is due before it. `None` where the body is no
    /// array, is compressed, or is inside an element.
    pub fn array_gap(&self) -> Option<bool> {
        if self.decoder.is_some() { None } else { self.body.array_gap() }
    }

    /// The answer is over, complete or not: all that was read.
    pub fn finish(self) -> Observed {
        let Observer { protocol, decoder: _, body, mut builder } = self;
        body.finish(protocol, &mut builder);
        builder.into_observed()
    }
}
