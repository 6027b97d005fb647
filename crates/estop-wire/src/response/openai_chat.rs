//! OpenAI Chat Completions and everything that follows it: chunks and whole answers, legacy completions, and the
//! usage of embeddings.
//!
//! Of several choices only the first is kept as text and calls; the others are counted.

use serde::Deserialize;

use super::Finish;
use super::field::{ArgsText, Content, Count, Each, Maybe, Said, Text};
use super::gather::{Gather, Key};
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
    fn tell(self, gather: &mut Gather) {
        gather.id(&self.id);
        if self.error.0 || &*self.object == "error" {
            gather.fail();
        }
        self.choices.tell(gather, Choice::tell);
        for usage in [self.usage.0, self.x_groq.0.and_then(|groq| groq.usage.0)].into_iter().flatten() {
            usage.tell(gather);
        }
    }
}

impl Choice<'_> {
    fn tell(self, gather: &mut Gather) {
        if let Some(usage) = self.usage.0 {
            usage.tell(gather);
        }
        let first = self.index.0.unwrap_or(0) == 0;
        if !first {
            self.delta.0.into_iter().for_each(|message| message.count(gather));
            self.message.0.into_iter().for_each(|message| message.count(gather));
            gather.count(self.text.len());
            return;
        }
        gather.text(&self.text);
        if let Some(delta) = self.delta.0 {
            delta.tell(gather, ToolCall::tell_part);
        }
        if let Some(message) = self.message.0 {
            message.tell(gather, ToolCall::tell_whole);
        }
        match &*self.finish_reason {
            "" => {}
            "stop" => gather.finish(Finish::Stop),
            "tool_calls" | "function_call" => gather.finish(Finish::ToolCalls),
            "length" | "max_tokens" | "model_length" => gather.finish(Finish::Length),
            "content_filter" => gather.finish(Finish::Filtered),
            "error" => {
                gather.fail();
                gather.finish(Finish::Other);
            }
            _ => gather.finish(Finish::Other),
        }
    }
}

impl<'a> Message<'a> {
    fn tell(self, gather: &mut Gather, tool: fn(ToolCall<'a>, &mut Gather)) {
        gather.count(self.thought_bytes());
        match self.content {
            Content::Text(text) => gather.text(&text),
            Content::Parts(parts) => parts.tell(gather, |part, gather| {
                part.thinking.tell(gather, |thought, gather| gather.count(thought.text.len()));
                gather.text(&part.text);
                gather.refusal(&part.refusal);
            }),
        }
        gather.refusal(&self.refusal);
        self.tool_calls.tell(gather, tool);
        if let Some(function) = self.function_call.0 {
            if gather.call_id(Key::Legacy).is_none() {
                gather.start_call(Key::Legacy, "", &function.name);
            }
            gather.call_args(Key::Legacy, &function.arguments.0);
        }
    }

    /// Some providers send the same reasoning under both names.
    fn thought_bytes(&self) -> usize {
        self.reasoning_content.len().max(self.reasoning.len())
    }

    /// Counts all bytes of output, for a choice that is not kept.
    fn count(self, gather: &mut Gather) {
        gather.count(self.refusal.len() + self.thought_bytes());
        match self.content {
            Content::Text(text) => gather.count(text.len()),
            Content::Parts(parts) => {
                parts.tell(gather, |part, gather| gather.count(part.text.len() + part.refusal.len()));
            }
        }
        self.tool_calls.tell(gather, |call, gather| gather.count(call.args().len()));
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
    fn tell_whole(self, gather: &mut Gather) {
        gather.call(&self.id, self.name(), self.args());
    }

    /// A part of a call in a stream. Another id under the same index is another call (Gemini's OpenAI form); no
    /// index means the newest call, or a new one if it has an id.
    fn tell_part(self, gather: &mut Gather) {
        let key = match self.index.0 {
            Some(index) => Some(Key::Index(index)),
            None if self.id.is_empty() => gather.last_key(),
            None => None,
        };
        let Some(key) = key else {
            gather.call(&self.id, self.name(), self.args());
            return;
        };
        let known =
            gather.call_id(key).is_some_and(|id| self.id.is_empty() || id.is_empty() || *id == *self.id);
        if known {
            gather.name_call(key, &self.id, self.name());
        } else {
            gather.start_call(key, &self.id, self.name());
        }
        gather.call_args(key, self.args());
    }
}
