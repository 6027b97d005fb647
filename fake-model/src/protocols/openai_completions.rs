//! OpenAI legacy completions: a prompt and its continuation, no tools.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::ask::{Ask, Turn, flat, text};
use crate::framing::{Event, Events};
use crate::protocols::openai_chat::{finish, usage_value};

pub(crate) fn read(body: &Value) -> Ask {
    let mut ask = Ask {
        model: text(&body["model"]),
        stream: body["stream"] == true,
        usage_in_stream: body["stream_options"]["include_usage"] == true,
        ..Ask::default()
    };
    ask.hear([Turn::Person(flat(&body["prompt"]))]);
    ask
}

pub(crate) fn plain(answer: &Answer) -> Value {
    let mut whole = chunk(answer, &answer.text.whole(), &json!(finish(answer)));
    if let Some(usage) = answer.usage {
        whole["usage"] = usage_value(usage);
    }
    whole
}

pub(crate) fn stream(answer: Arc<Answer>) -> Events {
    let for_text = Arc::clone(&answer);
    let texts = answer.text.pieces().map(move |piece| Event::json(chunk(&for_text, &piece, &Value::Null)));
    let tail = std::iter::once_with(move || tail(&answer)).flatten();
    Box::new(texts.chain(tail))
}

fn tail(answer: &Answer) -> Vec<Event> {
    let mut events = vec![Event::json(chunk(answer, "", &json!(finish(answer))))];
    if let (Some(usage), true) = (answer.usage, answer.usage_in_stream) {
        let mut last = chunk(answer, "", &Value::Null);
        last["choices"] = json!([]);
        last["usage"] = usage_value(usage);
        events.push(Event::json(last));
    }
    events.push(Event::word("[DONE]"));
    events
}

fn chunk(answer: &Answer, text: &str, finish: &Value) -> Value {
    json!({"id": answer.id("cmpl-"), "object": "text_completion", "created": answer.created, "model": answer.model,
        "choices": [{"index": 0, "text": text, "logprobs": null, "finish_reason": finish}]})
}
