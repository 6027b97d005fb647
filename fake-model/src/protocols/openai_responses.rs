//! OpenAI Responses, with the whole sequence of events that the SDKs and Codex read.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::answer::{Answer, Finish, ToolCall, ToolKind};
use crate::ask::{Ask, Tool, Turn, flat, list, text};
use crate::framing::{Event, Events};

pub(crate) fn read(body: &Value) -> Ask {
    let mut ask = Ask {
        model: text(&body["model"]),
        stream: body["stream"] == true,
        json: match body["text"]["format"]["type"].as_str() {
            Some("json_schema") => Some(body["text"]["format"]["schema"].clone()),
            Some("json_object") => Some(Value::Null),
            _ => None,
        },
        ..Ask::default()
    };
    declare(&mut ask.tools, list(&body["tools"]), None);
    // Codex sends tools inside the input, too.
    for item in list(&body["input"]).iter().filter(|item| item["type"] == "additional_tools") {
        declare(&mut ask.tools, list(&item["tools"]), None);
    }
    if let Some(said) = body["input"].as_str() {
        ask.hear([Turn::Person(said.to_owned())]);
    }
    ask.hear(list(&body["input"]).iter().filter_map(turn));
    ask
}

fn declare(tools: &mut Vec<Tool>, declared: &[Value], namespace: Option<&str>) {
    for tool in declared {
        let known = |kind| Tool {
            kind,
            namespace: namespace.map(str::to_owned),
            ..Tool::function(&tool["name"], &tool["parameters"])
        };
        match tool["type"].as_str() {
            Some("function") => tools.push(known(ToolKind::Function)),
            Some("custom") => tools.push(known(ToolKind::Custom)),
            Some("local_shell") => {
                tools.push(Tool { name: "local_shell".to_owned(), ..known(ToolKind::LocalShell) });
            }
            Some("namespace") => declare(tools, list(&tool["tools"]), tool["name"].as_str()),
            _ => {}
        }
    }
}

fn turn(item: &Value) -> Option<Turn> {
    let kind = item["type"].as_str().unwrap_or("message");
    if kind.ends_with("_output") {
        return Some(Turn::Result(output(&item["output"])));
    }
    if kind != "message" {
        let is_models = kind.ends_with("_call") || kind == "reasoning";
        return is_models.then_some(Turn::Model);
    }
    match item["role"].as_str() {
        Some("user") => Some(Turn::Person(flat(&item["content"]))),
        Some("assistant") => Some(Turn::Model),
        _ => None,
    }
}

fn output(output: &Value) -> String {
    let flat = flat(output);
    if flat.is_empty() && !output.is_string() { output.to_string() } else { flat }
}

pub(crate) fn plain(answer: &Answer) -> Value {
    let output: Vec<Value> = items(answer).into_iter().map(|item| item.whole).collect();
    response(answer, done_status(answer), &output)
}

pub(crate) fn stream(answer: Arc<Answer>) -> Events {
    let opened = response(&answer, "in_progress", &[]);
    let head = vec![
        ("response.created", json!({"response": opened})),
        ("response.in_progress", json!({"response": opened})),
    ];
    let before = reasoning_events(&answer);
    let texts = text_events(&answer);
    let tail = std::iter::once_with(move || tail(&answer)).flatten();
    let all = head.into_iter().chain(before).chain(texts).chain(tail);
    Box::new(all.enumerate().map(|(number, (name, mut data))| {
        data["type"] = json!(name);
        data["sequence_number"] = json!(number);
        Event::named(name, data)
    }))
}

