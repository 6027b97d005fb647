//! Gemini `generateContent` and `streamGenerateContent`: a chunk has the shape of a whole answer.
//!
//! Of several candidates only the first is kept as text and calls; the others are counted.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Finish;
use super::builder::ResponseBuilder;
use super::field::{Count, Each, Maybe, Said, Text, args};
use super::read::Document;

/// A chunk or a whole answer.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct Answer<'a> {
    response_id: Text<'a>,
    candidates: Each<'a, Candidate<'a>>,
    prompt_feedback: Maybe<Feedback<'a>>,
    usage_metadata: Maybe<Box<Usage>>,
    error: Said,
    /// Gemini CLI's own service wraps each chunk.
    response: Maybe<Box<Answer<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Candidate<'a> {
    index: Count,
    content: Maybe<Content<'a>>,
    finish_reason: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Content<'a> {
    parts: Each<'a, Part<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Part<'a> {
    text: Text<'a>,
    /// The text is reasoning.
    thought: Said,
    function_call: Maybe<FunctionCall<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct FunctionCall<'a> {
    id: Text<'a>,
    name: Text<'a>,
    args: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Feedback<'a> {
    block_reason: Text<'a>,
}

/// `promptTokenCount` includes what came from a cache; thoughts and tool prompts come on top.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Usage {
    prompt_token_count: Count,
    tool_use_prompt_token_count: Count,
    cached_content_token_count: Count,
    candidates_token_count: Count,
    thoughts_token_count: Count,
}

impl Document for Answer<'_> {
    fn record(self, builder: &mut ResponseBuilder) {
        if self.error.0 {
            builder.fail();
        }
        builder.id(&self.response_id);
        self.candidates.record(builder, Candidate::record);
        if self.prompt_feedback.0.is_some_and(|feedback| !feedback.block_reason.is_empty()) {
            builder.finish(Finish::Filtered);
        }
        if let Some(usage) = self.usage_metadata.0 {
            let totals = &mut builder.totals;
            totals.reasoning_apart = true;
            totals.input.say(usage.prompt_token_count);
            totals.input_more.say(usage.tool_use_prompt_token_count);
            totals.cache_read.say(usage.cached_content_token_count);
            totals.output.say(usage.candidates_token_count);
            totals.reasoning.say(usage.thoughts_token_count);
        }
        if let Some(wrapped) = self.response.0 {
            wrapped.record(builder);
        }
    }
}

impl Candidate<'_> {
    fn record(self, builder: &mut ResponseBuilder) {
        let first = self.index.0.unwrap_or(0) == 0;
        let parts = self.content.0.map(|content| content.parts).unwrap_or_default();
        parts.record(builder, |part, builder| part.record(first, builder));
        if !first {
            return;
        }
        match &*self.finish_reason {
            "" => {}
            "STOP" => builder.finish(Finish::Stop),
            "MAX_TOKENS" => builder.finish(Finish::Length),
            "SAFETY"
            | "RECITATION"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION" => builder.finish(Finish::Filtered),
            _ => builder.finish(Finish::Other),
        }
    }
}

impl Part<'_> {
    /// A part of the first candidate, or of another, which is only counted.
    fn record(self, first: bool, builder: &mut ResponseBuilder) {
        if self.thought.0 || !first {
            builder.count(self.text.len());
        } else {
            builder.text(&self.text);
        }
        let Some(call) = self.function_call.0 else { return };
        let args = args(call.args);
        if first {
            builder.call(&call.id, &call.name, &args);
        } else {
            builder.count(args.len());
        }
    }
}
