//! Ollama chat and generate, streamed as one JSON document a line.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::answer::{Answer, Finish};
use crate::ask::{Ask, Tool, Turn, list, text};
use crate::framing::{Event, Events};

/// Which of the two calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Chat,
    Generate,
}

pub(crate) fn read(body: &Value) -> Ask {
    let declared = list(&body["tools"]).iter().map(|tool| &tool["function"]);
    let format = &body["format"];
    let mut ask = Ask {
        model: text(&body["model"]),
        stream: body["stream"] != false,
        tools: declared.map(|f| Tool::function(&f["name"], &f["parameters"])).collect(),
        json: match format {
            Value::Object(_) => Some(format.clone()),
            Value::String(word) if word == "json" => Some(Value::Null),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
        },
        ..Ask::default()
    };
    let turn = |message: &Value| match message["role"].as_str() {
        Some("user") => Some(Turn::Person(text(&message["content"]))),
        Some("tool") => Some(Turn::Result(text(&message["content"]))),
        Some("assistant") => Some(Turn::Model),
        _ => None,
    };
    ask.hear(list(&body["messages"]).iter().filter_map(turn).chain([Turn::Person(text(&body["prompt"]))]));
    ask
}

pub(crate) fn plain(answer: &Answer, call: Call) -> Value {
    let mut line = line(answer, call, &answer.text.whole());
    if !answer.calls.is_empty() {
        line["message"]["tool_calls"] = tool_calls(answer);
    }
    finish(answer, call, line)
}

pub(crate) fn stream(answer: Arc<Answer>, call: Call) -> Events {
    let for_text = Arc::clone(&answer);
    let pieces = answer.text.pieces().filter(|piece| !piece.is_empty());
    let texts = pieces.map(move |piece| Event::json(line(&for_text, call, &piece)));
    let tail = std::iter::once_with(move || {
        let mut events = Vec::new();
        if !answer.calls.is_empty() {
            let mut calls = line(&answer, call, "");
            calls["message"]["tool_calls"] = tool_calls(&answer);
            events.push(Event::json(calls));
        }
        events.push(Event::json(finish(&answer, call, line(&answer, call, ""))));
        events
    });
    Box::new(texts.chain(tail.flatten()))
}

fn line(answer: &Answer, call: Call, text: &str) -> Value {
    let created = jiff::Timestamp::from_second(answer.created).unwrap_or_default().to_string();
    let mut line = json!({"model": answer.model, "created_at": created, "done": false});
    match call {
        Call::Chat => line["message"] = json!({"role": "assistant", "content": text}),
        Call::Generate => line["response"] = json!(text),
    }
    line
}

fn tool_calls(answer: &Answer) -> Value {
    let call = |(index, call): (usize, &crate::answer::ToolCall)| json!({"id": answer.call_id("call_", index), "function": {"index": index, "name": call.name, "arguments": call.arguments}});
    answer.calls.iter().enumerate().map(call).collect()
}

fn finish(answer: &Answer, call: Call, mut line: Value) -> Value {
    line["done"] = json!(true);
    line["done_reason"] = json!(match answer.finish {
        Finish::Stop | Finish::Filter => "stop",
        Finish::Length => "length",
    });
    if call == Call::Generate {
        line["context"] = json!([1, 2, 3]);
    }
    if let Some(usage) = answer.usage {
        for (key, value) in [
            ("total_duration", 5_000_000),
            ("load_duration", 1_000_000),
            ("prompt_eval_count", usage.input),
            ("prompt_eval_duration", 1_000_000),
            ("eval_count", usage.output),
            ("eval_duration", 3_000_000),
        ] {
            line[key] = json!(value);
        }
    }
    line
}