type Named = (&'static str, Value);

fn reasoning_events(answer: &Answer) -> Vec<Named> {
    let Some(item) = items(answer).into_iter().find(|item| item.whole["type"] == "reasoning") else {
        return Vec::new();
    };
    let (id, index, said) = (&item.whole["id"], item.index, &item.whole["summary"][0]["text"]);
    let mut opened = item.whole.clone();
    opened["summary"] = json!([]);
    vec![
        ("response.output_item.added", json!({"output_index": index, "item": opened})),
        (
            "response.reasoning_summary_part.added",
            json!({"item_id": id, "output_index": index, "summary_index": 0, "part": {"type": "summary_text", "text": ""}}),
        ),
        (
            "response.reasoning_summary_text.delta",
            json!({"item_id": id, "output_index": index, "summary_index": 0, "delta": said}),
        ),
        (
            "response.reasoning_summary_text.done",
            json!({"item_id": id, "output_index": index, "summary_index": 0, "text": said}),
        ),
        (
            "response.reasoning_summary_part.done",
            json!({"item_id": id, "output_index": index, "summary_index": 0, "part": {"type": "summary_text", "text": said}}),
        ),
        ("response.output_item.done", json!({"output_index": index, "item": item.whole})),
    ]
}

fn text_events(answer: &Arc<Answer>) -> Box<dyn Iterator<Item = Named> + Send> {
    if answer.text.unit.is_empty() {
        return Box::new(std::iter::empty());
    }
    let (id, index) = (answer.id("msg_"), usize::from(answer.reasoning.is_some()));
    let head = vec![
        (
            "response.output_item.added",
            json!({"output_index": index, "item": message(answer, "in_progress", None)}),
        ),
        (
            "response.content_part.added",
            json!({"item_id": id, "output_index": index, "content_index": 0, "part": part("")}),
        ),
    ];
    let delta_id = id.clone();
    let deltas = answer.text.pieces().map(move |piece| {
        let data = json!({"item_id": delta_id, "output_index": index, "content_index": 0, "delta": piece, "logprobs": []});
        ("response.output_text.delta", data)
    });
    let answer = Arc::clone(answer);
    let done = move || {
        let whole = answer.text.whole();
        vec![
            (
                "response.output_text.done",
                json!({"item_id": id, "output_index": index, "content_index": 0, "text": whole, "logprobs": []}),
            ),
            (
                "response.content_part.done",
                json!({"item_id": id, "output_index": index, "content_index": 0, "part": part(&whole)}),
            ),
            (
                "response.output_item.done",
                json!({"output_index": index, "item": message(&answer, "completed", Some(&whole))}),
            ),
        ]
    };
    Box::new(head.into_iter().chain(deltas).chain(std::iter::once_with(done).flatten()))
}

/// Calls and the end.
fn tail(answer: &Answer) -> Vec<Named> {
    let mut events = Vec::new();
    let items = items(answer);
    for (item, call) in items.iter().filter_map(|item| Some((item, item.call.as_ref()?))) {
        let (id, index) = (&item.whole["id"], item.index);
        let mut opened = item.whole.clone();
        opened["status"] = json!("in_progress");
        let field = match call.kind {
            ToolKind::Function => Some((
                "arguments",
                "response.function_call_arguments.delta",
                "response.function_call_arguments.done",
            )),
            ToolKind::Custom => Some((
                "input",
                "response.custom_tool_call_input.delta",
                "response.custom_tool_call_input.done",
            )),
            ToolKind::LocalShell => None,
        };
        if let Some((field, _, _)) = field {
            opened[field] = json!("");
        }
        events.push(("response.output_item.added", json!({"output_index": index, "item": opened})));
        if let Some((field, delta, done)) = field {
            let text = call.arguments_text();
            events.push((delta, json!({"item_id": id, "output_index": index, "delta": text})));
            events
                .push((done, json!({"item_id": id, "output_index": index, field: text, "name": call.name})));
        }
        events.push(("response.output_item.done", json!({"output_index": index, "item": item.whole})));
    }
    let output: Vec<Value> = items.into_iter().map(|item| item.whole).collect();
    let name = if answer.finish == Finish::Stop { "response.completed" } else { "response.incomplete" };
    events.push((name, json!({"response": response(answer, done_status(answer), &output)})));
    events
}

struct Item {
    index: usize,
    whole: Value,
    call: Option<ToolCall>,
}

fn items(answer: &Answer) -> Vec<Item> {
    let mut items: Vec<(Value, Option<ToolCall>)> = Vec::new();
    if let Some(reasoning) = &answer.reasoning {
        let summary = json!([{"type": "summary_text", "text": reasoning}]);
        items.push((json!({"id": answer.id("rs_"), "type": "reasoning", "summary": summary}), None));
    }
    if !answer.text.unit.is_empty() {
        items.push((message(answer, "completed", Some(&answer.text.whole())), None));
    }
    for (at, call) in answer.calls.iter().enumerate() {
        items.push((call_item(answer, at, call), Some(call.clone())));
    }
    items.into_iter().enumerate().map(|(index, (whole, call))| Item { index, whole, call }).collect()
}

fn message(answer: &Answer, status: &str, whole: Option<&str>) -> Value {
    let content: Vec<Value> = whole.map(part).into_iter().collect();
    json!({"id": answer.id("msg_"), "type": "message", "status": status, "role": "assistant", "content": content})
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn call_item(answer: &Answer, at: usize, call: &ToolCall) -> Value {
    let call_id = answer.call_id("call_", at);
    let mut item = match call.kind {
        ToolKind::Function => {
            json!({"id": answer.call_id("fc_", at), "type": "function_call", "status": "completed",
            "arguments": call.arguments_text(), "call_id": call_id, "name": call.name})
        }
        ToolKind::Custom => {
            json!({"id": answer.call_id("ctc_", at), "type": "custom_tool_call", "status": "completed",
            "call_id": call_id, "name": call.name, "input": call.arguments_text()})
        }
        ToolKind::LocalShell => {
            json!({"id": answer.call_id("lsh_", at), "type": "local_shell_call", "status": "completed",
            "call_id": call_id, "action": {"type": "exec", "command": call.arguments["command"], "env": {},
                "timeout_ms": null, "user": null, "working_directory": null}})
        }
    };
    if let Some(namespace) = &call.namespace {
        item["namespace"] = json!(namespace);
    }
    item
}

fn done_status(answer: &Answer) -> &'static str {
    if answer.finish == Finish::Stop { "completed" } else { "incomplete" }
}

fn response(answer: &Answer, status: &str, output: &[Value]) -> Value {
    let reason = match answer.finish {
        Finish::Stop => Value::Null,
        Finish::Length => json!({"reason": "max_output_tokens"}),
        Finish::Filter => json!({"reason": "content_filter"}),
    };
    let is_done = status != "in_progress";
    let usage = answer.usage.filter(|_| is_done).map(|usage| {
        json!({"input_tokens": usage.input, "input_tokens_details": {"cached_tokens": usage.cache_read},
            "output_tokens": usage.output, "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.input + usage.output})
    });
    json!({"id": answer.id("resp_"), "object": "response", "created_at": answer.created, "status": status,
        "background": false, "error": null, "incomplete_details": if is_done { reason } else { Value::Null },
        "instructions": null, "max_output_tokens": null, "max_tool_calls": null, "model": answer.model,
        "output": output, "parallel_tool_calls": true, "previous_response_id": null, "prompt_cache_key": null,
        "reasoning": {"effort": null, "summary": null}, "safety_identifier": null, "service_tier": "default",
        "store": false, "temperature": 1.0, "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 1.0, "truncation": "disabled",
        "usage": usage, "user": null, "metadata": {}})
}
