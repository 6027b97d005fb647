//! A whole answer of the assistant that says why the work ends: no tool call, nothing used.
//!
//! Ids and times are fixed, since nothing here knows a clock, and nobody can ask the provider for such an answer.

use serde_json::{Value, json};

use super::{json_text, sse};
use crate::protocol::Protocol;

/// What is said.
pub(super) struct Message<'a> {
    /// As which model.
    pub(super) model: &'a str,
    /// The sentence.
    pub(super) text: &'a str,
}

const JSON: &str = "application/json";
const SSE: &str = "text/event-stream";
const NDJSON: &str = "application/x-ndjson";
const CREATED: &str = "1970-01-01T00:00:00Z";
const RESPONSE_ITEM: &str = "msg_estop";

/// As one document.
pub(super) fn plain(protocol: Protocol, message: &Message<'_>) -> Value {
    let Message { model, text } = message;
    match protocol {
        Protocol::OpenAiChat => {
            let said = json!({"role": "assistant", "content": text, "refusal": null});
            let choice = json!({"index": 0, "message": said, "logprobs": null, "finish_reason": "stop"});
            chat("chat.completion", model, &choice, true)
        }
        Protocol::OpenAiCompletions => completion(message, "stop"),
        Protocol::OpenAiResponses => response(model, "completed", &[item("completed", Some(text))]),
        Protocol::AnthropicMessages => {
            anthropic(model, &json!([{"type": "text", "text": text}]), &json!("end_turn"))
        }
        Protocol::Gemini => gemini(message),
        Protocol::OllamaChat | Protocol::OllamaGenerate => ollama(protocol, model, text, true),
        // Callers ask for messages on generation calls only; this is what a reader of any other would expect least
        // wrongly.
        Protocol::Embeddings(_) | Protocol::Other(_) => json!({"message": text}),
    }
}

/// As a stream: its content type and the whole sequence of events. `array`: Gemini is asked for one JSON array.
pub(super) fn stream(protocol: Protocol, message: &Message<'_>, array: bool) -> (&'static str, String) {
    let Message { model, text } = message;
    match protocol {
        Protocol::OpenAiChat => (SSE, chat_stream(message)),
        Protocol::OpenAiCompletions => {
            (SSE, format!("{}data: [DONE]\n\n", sse(None, &completion(message, "stop"))))
        }
        Protocol::OpenAiResponses => (SSE, responses_stream(message)),
        Protocol::AnthropicMessages => (SSE, anthropic_stream(message)),
        Protocol::Gemini if array => (JSON, json_text(&json!([gemini(message)]))),
        Protocol::Gemini => (SSE, sse(None, &gemini(message))),
        Protocol::OllamaChat | Protocol::OllamaGenerate => {
            let said = ollama(protocol, model, text, false);
            let end = ollama(protocol, model, "", true);
            (NDJSON, format!("{}\n{}\n", json_text(&said), json_text(&end)))
        }
        Protocol::Embeddings(_) | Protocol::Other(_) => (JSON, json_text(&plain(protocol, message))),
    }
}

fn chat(object: &str, model: &str, choice: &Value, with_usage: bool) -> Value {
    let mut chat =
        json!({"id": "chatcmpl-estop", "object": object, "created": 0, "model": model, "choices": [choice]});
    if with_usage {
        chat["usage"] = openai_usage();
    }
    chat
}

fn openai_usage() -> Value {
    json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0})
}

/// Usage goes with the last choice: an event without choices is sent only to clients that asked for it.
fn chat_stream(message: &Message<'_>) -> String {
    let part = |delta: Value, finish: Value, with_usage: bool| {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
        sse(None, &chat("chat.completion.chunk", message.model, &choice, with_usage))
    };
    let opened = part(json!({"role": "assistant", "content": ""}), Value::Null, false);
    let said = part(json!({"content": message.text}), Value::Null, false);
    let ended = part(json!({}), json!("stop"), true);
    format!("{opened}{said}{ended}data: [DONE]\n\n")
}

fn completion(message: &Message<'_>, finish: &str) -> Value {
    let choice = json!({"index": 0, "text": message.text, "logprobs": null, "finish_reason": finish});
    json!({"id": "cmpl-estop", "object": "text_completion", "created": 0, "model": message.model, "choices": [choice],
        "usage": openai_usage()})
}

