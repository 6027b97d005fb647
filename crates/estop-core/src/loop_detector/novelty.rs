//! What a step brings that its conversation has not seen (LD-8), from 0 to 100: its call, if it was not made before; its result,
//! by the words that are new; what was said and replied, where the agent only talks.

use serde::{Deserialize, Serialize};

use crate::fingerprint::StepFingerprint;
use crate::fingerprint::features::{Features, is_number};
use crate::fingerprint::result_kind::ResultKind;
use crate::fingerprint::step_words::{StepKind, StepWords};
use crate::policy::Profile;
use crate::ring::Ring;

/// A novelty from here on is news.
pub(super) const NEWS: u8 = 50;

/// Words of results that are remembered. Measured: at half, nothing changes; a quarter forgets within a long cycle.
const RESULTS: usize = 512;
/// Words of answers, and of replies.
const SAID: usize = 256;
/// Actions, each with its result.
const ACTIONS: usize = 64;

/// So many new words in a result are news in full.
const NEW_WORDS: usize = 3;
/// How much the share of new words counts, in hundredths: in what was said, in a reply, and in a long text that is written with a
/// call, where a fifth is news in full.
const SAID_WEIGHT: usize = 100;
const REPLY_WEIGHT: usize = 300;
const WRITTEN_WEIGHT: usize = 500;
/// What another failure is worth at most.
const ANOTHER_FAILURE: u32 = 50;
/// What a new call is worth that failed, in hundredths; that brought nothing; that acts in text; and in a batch, where many such
/// items in a row are no loop.
const WORTH_IF_FAILED: u32 = 10;
const WORTH_IF_EMPTY: u32 = 15;
const WORTH_IN_TEXT: u32 = 15;
const WORTH_IN_BATCH: u32 = 30;
/// What it is worth that the result of a call that was made before moved, in its numbers alone.
const MOVED: u32 = 40;
/// So many times by the same call in a row, or by several; after that it is a clock, or a counter of the agent's own steps.
const MOVES: u8 = 11;
const MOVES_OF_SEVERAL: u8 = 25;
/// The same where several numbers move at once.
const MOVES_OF_DATA: u8 = 40;
/// The same failure of the same check so often, without news, is usual; after that, what is done in between is worth less.
const FUTILE: u8 = 2;
const LESS_IF_FUTILE: u32 = 30;

/// What a conversation has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seen {
    results: Ring<u16, RESULTS>,
    said: Ring<u16, SAID>,
    replied: Ring<u16, SAID>,
    actions: Ring<Action, ACTIONS>,
    /// Steps so far.
    count: u32,
    /// How often a check failed as before since the last news.
    futile: u8,
    /// How often numbers alone moved since the last news.
    moved: u8,
}

/// An action that was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Action {
    action: u32,
    /// What came of it; of a failure its words, whatever its numbers.
    result: u32,
    /// What came of it exactly.
    exact: u32,
    /// The number of its step.
    number: u32,
}

/// What a step brought.
pub(super) struct Novelty {
    /// From 0 to 100.
    pub(super) novelty: u8,
    /// The step's number, from 1.
    pub(super) number: u32,
    /// The number of the step that last made the same call.
    pub(super) before: Option<u32>,
    /// What came of it: of a failure its words, whatever its numbers.
    pub(super) result: u32,
}

/// What is known of a call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    /// It was not made before.
    Nothing,
    /// It was made, and brought something else each time.
    Action,
    /// It was made and once brought the same.
    Result,
    /// It brought the same when it was last made.
    Latest,
}

impl Seen {
    /// Takes in a step, and says what it brought.
    pub(super) fn take(&mut self, step: &StepFingerprint, profile: Profile) -> Novelty {
        let number = self.next();
        self.count = number;
        let result = if step.words.failure == 0 { step.result.0 as u32 } else { step.words.failure };
        let made = Action { action: step.action.0 as u32, result, exact: step.result.0 as u32, number };
        let (latest, known) = self.known(made);
        let novelty = match step.words.kind {
            StepKind::Talk | StepKind::Plan => self.of_talk(&step.words),
            StepKind::Act | StepKind::Wait => self.of_call(step, known, profile),
        };
        if novelty >= NEWS {
            self.moved = 0;
        }
        self.actions.push(made);
        Novelty { novelty, number, before: latest.map(|latest| latest.number), result }
    }

    /// The same of a tool that repeats on purpose: what it brings is news, that it fails or counts is nothing.
    pub(super) fn take_exempt(&mut self, step: &StepFingerprint, profile: Profile) -> u8 {
        let (futile, moved) = (self.futile, self.moved);
        let novelty = self.take(step, profile).novelty;
        if novelty < NEWS {
            (self.futile, self.moved) = (futile, moved);
        }
        novelty
    }

    /// When the same call was last made, and what is known of it.
    fn known(&self, made: Action) -> (Option<Action>, Known) {
        let mut same = self.actions.iter().rev().filter(|before| before.action == made.action).copied();
        let latest = same.next();
        let known = match latest {
            None => Known::Nothing,
            Some(latest) if latest.exact == made.exact => Known::Latest,
            Some(latest) if latest.result == made.result => Known::Result,
            Some(_) if same.any(|before| before.result == made.result) => Known::Result,
            Some(_) => Known::Action,
        };
        (latest, known)
    }

