//! Progress (LD-8): how long an agent's steps have brought nothing that its conversation had not seen.
//!
//! Steps without news add to a score, steps with news take from it; a pause makes them count less. What a step brings is told by
//! `novelty.rs`. All of it in whole numbers and bounded memory: some 3 kB for a conversation.

use serde::{Deserialize, Serialize};

use crate::budget::Amount;
use crate::fingerprint::StepFingerprint;
use crate::fingerprint::result_kind::ResultKind;
use crate::fingerprint::signature::mix;
use crate::fingerprint::step_words::StepKind;
use crate::ids::Hash64;
use crate::loop_detector::Observed;
use crate::loop_detector::novelty::{NEWS, Novelty, Seen};
use crate::loop_detector::repetition::Repetition;
use crate::money::NanoUsd;
use crate::policy::{LoopPolicy, Profile};
use crate::ring::Ring;
use crate::time::Millis;

/// The score that may not be reached, in thousandths, for each tenth of the threshold: with 10.0, five and a half steps without
/// any news.
const SCORE_PER_TENTH: u32 = 55;
/// How much of the score full news take away, in hundredths.
const FORGET: u32 = 75;
/// A pause in which somebody or something else had its turn; where an agent watches and waits, a shorter one.
const PAUSE_MS: u64 = 30_000;
const PAUSE_OPS_MS: u64 = 10_000;
/// A tool that failed may have taken so long.
const PAUSE_IF_FAILED_MS: u64 = 300_000;
/// A wait on purpose takes so long at least; words alone are none.
const WAIT_MS: u64 = 1_500;
/// What a step without news counts after such a pause since it was last made, in hundredths; and after a wait on purpose.
const AFTER_PAUSE: u8 = 5;
const AFTER_WAIT: u8 = 20;
/// The same if what it waited for failed.
const AFTER_WAIT_IN_VAIN: u8 = 40;
/// The same after a pause that a tool that failed may have taken: nobody can tell a slow check from a patient one.
const AFTER_SLOW_FAILURE: u8 = 70;

/// Steps that blocks are looked for in.
const STEPS: usize = 20;
/// The same step this often back to back, or a block of 2–4 steps.
const BACK_TO_BACK: usize = 5;
const BLOCKS: usize = 4;
const PERIOD_MAX: usize = 4;
/// How far on the way to a stop an agent is told (LD-9), and how many steps it then has to show news.
const NUDGE_PERCENT: u16 = 60;
const NUDGE_STEPS: u8 = 5;
/// The same step this often within [`STEPS`].
const WITHIN_WINDOW: usize = 5;
/// The mean novelty up to which a stretch is without progress.
const STALE: u8 = 15;

/// What a conversation has seen, and how long it has not seen anything new.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Progress {
    seen: Seen,
    steps: Ring<Mark, STEPS>,
    /// The step before which there was a pause, and the last wait on purpose; 0 = none.
    paused: u32,
    waited: u32,
    waited_in_vain: bool,
    /// The step that failed after a pause, which it may have taken itself; 0 = none.
    slow: u32,
    /// When something last happened; 0 = nothing did.
    last: Millis,
    score: u32,
    /// Steps since the last news, and how many of them failed.
    stale: u16,
    failed: u16,
    /// Requests and steps since the last news, pause or wait: what is similar among them counts (LD-1).
    pub(crate) stale_requests: u16,
    stale_steps: u16,
    /// When the last news came, and what was spent since.
    news_at: Millis,
    spent: Amount,
    /// The agent was told about this stretch (LD-9); so many more steps may show whether it helped.
    nudged: bool,
    nudge_left: u8,
}

/// A step, as blocks are made of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    signature: u32,
    novelty: u8,
    pace: u8,
}

/// Where a conversation stands after something was observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The rule that holds, and the place of the step that completes it.
    pub(crate) found: Option<(usize, Repetition)>,
    pub(crate) stretch: Stretch,
}

