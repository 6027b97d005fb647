//! Gemini generateContent and streamGenerateContent.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::answer::{Answer, Finish};
use crate::ask::{Ask, Tool, Turn, flat, list};
use crate::framing::{Event, Events};

/// Model and stream are in the path.
pub(crate) fn read(body: &Value, model: &str, stream: bool) -> Ask {
    let config = &body["generationConfig"];
    let schema = ["responseJsonSchema", "responseSchema"].into_iter().map(|key| &config[key]);
    let is_json = config["responseMimeType"] == "application/json";
    let mut ask = Ask {
        model: model.to_owned(),
        stream,
        tools: list(&body["tools"]).iter().flat_map(tools).collect(),
        json: is_json.then(|| schema.clone().find(|s| !s.is_null()).cloned().unwrap_or(Value::Null)),
        ..Ask::default()
    };
    ask.hear(list(&body["contents"]).iter().flat_map(turns));
    ask
}

fn tools(tool: &Value) -> Vec<Tool> {
    let declarations = ["functionDeclarations", "function_declarations"].map(|key| list(&tool[key]));
    let schema = |f: &Value| {
        let schemas =
            ["parametersJsonSchema", "parameters_json_schema", "parameters"].map(|key| f[key].clone());
        schemas.into_iter().find(|schema| !schema.is_null()).unwrap_or(Value::Null)
    };
    declarations.into_iter().flatten().map(|f| Tool::function(&f["name"], &schema(f))).collect()
}

fn turns(content: &Value) -> Vec<Turn> {
    if content["role"] == "model" {
        return vec![Turn::Model];
    }
    let parts = list(&content["parts"]);
    let result = |part: &Value| {
        let answered = ["functionResponse", "function_response"].map(|key| part[key]["response"].clone());
        answered.into_iter().find(|response| !response.is_null()).map(|response| {
            let text = response["output"].as_str().map(str::to_owned);
            Turn::Result(text.unwrap_or_else(|| response.to_string()))
        })
    };
    let results = parts.iter().filter_map(result);
    results.chain([Turn::Person(flat(&content["parts"]))]).collect()
}

pub(crate) fn plain(answer: &Answer) -> Value {
    let mut parts = head_parts(answer);
    if !answer.text.unit.is_empty() {
        parts.push(json!({"text": answer.text.whole()}));
    }
    parts.extend(call_parts(answer));
    chunk(answer, &parts, Some(finish(answer)))
}

pub(crate) fn stream(answer: Arc<Answer>) -> Events {
    let head = head_parts(&answer);
    let head = (!head.is_empty()).then(|| Event::json(chunk(&answer, &head, None)));
    let for_text = Arc::clone(&answer);
    let pieces = answer.text.pieces().filter(|piece| !piece.is_empty());
    let texts = pieces.map(move |piece| Event::json(chunk(&for_text, &[json!({"text": piece})], None)));
    let tail = std::iter::once_with(move || {
        let calls = call_parts(&answer);
        let parts = if calls.is_empty() { vec![json!({"text": ""})] } else { calls };
        Event::json(chunk(&answer, &parts, Some(finish(&answer))))
    });
    Box::new(head.into_iter().chain(texts).chain(tail))
}

fn head_parts(answer: &Answer) -> Vec<Value> {
    answer.reasoning.iter().map(|thought| json!({"text": thought, "thought": true})).collect()
}

fn call_parts(answer: &Answer) -> Vec<Value> {
    let part = |(index, call): (usize, &crate::answer::ToolCall)| {
        json!({"functionCall": {"id": answer.call_id("", index), "name": call.name, "args": call.arguments},
            "thoughtSignature": "ZmFrZQ=="})
    };
    answer.calls.iter().enumerate().map(part).collect()
}

fn finish(answer: &Answer) -> &'static str {
    match answer.finish {
        Finish::Stop => "STOP",
        Finish::Length => "MAX_TOKENS",
        Finish::Filter => "SAFETY",
    }
}

/// One chunk; the last has a finish reason and all the usage.
fn chunk(answer: &Answer, parts: &[Value], finish: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
    }
    let mut chunk =
        json!({"candidates": [candidate], "modelVersion": answer.model, "responseId": answer.id("")});
    if let Some(usage) = answer.usage {
        // Thoughts are beside the candidates' tokens, not among them.
        let said = if finish.is_some() { usage.output.saturating_sub(usage.reasoning) } else { 1 };
        let thought = if finish.is_some() { usage.reasoning } else { 0 };
        chunk["usageMetadata"] = json!({"promptTokenCount": usage.input, "candidatesTokenCount": said,
            "thoughtsTokenCount": thought, "cachedContentTokenCount": usage.cache_read,
            "totalTokenCount": usage.input + said + thought,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": usage.input}]});
    }
    chunk
}
