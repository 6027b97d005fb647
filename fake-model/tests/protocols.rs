//! Every protocol: plain, streamed, with a tool call and after a tool result.

mod common;

use common::{post, scripted, start};
use serde_json::{Value, json};

fn schema() -> Value {
    json!({"type": "object", "required": ["command"], "properties": {"command": {"type": "string"}}})
}

fn chat_tools() -> Value {
    json!([{"type": "function", "function": {"name": "read", "parameters": {}}},
        {"type": "function", "function": {"name": "bash", "parameters": schema()}}])
}

const OK: &str = "Hello from the fake model. All is well.";

#[test]
fn chat_is_spoken() {
    let model = start();
    let ask = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    let plain = post(&model, "/v1/chat/completions", &ask).expect("an answer").json();
    assert_eq!(plain["choices"][0]["message"]["content"], OK);
    assert_eq!(plain["choices"][0]["finish_reason"], "stop");
    assert!(plain["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64() > Some(0));

    let ask = json!({"model": "m", "stream": true, "stream_options": {"include_usage": true}, "messages": [{"role": "user", "content": "Use a Tool"}], "tools": chat_tools()});
    let got = post(&model, "/v1/chat/completions", &ask).expect("an answer");
    assert!(got.whole && got.text().ends_with("data: [DONE]\n\n"), "{}", got.text());
    let parts = got.events();
    let arguments: String = parts
        .iter()
        .filter_map(|e| e["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str())
        .collect();
    assert_eq!(arguments, r#"{"command":"echo estop-tool-ok"}"#);
    assert_eq!(parts[1]["choices"][0]["delta"]["tool_calls"][0]["function"]["name"], "bash");
    assert_eq!(parts[parts.len() - 2]["choices"][0]["finish_reason"], "tool_calls");
    assert!(parts[parts.len() - 1]["usage"]["total_tokens"].as_u64() > Some(0));

    let ask = json!({"model": "m", "tools": chat_tools(), "messages": [{"role": "user", "content": "Use a tool"},
        {"role": "assistant", "tool_calls": []}, {"role": "tool", "content": "estop-tool-ok"}]});
    let after = post(&model, "/v1/chat/completions", &ask).expect("an answer").json();
    assert_eq!(after["choices"][0]["message"]["content"], "tool said: estop-tool-ok");
}

#[test]
fn a_looping_model_never_stops() {
    let model = start();
    for name in ["fake-loop", "m"] {
        let ask = json!({"model": name, "tools": chat_tools(), "messages": [{"role": "user", "content": "Loop forever"},
            {"role": "assistant", "tool_calls": []}, {"role": "tool", "content": "x"}]});
        let got = post(&model, "/v1/chat/completions", &ask).expect("an answer").json();
        assert_eq!(got["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "bash");
    }
}

#[test]
fn a_loop_in_turns_alternates() {
    let model = start();
    let next = |result: &str| {
        let ask = json!({"model": "m", "tools": chat_tools(), "messages": [{"role": "user", "content": "loop forever in turns"},
            {"role": "assistant", "tool_calls": []}, {"role": "tool", "content": result}]});
        let got = post(&model, "/v1/chat/completions", &ask).expect("an answer").json();
        got["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"].to_string()
    };
    assert!(next("estop-tool-ok\n").contains("echo estop-tool-too"));
    assert!(next("estop-tool-too\n").contains("echo estop-tool-ok"));
}

#[test]
fn responses_are_spoken() {
    let model = start();
    let ask = json!({"model": "m", "input": "hi"});
    let plain = post(&model, "/v1/responses", &ask).expect("an answer").json();
    assert_eq!(plain["output"][0]["content"][0]["text"], OK);

    let ask = json!({"model": "m", "stream": true, "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}]});
    let events = post(&model, "/v1/responses", &ask).expect("an answer").events();
    let names: Vec<&str> =
        events.iter().filter_map(|e| e["type"].as_str()).filter(|n| !n.ends_with("delta")).collect();
    let expected = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(names, expected);
    assert!(events.iter().enumerate().all(|(at, event)| event["sequence_number"] == at));

    let tools = json!([{"type": "custom", "name": "apply_patch"}, {"type": "function", "name": "shell",
        "parameters": {"type": "object", "properties": {"command": {"type": "array", "items": {"type": "string"}}}}}]);
    let ask = json!({"model": "m", "stream": true, "input": "use a tool", "tools": tools});
    let events = post(&model, "/v1/responses", &ask).expect("an answer").events();
    let call = &events[events.len() - 1]["response"]["output"][0];
    assert_eq!((&call["type"], &call["name"]), (&json!("function_call"), &json!("shell")));
    assert_eq!(call["arguments"], r#"{"command":["bash","-lc","echo estop-tool-ok"]}"#);

    let ask = json!({"model": "m", "input": [{"type": "additional_tools", "tools": [{"type": "custom", "name": "exec"}]},
        {"role": "user", "content": "use a tool"}]});
    let call = &post(&model, "/v1/responses", &ask).expect("an answer").json()["output"][0];
    assert_eq!(call["type"], "custom_tool_call");

    let ask = json!({"model": "m", "tools": tools, "previous_response_id": "r", "input": [{"type": "function_call_output", "call_id": "c", "output": "fine"}]});
    let after = post(&model, "/v1/responses", &ask).expect("an answer").json();
    assert_eq!(after["output"][0]["content"][0]["text"], "tool said: fine");
}

#[test]
fn messages_are_spoken() {
    let model = start();
    let tools = json!([{"name": "Bash", "input_schema": schema()}]);
    let ask = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
    let plain = post(&model, "/v1/messages?beta=true", &ask).expect("an answer").json();
    assert_eq!((&plain["content"][0]["text"], &plain["stop_reason"]), (&json!(OK), &json!("end_turn")));

    let ask = json!({"model": "m", "stream": true, "tools": tools, "messages": [{"role": "user", "content": [
        {"type": "text", "text": "<system-reminder>x</system-reminder>"}, {"type": "text", "text": "use a tool"}]}]});
    let events = post(&model, "/v1/messages", &ask).expect("an answer").events();
    let input: String = events.iter().filter_map(|e| e["delta"]["partial_json"].as_str()).collect();
    assert_eq!(input, r#"{"command":"echo estop-tool-ok"}"#);
    assert_eq!(events[events.len() - 2]["delta"]["stop_reason"], "tool_use");
    assert_eq!(events[events.len() - 1]["type"], "message_stop");

    let ask = json!({"model": "m", "tools": tools, "messages": [{"role": "user", "content": "use a tool"}, {"role": "assistant", "content": []},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "done"}]},
            {"type": "text", "text": "<system-reminder>tool</system-reminder>"}]}]});
    let after = post(&model, "/v1/messages", &ask).expect("an answer").json();
    assert_eq!(after["content"][0]["text"], "tool said: done");

    let count = post(&model, "/v1/messages/count_tokens", &ask).expect("an answer").json();
    assert!(count["input_tokens"].as_u64() > Some(0));
}

#[test]
fn gemini_is_spoken() {
    let model = start();
    let ask = json!({"contents": [{"role": "user", "parts": [{"text": "use a tool"}]}],
        "tools": [{"functionDeclarations": [{"name": "run_shell_command", "parametersJsonSchema": schema()}]}]});
    let plain = post(&model, "/v1/models/g:generateContent", &ask).expect("an answer").json();
    assert_eq!(
        plain["candidates"][0]["content"]["parts"][0]["functionCall"]["args"]["command"],
        "echo estop-tool-ok"
    );

    let ask = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]});
    let events =
        post(&model, "/v1beta/models/g:streamGenerateContent?alt=sse", &ask).expect("an answer").events();
    let text: String =
        events.iter().filter_map(|e| e["candidates"][0]["content"]["parts"][0]["text"].as_str()).collect();
    assert_eq!(text, OK);
    assert_eq!(events[events.len() - 1]["candidates"][0]["finishReason"], "STOP");
    let array = post(&model, "/v1beta/models/g:streamGenerateContent", &ask).expect("an answer").json();
    assert_eq!(array.as_array().map(Vec::len), Some(events.len()));

    let ask = json!({"contents": [{"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "yes"}}}]}]});
    let after = post(&model, "/v1beta/models/g:generateContent", &ask).expect("an answer").json();
    assert_eq!(after["candidates"][0]["content"]["parts"][0]["text"], "tool said: yes");
    assert!(
        post(&model, "/v1beta/models/g:countTokens", &ask).expect("an answer").json()["totalTokens"].is_u64()
    );
}

#[test]
fn a_structured_answer_fits_its_schema() {
    let model = start();
    let schema = json!({"type": "object", "required": ["next_speaker"], "properties": {"next_speaker": {"type": "string", "enum": ["model", "user"]}}});
    let ask = json!({"contents": [], "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": schema}});
    let got = post(&model, "/v1beta/models/g:generateContent", &ask).expect("an answer").json();
    assert_eq!(got["candidates"][0]["content"]["parts"][0]["text"], r#"{"next_speaker":"user"}"#);
}

#[test]
fn ollama_is_spoken() {
    let model = start();
    let ask =
        json!({"model": "m", "messages": [{"role": "user", "content": "use a tool"}], "tools": chat_tools()});
    let lines = post(&model, "/api/chat", &ask).expect("an answer").lines();
    assert_eq!(
        lines[0]["message"]["tool_calls"][0]["function"]["arguments"]["command"],
        "echo estop-tool-ok"
    );
    assert_eq!(lines[lines.len() - 1]["done"], true);
    let ask = json!({"model": "m", "prompt": "hi", "stream": false});
    assert_eq!(post(&model, "/api/generate", &ask).expect("an answer").json()["response"], OK);
    let ask = json!({"model": "m", "input": ["a", "b"]});
    assert_eq!(
        post(&model, "/api/embed", &ask).expect("an answer").json()["embeddings"].as_array().map(Vec::len),
        Some(2)
    );
}

#[test]
fn completions_and_embeddings_are_spoken() {
    let model = start();
    let ask = json!({"model": "m", "prompt": "hi"});
    assert_eq!(post(&model, "/v1/completions", &ask).expect("an answer").json()["choices"][0]["text"], OK);
    let ask = json!({"model": "m", "prompt": "hi", "stream": true});
    assert!(post(&model, "/v1/completions", &ask).expect("an answer").text().ends_with("data: [DONE]\n\n"));
    let ask = json!({"model": "m", "input": "hi"});
    let got = post(&model, "/v1/embeddings", &ask).expect("an answer").json();
    assert_eq!(got["data"][0]["embedding"].as_array().map(Vec::len), Some(8));
}

#[test]
fn rules_are_used_in_order_and_used_up() {
    let model = scripted(json!([
        {"match": {"path": "/v1/messages"}, "times": 1, "reply": {"status": 529, "headers": {"retry-after": "7"}}},
        {"match": {"contains": "secret"}, "reply": {"text": "found", "usage": {"input": 7, "output": 3}}},
        {"match": {"model": "quiet"}, "reply": {"usage": "none"}},
    ]));
    let ask = json!({"model": "m", "messages": [{"role": "user", "content": "secret"}]});
    let first = post(&model, "/v1/messages", &ask).expect("an answer");
    assert_eq!((first.status, &first.json()["error"]["type"]), (529, &json!("overloaded_error")));
    assert!(first.head.contains("retry-after: 7"));
    let second = post(&model, "/v1/messages", &ask).expect("an answer").json();
    assert_eq!(
        (&second["content"][0]["text"], &second["usage"]["output_tokens"]),
        (&json!("found"), &json!(3))
    );
    let third =
        post(&model, "/v1/chat/completions", &json!({"model": "quiet", "messages": []})).expect("an answer");
    assert!(third.json()["usage"].is_null());
}
