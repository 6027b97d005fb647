//! Anthropic Messages: events of a stream, and whole answers.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Finish;
use super::builder::{Key, ResponseBuilder};
use super::field::{Count, Each, Maybe, Said, Text, args};
use super::read::Document;

/// An event or a whole message.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Event<'a> {
    #[serde(rename = "type")]
    kind: Text<'a>,
    index: Count,
    message: Maybe<Box<Message<'a>>>,
    content_block: Maybe<Box<Block<'a>>>,
    delta: Maybe<Delta<'a>>,
    usage: Maybe<Box<Usage>>,
    error: Said,
    id: Text<'a>,
    content: Each<'a, Block<'a>>,
    stop_reason: Text<'a>,
}

/// What `message_start` carries.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Message<'a> {
    id: Text<'a>,
    usage: Maybe<Box<Usage>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Block<'a> {
    #[serde(rename = "type")]
    kind: Text<'a>,
    id: Text<'a>,
    name: Text<'a>,
    text: Text<'a>,
    thinking: Text<'a>,
    input: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Delta<'a> {
    text: Text<'a>,
    partial_json: Text<'a>,
    thinking: Text<'a>,
    stop_reason: Text<'a>,
}

/// `input_tokens` is what went through no cache.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Usage {
    input_tokens: Count,
    cache_read_input_tokens: Count,
    cache_creation_input_tokens: Count,
    cache_creation: Maybe<CacheCreation>,
    output_tokens: Count,
}

/// Tokens written to a cache, by how long they stay there.
#[derive(Default, Deserialize)]
#[serde(default)]
struct CacheCreation {
    ephemeral_1h_input_tokens: Count,
}

impl Document for Event<'_> {
    fn record(self, builder: &mut ResponseBuilder) {
        if self.error.0 || &*self.kind == "error" {
            builder.fail();
        }
        let key = Key::Index(self.index.0.unwrap_or(0));
        if let Some(message) = self.message.0 {
            builder.id(&message.id);
            tell_usage(message.usage.0, builder);
        }
        if let Some(block) = self.content_block.0 {
            block.begun(key, builder);
        }
        if let Some(delta) = self.delta.0 {
            builder.text(&delta.text);
            builder.count(delta.thinking.len());
            builder.call_args(key, &delta.partial_json);
            tell_stop(&delta.stop_reason, builder);
        }
        builder.id(&self.id);
        self.content.record(builder, Block::whole);
        tell_usage(self.usage.0, builder);
        tell_stop(&self.stop_reason, builder);
    }
}

impl Block<'_> {
    /// A block of a stream begins. Its `input` is an empty object that parts will replace.
    fn begun(self, key: Key, builder: &mut ResponseBuilder) {
        builder.text(&self.text);
        builder.count(self.thinking.len());
        if &*self.kind == "tool_use" {
            builder.start_call(key, &self.id, &self.name);
            builder.placeholder_args(key, &args(self.input));
        }
    }

    /// A block of a whole message. Tools the provider runs itself are counted only.
    fn whole(self, builder: &mut ResponseBuilder) {
        builder.text(&self.text);
        builder.count(self.thinking.len());
        match &*self.kind {
            "tool_use" => builder.call(&self.id, &self.name, &args(self.input)),
            _ => builder.count(args(self.input).len()),
        }
    }
}

fn tell_usage(usage: Option<Box<Usage>>, builder: &mut ResponseBuilder) {
    let Some(usage) = usage else { return };
    let totals = &mut builder.totals;
    totals.cache_apart = true;
    totals.input.say(usage.input_tokens);
    totals.cache_read.say(usage.cache_read_input_tokens);
    totals.cache_write.say(usage.cache_creation_input_tokens);
    if let Some(written) = usage.cache_creation.0 {
        totals.cache_write_1h.say(written.ephemeral_1h_input_tokens);
    }
    totals.output.say(usage.output_tokens);
}

fn tell_stop(reason: &str, builder: &mut ResponseBuilder) {
    match reason {
        "" => {}
        "end_turn" | "stop_sequence" => builder.finish(Finish::Stop),
        "tool_use" => builder.finish(Finish::ToolCalls),
        "max_tokens" | "model_context_window_exceeded" => builder.finish(Finish::Length),
        "refusal" => builder.finish(Finish::Filtered),
        _ => builder.finish(Finish::Other),
    }
}