/// How long nothing new has happened (LD-8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stretch {
    /// Steps since the last news.
    pub steps: u16,
    /// Of them, those that failed or brought nothing.
    pub failures: u16,
    /// How often the newest step was made among the last twenty, with the same result.
    pub repeats: u16,
    /// How long it has lasted.
    pub ms: u64,
    /// What was spent in it.
    pub tokens: u64,
    /// In money.
    pub usd: NanoUsd,
    /// What the newest step brought, from 0 (nothing new) to 100; `None` if there was no step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub novelty: Option<u8>,
    /// How much the newest step counts, in hundredths: less after a pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<u8>,
    /// How far it is to a stop: 100 stops.
    pub percent: u16,
    /// The agent should be told now, where that is possible: once a stretch (LD-9).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub nudge: bool,
    /// It was told some steps ago: whether news came since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nudge_helped: Option<bool>,
}

impl Stretch {
    /// What the agent is told before it is stopped.
    pub fn nudge_text(&self) -> String {
        let repeats = match self.repeats {
            0..=2 => String::new(),
            repeats => format!(", and the same call had the same result {repeats} times"),
        };
        let steps = match self.steps {
            0 | 1 => "last step".to_owned(),
            steps => format!("last {steps} steps"),
        };
        format!(
            "estop: your {steps} brought nothing new{repeats}. Try another way, or stop and tell the person what you are missing."
        )
    }
}

impl Progress {
    /// Of a conversation that had so many requests before anything was looked at.
    pub(crate) fn after(requests: usize) -> Box<Progress> {
        let stale_requests = u16::try_from(requests).unwrap_or(u16::MAX);
        Box::new(Progress { stale_requests, ..Progress::default() })
    }

    /// Takes in what was observed. Says where the conversation stands now, and with which step a loop is complete.
    pub(crate) fn observe(&mut self, observed: &Observed<'_>, policy: &LoopPolicy) -> Standing {
        let passed = self.passes(observed, policy);
        self.stale_requests = self.stale_requests.saturating_add(u16::from(observed.is_request));
        let max = score_max(policy);
        for step in &observed.exempt {
            // What they repeat is no evidence, what they bring is news.
            let novelty = self.seen.take_exempt(step, policy.profile);
            if novelty >= NEWS {
                self.news();
                self.nudge_left = 0;
                let mark = Mark { signature: 0, novelty, pace: 100 };
                self.weigh(mark, max);
                self.steps.push(mark);
            }
        }
        let marks = observed.prints.iter().filter_map(|step| self.step(step, observed.ask, passed, policy));
        // Calls made at once were chosen before the result of any was known: together they are one step on the way.
        let newest = marks.max_by_key(|mark| mark.novelty);
        let nudge_helped = newest.and_then(|mark| self.after_nudge(mark));
        let mut found = newest.and_then(|mark| {
            self.weigh(mark, max);
            self.find(mark, policy).map(|rule| (observed.prints.len() - 1, rule))
        });
        if observed.asked_words.is_some_and(|asked| self.seen.replied(asked) >= NEWS) {
            // Whoever reads along and says something else is in charge.
            self.person();
            found = None;
        }
        let mut stretch = Stretch { nudge_helped, ..self.stretch(observed.now, newest, policy) };
        stretch.nudge = found.is_none() && observed.can_nudge && self.nudges(&stretch);
        Standing { found, stretch }
    }

    /// Whether the agent should be told now.
    fn nudges(&mut self, stretch: &Stretch) -> bool {
        let is_stale = stretch.novelty.is_some_and(|novelty| novelty < NEWS);
        if self.nudged || !is_stale || stretch.percent < NUDGE_PERCENT {
            return false;
        }
        (self.nudged, self.nudge_left) = (true, NUDGE_STEPS);
        true
    }

    /// Whether a nudge helped, once that can be told.
    fn after_nudge(&mut self, newest: Mark) -> Option<bool> {
        if self.nudge_left == 0 {
            return None;
        }
        self.nudge_left -= 1;
        let helped = newest.novelty >= NEWS;
        if helped {
            self.nudge_left = 0;
        }
        (self.nudge_left == 0).then_some(helped)
    }

    /// An answer cost this much.
    pub(crate) fn spend(&mut self, amount: Amount) {
        self.spent = self.spent.plus(amount);
    }

    /// A person said something.
    pub(crate) fn person(&mut self) {
        self.score /= 4;
        self.nudge_left = 0;
        self.steps.push(Mark { signature: 0, novelty: 100, pace: 100 });
        self.news();
    }

    /// Its model answered: what follows is the time of its tools, of a person or of a timer.
    pub(crate) fn answered(&mut self, now: Millis) {
        self.last = now;
    }

