//! Repetition beyond the score (LD-6 a–d): the same step again and again, in blocks, within a window, without
//! a break, or the same failure with ever-changing arguments.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::as_list::as_list;
use crate::ids::Hash64;
use crate::judgement::Judgement;
use crate::loop_detector::step::{Step, StepMark};
use crate::policy::LoopPolicy;
use crate::ring::push_bounded;

/// Steps looked back on (LD-6 b), and the room that blocks of four need (LD-6 a).
const STEPS_WINDOW: usize = 20;
/// LD-6 a: the same step this often back to back.
const BACK_TO_BACK: usize = 5;
/// LD-6 a: a block of 2–4 steps this often.
const BLOCKS: usize = 4;
const PERIOD_MAX: usize = 4;
/// LD-6 b: the same step this often within [`STEPS_WINDOW`].
const WITHIN_WINDOW: usize = 6;
/// LD-6 c: the same call this often without a break, whatever comes out.
const UNBROKEN: u16 = 20;
/// LD-6 d: the same failure this often in a row. Chosen: real agents try up to five variants of a failing
/// command before they change course; at four it would stop them, at sixteen the money is gone.
const CHURN: u16 = 8;

/// A rule of LD-6 that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Repetition {
    /// (a) A block of `period` steps, `repeats` times back to back.
    BackToBack {
        /// Steps in the block.
        period: u8,
        /// How often.
        repeats: u16,
    },
    /// (b) The same step within the last 20.
    WithinWindow {
        /// How often.
        repeats: u16,
    },
    /// (c) The same call without a break, whatever came out.
    Unbroken {
        /// How often.
        repeats: u16,
    },
    /// (LD-8) A stretch of steps without anything new, whatever its shape.
    NothingNew {
        /// How many.
        steps: u16,
        /// Of them, those that failed or brought nothing.
        failures: u16,
    },
}

impl Repetition {
    /// Whether the step `back` steps before `last`, which completes it, is part of it.
    pub(crate) fn takes_part(self, back: usize, mark: &StepMark, last: &Step) -> bool {
        match self {
            Repetition::BackToBack { period, repeats } => back < usize::from(period) * usize::from(repeats),
            Repetition::WithinWindow { .. } => back < STEPS_WINDOW && mark.repeats(last),
            Repetition::Unbroken { repeats } => back < usize::from(repeats),
            Repetition::NothingNew { steps, .. } => back < usize::from(steps),
        }
    }
}

impl std::fmt::Display for Repetition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Repetition::BackToBack { period: 1, repeats } => {
                write!(f, "the same action with the same result {repeats} times in a row.")
            }
            Repetition::BackToBack { period, repeats } => {
                write!(f, "the same {period} actions with the same results {repeats} times in a row.")
            }
            Repetition::WithinWindow { repeats } => {
                write!(f, "the same action with the same result {repeats} times within {STEPS_WINDOW} steps.")
            }
            Repetition::Unbroken { repeats } => write!(f, "the same call {repeats} times without a break."),
            Repetition::NothingNew { steps: 0 | 1, .. } => f.write_str("hardly anything new for too long."),
            Repetition::NothingNew { steps, failures: 0 } => write!(f, "{steps} steps without anything new."),
            Repetition::NothingNew { steps, failures } => {
                write!(f, "{steps} steps without anything new, {failures} of them failed or brought nothing.")
            }
        }
    }
}

/// Length of the unbroken run of one call (LD-6 c).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Repeats {
    action: Hash64,
    count: u16,
}

impl Repeats {
    /// Only calls count: a person may well get the same short answer twenty times.
    fn after(self, step: &Step) -> Repeats {
        if !step.is_call {
            return Repeats::default();
        }
        let count = if self.action == step.action { self.count.saturating_add(1) } else { 1 };
        Repeats { action: step.action, count }
    }
}

/// Length of the run of one failure (LD-6 d).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Churn {
    failure: Hash64,
    last_action: Hash64,
    count: u16,
}

impl Churn {
    /// Another action with the same failure goes on; the same action again is left to (a); anything else ends it.
    fn after(self, step: &Step) -> Churn {
        match step.failure {
            None => Churn::default(),
            Some(failure) if failure != self.failure => Churn { failure, last_action: step.action, count: 1 },
            Some(_) if step.action == self.last_action => self,
            Some(_) => Churn { last_action: step.action, count: self.count.saturating_add(1), ..self },
        }
    }
}

/// What the guard `churn` saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ChurnFinding {
    /// Failures in a row, the same each time, arguments changing.
    pub failures: u16,
    /// Reaching this stops.
    pub max: u16,
}

impl std::fmt::Display for ChurnFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "The same tool failed the same way {} times in a row with other arguments each time.",
            self.failures
        )
    }
}