/// A response object; also the frame of one that failed.
pub(super) fn response(model: &str, status: &str, output: &[Value]) -> Value {
    let details = json!({"cached_tokens": 0});
    let usage = json!({"input_tokens": 0, "input_tokens_details": details, "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 0});
    let usage = if status == "completed" { usage } else { Value::Null };
    json!({"id": "resp_estop", "object": "response", "created_at": 0, "status": status, "error": null,
        "incomplete_details": null, "instructions": null, "metadata": {}, "model": model, "output": output,
        "parallel_tool_calls": true, "previous_response_id": null, "temperature": null, "tool_choice": "auto",
        "tools": [], "top_p": null, "usage": usage})
}

fn item(status: &str, text: Option<&str>) -> Value {
    let content: Vec<Value> = text.map(part).into_iter().collect();
    json!({"id": RESPONSE_ITEM, "type": "message", "status": status, "role": "assistant", "content": content})
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn responses_stream(message: &Message<'_>) -> String {
    let Message { model, text } = message;
    let opened = response(model, "in_progress", &[]);
    let whole = item("completed", Some(text));
    let at = |mut data: Value| {
        data["item_id"] = json!(RESPONSE_ITEM);
        data["output_index"] = json!(0);
        data["content_index"] = json!(0);
        data
    };
    let events = [
        ("response.created", json!({"response": opened})),
        ("response.in_progress", json!({"response": opened})),
        ("response.output_item.added", json!({"output_index": 0, "item": item("in_progress", None)})),
        ("response.content_part.added", at(json!({"part": part("")}))),
        ("response.output_text.delta", at(json!({"delta": text, "logprobs": []}))),
        ("response.output_text.done", at(json!({"text": text, "logprobs": []}))),
        ("response.content_part.done", at(json!({"part": part(text)}))),
        ("response.output_item.done", json!({"output_index": 0, "item": whole})),
        (
            "response.completed",
            json!({"response": response(model, "completed", std::slice::from_ref(&whole))}),
        ),
    ];
    let event = |(number, (name, mut data)): (usize, (&str, Value))| {
        data["type"] = json!(name);
        data["sequence_number"] = json!(number);
        sse(Some(name), &data)
    };
    events.into_iter().enumerate().map(event).collect()
}

fn anthropic(model: &str, content: &Value, stop_reason: &Value) -> Value {
    json!({"id": "msg_estop", "type": "message", "role": "assistant", "model": model, "content": content,
        "stop_reason": stop_reason, "stop_sequence": null, "usage": {"input_tokens": 0, "output_tokens": 0,
            "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}})
}

fn anthropic_stream(message: &Message<'_>) -> String {
    let opened = anthropic(message.model, &json!([]), &Value::Null);
    let said = json!({"type": "text_delta", "text": message.text});
    let ended = json!({"stop_reason": "end_turn", "stop_sequence": null});
    let events = [
        ("message_start", json!({"message": opened})),
        ("content_block_start", json!({"index": 0, "content_block": {"type": "text", "text": ""}})),
        ("content_block_delta", json!({"index": 0, "delta": said})),
        ("content_block_stop", json!({"index": 0})),
        ("message_delta", json!({"delta": ended, "usage": {"output_tokens": 0}})),
        ("message_stop", json!({})),
    ];
    let event = |(name, mut data): (&str, Value)| {
        data["type"] = json!(name);
        sse(Some(name), &data)
    };
    events.into_iter().map(event).collect()
}

fn gemini(message: &Message<'_>) -> Value {
    let content = json!({"parts": [{"text": message.text}], "role": "model"});
    json!({"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "modelVersion": message.model,
        "responseId": "estop", "usageMetadata": {"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0}})
}

fn ollama(protocol: Protocol, model: &str, text: &str, done: bool) -> Value {
    let mut line = json!({"model": model, "created_at": CREATED, "done": done});
    if protocol == Protocol::OllamaGenerate {
        line["response"] = json!(text);
    } else {
        line["message"] = json!({"role": "assistant", "content": text});
    }
    if done {
        line["done_reason"] = json!("stop");
        for counter in ["total_duration", "load_duration", "prompt_eval_count", "eval_count"] {
            line[counter] = json!(0);
        }
    }
    line
}
