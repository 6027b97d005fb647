//! How much a request lets the model write.

use super::RequestIn;

/// The most tokens of one answer, and how many answers are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    tokens: Option<u32>,
    answers: u32,
}

impl Default for Limit {
    fn default() -> Limit {
        Limit { tokens: None, answers: 1 }
    }
}

impl Limit {
    /// One answer has at most so many. Of two limits the larger counts: nobody knows which the provider takes. None at all
    /// is no limit: some servers read it so.
    pub(super) fn at_most(&mut self, tokens: Option<u32>) {
        self.tokens = self.tokens.max(tokens.filter(|tokens| *tokens > 0));
    }

    /// So many answers, times those asked for already.
    pub(super) fn times(&mut self, answers: Option<u32>) {
        self.answers = self.answers.saturating_mul(answers.unwrap_or(1).max(1));
    }

    /// Says what it found: the tokens of all answers together, and how many answers there are.
    pub(super) fn record(self, request: &mut RequestIn<'_>) {
        request.max_output_tokens = self.tokens.map(|tokens| tokens.saturating_mul(self.answers));
        request.answers = self.answers;
    }
}
