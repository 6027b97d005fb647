//! From what was said to what is remembered (FP-3..6): the one rule for every protocol.
//!
//! A protocol reader fills in [`RequestText`] and [`ResponseText`]; this turns them into prints. Only prints
//! reach events and the journal.

pub mod arguments;
pub mod features;
pub mod normalize;
pub mod result_kind;
pub mod signature;
pub mod simhash;
pub mod step_words;
pub(crate) mod volatile;

use serde::{Deserialize, Serialize};

use crate::ended::Ended;
pub use crate::ended::ended_by_text;
use crate::ids::{Hash64, Name};
use features::{Features, Numbers};
use simhash::{SimHash, normal_hash, simhash, simhash_and_hash, simhash_both};
use step_words::StepWords;

/// What a request says, as a protocol reader understood it.
#[derive(Clone, Debug, Default)]
pub struct RequestText<'a> {
    /// The system prompt.
    pub system: &'a str,
    /// The first thing a person said in this conversation.
    pub first_user: &'a str,
    /// The run's name, if the client gave one.
    pub run: Option<&'a str>,
    /// The newest thing a person said.
    pub last_user: &'a str,
    /// The newest input is tool results, so it continues `last_user` instead of asking again.
    pub continues: bool,
    /// What the agent did since its previous request, and what came of it.
    pub steps: Vec<StepText<'a>>,
}

/// One thing an agent did, with its result.
#[derive(Clone, Debug)]
pub struct StepText<'a> {
    /// The tool's name; empty for agents that act in text.
    pub tool: &'a str,
    /// Arguments as JSON text, or the text action itself.
    pub args: &'a str,
    /// What came out.
    pub result: &'a str,
    /// How it ended, as far as the protocol says.
    pub ended: Ended,
}

/// What an answer says, as a protocol reader understood it.
#[derive(Clone, Debug, Default)]
pub struct ResponseText<'a> {
    /// The assistant's text, without framing.
    pub text: &'a str,
    /// Tool calls it makes: name, arguments as JSON text, whether it runs tests.
    pub calls: Vec<(&'a str, &'a str, bool)>,
}

/// A request, remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestFingerprint {
    /// Which conversation it belongs to (FP-6).
    pub conversation: Hash64,
    /// The person's newest sentence, exactly: what the steps serve.
    pub ask: Hash64,
    /// The same, as a SimHash; `None` if there is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<SimHash>,
    /// It continues the ask with tool results.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub continues: bool,
    /// What a person said after the results, if one did.
    #[serde(default, skip_serializing_if = "Features::is_empty")]
    pub asked: Features,
    /// What was done since the previous request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepFingerprint>,
}

/// A step, remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepFingerprint {
    /// The tool's name; empty for agents that act in text.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub tool: Name,
    /// Tool and canonical arguments.
    pub action: Hash64,
    /// The result, volatile fields taken out.
    pub result: Hash64,
    /// How it ended; most protocols do not say.
    #[serde(default = "unknown", skip_serializing_if = "is_unknown")]
    pub ended: Ended,
    /// It ran tests, and the request says how they ended (CB-4).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub test_run: bool,
    /// Its words, to tell what is new in it.
    #[serde(default, skip_serializing_if = "StepWords::is_usual")]
    pub words: StepWords,
}

fn unknown() -> Ended {
    Ended::Unknown
}

fn is_unknown(ended: &Ended) -> bool {
    *ended == Ended::Unknown
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// An answer, remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResponseFingerprint {
    /// The assistant's text; `None` if there is none (FP-5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<SimHash>,
    /// The same, with numbers and ids as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact: Option<SimHash>,
    /// Tool calls it makes, at most [`STEPS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallFingerprint>,
    /// How many more it makes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_calls: u32,
}

/// A tool call in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallFingerprint {
    /// The tool's name.
    pub tool: Name,
    /// Tool and canonical arguments.
    pub action: Hash64,
    /// The command runs tests (CB-4).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub test_run: bool,
}

