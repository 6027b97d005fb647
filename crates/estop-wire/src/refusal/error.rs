//! Errors in each protocol's words.

use serde_json::{Value, json};

use super::{ErrorDetails, Kind};
use crate::protocol::{Family, Protocol};

/// Past every number a real stream reaches: where the stream was cut is not known here, and events are ordered by it.
const LAST_SEQUENCE_NUMBER: u32 = 1_000_000_000;

/// The body of an error with this status.
pub(super) fn body(protocol: Protocol, status: u16, refusal: &ErrorDetails<'_>) -> Value {
    let ErrorDetails { code, message, .. } = refusal;
    match protocol.family() {
        Family::OpenAi => {
            json!({"error": {"message": message, "type": openai_type(refusal.kind), "param": null, "code": code}})
        }
        Family::Anthropic => {
            let kind = anthropic_type(status, refusal.kind);
            json!({"type": "error", "error": {"type": kind, "message": message, "code": code}})
        }
        Family::Gemini => {
            let info = json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": code, "domain": "estop"});
            json!({"error": {"code": status, "message": message, "status": gemini_status(status), "details": [info]}})
        }
        Family::Ollama => json!({"error": message}),
    }
}

/// An event that ends a stream.
pub(super) struct ErrorEvent {
    pub(super) name: Option<&'static str>,
    pub(super) data: Value,
}

/// The error inside a stream, whose status was 200.
pub(super) fn event(protocol: Protocol, refusal: &ErrorDetails<'_>) -> ErrorEvent {
    let data = body(protocol, status_in_stream(refusal.kind), refusal);
    match protocol {
        Protocol::OpenAiResponses => {
            ErrorEvent { name: Some("response.failed"), data: response_failed(refusal) }
        }
        Protocol::AnthropicMessages
        | Protocol::Other(Family::Anthropic)
        | Protocol::Embeddings(Family::Anthropic) => ErrorEvent { name: Some("error"), data },
        Protocol::OpenAiChat
        | Protocol::OpenAiCompletions
        | Protocol::Gemini
        | Protocol::OllamaChat
        | Protocol::OllamaGenerate
        | Protocol::Embeddings(Family::OpenAi | Family::Gemini | Family::Ollama)
        | Protocol::Other(Family::OpenAi | Family::Gemini | Family::Ollama) => {
            ErrorEvent { name: None, data }
        }
    }
}

/// The status an error in a stream stands for.
fn status_in_stream(kind: Kind) -> u16 {
    match kind {
        Kind::Stop => 403,
        Kind::Wait { .. } => 429,
        Kind::BadRequest { status } | Kind::Upstream { status } => status,
        Kind::Overload => 503,
    }
}

/// `invalid_prompt` is the one code that stops Codex and shows the person our sentence.
fn response_failed(refusal: &ErrorDetails<'_>) -> Value {
    let code = match refusal.kind {
        Kind::Stop | Kind::BadRequest { .. } => "invalid_prompt",
        Kind::Wait { .. } => "rate_limit_exceeded",
        Kind::Upstream { .. } | Kind::Overload => "server_error",
    };
    let mut response = super::message::response("", "failed", &[]);
    response["error"] = json!({"code": code, "message": refusal.message});
    response["metadata"] = json!({"estop_reason": refusal.code});
    json!({"type": "response.failed", "sequence_number": LAST_SEQUENCE_NUMBER, "response": response})
}

fn openai_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Stop => "invalid_request_error",
        Kind::Wait { .. } => "rate_limit_error",
        Kind::BadRequest { status: 401 } => "authentication_error",
        Kind::BadRequest { .. } => "invalid_request_error",
        Kind::Upstream { .. } => "upstream_error",
        Kind::Overload => "server_error",
    }
}

fn anthropic_type(status: u16, kind: Kind) -> &'static str {
    match (kind, status) {
        (Kind::Stop, 403) => "permission_error",
        (Kind::Wait { .. }, _) => "rate_limit_error",
        (Kind::Upstream { .. }, _) => "upstream_error",
        (Kind::Overload, _) => "overloaded_error",
        (Kind::BadRequest { .. }, 401) => "authentication_error",
        (Kind::BadRequest { .. }, 403) => "permission_error",
        (Kind::BadRequest { .. }, 404) => "not_found_error",
        (Kind::BadRequest { .. }, 413) => "request_too_large",
        (Kind::Stop | Kind::BadRequest { .. }, _) => "invalid_request_error",
    }
}

/// The names of google.rpc.Code, as Google maps them to statuses.
fn gemini_status(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        502 | 503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "INVALID_ARGUMENT",
    }
}
