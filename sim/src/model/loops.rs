//! The steps an agent was let through with, and whether they go in circles: LD-6 a, b and d once more, the naive way;
//! and which request is only the one before it again, because its provider failed.

use std::collections::{BTreeMap, VecDeque};

use estop_core::event::{Ended, RequestReceived};
use estop_core::fingerprint::StepFingerprint;
use estop_core::ids::Hash64;

/// Steps looked back on.
const WINDOW: usize = 20;
/// A block of `period` steps this often in a row is a loop.
const BLOCKS: [(usize, usize); 4] = [(1, 5), (2, 4), (3, 4), (4, 4)];
const WITHIN_WINDOW: usize = 6;
const CHURN: u32 = 8;
/// The core remembers 64 conversations. With more than this the model stops following: it cannot know which
/// ones were forgotten.
const FOLLOWED_MAX: usize = 20;

/// What the core must stop once it was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Circles {
    /// The same steps again and again.
    pub repeats: bool,
    /// The same failure with other arguments.
    pub churns: bool,
}

/// The steps of one agent, by conversation.
#[derive(Clone, Debug, Default)]
pub struct Loops {
    followed: BTreeMap<Hash64, Trail>,
    lost_track: bool,
}

#[derive(Clone, Debug, Default)]
struct Trail {
    steps: VecDeque<[u64; 3]>,
    failure: Option<(Box<str>, Hash64)>,
    last_action: Hash64,
    failures: u32,
    newest: Option<Newest>,
}

/// The newest request of a conversation that was let through.
#[derive(Clone, Debug)]
struct Newest {
    number: u64,
    request: RequestReceived,
    failed: bool,
}

impl Loops {
    /// Adds steps that were let through, and says what they amount to.
    pub fn add(&mut self, conversation: Hash64, ask: Hash64, steps: &[&StepFingerprint]) -> Circles {
        let mut found = Circles::default();
        if self.lost_track {
            return found;
        }
        let trail = self.followed.entry(conversation).or_default();
        for step in steps {
            trail.add(step, ask);
            found.repeats |= trail.repeats();
            found.churns |= trail.failures >= CHURN;
        }
        if self.followed.len() > FOLLOWED_MAX {
            *self = Loops { followed: BTreeMap::new(), lost_track: true };
            return Circles::default();
        }
        found
    }

    /// A request was let through, the agent's `number`th.
    pub fn ask(&mut self, number: u64, request: &RequestReceived) {
        if let Some(trail) = self.followed.get_mut(&request.print.conversation) {
            trail.newest = Some(Newest { number, request: request.clone(), failed: false });
        }
    }

    /// The provider failed that request.
    pub fn fail(&mut self, number: u64) {
        for newest in self.followed.values_mut().filter_map(|trail| trail.newest.as_mut()) {
            newest.failed |= newest.number == number;
        }
    }

    /// Whether a request is the newest of its conversation again, which the provider failed.
    pub fn is_retry(&self, request: &RequestReceived) -> bool {
        let newest = self.followed.get(&request.print.conversation).and_then(|trail| trail.newest.as_ref());
        newest.is_some_and(|newest| newest.failed && says_the_same(&newest.request, request))
    }

    /// What was done in a conversation so far is no repeat of what comes.
    pub fn begin_anew(&mut self, conversation: Hash64) {
        if let Some(trail) = self.followed.get_mut(&conversation) {
            *trail = Trail::default();
        }
    }

    /// The agent was switched on again.
    pub fn clear(&mut self) {
        *self = Loops::default();
    }

    /// What adding `steps` would amount to.
    pub fn with(&self, conversation: Hash64, ask: Hash64, steps: &[&StepFingerprint]) -> Circles {
        if steps.is_empty() {
            return Circles::default();
        }
        self.clone().add(conversation, ask, steps)
    }
}

/// The same ask, the same steps with the same results, and as much said before them.
fn says_the_same(a: &RequestReceived, b: &RequestReceived) -> bool {
    let did = |r: &RequestReceived| -> Vec<(Hash64, Hash64)> {
        r.print.steps.iter().map(|step| (step.action, step.result)).collect()
    };
    a.call == b.call
        && (a.print.ask, a.print.continues) == (b.print.ask, b.print.continues)
        && did(a) == did(b)
        && a.estimate.input_tokens == b.estimate.input_tokens
}

impl Trail {
    fn add(&mut self, step: &StepFingerprint, ask: Hash64) {
        let serves = if step.tool.is_empty() { 0 } else { ask.0 };
        self.steps.push_back([step.action.0, step.result.0, serves]);
        if self.steps.len() > WINDOW {
            self.steps.pop_front();
        }
        let failure = (step.ended == Ended::Failed).then(|| (step.tool.clone(), step.result));
        if failure.is_none() || failure != self.failure {
            self.failures = u32::from(failure.is_some());
        } else if step.action != self.last_action {
            self.failures += 1;
        }
        self.failure = failure;
        self.last_action = step.action;
    }

    fn repeats(&self) -> bool {
        let newest_first: Vec<&[u64; 3]> = self.steps.iter().rev().collect();
        let goes_round = |(period, times): (usize, usize)| {
            let length = period * times;
            newest_first.len() >= length
                && (period..length).all(|at| newest_first[at] == newest_first[at - period])
        };
        let newest_count = newest_first.iter().filter(|step| **step == newest_first[0]).count();
        BLOCKS.into_iter().any(goes_round) || newest_count >= WITHIN_WINDOW
    }
}
