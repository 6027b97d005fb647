//! Anthropic Messages: events of a stream, and whole answers.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Finish;
use super::field::{Count, Each, Maybe, Said, Text, args};
use super::gather::{Gather, Key};
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
    fn tell(self, gather: &mut Gather) {
        if self.error.0 || &*self.kind == "error" {
            gather.fail();
        }
        let key = Key::Index(self.index.0.unwrap_or(0));
        if let Some(message) = self.message.0 {
            gather.id(&message.id);
            tell_usage(message.usage.0, gather);
        }
        if let Some(block) = self.content_block.0 {
            block.begun(key, gather);
        }
        if let Some(delta) = self.delta.0 {
            gather.text(&delta.text);
            gather.count(delta.thinking.len());
            gather.call_args(key, &delta.partial_json);
            tell_stop(&delta.stop_reason, gather);
        }
        gather.id(&self.id);
        self.content.tell(gather, Block::whole);
        tell_usage(self.usage.0, gather);
        tell_stop(&self.stop_reason, gather);
    }
}

impl Block<'_> {
    /// A block of a stream begins. Its `input` is an empty object that parts will replace.
    fn begun(self, key: Key, gather: &mut Gather) {
        gather.text(&self.text);
        gather.count(self.thinking.len());
        if &*self.kind == "tool_use" {
            gather.start_call(key, &self.id, &self.name);
            gather.placeholder_args(key, &args(self.input));
        }
    }

    /// A block of a whole message. Tools the provider runs itself are counted only.
    fn whole(self, gather: &mut Gather) {
        gather.text(&self.text);
        gather.count(self.thinking.len());
        match &*self.kind {
            "tool_use" => gather.call(&self.id, &self.name, &args(self.input)),
            _ => gather.count(args(self.input).len()),
        }
    }
}

fn tell_usage(usage: Option<Box<Usage>>, gather: &mut Gather) {
    let Some(usage) = usage else { return };
    let tally = &mut gather.tally;
    tally.cache_apart = true;
    tally.input.say(usage.input_tokens);
    tally.cache_read.say(usage.cache_read_input_tokens);
    tally.cache_write.say(usage.cache_creation_input_tokens);
    if let Some(written) = usage.cache_creation.0 {
        tally.cache_write_1h.say(written.ephemeral_1h_input_tokens);
    }
    tally.output.say(usage.output_tokens);
}

fn tell_stop(reason: &str, gather: &mut Gather) {
    match reason {
        "" => {}
        "end_turn" | "stop_sequence" => gather.finish(Finish::Stop),
        "tool_use" => gather.finish(Finish::ToolCalls),
        "max_tokens" | "model_context_window_exceeded" => gather.finish(Finish::Length),
        "refusal" => gather.finish(Finish::Filtered),
        _ => gather.finish(Finish::Other),
    }
}
