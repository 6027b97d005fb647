//! OpenAI Responses: typed events of a stream, and whole answers.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Finish;
use super::builder::{Key, ResponseBuilder};
use super::field::{Count, Each, Maybe, Said, Text, args};
use super::openai_usage::Usage;
use super::read::Document;

/// An event, or a whole answer, which has no `type`.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Event<'a> {
    #[serde(rename = "type")]
    kind: Text<'a>,
    delta: Text<'a>,
    output_index: Count,
    item: Maybe<Box<Item<'a>>>,
    response: Maybe<Box<Response<'a>>>,
    error: Said,
    id: Text<'a>,
    status: Text<'a>,
    output: Each<'a, Item<'a>>,
    usage: Maybe<Box<Usage>>,
    incomplete_details: Maybe<Incomplete<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Response<'a> {
    id: Text<'a>,
    status: Text<'a>,
    output: Each<'a, Item<'a>>,
    usage: Maybe<Box<Usage>>,
    error: Said,
    incomplete_details: Maybe<Incomplete<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Incomplete<'a> {
    reason: Text<'a>,
}

/// One thing an answer consists of.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Item<'a> {
    #[serde(rename = "type")]
    kind: Text<'a>,
    id: Text<'a>,
    call_id: Text<'a>,
    name: Text<'a>,
    content: Each<'a, Part<'a>>,
    summary: Each<'a, Part<'a>>,
    arguments: Option<&'a RawValue>,
    /// Of a custom tool.
    input: Option<&'a RawValue>,
    /// Of a shell or a computer.
    action: Option<&'a RawValue>,
    /// Of a patch.
    operation: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Part<'a> {
    text: Text<'a>,
    refusal: Text<'a>,
}

impl Document for Event<'_> {
    fn record(self, builder: &mut ResponseBuilder) {
        if self.error.0 {
            builder.fail();
        }
        let index = self.output_index.0.unwrap_or(0);
        let key = Key::Index(index);
        match &*self.kind {
            "response.output_text.delta" => {
                builder.text_item = Some(index);
                builder.text(&self.delta);
            }
            "response.refusal.delta" => {
                builder.text_item = Some(index);
                builder.refusal(&self.delta);
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                builder.call_args(key, &self.delta);
            }
            "response.output_item.added" => self.item.0.into_iter().for_each(|item| item.begun(key, builder)),
            "response.output_item.done" => {
                let read = builder.text_item == Some(index);
                self.item.0.into_iter().for_each(|item| item.done(key, read, builder));
            }
            "error" => builder.fail(),
            kind => {
                // Reasoning and the arguments of tools that the provider runs.
                builder.count(self.delta.len());
                match self.response.0 {
                    Some(response) => response.record(builder),
                    None => Response {
                        id: if kind.is_empty() { self.id } else { Text::default() },
                        status: self.status,
                        output: self.output,
                        usage: self.usage,
                        error: self.error,
                        incomplete_details: self.incomplete_details,
                    }
                    .record(builder),
                }
            }
        }
    }
}

impl Response<'_> {
    fn record(self, builder: &mut ResponseBuilder) {
        builder.id(&self.id);
        // The last event of a stream repeats everything: read only if nothing came before.
        if !builder.has_output() {
            self.output.record(builder, Item::whole);
        }
        if let Some(usage) = self.usage.0 {
            usage.record(builder);
        }
        if self.error.0 {
            builder.fail();
        }
        match &*self.status {
            "completed" => builder.finish(Finish::Stop),
            "incomplete" => {
                builder.finish(match self.incomplete_details.0.as_ref().map(|why| &*why.reason) {
                    Some("max_output_tokens") => Finish::Length,
                    Some("content_filter") => Finish::Filtered,
                    Some(_) | None => Finish::Other,
                });
            }
            "failed" => {
                builder.fail();
                builder.finish(Finish::Other);
            }
            "cancelled" => builder.finish(Finish::Other),
            _ => {}
        }
    }
}

impl Item<'_> {
    /// The name of a call the client has to run; `None` for text, reasoning and what the provider runs itself.
    fn call_name(&self) -> Option<&str> {
        match &*self.kind {
            "function_call" | "custom_tool_call" => Some(&self.name),
            "local_shell_call" | "shell_call" | "computer_call" | "apply_patch_call" => {
                self.kind.strip_suffix("_call")
            }
            _ => None,
        }
    }

    fn call_args(&self) -> std::borrow::Cow<'_, str> {
        args(self.arguments.or(self.input).or(self.action).or(self.operation))
    }

    fn call_id(&self) -> &str {
        if self.call_id.is_empty() { &self.id } else { &self.call_id }
    }

    fn begun(self, key: Key, builder: &mut ResponseBuilder) {
        if let Some(name) = self.call_name() {
            builder.start_call(key, self.call_id(), name);
        }
    }

    /// An item of a stream is complete; `read` if its text has been read in parts.
    fn done(self, key: Key, read: bool, builder: &mut ResponseBuilder) {
        if let Some(name) = self.call_name() {
            if builder.call_id(key).is_none() {
                builder.start_call(key, self.call_id(), name);
            }
            let args = self.call_args();
            if !args.is_empty() {
                builder.set_args(key, &args);
            }
        } else if &*self.kind == "message" && !read {
            self.text(builder);
        }
    }

    /// An item of a whole answer.
    fn whole(self, builder: &mut ResponseBuilder) {
        if let Some(name) = self.call_name() {
            builder.call(self.call_id(), name, &self.call_args());
        } else if &*self.kind == "message" {
            self.text(builder);
        } else if &*self.kind == "reasoning" {
            let count = |part: Part<'_>, builder: &mut ResponseBuilder| builder.count(part.text.len());
            self.content.record(builder, count);
            self.summary.record(builder, count);
        }
    }

    fn text(self, builder: &mut ResponseBuilder) {
        self.content.record(builder, |part, builder| {
            builder.text(&part.text);
            builder.refusal(&part.refusal);
        });
    }
}