/// More steps than this in one request are folded into the last one, so that no request grows an event
/// without bound. Real clients send at most a few dozen parallel results.
pub const STEPS_MAX: usize = 32;

impl RequestFingerprint {
    /// The print of a request.
    pub fn of(text: &RequestText<'_>) -> RequestFingerprint {
        // Most conversations have one question, at their beginning: it is read once.
        let last_user = signature::head_and_tail(text.last_user);
        let (prompt, first_user) = if text.first_user == text.last_user {
            simhash_and_hash(&last_user)
        } else {
            (simhash(&last_user), normal_hash(&signature::head_and_tail(text.first_user)))
        };
        RequestFingerprint {
            conversation: signature::conversation_of(text.run, text.system, first_user),
            ask: signature::text(text.last_user),
            prompt,
            continues: text.continues,
            asked: asked_after(text),
            steps: fold(text.steps.iter().map(StepFingerprint::of)),
        }
    }

    /// What tells a request from others of its conversation.
    pub(crate) fn identity(&self) -> Hash64 {
        let kind = Hash64(u64::from(self.continues));
        if self.steps.is_empty() {
            return signature::mix(&[self.ask, kind]);
        }
        let steps = self.steps.iter().flat_map(|step| [step.action, step.result]);
        signature::mix(&[self.ask, kind].into_iter().chain(steps).collect::<Vec<_>>())
    }
}

/// What a person says beside the results of calls. As the reply to what an agent said it is part of that step.
fn asked_after(text: &RequestText<'_>) -> Features {
    let has_results = text.steps.iter().any(|step| !step.tool.is_empty());
    if text.continues || !has_results {
        return Features::default();
    }
    Features::of(&volatile::strip(&signature::head_and_tail(text.last_user)), Numbers::Count)
}

/// Keeps the first [`STEPS_MAX`] − 1 and mixes the rest into one.
fn fold(steps: impl Iterator<Item = StepFingerprint>) -> Vec<StepFingerprint> {
    let mut kept: Vec<StepFingerprint> = Vec::new();
    for step in steps {
        if kept.len() < STEPS_MAX {
            kept.push(step);
        } else if let Some(last) = kept.last_mut() {
            last.action = signature::mix(&[last.action, step.action]);
            last.result = signature::mix(&[last.result, step.result]);
        }
    }
    kept
}

impl StepFingerprint {
    /// The print of a step.
    pub fn of(step: &StepText<'_>) -> StepFingerprint {
        let action = if step.tool.is_empty() {
            signature::text_action(step.args)
        } else {
            signature::action(step.tool, step.args)
        };
        let (result, words) = StepFingerprint::result_of(step);
        StepFingerprint { tool: step.tool.into(), action, result, ended: step.ended, test_run: false, words }
    }

    /// What came of a step: its result's hash, and its words.
    pub fn result_of(step: &StepText<'_>) -> (Hash64, StepWords) {
        let (result, stripped) = signature::result_and_text(step.result);
        let acts = match step.tool {
            "" => signature::action_in_text(step.args),
            tool => Some((tool, step.args)),
        };
        let words = match acts {
            Some((tool, args)) => StepWords::of_call(tool, args, step.result, &stripped, step.ended),
            None => StepWords::of_text(step.args, step.result),
        };
        (result, words)
    }
}

impl ResponseFingerprint {
    /// The print of an answer.
    pub fn of(response: &ResponseText<'_>) -> ResponseFingerprint {
        let call = |&(tool, args, test_run): &(&str, &str, bool)| CallFingerprint {
            tool: tool.into(),
            action: signature::action(tool, args),
            test_run,
        };
        let [text, exact] = simhash_both(&signature::head_and_tail(response.text));
        ResponseFingerprint {
            text,
            exact,
            calls: response.calls.iter().take(STEPS_MAX).map(call).collect(),
            more_calls: u32::try_from(response.calls.len().saturating_sub(STEPS_MAX)).unwrap_or(u32::MAX),
        }
    }
}
