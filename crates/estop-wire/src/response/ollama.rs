//! Ollama chat and generate: a line of a stream has the shape of a whole answer.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Finish;
use super::builder::ResponseBuilder;
use super::field::{Count, Each, Maybe, Said, Text, args};
use super::read::Document;

/// A line or a whole answer, of either call or of embeddings.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Answer<'a> {
    message: Maybe<Message<'a>>,
    /// The text of `/api/generate`.
    response: Text<'a>,
    thinking: Text<'a>,
    done_reason: Text<'a>,
    prompt_eval_count: Count,
    eval_count: Count,
    error: Said,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Message<'a> {
    content: Text<'a>,
    thinking: Text<'a>,
    tool_calls: Each<'a, ToolCall<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ToolCall<'a> {
    id: Text<'a>,
    function: Maybe<Function<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Function<'a> {
    name: Text<'a>,
    arguments: Option<&'a RawValue>,
}

impl Document for Answer<'_> {
    fn record(self, builder: &mut ResponseBuilder) {
        if self.error.0 {
            builder.fail();
        }
        builder.text(&self.response);
        builder.count(self.thinking.len());
        if let Some(message) = self.message.0 {
            builder.count(message.thinking.len());
            builder.text(&message.content);
            message.tool_calls.record(builder, |call, builder| {
                let Some(function) = call.function.0 else { return };
                builder.call(&call.id, &function.name, &args(function.arguments));
            });
        }
        builder.totals.input.say(self.prompt_eval_count);
        builder.totals.output.say(self.eval_count);
        match &*self.done_reason {
            "" => {}
            "stop" => builder.finish(Finish::Stop),
            "length" => builder.finish(Finish::Length),
            _ => builder.finish(Finish::Other),
        }
    }
}