    /// The number of the next step.
    pub(super) fn next(&self) -> u32 {
        self.count.saturating_add(1)
    }

    /// What a reply brings.
    pub(super) fn replied(&mut self, reply: &Features) -> u8 {
        percent(new_of(&mut self.replied, reply).all(), reply.len(), REPLY_WEIGHT)
    }

    fn of_talk(&mut self, words: &StepWords) -> u8 {
        let said = percent(new_of(&mut self.said, &words.said).all(), words.said.len(), SAID_WEIGHT);
        said.max(self.replied(&words.result))
    }

    fn of_call(&mut self, step: &StepFingerprint, known: Known, profile: Profile) -> u8 {
        let StepWords { result, said, result_kind, kind, .. } = &step.words;
        let new = new_of(&mut self.results, result);
        let of_result = match result_kind {
            // A long result may have changed where none of its words are remembered.
            ResultKind::Content if new.words == 0 && known == Known::Action => {
                let is_again =
                    self.actions.iter().next_back().is_some_and(|last| last.action == step.action.0 as u32);
                self.worth_of_motion(new.numbers, is_again, profile)
            }
            ResultKind::Content if known >= Known::Result => share(new.words, NEW_WORDS),
            ResultKind::Content => share(new.all(), NEW_WORDS),
            // A failure is another one if much of it is.
            ResultKind::Nothing | ResultKind::Failure => {
                share(new.words, NEW_WORDS.max(result.len() / 6)).min(ANOTHER_FAILURE)
            }
        };
        let of_call = if known == Known::Nothing { self.of_arguments(said) } else { 0 };
        let worth = match result_kind {
            ResultKind::Content => self.worth_of_silence(),
            ResultKind::Nothing | ResultKind::Failure => worth_if_failed(step, profile),
        };
        self.futile = match known {
            Known::Latest if *result_kind == ResultKind::Failure && *kind == StepKind::Act => {
                self.futile.saturating_add(1)
            }
            Known::Nothing | Known::Latest if of_result < u32::from(NEWS) => self.futile,
            // The check shows something else.
            Known::Nothing | Known::Action | Known::Result | Known::Latest => 0,
        };
        (of_call * worth / 100).max(of_result).min(100) as u8
    }

    /// A call that was not made before is new in full, unless it writes a long text that was written before.
    fn of_arguments(&mut self, said: &Features) -> u32 {
        if said.is_empty() {
            return 100;
        }
        let new = new_of(&mut self.said, said);
        // One number alone may be that of the version.
        u32::from(percent(new.words + new.numbers.saturating_sub(1), said.len(), WRITTEN_WEIGHT))
    }

    /// What it is worth that the result of a call that was made before moved, in its numbers alone: less after a while, unless
    /// watching numbers is the agent's work.
    fn worth_of_motion(&mut self, numbers: usize, is_again: bool, profile: Profile) -> u32 {
        // A number and its pairs with the words beside it.
        let is_data = numbers > 2 * NEW_WORDS;
        self.moved = self.moved.saturating_add(1);
        let moves = if is_data {
            MOVES_OF_DATA
        } else if is_again {
            MOVES
        } else {
            MOVES_OF_SEVERAL
        };
        if self.moved <= moves || profile == Profile::Ops { MOVED } else { WORTH_IF_FAILED }
    }

    /// What a new call is worth that only says it is done: less while a check fails the same way again and again.
    fn worth_of_silence(&self) -> u32 {
        let futile = u32::from(self.futile.saturating_sub(FUTILE));
        100_u32.saturating_sub(LESS_IF_FUTILE * futile).max(WORTH_IF_FAILED)
    }
}

/// What a new call is worth that failed or brought nothing.
fn worth_if_failed(step: &StepFingerprint, profile: Profile) -> u32 {
    match step.words.result_kind {
        _ if profile == Profile::Batch => WORTH_IN_BATCH,
        // An action in text changes something and checks it at once.
        _ if step.tool.is_empty() => WORTH_IN_TEXT,
        ResultKind::Nothing => WORTH_IF_EMPTY,
        ResultKind::Failure | ResultKind::Content => WORTH_IF_FAILED,
    }
}

/// How many features are new.
#[derive(Clone, Copy)]
struct New {
    words: usize,
    numbers: usize,
}

impl New {
    fn all(self) -> usize {
        self.words + self.numbers
    }
}

/// How many of the features were not seen before; from here on they are.
fn new_of<const N: usize>(seen: &mut Ring<u16, N>, features: &Features) -> New {
    let new: Vec<u16> = features.iter().filter(|feature| !seen.contains(feature)).collect();
    new.iter().for_each(|feature| seen.push(*feature));
    let numbers = new.iter().filter(|feature| is_number(**feature)).count();
    New { words: new.len() - numbers, numbers }
}

/// So many new ones of those that are news in full, up to 100.
fn share(new: usize, full: usize) -> u32 {
    (new * 100 / full).min(100) as u32
}

/// The share of new words, weighed, up to 100.
fn percent(new: usize, all: usize, weight: usize) -> u8 {
    // Of very few words one alone is not much.
    (new * weight / all.max(4)).min(100) as u8
}
