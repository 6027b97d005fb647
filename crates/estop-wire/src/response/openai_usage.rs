//! Usage under OpenAI's names: `prompt_tokens` in chat, `input_tokens` in Responses and images.

use serde::Deserialize;

use super::builder::ResponseBuilder;
use super::field::{Count, Maybe};

/// The `usage` object of OpenAI and everything compatible.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    pub(super) prompt_tokens: Count,
    pub(super) completion_tokens: Count,
    pub(super) input_tokens: Count,
    pub(super) output_tokens: Count,
    pub(super) total_tokens: Count,
    pub(super) prompt_tokens_details: Maybe<InputDetails>,
    input_tokens_details: Maybe<InputDetails>,
    pub(super) completion_tokens_details: Maybe<OutputDetails>,
    output_tokens_details: Maybe<OutputDetails>,
    /// DeepSeek.
    prompt_cache_hit_tokens: Count,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct InputDetails {
    pub(super) cached_tokens: Count,
    /// OpenRouter.
    cache_write_tokens: Count,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct OutputDetails {
    pub(super) reasoning_tokens: Count,
}

impl Usage {
    pub(super) fn record(self, builder: &mut ResponseBuilder) {
        if self.leaves_reasoning_out() {
            builder.totals.reasoning_apart = true;
        }
        let totals = &mut builder.totals;
        totals.input.say(self.prompt_tokens);
        totals.input.say(self.input_tokens);
        totals.output.say(self.completion_tokens);
        totals.output.say(self.output_tokens);
        totals.cache_read.say(self.prompt_cache_hit_tokens);
        for details in [self.prompt_tokens_details.0, self.input_tokens_details.0].into_iter().flatten() {
            totals.cache_read.say(details.cached_tokens);
            totals.cache_write.say(details.cache_write_tokens);
        }
        for details in [self.completion_tokens_details.0, self.output_tokens_details.0].into_iter().flatten()
        {
            totals.reasoning.say(details.reasoning_tokens);
        }
    }

    /// xAI counts reasoning beside `completion_tokens`: its total shows it.
    fn leaves_reasoning_out(&self) -> bool {
        let details = self.completion_tokens_details.0.as_ref();
        let Some(reasoning) = details.and_then(|details| details.reasoning_tokens.0) else { return false };
        let (Some(input), Some(output)) = (self.prompt_tokens.0, self.completion_tokens.0) else {
            return false;
        };
        let sum = input.saturating_add(output).saturating_add(reasoning);
        reasoning > 0 && self.total_tokens.0 == Some(sum)
    }
}
