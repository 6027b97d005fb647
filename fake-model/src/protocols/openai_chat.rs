//! OpenAI chat completions.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::answer::{Answer, Finish, ToolCall, ToolKind, Usage};
use crate::ask::{Ask, Tool, Turn, flat, list, text};
use crate::framing::{Event, Events};

pub(crate) fn read(body: &Value) -> Ask {
    let mut ask = Ask {
        model: text(&body["model"]),
        stream: body["stream"] == true,
        tools: list(&body["tools"]).iter().map(tool).collect(),
        json: response_format(&body["response_format"]),
        usage_in_stream: body["stream_options"]["include_usage"] == true,
        ..Ask::default()
    };
    let turn = |message: &Value| match message["role"].as_str() {
        Some("user") => Some(Turn::Person(flat(&message["content"]))),
        Some("tool" | "function") => Some(Turn::Result(flat(&message["content"]))),
        Some("assistant") => Some(Turn::Model),
        _ => None,
    };
    ask.hear(list(&body["messages"]).iter().filter_map(turn));
    ask
}

fn tool(declared: &Value) -> Tool {
    if declared["type"] == "custom" {
        let custom = &declared["custom"];
        return Tool { kind: ToolKind::Custom, ..Tool::function(&custom["name"], &Value::Null) };
    }
    Tool::function(&declared["function"]["name"], &declared["function"]["parameters"])
}

/// The schema of a structured answer.
fn response_format(format: &Value) -> Option<Value> {
    match format["type"].as_str() {
        Some("json_schema") => Some(format["json_schema"]["schema"].clone()),
        Some("json_object") => Some(Value::Null),
        _ => None,
    }
}

pub(crate) fn plain(answer: &Answer) -> Value {
    let mut message =
        json!({"role": "assistant", "content": answer.text.whole(), "refusal": null, "annotations": []});
    if let Some(reasoning) = &answer.reasoning {
        message["reasoning_content"] = json!(reasoning);
    }
    if !answer.calls.is_empty() {
        let calls = answer.calls.iter().enumerate();
        message["tool_calls"] = calls.map(|(index, call)| tool_call(answer, index, call)).collect();
        if answer.text.unit.is_empty() {
            message["content"] = Value::Null;
        }
    }
    let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish(answer)});
    let mut whole = envelope(answer, "chat.completion");
    whole["choices"] = json!([choice]);
    if let Some(usage) = answer.usage {
        whole["usage"] = usage_value(usage);
    }
    whole
}

pub(crate) fn stream(answer: Arc<Answer>) -> Events {
    let for_text = Arc::clone(&answer);
    let mut head = vec![chunk(&answer, &json!({"role": "assistant", "content": "", "refusal": null}))];
    if let Some(reasoning) = &answer.reasoning {
        head.push(chunk(&answer, &json!({"reasoning_content": reasoning})));
    }
    let pieces = answer.text.pieces().filter(|piece| !piece.is_empty());
    let texts = pieces.map(move |piece| chunk(&for_text, &json!({"content": piece})));
    let tail = std::iter::once_with(move || tail(&answer)).flatten();
    Box::new(head.into_iter().chain(texts).chain(tail))
}

fn tail(answer: &Answer) -> Vec<Event> {
    let mut events = Vec::new();
    for (index, call) in answer.calls.iter().enumerate() {
        let mut opened = tool_call(answer, index, call);
        opened["index"] = json!(index);
        let arguments = call.arguments_text();
        if call.kind == ToolKind::Custom {
            opened["custom"]["input"] = json!("");
        } else {
            opened["function"]["arguments"] = json!("");
        }
        events.push(chunk(answer, &json!({"tool_calls": [opened]})));
        let (first, second) = arguments.split_at(arguments.floor_char_boundary(arguments.len() / 2));
        for part in [first, second] {
            let key = if call.kind == ToolKind::Custom { "custom" } else { "function" };
            let field = if call.kind == ToolKind::Custom { "input" } else { "arguments" };
            events.push(chunk(answer, &json!({"tool_calls": [{"index": index, key: {field: part}}]})));
        }
    }
    events.push(with_choices(
        answer,
        json!([{"index": 0, "delta": {}, "logprobs": null, "finish_reason": finish(answer)}]),
    ));
    if let (Some(usage), true) = (answer.usage, answer.usage_in_stream) {
        let mut last = with_choices(answer, json!([]));
        last.set("usage", usage_value(usage));
        events.push(last);
    }
    events.push(Event::word("[DONE]"));
    events
}

fn chunk(answer: &Answer, delta: &Value) -> Event {
    with_choices(answer, json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}]))
}

fn with_choices(answer: &Answer, choices: Value) -> Event {
    let mut chunk = envelope(answer, "chat.completion.chunk");
    chunk["choices"] = choices;
    if answer.usage_in_stream {
        chunk["usage"] = Value::Null;
    }
    Event::json(chunk)
}

fn envelope(answer: &Answer, object: &str) -> Value {
    json!({"id": answer.id("chatcmpl-"), "object": object, "created": answer.created, "model": answer.model,
        "service_tier": "default", "system_fingerprint": "fp_fake"})
}

fn tool_call(answer: &Answer, index: usize, call: &ToolCall) -> Value {
    let mut value = Map::new();
    value.insert("id".to_owned(), json!(answer.call_id("call_", index)));
    let (kind, content) = match call.kind {
        ToolKind::Custom => ("custom", json!({"name": call.name, "input": call.arguments_text()})),
        ToolKind::Function | ToolKind::LocalShell => {
            ("function", json!({"name": call.name, "arguments": call.arguments_text()}))
        }
    };
    value.insert("type".to_owned(), json!(kind));
    value.insert(kind.to_owned(), content);
    Value::Object(value)
}

/// The finish reason of chat and legacy completions.
pub(crate) fn finish(answer: &Answer) -> &'static str {
    match answer.finish {
        Finish::Stop if answer.calls.is_empty() => "stop",
        Finish::Stop => "tool_calls",
        Finish::Length => "length",
        Finish::Filter => "content_filter",
    }
}

/// Usage as chat and legacy completions say it.
pub(crate) fn usage_value(usage: Usage) -> Value {
    json!({"prompt_tokens": usage.input, "completion_tokens": usage.output, "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning, "audio_tokens": 0,
            "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}})
}