    /// An answer that is unlike all before it is news for those who only ask.
    pub(crate) fn answered_anew(&mut self) {
        self.stale_requests = 0;
    }

    /// Steps since the last news, pause or wait.
    pub(crate) fn stale_steps(&self) -> usize {
        usize::from(self.stale_steps)
    }

    fn news(&mut self) {
        (self.stale, self.failed, self.nudged) = (0, 0, false);
        (self.news_at, self.spent) = (self.last, Amount::default());
        self.begin_stretch();
    }

    fn begin_stretch(&mut self) {
        (self.stale_requests, self.stale_steps) = (0, 0);
    }

    /// Time passes. A pause makes what was before it count less; a tool that took its time and failed made none.
    fn passes(&mut self, observed: &Observed<'_>, policy: &LoopPolicy) -> u64 {
        if self.last == Millis(0) {
            self.news_at = observed.now;
        }
        let passed = observed.now.since(self.last);
        let has_failed = |step: &&StepFingerprint| {
            step.words.result_kind == ResultKind::Failure && step.words.kind != StepKind::Wait
        };
        let pause = match policy.profile {
            Profile::Ops => PAUSE_OPS_MS,
            Profile::Coding | Profile::Interactive | Profile::Batch
                if observed.prints.iter().any(has_failed) =>
            {
                PAUSE_IF_FAILED_MS
            }
            Profile::Coding | Profile::Interactive | Profile::Batch => PAUSE_MS,
        };
        if self.last != Millis(0) && passed > pause {
            self.paused = self.seen.next();
            self.score /= 4;
            self.begin_stretch();
        } else if self.last != Millis(0) && passed > PAUSE_MS {
            self.slow = self.seen.next();
            self.begin_stretch();
        }
        let is_first = self.last == Millis(0);
        self.last = observed.now;
        if is_first { 0 } else { passed }
    }

    /// Remembers a step. `None` if it says nothing about progress.
    fn step(
        &mut self,
        step: &StepFingerprint,
        ask: Hash64,
        passed: u64,
        policy: &LoopPolicy,
    ) -> Option<Mark> {
        if step.words.kind == StepKind::Talk && policy.profile == Profile::Batch {
            return None;
        }
        let Novelty { novelty, number, before, result } = self.seen.take(step, policy.profile);
        let has_failed = step.words.result_kind == ResultKind::Failure;
        let waits = step.words.kind == StepKind::Wait && passed >= WAIT_MS;
        if waits {
            (self.waited, self.waited_in_vain) = (number, has_failed);
        }
        if waits && !has_failed {
            self.score = self.score / 4 * 3;
            self.begin_stretch();
        }
        let since = before.unwrap_or(number - 1);
        let pace = match () {
            () if self.paused > since => AFTER_PAUSE,
            () if self.waited > since && self.waited_in_vain => AFTER_WAIT_IN_VAIN,
            () if self.waited > since => AFTER_WAIT,
            () if self.slow > since => AFTER_SLOW_FAILURE,
            () => 100,
        };
        if before.is_none() || novelty > STALE {
            // An answer to what was not done before is no answer given again.
            self.begin_stretch();
        }
        if novelty >= NEWS {
            self.news();
        } else {
            let has_failed = step.words.result_kind != ResultKind::Content;
            self.stale = self.stale.saturating_add(1);
            self.stale_steps = self.stale_steps.saturating_add(1);
            self.failed = self.failed.saturating_add(u16::from(has_failed));
        }
        let serves = if step.tool.is_empty() { Hash64(0) } else { ask };
        let signature = mix(&[step.action, Hash64(u64::from(result)), serves]).0 as u32;
        let mark = Mark { signature, novelty, pace };
        self.steps.push(mark);
        Some(mark)
    }

    /// Adds the lack of news to the score, and takes the news from it. It stays below what makes a loop twice over, so that
    /// full news always end one.
    fn weigh(&mut self, mark: Mark, max: u32) {
        let (novelty, score) = (u32::from(mark.novelty.min(100)), self.score.min(2 * max));
        let lack = 100 - novelty;
        let left = score * (100 - FORGET * novelty / 100) / 100;
        self.score = (left + lack * lack * u32::from(mark.pace) / 1_000).min(2 * max);
    }

