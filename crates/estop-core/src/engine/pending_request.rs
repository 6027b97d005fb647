//! A request with all that it takes to judge it.

use crate::budget::{Amount, Need};
use crate::event::{CallKind, Event, RequestReceived};
use crate::fingerprint::StepFingerprint;
use crate::fingerprint::simhash::SimHash;
use crate::ids::Hash64;
use crate::loop_detector::Observed;
use crate::loop_detector::step::Step;
use crate::policy::Policy;
use crate::time::Millis;

/// A request with all that it takes to judge it.
pub(super) struct PendingRequest<'a> {
    pub(super) event: &'a Event,
    pub(super) request: &'a RequestReceived,
    /// What it brings that counts as repetition.
    pub(super) steps: Vec<Step>,
    /// It is the one before again, whose provider failed.
    pub(super) is_retry: bool,
    pub(super) policy: &'a Policy,
}

impl PendingRequest<'_> {
    /// What it may need.
    pub(super) fn need(&self) -> Need {
        self.request.estimate.into()
    }

    /// What is reserved for it.
    pub(super) fn amount(&self) -> Amount {
        self.need().most
    }

    /// A turn: a person's text to a generating model (CB-3).
    pub(super) fn is_turn(&self) -> bool {
        self.is_generation() && self.new_prompt().is_some()
    }

    /// A person's ask, made for the first time.
    pub(super) fn is_new_prompt(&self) -> bool {
        !self.request.print.continues && !self.is_retry
    }

    /// What the person asks, if it is a new ask.
    pub(super) fn new_prompt(&self) -> Option<SimHash> {
        self.request.print.prompt.filter(|_| self.is_new_prompt())
    }

    /// The results it brings for the first time.
    pub(super) fn results(&self) -> &[StepFingerprint] {
        if self.is_retry { &[] } else { &self.request.print.steps }
    }

    /// As the loop detector looks at it. A retry brings nothing that was not there before.
    pub(super) fn observed(&self, now: Millis) -> Observed<'_> {
        let asked_words = &self.request.print.asked;
        Observed {
            now,
            asked: self.new_prompt(),
            asked_words: (!asked_words.is_empty() && !self.is_retry).then_some(asked_words),
            ask: self.request.print.ask,
            steps: &self.steps,
            prints: if self.steps.is_empty() { Vec::new() } else { self.prints().collect() },
            exempt: self.results().iter().filter(|step| self.is_exempt(step)).collect(),
            is_request: !self.is_retry,
            can_nudge: true,
        }
    }

    /// Where its steps come from, one for each.
    pub(super) fn prints(&self) -> impl Iterator<Item = &StepFingerprint> {
        self.request.print.steps.iter().filter(|step| !self.is_exempt(step))
    }

    fn is_exempt(&self, step: &StepFingerprint) -> bool {
        self.policy.loops.exempt_tools.contains(&step.tool)
    }

    pub(super) fn is_generation(&self) -> bool {
        self.request.call == CallKind::Generation
    }

    pub(super) fn conversation(&self) -> Hash64 {
        self.request.print.conversation
    }

    pub(super) fn run_name(&self) -> Option<&str> {
        self.event.run.as_deref()
    }
}
