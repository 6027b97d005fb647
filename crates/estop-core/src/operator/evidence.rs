//! What an agent did before it was stopped, as people are shown it (EV-1): excerpts, kept with the incident alone.
//!
//! Never part of a decision or of the journal. Who keeps steps bounds their number and the length of each text.

use serde::{Deserialize, Serialize};

use crate::ended::Ended;
use crate::ids::Name;
use crate::money::NanoUsd;
use crate::policy::EvidenceMode;

/// The steps of one conversation up to a stop, or up to what would have been one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IncidentSteps {
    /// How much of each text was kept; decides who may see it.
    pub mode: EvidenceMode,
    /// The first thing a person said: what it was about.
    pub task: Option<Excerpt>,
    /// Oldest first.
    pub steps: Vec<KeptStep>,
    /// Older steps of the conversation that are not kept.
    pub older: u32,
    /// Requests of the agent that were under way when it was stopped, in whatever conversation.
    pub in_flight: Vec<InFlightStep>,
    /// What the guard said, where nobody was stopped and no incident says it.
    pub reason: Option<String>,
}

/// A request with its answer, or a tool call that a hook saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptStep {
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// The request's number; `None` where a hook saw it.
    pub request: Option<u64>,
    /// Which model was asked.
    pub model: Option<Name>,
    /// What a person said with it.
    pub asked: Option<Excerpt>,
    /// What was done since the request before.
    pub did: Vec<ToolUse>,
    /// More of it that is not kept.
    pub more: u32,
    /// What the model said.
    pub answer: Option<Excerpt>,
    /// What the model wants done.
    pub calls: Vec<ToolUse>,
    /// What it used.
    pub input_tokens: u32,
    /// What the answer used.
    pub output_tokens: u32,
    /// What it cost.
    pub usd: NanoUsd,
    /// From the request to the end of its answer.
    pub took_ms: Option<u64>,
    /// How it ended.
    pub end: StepEnd,
    /// Why it counts as a repetition; all `false`: it does not.
    pub counts: StepCounts,
}

/// What of a step is evidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepCounts {
    /// The person's words are like those of the stopped request.
    pub prompt: bool,
    /// The answer is like the latest.
    pub response: bool,
    /// A tool call is part of the repetition.
    pub step: bool,
}

impl StepCounts {
    /// Whether the step is evidence at all.
    pub fn any(self) -> bool {
        self.prompt || self.response || self.step
    }
}

/// How a step ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepEnd {
    /// Nothing is known of its end.
    #[default]
    UnderWay,
    /// Its answer is complete.
    Ok,
    /// The provider reported an error.
    Failed,
    /// Its client went away, or the provider did.
    Aborted,
    /// estop ended it.
    Cut,
    /// estop refused it: the agent was stopped by it.
    Refused,
}

/// A tool call, with its result as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolUse {
    /// The tool's name.
    pub tool: Name,
    /// Its arguments, as JSON text or as the agent wrote them.
    pub args: Excerpt,
    /// What came out.
    pub result: Option<Excerpt>,
    /// How it ended.
    pub ended: Option<Ended>,
}

/// The beginning of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excerpt {
    /// What is kept of it.
    pub text: String,
    /// Bytes of the whole text, where this is not all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_bytes: Option<u64>,
}

/// A request that was under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFlightStep {
    /// The request's number.
    pub request: u64,
    /// Since when, in milliseconds since 1970.
    pub since: i64,
    /// Which model was asked.
    pub model: Option<Name>,
    /// estop ended it; `false`: nothing was heard of its end when this was written.
    pub was_cut: bool,
}
