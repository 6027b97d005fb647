//! OpenAI Chat Completions and everything that follows it: chunks and whole answers, legacy completions, and the
//! usage of embeddings.
//!
//! Of several choices only the first is kept as text and calls; the others are counted.

use serde::Deserialize;

use super::Finish;
use super::builder::{Key, ResponseBuilder};
use super::field::{ArgsText, Content, Count, Each, Maybe, Said, Text};
use super::openai_usage::Usage;
use super::read::Document;

/// A chunk or a whole answer: they differ in `delta` and `message` only.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Answer<'a> {
    id: Text<'a>,
    object: Text<'a>,
    choices: Each<'a, Choice<'a>>,
    usage: Maybe<Box<Usage>>,
    error: Said,
    x_groq: Maybe<Groq>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Choice<'a> {
    index: Count,
    delta: Maybe<Message<'a>>,
    message: Maybe<Box<Message<'a>>>,
    /// Legacy completions.
    text: Text<'a>,
    finish_reason: Text<'a>,
    /// Moonshot.
    usage: Maybe<Box<Usage>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Message<'a> {
    content: Content<'a, Part<'a>>,
    refusal: Text<'a>,
    /// DeepSeek, vLLM and others.
    reasoning_content: Text<'a>,
    /// OpenRouter, Groq.
    reasoning: Text<'a>,
    tool_calls: Each<'a, ToolCall<'a>>,
    function_call: Maybe<Box<Function<'a>>>,
}

/// One part of a content list.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Part<'a> {
    text: Text<'a>,
    refusal: Text<'a>,
    /// Mistral's reasoning.
    thinking: Each<'a, Thought<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Thought<'a> {
    text: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ToolCall<'a> {
    index: Count,
    id: Text<'a>,
    function: Maybe<Function<'a>>,
    custom: Maybe<Function<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Function<'a> {
    name: Text<'a>,
    arguments: ArgsText<'a>,
    /// Of a custom tool.
    input: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Groq {
    usage: Maybe<Box<Usage>>,
}

impl Document for Answer<'_> {
    fn record(self, builder: &mut ResponseBuilder) {
        builder.id(&self.id);
        if self.error.0 || &*self.object == "error" {
            builder.fail();
        }
        self.choices.record(builder, Choice::record);
        for usage in [self.usage.0, self.x_groq.0.and_then(|groq| groq.usage.0)].into_iter().flatten() {
            usage.record(builder);
        }
    }
}

impl Choice<'_> {
    fn record(self, builder: &mut ResponseBuilder) {
        if let Some(usage) = self.usage.0 {
            usage.record(builder);
        }
        let first = self.index.0.unwrap_or(0) == 0;
        if !first {
            self.delta.0.into_iter().for_each(|message| message.count(builder));
            self.message.0.into_iter().for_each(|message| message.count(builder));
            builder.count(self.text.len());
            return;
        }
        builder.text(&self.text);
        if let Some(delta) = self.delta.0 {
            delta.record(builder, ToolCall::tell_part);
        }
        if let Some(message) = self.message.0 {
            message.record(builder, ToolCall::tell_whole);
        }
        match &*self.finish_reason {
            "" => {}
            "stop" => builder.finish(Finish::Stop),
            "tool_calls" | "function_call" => builder.finish(Finish::ToolCalls),
            "length" | "max_tokens" | "model_length" => builder.finish(Finish::Length),
            "content_filter" => builder.finish(Finish::Filtered),
            "error" => {
                builder.fail();
                builder.finish(Finish::Other);
            }
            _ => builder.finish(Finish::Other),
        }
    }
}

impl<'a> Message<'a> {
    fn record(self, builder: &mut ResponseBuilder, tool: fn(ToolCall<'a>, &mut ResponseBuilder)) {
        builder.count(self.thought_bytes());
        match self.content {
            Content::Text(text) => builder.text(&text),
            Content::Parts(parts) => parts.record(builder, |part, builder| {
                part.thinking.record(builder, |thought, builder| builder.count(thought.text.len()));
                builder.text(&part.text);
                builder.refusal(&part.refusal);
            }),
        }
        builder.refusal(&self.refusal);
        self.tool_calls.record(builder, tool);
        if let Some(function) = self.function_call.0 {
            if builder.call_id(Key::Legacy).is_none() {
                builder.start_call(Key::Legacy, "", &function.name);
            }
            builder.call_args(Key::Legacy, &function.arguments.0);
        }
    }

    /// Some providers send the same reasoning under both names.
    fn thought_bytes(&self) -> usize {
        self.reasoning_content.len().max(self.reasoning.len())
    }

    /// Counts all bytes of output, for a choice that is not kept.
    fn count(self, builder: &mut ResponseBuilder) {
        builder.count(self.refusal.len() + self.thought_bytes());
        match self.content {
            Content::Text(text) => builder.count(text.len()),
            Content::Parts(parts) => {
                parts.record(builder, |part, builder| builder.count(part.text.len() + part.refusal.len()));
            }
        }
        self.tool_calls.record(builder, |call, builder| builder.count(call.args().len()));
    }
}

impl ToolCall<'_> {
    fn args(&self) -> &str {
        match (&self.function.0, &self.custom.0) {
            (Some(function), _) => &function.arguments.0,
            (None, Some(custom)) => &custom.input,
            (None, None) => "",
        }
    }

    fn name(&self) -> &str {
        self.function.0.as_ref().or(self.custom.0.as_ref()).map_or("", |function| &function.name)
    }

    /// A call of a whole answer.
    fn tell_whole(self, builder: &mut ResponseBuilder) {
        builder.call(&self.id, self.name(), self.args());
    }

    /// A part of a call in a stream. Another id under the same index is another call (Gemini's OpenAI form); no
    /// index means the newest call, or a new one if it has an id.
    fn tell_part(self, builder: &mut ResponseBuilder) {
        let key = match self.index.0 {
            Some(index) => Some(Key::Index(index)),
            None if self.id.is_empty() => builder.last_key(),
            None => None,
        };
        let Some(key) = key else {
            builder.call(&self.id, self.name(), self.args());
            return;
        };
        let known =
            builder.call_id(key).is_some_and(|id| self.id.is_empty() || id.is_empty() || *id == *self.id);
        if known {
            builder.name_call(key, &self.id, self.name());
        } else {
            builder.start_call(key, &self.id, self.name());
        }
        builder.call_args(key, self.args());
    }
}
