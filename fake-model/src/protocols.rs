//! Which call a path is, and the shape of its answers.

pub(crate) mod anthropic;
pub(crate) mod embeddings;
pub(crate) mod gemini;
pub(crate) mod ollama;
pub(crate) mod openai_chat;
pub(crate) mod openai_completions;
pub(crate) mod openai_responses;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::ask::Ask;
use crate::framing::{Event, Events, Framing};
use embeddings::Shape;

/// A call that generates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    Chat,
    Responses,
    Completions,
    Anthropic,
    /// Model, stream, and whether the stream is server-sent events.
    Gemini {
        model: String,
        stream: bool,
        sse: bool,
    },
    Ollama(ollama::Call),
}

/// What a path is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Generation(Generation),
    Embeddings(Shape),
    /// Token counting of Anthropic.
    AnthropicCount,
    /// Token counting of Gemini.
    GeminiCount,
    /// Anything that lists or describes models, or says hello.
    Other,
}

impl Endpoint {
    /// By the end of the path, as providers are mounted anywhere.
    pub(crate) fn of(path: &str, query: &str) -> Self {
        let sse = query.split('&').any(|pair| pair == "alt=sse");
        if let Some((model, action)) = path.rsplit('/').next().and_then(|last| last.rsplit_once(':')) {
            let gemini = |stream| Generation::Gemini { model: model.to_owned(), stream, sse };
            match action {
                "generateContent" => return Self::Generation(gemini(false)),
                "streamGenerateContent" => return Self::Generation(gemini(true)),
                "countTokens" => return Self::GeminiCount,
                "embedContent" => return Self::Embeddings(Shape::GeminiOne),
                "batchEmbedContents" => return Self::Embeddings(Shape::GeminiMany),
                _ => {}
            }
        }
        let ends = [
            ("/api/chat", Self::Generation(Generation::Ollama(ollama::Call::Chat))),
            ("/api/generate", Self::Generation(Generation::Ollama(ollama::Call::Generate))),
            ("/api/embed", Self::Embeddings(Shape::OllamaEmbed)),
            ("/api/embeddings", Self::Embeddings(Shape::OllamaOld)),
            ("/chat/completions", Self::Generation(Generation::Chat)),
            ("/completions", Self::Generation(Generation::Completions)),
            ("/responses", Self::Generation(Generation::Responses)),
            ("/embeddings", Self::Embeddings(Shape::OpenAi)),
            ("/messages/count_tokens", Self::AnthropicCount),
            ("/messages", Self::Generation(Generation::Anthropic)),
        ];
        ends.into_iter().find(|(end, _)| path.ends_with(end)).map_or(Self::Other, |(_, endpoint)| endpoint)
    }
}

impl Generation {
    pub(crate) fn read(&self, body: &Value) -> Ask {
        match self {
            Self::Chat => openai_chat::read(body),
            Self::Responses => openai_responses::read(body),
            Self::Completions => openai_completions::read(body),
            Self::Anthropic => anthropic::read(body),
            Self::Gemini { model, stream, .. } => gemini::read(body, model, *stream),
            Self::Ollama(_) => ollama::read(body),
        }
    }

    pub(crate) fn plain(&self, answer: &Answer) -> Value {
        match self {
            Self::Chat => openai_chat::plain(answer),
            Self::Responses => openai_responses::plain(answer),
            Self::Completions => openai_completions::plain(answer),
            Self::Anthropic => anthropic::plain(answer),
            Self::Gemini { .. } => gemini::plain(answer),
            Self::Ollama(call) => ollama::plain(answer, *call),
        }
    }

    pub(crate) fn stream(&self, answer: Arc<Answer>) -> Events {
        match self {
            Self::Chat => openai_chat::stream(answer),
            Self::Responses => openai_responses::stream(answer),
            Self::Completions => openai_completions::stream(answer),
            Self::Anthropic => anthropic::stream(answer),
            Self::Gemini { .. } => gemini::stream(answer),
            Self::Ollama(call) => ollama::stream(answer, *call),
        }
    }

    pub(crate) fn framing(&self) -> Framing {
        match self {
            Self::Chat | Self::Responses | Self::Completions | Self::Anthropic => Framing::Sse,
            Self::Gemini { sse: true, .. } => Framing::Sse,
            Self::Gemini { sse: false, .. } => Framing::Array,
            Self::Ollama(_) => Framing::Ndjson,
        }
    }

    /// The event that reports an error inside a stream.
    pub(crate) fn error_event(&self, message: &str) -> Event {
        match self {
            Self::Anthropic => {
                let error = json!({"type": "overloaded_error", "message": message});
                Event::named("error", json!({"type": "error", "error": error}))
            }
            Self::Responses => {
                let error = json!({"code": "server_error", "message": message});
                let response = json!({"id": "resp_failed", "object": "response", "status": "failed", "error": error, "output": []});
                Event::named(
                    "response.failed",
                    json!({"type": "response.failed", "sequence_number": 99, "response": response}),
                )
            }
            Self::Chat | Self::Completions | Self::Gemini { .. } | Self::Ollama(_) => {
                Event::json(error_body(self, 500, message))
            }
        }
    }
}

/// The body of an error in the call's shape.
pub(crate) fn error_body(generation: &Generation, status: u16, message: &str) -> Value {
    match generation {
        Generation::Chat | Generation::Responses | Generation::Completions => {
            let kind = match status {
                401 | 403 => "authentication_error",
                429 => "rate_limit_error",
                500.. => "server_error",
                _ => "invalid_request_error",
            };
            json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
        }
        Generation::Anthropic => {
            let kind = match status {
                401 => "authentication_error",
                403 => "permission_error",
                404 => "not_found_error",
                413 => "request_too_large",
                429 => "rate_limit_error",
                529 => "overloaded_error",
                500.. => "api_error",
                _ => "invalid_request_error",
            };
            json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_fake"})
        }
        Generation::Gemini { .. } => {
            let name = match status {
                401 => "UNAUTHENTICATED",
                403 => "PERMISSION_DENIED",
                404 => "NOT_FOUND",
                429 => "RESOURCE_EXHAUSTED",
                503 => "UNAVAILABLE",
                500.. => "INTERNAL",
                _ => "INVALID_ARGUMENT",
            };
            json!({"error": {"code": status, "message": message, "status": name}})
        }
        Generation::Ollama(_) => json!({"error": message}),
    }
}
