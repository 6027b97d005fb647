//! One thing an agent did, as the detectors compare it (FP-4).

use serde::Deserialize;

use crate::as_list::as_list;
use crate::ended::Ended;
use crate::fingerprint::signature::{mix, text};
use crate::fingerprint::{RequestFingerprint, StepFingerprint};
use crate::ids::Hash64;
use crate::policy::LoopPolicy;

/// A step as the detectors see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// A tool was called; otherwise the agent acts in text.
    pub(crate) is_call: bool,
    /// Tool and arguments.
    pub(crate) action: Hash64,
    /// Action, result and the ask it serves.
    pub(crate) signature: Hash64,
    /// Tool and failing result; `None` if it did not fail.
    pub(crate) failure: Option<Hash64>,
}

/// The steps that count as repetition, with their signatures (FP-4).
pub(crate) fn steps_of(print: &RequestFingerprint, policy: &LoopPolicy) -> Vec<Step> {
    let counts = |s: &&StepFingerprint| !policy.exempt_tools.contains(&s.tool);
    print.steps.iter().filter(counts).map(|s| step_of(s, print.ask)).collect()
}

/// For agents that act in text the ask is the result itself, so it cannot be part of the signature.
pub(crate) fn step_of(step: &StepFingerprint, ask: Hash64) -> Step {
    let serves = if step.tool.is_empty() { Hash64(0) } else { ask };
    Step {
        is_call: !step.tool.is_empty(),
        action: step.action,
        signature: mix(&[step.action, step.result, serves]),
        failure: (step.ended == Ended::Failed).then(|| mix(&[text(&step.tool), step.result])),
    }
}

/// A remembered step: 8 bytes. Half of each hash is enough to tell twenty steps apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct StepMark {
    signature: u32,
    #[serde(default)]
    action: u32,
}

as_list!(StepMark: signature; action = 0);

impl StepMark {
    pub(crate) fn of(step: &Step) -> StepMark {
        StepMark { signature: step.signature.0 as u32, action: step.action.0 as u32 }
    }

    /// Whether `step` is the same action with the same result for the same ask.
    pub(crate) fn repeats(&self, step: &Step) -> bool {
        *self == StepMark::of(step)
    }
}