    fn stretch(&self, now: Millis, newest: Option<Mark>, policy: &LoopPolicy) -> Stretch {
        let is_same = |mark: &&Mark| newest.is_some_and(|newest| newest.signature == mark.signature);
        let max = score_max(policy);
        // A state may come from anybody's export.
        let score = (self.score.min(2 * max) * 100 / max) as u16;
        Stretch {
            steps: self.stale,
            failures: self.failed,
            repeats: self.steps.iter().filter(is_same).count() as u16,
            ms: now.since(self.news_at),
            tokens: self.spent.tokens,
            usd: self.spent.usd,
            novelty: newest.map(|mark| mark.novelty),
            pace: newest.map(|mark| mark.pace),
            percent: score.max(if policy.back_to_back { self.percent_of_blocks() } else { 0 }),
            nudge: false,
            nudge_helped: None,
        }
    }

    /// The rule that holds after the newest step, of those that are on.
    fn find(&self, newest: Mark, policy: &LoopPolicy) -> Option<Repetition> {
        let back_to_back = || self.back_to_back().filter(|_| policy.back_to_back);
        let nothing_new = || {
            let found = self.score >= score_max(policy) && newest.novelty < NEWS && policy.nothing_new;
            found.then_some(Repetition::NothingNew { steps: self.stale, failures: self.failed })
        };
        let within_window = || self.within_window().filter(|_| policy.within_window);
        back_to_back().or_else(nothing_new).or_else(within_window)
    }

    fn back_to_back(&self) -> Option<Repetition> {
        let steps: Vec<Mark> = self.steps.iter().copied().collect();
        (1..=PERIOD_MAX).find_map(|period| {
            let blocks = blocks(&steps, period);
            (blocks >= blocks_needed(period))
                .then_some(Repetition::BackToBack { period: period as u8, repeats: blocks as u16 })
        })
    }

    /// How far it is to that.
    fn percent_of_blocks(&self) -> u16 {
        let steps: Vec<Mark> = self.steps.iter().copied().collect();
        let percent = |period| (blocks(&steps, period) * 100 / blocks_needed(period)).min(100);
        (1..=PERIOD_MAX).map(percent).max().unwrap_or(0) as u16
    }

    fn within_window(&self) -> Option<Repetition> {
        let newest = self.steps.iter().next_back()?;
        let is_same = |mark: &&Mark| mark.signature == newest.signature;
        let repeats = self.steps.iter().filter(is_same).count();
        let pace: usize = self.steps.iter().filter(is_same).map(|mark| usize::from(mark.pace)).sum();
        if repeats < WITHIN_WINDOW || pace < 99 * WITHIN_WINDOW {
            return None;
        }
        // The first time it was new.
        let stretch: Vec<&Mark> = self.steps.iter().skip_while(|mark| !is_same(mark)).collect();
        is_stale(stretch.iter().skip(1).copied(), stretch.len())
            .then_some(Repetition::WithinWindow { repeats: repeats as u16 })
    }
}

fn blocks_needed(period: usize) -> usize {
    if period == 1 { BACK_TO_BACK } else { BLOCKS }
}

/// How many equal blocks of `period` steps stand back to back at the end, without a pause or news; 0 if it is but one.
fn blocks(steps: &[Mark], period: usize) -> usize {
    let equal = (period..steps.len())
        .rev()
        .take_while(|at| steps[*at].signature == steps[at - period].signature)
        .count();
    let blocks = if equal < period { 0 } else { equal / period + 1 };
    let block = &steps[steps.len() - period * blocks..];
    let needed = blocks.min(blocks_needed(period));
    let is_dense = block.iter().map(|mark| usize::from(mark.pace)).sum::<usize>() >= 99 * period * needed;
    if is_dense && is_stale(block.iter().skip(period), block.len()) { blocks } else { 0 }
}

/// Whether so many steps brought hardly anything new.
fn is_stale<'a>(marks: impl Iterator<Item = &'a Mark>, steps: usize) -> bool {
    marks.map(|mark| usize::from(mark.novelty)).sum::<usize>() <= usize::from(STALE) * steps
}

/// The score that may not be reached.
fn score_max(policy: &LoopPolicy) -> u32 {
    let max = SCORE_PER_TENTH * u32::from(policy.threshold_tenths.max(1));
    if policy.profile == Profile::Interactive { max / 2 * 3 } else { max }
}

#[cfg(test)]
mod tests;
