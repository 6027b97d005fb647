//! Anthropic Messages, with the whole sequence of events.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::answer::{Answer, Finish, Usage};
use crate::ask::{Ask, Tool, Turn, flat, list, text};
use crate::framing::{Event, Events};

pub(crate) fn read(body: &Value) -> Ask {
    let declared = list(&body["tools"]).iter();
    let mut ask = Ask {
        model: text(&body["model"]),
        stream: body["stream"] == true,
        tools: declared.map(|tool| Tool::function(&tool["name"], &tool["input_schema"])).collect(),
        json: (body["output_config"]["format"]["type"] == "json_schema")
            .then(|| body["output_config"]["format"]["schema"].clone()),
        ..Ask::default()
    };
    ask.hear(list(&body["messages"]).iter().flat_map(turns));
    ask
}

fn turns(message: &Value) -> Vec<Turn> {
    if message["role"] != "user" {
        return vec![Turn::Model];
    }
    let blocks = list(&message["content"]);
    let results = blocks.iter().filter(|block| block["type"] == "tool_result");
    let results = results.map(|block| Turn::Result(flat(&block["content"])));
    // Nested results have text too, so only the blocks that are text themselves are a person's.
    let said: Value = match &message["content"] {
        Value::String(said) => json!(said),
        Value::Array(blocks) => blocks.iter().filter(|block| block["type"] == "text").cloned().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Value::Null,
    };
    results.chain([Turn::Person(flat(&said))]).collect()
}

pub(crate) fn plain(answer: &Answer) -> Value {
    let mut content = Vec::new();
    if let Some(reasoning) = &answer.reasoning {
        content.push(json!({"type": "thinking", "thinking": reasoning, "signature": "ZmFrZQ=="}));
    }
    if !answer.text.unit.is_empty() {
        content.push(json!({"type": "text", "text": answer.text.whole()}));
    }
    for (index, call) in answer.calls.iter().enumerate() {
        let id = answer.call_id("toolu_", index);
        content.push(json!({"type": "tool_use", "id": id, "name": call.name, "input": call.arguments}));
    }
    let mut message = message(answer, &json!(stop_reason(answer)), &content);
    match answer.usage {
        Some(usage) => message["usage"] = usage_value(usage, usage.output),
        None => drop(message.as_object_mut().and_then(|message| message.remove("usage"))),
    }
    message
}

pub(crate) fn stream(answer: Arc<Answer>) -> Events {
    let mut opened = message(&answer, &Value::Null, &[]);
    // A stream without usage in `message_start` breaks the SDKs: there it says zeros.
    opened["usage"] =
        usage_value(answer.usage.unwrap_or_default(), 1.min(answer.usage.map_or(0, |u| u.output)));
    let mut head = vec![event("message_start", json!({"message": opened})), event("ping", json!({}))];
    let mut index = 0;
    if let Some(reasoning) = &answer.reasoning {
        let block = json!({"type": "thinking", "thinking": "", "signature": ""});
        head.push(event("content_block_start", json!({"index": index, "content_block": block})));
        head.push(delta(index, &json!({"type": "thinking_delta", "thinking": reasoning})));
        head.push(delta(index, &json!({"type": "signature_delta", "signature": "ZmFrZQ=="})));
        head.push(event("content_block_stop", json!({"index": index})));
        index += 1;
    }
    let has_text = !answer.text.unit.is_empty();
    let text_index = index;
    if has_text {
        let block = json!({"type": "text", "text": ""});
        head.push(event("content_block_start", json!({"index": text_index, "content_block": block})));
        index += 1;
    }
    let pieces = answer.text.pieces().filter(|piece| !piece.is_empty());
    let texts = pieces.map(move |piece| delta(text_index, &json!({"type": "text_delta", "text": piece})));
    let text_end = has_text.then(|| event("content_block_stop", json!({"index": text_index})));
    let tail = std::iter::once_with(move || tail(&answer, index)).flatten();
    Box::new(head.into_iter().chain(texts).chain(text_end).chain(tail))
}

fn tail(answer: &Answer, first_index: usize) -> Vec<Event> {
    let mut events = Vec::new();
    for (at, call) in answer.calls.iter().enumerate() {
        let index = first_index + at;
        let id = answer.call_id("toolu_", at);
        let block = json!({"type": "tool_use", "id": id, "name": call.name, "input": {}});
        events.push(event("content_block_start", json!({"index": index, "content_block": block})));
        let input = call.arguments_text();
        let (first, second) = input.split_at(input.floor_char_boundary(input.len() / 2));
        for part in ["", first, second] {
            events.push(delta(index, &json!({"type": "input_json_delta", "partial_json": part})));
        }
        events.push(event("content_block_stop", json!({"index": index})));
    }
    let usage = match answer.usage {
        Some(usage) => usage_value(usage, usage.output),
        None => json!({"output_tokens": 0}),
    };
    let end = json!({"stop_reason": stop_reason(answer), "stop_sequence": null});
    events.push(event("message_delta", json!({"delta": end, "usage": usage})));
    events.push(event("message_stop", json!({})));
    events
}

fn delta(index: usize, delta: &Value) -> Event {
    event("content_block_delta", json!({"index": index, "delta": delta}))
}

fn event(name: &'static str, mut data: Value) -> Event {
    data["type"] = json!(name);
    Event::named(name, data)
}

fn message(answer: &Answer, stop_reason: &Value, content: &[Value]) -> Value {
    json!({"id": answer.id("msg_"), "type": "message", "role": "assistant", "model": answer.model, "content": content,
        "stop_reason": stop_reason, "stop_sequence": null, "usage": null})
}

fn stop_reason(answer: &Answer) -> &'static str {
    match answer.finish {
        Finish::Stop if answer.calls.is_empty() => "end_turn",
        Finish::Stop => "tool_use",
        Finish::Length => "max_tokens",
        Finish::Filter => "refusal",
    }
}

/// Anthropic's `input_tokens` are those that were neither read from nor written to the cache.
fn usage_value(usage: Usage, output: u64) -> Value {
    let input = usage.input.saturating_sub(usage.cache_read + usage.cache_write);
    json!({"input_tokens": input, "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read, "output_tokens": output,
        "cache_creation": {"ephemeral_5m_input_tokens": usage.cache_write, "ephemeral_1h_input_tokens": 0},
        "service_tier": "standard"})
}
