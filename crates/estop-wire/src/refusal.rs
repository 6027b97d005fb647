//! Answers in place of the model's, in the shape of each protocol (AN-1..3).
//!
//! No single status stops every client: the answer is chosen by protocol and client, from what was measured. An error
//! is one JSON document even if a stream was asked for, because that is what clients expect of a status that is not
//! 200; only a message, and the end of a stream that has begun, are streamed.

mod error;
mod message;

use estop_core::policy::BlockResponse;
use serde_json::Value;

use crate::client::Client;
use crate::protocol::{Family, Protocol};
use crate::response::Framing;

/// How an answer is refused.
///
/// The sentence may contain anything; it is escaped. The code must be in snake case, because it becomes a header.
pub fn refuse(refused: &RejectedRequest<'_>, refusal: &ErrorDetails<'_>) -> ErrorResponse {
    let is_message = refused.style == BlockResponse::Message && refusal.kind == Kind::Stop;
    if is_message && refused.protocol.is_generation() {
        return answer_with_message(refused, refusal);
    }
    let status = status(refused, refusal.kind);
    let body = error::body(refused.protocol, status, refusal);
    ErrorResponse {
        status,
        headers: headers("application/json", refusal),
        body: json_text(&body).into_bytes(),
    }
}

/// What ends a stream that is under way (AN-3): the protocol's error event, never a clean end.
///
/// `at_boundary` says whether the last byte sent ended an event. `None`: there is no way to say it in this framing,
/// and the connection must be broken instead.
pub fn cut(
    protocol: Protocol,
    framing: Framing,
    at_boundary: bool,
    refusal: &ErrorDetails<'_>,
) -> Option<Vec<u8>> {
    let error = error::event(protocol, refusal);
    let event = match framing {
        Framing::Plain => return None,
        Framing::Sse => {
            // The blank line ends what was begun; a client that cannot read that half event has an error as well.
            let before = if at_boundary { "" } else { "\n\n" };
            format!("{before}{}", sse(error.name, &error.data))
        }
        Framing::Ndjson => format!("{}{}\n", if at_boundary { "" } else { "\n" }, json_text(&error.data)),
    };
    Some(event.into_bytes())
}

/// The same for a stream that is one JSON array (Gemini's without `alt=sse`), between two of its elements: an error as the
/// last element, and the end of the array. `after_element`: a comma is due.
pub fn cut_array(protocol: Protocol, after_element: bool, refusal: &ErrorDetails<'_>) -> Vec<u8> {
    let error = error::event(protocol, refusal);
    let comma = if after_element { "," } else { "" };
    format!("{comma}{}]", json_text(&error.data)).into_bytes()
}

/// Why a request is not answered by the model.
#[derive(Clone, Copy, Debug)]
pub struct ErrorDetails<'a> {
    /// What kind of no it is.
    pub kind: Kind,
    /// For machines, in snake case: `kill_switch`, `budget`, `system`, `body_too_large`.
    pub code: &'a str,
    /// For people: what happened, why, what to do next.
    pub message: &'a str,
}

/// What kind of no it is: decides the status, and whether a client should try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Stopped until a person does something: the status that makes this client stop.
    Stop,
    /// Ends by itself: 429 with `Retry-After` in whole seconds, at least 1 (AN-2).
    Wait {
        /// Milliseconds until it makes sense to try again.
        after_ms: u64,
    },
    /// The request itself is wrong: this 4xx status, no retry.
    BadRequest {
        /// 400, 401, 404, 413, 415, 421, 426, 431.
        status: u16,
    },
    /// The upstream failed, not estop: 502 or 504. Clients may retry.
    Upstream {
        /// 502 or 504.
        status: u16,
    },
    /// estop has too much to do: 503. Clients may retry.
    Overload,
}

impl Kind {
    /// Whole seconds after which a client may try again, at least 1; `None` if that is no use or not known.
    pub fn retry_after_s(self) -> Option<u64> {
        match self {
            Kind::Wait { after_ms } => Some(after_ms.div_ceil(1000).max(1)),
            Kind::Overload => Some(1),
            Kind::Stop | Kind::BadRequest { .. } | Kind::Upstream { .. } => None,
        }
    }
}

/// The request that is refused.
#[derive(Clone, Copy, Debug)]
pub struct RejectedRequest<'a> {
    /// Its shape.
    pub protocol: Protocol,
    /// Who sent it.
    pub client: Client,
    /// It asked for a stream.
    pub stream: bool,
    /// A stream of Gemini is one JSON array: it was asked for without `alt=sse`.
    pub array: bool,
    /// The model it names, repeated in a message-style answer.
    pub model: &'a str,
    /// How the policy wants a stop to look; only [`Kind::Stop`] on generation calls can be a message.
    pub style: BlockResponse,
}

/// An answer, ready to be sent. `content-length` is the body's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorResponse {
    /// HTTP status.
    pub status: u16,
    /// Headers, lower case.
    pub headers: Vec<(&'static str, String)>,
    /// Body.
    pub body: Vec<u8>,
}

fn answer_with_message(refused: &RejectedRequest<'_>, refusal: &ErrorDetails<'_>) -> ErrorResponse {
    let message = message::Message { model: refused.model, text: refusal.message };
    let (content_type, body) = match refused.stream {
        true => message::stream(refused.protocol, &message, refused.array),
        false => ("application/json", json_text(&message::plain(refused.protocol, &message))),
    };
    ErrorResponse { status: 200, headers: headers(content_type, refusal), body: body.into_bytes() }
}

/// The status that says it to this client.
fn status(refused: &RejectedRequest<'_>, kind: Kind) -> u16 {
    match kind {
        Kind::Stop => match (refused.client, refused.protocol.family()) {
            (Client::Goose, _) => 403,
            (Client::LiteLlm | Client::Copilot, _) => 400,
            (Client::Usual, Family::OpenAi) => 400,
            (Client::Usual, Family::Anthropic | Family::Gemini | Family::Ollama) => 403,
        },
        Kind::Wait { .. } => 429,
        Kind::BadRequest { status } | Kind::Upstream { status } => status,
        Kind::Overload => 503,
    }
}

fn headers(content_type: &str, refusal: &ErrorDetails<'_>) -> Vec<(&'static str, String)> {
    let mut headers = vec![
        ("content-type", content_type.to_owned()),
        ("cache-control", "no-store".to_owned()),
        ("x-estop-reason", header_code(refusal.code)),
    ];
    if matches!(refusal.kind, Kind::Stop | Kind::BadRequest { .. }) {
        headers.push(("x-should-retry", "false".to_owned()));
    }
    if let Some(seconds) = refusal.kind.retry_after_s() {
        headers.push(("retry-after", seconds.to_string()));
    }
    headers
}

/// The code as a header; what does not belong into one is left out.
fn header_code(code: &str) -> String {
    let is_fine = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '_';
    debug_assert!(!code.is_empty() && code.chars().all(|c| is_fine(&c)), "`{code}` is not in snake case");
    code.chars().filter(is_fine).collect()
}

/// A server-sent event.
fn sse(name: Option<&str>, data: &Value) -> String {
    let data = json_text(data);
    match name {
        Some(name) => format!("event: {name}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    }
}

/// JSON on one line for every reader: Python's `splitlines`, which some clients cut streams with, also takes these
/// three for line ends.
fn json_text(value: &Value) -> String {
    let mut text = value.to_string();
    for (raw, escaped) in [('\u{85}', "\\u0085"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")] {
        if text.contains(raw) {
            text = text.replace(raw, escaped);
        }
    }
    text
}