/// The steps of one conversation, and the runs of them that are under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Track {
    /// Newest last.
    #[serde(default)]
    steps: VecDeque<StepMark>,
    #[serde(default)]
    repeats: Repeats,
    #[serde(default)]
    churn: Churn,
}

as_list!(Track: ; steps = VecDeque::new(), repeats = Repeats::default(), churn = Churn::default());

impl Track {
    /// The rule of LD-6 a–c that holds once `steps` are added, if one does, with the place among `steps` of the one that
    /// completes it.
    pub(crate) fn find_at(&self, steps: &[Step], policy: &LoopPolicy) -> Option<(usize, Repetition)> {
        if steps.is_empty() {
            return None;
        }
        let (mut recent, mut repeats) = (Recent::of(&self.steps), self.repeats);
        steps.iter().enumerate().find_map(|(at, step)| {
            repeats = repeats.after(step);
            recent.push(StepMark::of(step));
            let rule = recent.find(policy).or_else(|| unbroken(repeats).filter(|_| policy.unbroken));
            rule.map(|rule| (at, rule))
        })
    }

    /// Judges argument churn (LD-6 d) once `steps` are added.
    pub(crate) fn judge_churn(&self, steps: &[Step]) -> Judgement<ChurnFinding> {
        let mut churn = self.churn;
        let counts = steps.iter().map(|step| {
            churn = churn.after(step);
            churn.count
        });
        let worst = counts.max();
        let finding = ChurnFinding { failures: worst.unwrap_or(self.churn.count), max: CHURN };
        Judgement::stop_if(worst.is_some_and(|count| count >= CHURN), finding)
    }

    /// Remembers steps that were let through.
    pub(crate) fn remember(&mut self, steps: &[Step], window: usize) {
        for step in steps {
            self.repeats = self.repeats.after(step);
            self.churn = self.churn.after(step);
            push_bounded(&mut self.steps, StepMark::of(step), steps_kept(window));
        }
    }

    /// Forgets what a smaller window has no room for.
    pub(crate) fn shrink(&mut self, window: usize) {
        self.steps.drain(..self.steps.len().saturating_sub(steps_kept(window)));
    }

    /// How many steps are remembered.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// The steps, newest first.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &StepMark> {
        self.steps.iter().rev()
    }
}

fn unbroken(repeats: Repeats) -> Option<Repetition> {
    (repeats.count >= UNBROKEN).then_some(Repetition::Unbroken { repeats: repeats.count })
}

/// As many steps as the window has requests, and no fewer than LD-6 looks at.
fn steps_kept(window: usize) -> usize {
    window.max(STEPS_WINDOW)
}

/// The last [`STEPS_WINDOW`] steps, oldest first.
struct Recent {
    steps: [StepMark; STEPS_WINDOW],
    len: usize,
}

impl Recent {
    fn of(before: &VecDeque<StepMark>) -> Recent {
        let mut recent = Recent { steps: [StepMark::default(); STEPS_WINDOW], len: 0 };
        let skip = before.len().saturating_sub(STEPS_WINDOW);
        for step in before.range(skip..) {
            recent.steps[recent.len] = *step;
            recent.len += 1;
        }
        recent
    }

    fn push(&mut self, step: StepMark) {
        if self.len == STEPS_WINDOW {
            self.steps.copy_within(1.., 0);
            self.len -= 1;
        }
        self.steps[self.len] = step;
        self.len += 1;
    }

    fn all(&self) -> &[StepMark] {
        &self.steps[..self.len]
    }

    /// The rule of LD-6 a or b that holds, of those that are on.
    fn find(&self, policy: &LoopPolicy) -> Option<Repetition> {
        let back_to_back = self.back_to_back().filter(|_| policy.back_to_back);
        back_to_back.or_else(|| self.within_window().filter(|_| policy.within_window))
    }

    fn back_to_back(&self) -> Option<Repetition> {
        (1..=PERIOD_MAX).find_map(|period| {
            let repeats = self.blocks(period);
            let needed = if period == 1 { BACK_TO_BACK } else { BLOCKS };
            (repeats >= needed)
                .then_some(Repetition::BackToBack { period: period as u8, repeats: repeats as u16 })
        })
    }

    /// How many whole blocks of `period` steps stand back to back at the end, all equal.
    fn blocks(&self, period: usize) -> usize {
        let steps = self.all();
        let equal = (period..steps.len()).rev().take_while(|at| steps[*at] == steps[at - period]).count();
        if steps.len() < period { 0 } else { equal / period + 1 }
    }

    fn within_window(&self) -> Option<Repetition> {
        let newest = self.all().last()?;
        let repeats = self.all().iter().filter(|s| *s == newest).count();
        (repeats >= WITHIN_WINDOW).then_some(Repetition::WithinWindow { repeats: repeats as u16 })
    }
}
