//! Progress (LD-8): whether an agent's steps bring anything that its conversation has not seen.
//!
//! Each step has a novelty from 0 to 100: of its call, if it was not made before; of its result, by the words that are new;
//! of what was said and replied, where the agent only talks. Steps without news add to a score, steps with news take from
//! it; a pause makes them count less. All of it in whole numbers and bounded memory: some 3 kB for a conversation.

use serde::{Deserialize, Serialize};

use crate::fingerprint::StepFingerprint;
use crate::fingerprint::features::{Features, is_number};
use crate::fingerprint::result_kind::ResultKind;
use crate::fingerprint::signature::{mix, text};
use crate::fingerprint::step_words::{StepKind, StepWords};
use crate::ids::Hash64;
use crate::loop_detector::Observed;
use crate::loop_detector::repetition::Repetition;
use crate::policy::{LoopPolicy, Profile};
use crate::ring::Ring;
use crate::time::Millis;

/// Words of results that are remembered. Measured: at half, nothing changes; a quarter forgets within a long cycle.
const SEEN: usize = 512;
/// Words of answers, and of replies.
const SAID: usize = 256;
/// Actions, each with the number of its step.
const ACTIONS: usize = 64;
/// Answers of tools that were the same for different inputs.
const ACKNOWLEDGED: usize = 32;
/// Steps that blocks are looked for in.
const STEPS: usize = 20;

/// So many new words are news in full.
const NEW_WORDS: usize = 3;
/// A result with so many words says something: if none is new, it was read before.
const INFORMATIVE: usize = 64;
/// A longer one is no acknowledgement.
const ACKNOWLEDGEMENT_MAX: usize = 32;
/// What a new call is worth that failed, or brought back only what was known, in hundredths.
const WORTH_IF_FAILED: u32 = 10;
const WORTH_IF_EMPTY: u32 = 12;
const WORTH_IN_TEXT: u32 = 15;
/// How much the share of new words in what was said counts, in hundredths; and in a reply.
const SAID_WEIGHT: usize = 100;
const REPLY_WEIGHT: usize = 300;
/// The same of a long text that is written with a call: a fifth of it anew is news in full.
const WRITTEN_WEIGHT: usize = 500;
/// What it is worth that the result of a call that was made before moved, in its numbers alone.
const MOVED: u32 = 40;
/// So many times in a row; after that it is a clock, or a counter of the agent's own steps.
const MOVES: u8 = 12;
/// What another failure is worth at most.
const ANOTHER_FAILURE: u32 = 50;
/// The same failure of the same check so often, without news, is usual; after that, what is done in between is worth less.
const FUTILE: u8 = 2;
/// A novelty from here on is news.
const NEWS: u8 = 50;

/// The score that may not be reached, in thousandths: five and a half steps without any news.
const SCORE_MAX: u32 = 5_500;
/// How much of the score full news take away, in hundredths.
const FORGET: u32 = 75;
/// A pause in which somebody or something else had its turn.
const PAUSE_MS: u64 = 40_000;
/// What a step without news counts after such a pause since it was last made, in hundredths; and after a wait on purpose.
const AFTER_PAUSE: u8 = 5;
const AFTER_WAIT: u8 = 20;

/// The same step this often back to back, or a block of 2–4 steps.
const BACK_TO_BACK: usize = 5;
const BLOCKS: usize = 4;
const PERIOD_MAX: usize = 4;
/// The same step this often within [`STEPS`].
const WITHIN_WINDOW: usize = 5;
/// The mean novelty up to which a stretch is without progress.
const STALE: usize = 15;

/// What a conversation has seen, and how long it has not seen anything new.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Progress {
    seen: Ring<u16, SEEN>,
    said: Ring<u16, SAID>,
    replied: Ring<u16, SAID>,
    actions: Ring<Made, ACTIONS>,
    acknowledged: Ring<(u32, u32), ACKNOWLEDGED>,
    steps: Ring<Mark, STEPS>,
    /// Steps so far.
    count: u32,
    /// The step before which there was a pause, and the last wait on purpose; 0 = none.
    paused: u32,
    waited: u32,
    /// When something last happened; 0 = nothing did.
    last: Millis,
    score: u32,
    /// How often a check failed as before since the last news.
    futile: u8,
    /// How often numbers alone moved since the last news.
    moved: u8,
    /// Steps since the last news, and how many of them failed.
    stale: u16,
    failed: u16,
    /// Requests and steps since the last news, pause or wait: what is similar among them counts (LD-1).
    pub(crate) stale_requests: u16,
    stale_steps: u16,
}

/// An action that was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Made {
    action: u32,
    /// What came of it.
    result: u32,
    /// The number of its step.
    count: u32,
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
    /// What the newest step brought, from 0 (nothing new) to 100; `None` if there was no step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub novelty: Option<u8>,
    /// How much the newest step counts, in hundredths: less after a pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<u8>,
    /// How far it is to a stop: 100 stops.
    pub percent: u16,
}

impl Progress {
    /// Of a conversation that had so many requests before anything was looked at.
    pub(crate) fn after(requests: usize) -> Box<Progress> {
        let stale_requests = u16::try_from(requests).unwrap_or(u16::MAX);
        Box::new(Progress { stale_requests, ..Progress::default() })
    }

    /// Takes in what was observed. Says where the conversation stands now, and with which step a loop is complete.
    pub(crate) fn observe(&mut self, observed: &Observed<'_>, policy: &LoopPolicy) -> Standing {
        self.passes(observed.now);
        self.stale_requests = self.stale_requests.saturating_add(u16::from(observed.is_request));
        let marks = observed.prints.iter().filter_map(|step| self.step(step, observed.ask, policy));
        // Calls made at once were chosen before the result of any was known: together they are one step on the way.
        let newest = marks.max_by_key(|mark| mark.novelty);
        let found = newest.and_then(|mark| {
            self.weigh(mark);
            self.find(mark, policy).map(|rule| (observed.prints.len() - 1, rule))
        });
        if let Some(asked) = observed.asked_words
            && percent(new_of(&mut self.replied, asked).all(), asked.len(), REPLY_WEIGHT) >= NEWS
        {
            self.person();
        }
        Standing { found, stretch: self.stretch(newest) }
    }

    fn stretch(&self, newest: Option<Mark>) -> Stretch {
        Stretch {
            steps: self.stale,
            failures: self.failed,
            novelty: newest.map(|mark| mark.novelty),
            pace: newest.map(|mark| mark.pace),
            percent: (self.score * 100 / SCORE_MAX) as u16,
        }
    }

    /// A person said something.
    pub(crate) fn person(&mut self) {
        self.score /= 4;
        self.news();
    }

    /// Its model answered: what follows is the time of its tools, of a person or of a timer.
    pub(crate) fn answered(&mut self, now: Millis) {
        self.last = now;
    }

    fn news(&mut self) {
        (self.stale, self.failed, self.moved) = (0, 0, 0);
        self.begin_stretch();
    }

    fn begin_stretch(&mut self) {
        (self.stale_requests, self.stale_steps) = (0, 0);
    }

    /// An answer that is unlike all before it is news for those who only ask.
    pub(crate) fn answered_anew(&mut self) {
        self.stale_requests = 0;
    }

    /// Steps since the last news, pause or wait.
    pub(crate) fn stale_steps(&self) -> usize {
        usize::from(self.stale_steps)
    }

    /// Time passes. A pause makes what was before it count less.
    fn passes(&mut self, now: Millis) {
        if self.last != Millis(0) && now.since(self.last) > PAUSE_MS {
            self.paused = self.count.saturating_add(1);
            self.score /= 4;
            self.begin_stretch();
        }
        self.last = now;
    }

    /// Remembers a step. `None` if it says nothing about progress.
    fn step(&mut self, step: &StepFingerprint, ask: Hash64, policy: &LoopPolicy) -> Option<Mark> {
        self.count = self.count.saturating_add(1);
        let talks =
            !step.words.said.is_empty() && (step.tool.is_empty() || step.words.kind == StepKind::Plan);
        if talks && step.tool.is_empty() && policy.profile == Profile::Batch {
            return None;
        }
        let made = Made { action: step.action.0 as u32, result: result_of(step), count: self.count };
        let same = || self.actions.iter().rev().filter(|before| before.action == made.action);
        let before = same().next().map(|before| before.count);
        let known = match before {
            None => Known::Nothing,
            Some(_) if same().next().is_some_and(|before| before.result == made.result) => Known::Latest,
            Some(_) if same().any(|before| before.result == made.result) => Known::Result,
            Some(_) => Known::Action,
        };
        let novelty = if talks { self.novelty_of_talk(step) } else { self.novelty_of_call(step, known) };
        if step.words.kind == StepKind::Wait && step.words.result_kind == ResultKind::Content {
            self.waited = self.count;
            self.score = self.score / 4 * 3;
            self.begin_stretch();
        }
        let since = before.unwrap_or(self.count - 1);
        let pace = match () {
            () if self.paused > since => AFTER_PAUSE,
            () if self.waited > since => AFTER_WAIT,
            () => 100,
        };
        self.actions.push(made);
        if before.is_none() || novelty > STALE as u8 {
            // An answer to what was not done before is no answer given again.
            self.stale_requests = 0;
        }
        if novelty >= NEWS {
            self.news();
        } else {
            self.stale = self.stale.saturating_add(1);
            self.stale_steps = self.stale_steps.saturating_add(1);
            self.failed =
                self.failed.saturating_add(u16::from(step.words.result_kind != ResultKind::Content));
        }
        let serves = if step.tool.is_empty() { Hash64(0) } else { ask };
        let signature = mix(&[step.action, Hash64(u64::from(made.result)), serves]).0 as u32;
        let mark = Mark { signature, novelty, pace };
        self.steps.push(mark);
        Some(mark)
    }

    /// Adds the lack of news to the score, and takes the news from it. It stays below what makes a loop twice over, so that
    /// full news always end one.
    fn weigh(&mut self, mark: Mark) {
        let (novelty, score) = (u32::from(mark.novelty.min(100)), self.score.min(2 * SCORE_MAX));
        let lack = 100 - novelty;
        let left = score * (100 - FORGET * novelty / 100) / 100;
        self.score = (left + lack * lack * u32::from(mark.pace) / 1_000).min(2 * SCORE_MAX);
    }

    fn novelty_of_talk(&mut self, step: &StepFingerprint) -> u8 {
        let (said, reply) = (&step.words.said, &step.words.result);
        let said = percent(new_of(&mut self.said, said).all(), said.len(), SAID_WEIGHT);
        let reply = percent(new_of(&mut self.replied, reply).all(), reply.len(), REPLY_WEIGHT);
        said.max(reply)
    }

    fn novelty_of_call(&mut self, step: &StepFingerprint, known: Known) -> u8 {
        let is_new = known == Known::Nothing;
        let StepWords { result, said, result_kind, kind, .. } = &step.words;
        let new = new_of(&mut self.seen, result);
        let of_result = match result_kind {
            // A long result may have changed where none of its words are remembered.
            ResultKind::Content if new.words == 0 && known == Known::Action => self.worth_of_motion(),
            ResultKind::Content if known >= Known::Result => share(new.words, NEW_WORDS),
            ResultKind::Content => share(new.all(), NEW_WORDS),
            // A failure is another one if much of it is.
            ResultKind::Nothing | ResultKind::Failure => {
                share(new.words, NEW_WORDS.max(result.len() / 6)).min(ANOTHER_FAILURE)
            }
        };
        let of_call = if is_new { self.novelty_of_arguments(said) } else { 0 };
        let of_call = match result_kind {
            ResultKind::Content => of_call * self.worth_of_silence() / 100,
            // An action in text changes something and checks it at once.
            ResultKind::Nothing | ResultKind::Failure if step.tool.is_empty() => {
                of_call * WORTH_IN_TEXT / 100
            }
            ResultKind::Nothing => of_call * WORTH_IF_EMPTY / 100,
            ResultKind::Failure => of_call * WORTH_IF_FAILED / 100,
        };
        self.futile = match known {
            Known::Latest if *result_kind == ResultKind::Failure && *kind == StepKind::Act => {
                self.futile.saturating_add(1)
            }
            Known::Nothing | Known::Latest if of_result < u32::from(NEWS) => self.futile,
            Known::Nothing | Known::Action | Known::Result | Known::Latest => 0,
        };
        of_call.max(of_result).min(100) as u8
    }

    /// A call that was not made before is new in full, unless it writes a long text that was written before.
    fn novelty_of_arguments(&mut self, said: &Features) -> u32 {
        if said.is_empty() {
            return 100;
        }
        u32::from(percent(new_of(&mut self.said, said).all(), said.len(), WRITTEN_WEIGHT))
    }

    /// What it is worth that the result of a call that was made before moved, in its numbers alone: less and less.
    fn worth_of_motion(&mut self) -> u32 {
        self.moved = self.moved.saturating_add(1);
        if self.moved <= MOVES { MOVED } else { WORTH_IF_FAILED }
    }

    /// What a new call is worth that only says it is done, while a check fails the same way again and again.
    fn worth_of_silence(&self) -> u32 {
        100_u32.saturating_sub(30 * u32::from(self.futile.saturating_sub(FUTILE))).max(WORTH_IF_FAILED)
    }

    /// Whether the tool says the same whatever it is asked: then only the call tells what is new.
    fn is_acknowledgement(&mut self, step: &StepFingerprint) -> bool {
        let words = step.words.result.iter().filter(|feature| !is_number(*feature));
        let said = words.fold(text(&step.tool), |said, word| mix(&[said, Hash64(u64::from(word))])).0 as u32;
        let action = step.action.0 as u32;
        let is_short = step.words.result.len() < ACKNOWLEDGEMENT_MAX;
        let is_known =
            is_short && self.acknowledged.iter().any(|(before, other)| *before == said && *other != action);
        if !self.acknowledged.iter().any(|known| *known == (said, action)) {
            self.acknowledged.push((said, action));
        }
        is_known
    }

    /// The rule that holds after the newest step, of those that are on.
    fn find(&self, newest: Mark, policy: &LoopPolicy) -> Option<Repetition> {
        let back_to_back = || self.back_to_back().filter(|_| policy.back_to_back);
        let nothing_new = || {
            let found = self.score >= SCORE_MAX && newest.novelty < NEWS && policy.nothing_new;
            found.then_some(Repetition::NothingNew { steps: self.stale, failures: self.failed })
        };
        let within_window = || self.within_window().filter(|_| policy.within_window);
        back_to_back().or_else(nothing_new).or_else(within_window)
    }

    fn back_to_back(&self) -> Option<Repetition> {
        let steps: Vec<Mark> = self.steps.iter().copied().collect();
        (1..=PERIOD_MAX).find_map(|period| {
            let equal = (period..steps.len())
                .rev()
                .take_while(|at| steps[*at].signature == steps[at - period].signature)
                .count();
            let blocks = if steps.len() < period { 0 } else { equal / period + 1 };
            let needed = if period == 1 { BACK_TO_BACK } else { BLOCKS };
            if blocks < needed {
                return None;
            }
            let block = &steps[steps.len() - period * blocks..];
            let is_dense =
                block.iter().map(|mark| usize::from(mark.pace)).sum::<usize>() >= 99 * period * needed;
            let news: usize = block[period..].iter().map(|mark| usize::from(mark.novelty)).sum();
            (is_dense && news <= STALE * block.len())
                .then_some(Repetition::BackToBack { period: period as u8, repeats: blocks as u16 })
        })
    }

    fn within_window(&self) -> Option<Repetition> {
        let newest = self.steps.iter().next_back()?;
        let is_same = |mark: &&Mark| mark.signature == newest.signature;
        let repeats = self.steps.iter().filter(is_same).count();
        let pace: usize = self.steps.iter().filter(is_same).map(|mark| usize::from(mark.pace)).sum();
        if repeats < WITHIN_WINDOW || pace < 99 * WITHIN_WINDOW {
            return None;
        }
        let stretch: Vec<&Mark> = self.steps.iter().skip_while(|mark| !is_same(mark)).collect();
        // The first time it was new.
        let news: usize = stretch.iter().skip(1).map(|mark| usize::from(mark.novelty)).sum();
        (news <= STALE * stretch.len()).then_some(Repetition::WithinWindow { repeats: repeats as u16 })
    }
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
    let new: Vec<u16> =
        features.iter().filter(|feature| !seen.iter().any(|known| known == feature)).collect();
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

/// What came of a step: of a failure its words, whatever its numbers.
fn result_of(step: &StepFingerprint) -> u32 {
    if step.words.failure == 0 { step.result.0 as u32 } else { step.words.failure }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::{RequestFingerprint, RequestText, StepText, ended_by_text};
    use crate::loop_detector::step::steps_of;

    /// An agent that makes a step each few seconds.
    struct Agent {
        progress: Progress,
        policy: LoopPolicy,
        now: u64,
    }

    impl Agent {
        fn new() -> Agent {
            Agent { progress: Progress::default(), policy: LoopPolicy::default(), now: 1 }
        }

        /// The rule that holds after a step.
        fn step(&mut self, tool: &str, args: &str, result: &str) -> Option<Repetition> {
            self.after(5_000, tool, args, result)
        }

        fn after(&mut self, ms: u64, tool: &str, args: &str, result: &str) -> Option<Repetition> {
            self.now += ms;
            let step = StepText { tool, args, result, ended: ended_by_text(result) };
            let print = RequestFingerprint::of(&RequestText { steps: vec![step], ..RequestText::default() });
            self.observe(&print)
        }

        fn observe(&mut self, print: &RequestFingerprint) -> Option<Repetition> {
            let observed = Observed {
                now: Millis(self.now),
                asked: None,
                asked_words: None,
                ask: print.ask,
                steps: &steps_of(print, &self.policy),
                prints: print.steps.iter().collect(),
                is_request: true,
            };
            self.progress.observe(&observed, &self.policy).found.map(|(_, rule)| rule)
        }
    }

    #[test]
    fn ld_8_the_same_call_with_the_same_result_is_a_loop_at_the_fifth() {
        let mut agent = Agent::new();
        let rules: Vec<_> = (0..5).map(|_| agent.step("run", r#"{"cmd":"make"}"#, "ok, 3 targets")).collect();
        assert_eq!(rules[..4], [None; 4]);
        assert_eq!(rules[4], Some(Repetition::BackToBack { period: 1, repeats: 5 }));
    }

    #[test]
    fn ld_8_equal_answers_to_different_inputs_are_no_evidence() {
        let mut agent = Agent::new();
        for n in 0..40 {
            let args = format!(r#"{{"job":"load","partition":"2026-01-{n:02}"}}"#);
            assert_eq!(agent.step("run_job", &args, "OK"), None, "{n}");
        }
    }

    #[test]
    fn ld_8_equal_failures_of_different_inputs_are_some() {
        let mut agent = Agent::new();
        let stopped = (0..20).position(|n| {
            let args = format!(r#"{{"query":"charter of the bank, try {n}"}}"#);
            agent.step("search", &args, r#"{"results": []}"#).is_some()
        });
        assert!(stopped.is_some_and(|at| (8..12).contains(&at)), "{stopped:?}");
    }

    #[test]
    fn ld_8_news_in_between_spares_a_check_that_never_changes() {
        let mut agent = Agent::new();
        for n in 0..30 {
            let edit = format!(r#"{{"file":"src/part{n}.rs","text":"fn part{n}() {{}}"}}"#);
            assert_eq!(agent.step("edit", &edit, "done"), None);
            assert_eq!(agent.step("sh", r#"{"cmd":"cargo check"}"#, ""), None, "{n}");
        }
    }

    #[test]
    fn ld_8_a_timer_or_a_wait_in_between_is_no_loop() {
        let mut agent = Agent::new();
        for n in 0..60 {
            assert_eq!(agent.after(60_000, "check", "{}", "all 6 services are up"), None, "{n}");
        }
        let mut agent = Agent::new();
        for n in 0..12 {
            assert_eq!(agent.step("sh", r#"{"cmd":"sleep 20; kubectl get pods"}"#, "0/3 ready"), None, "{n}");
        }
    }

    #[test]
    fn ld_8_reading_again_what_was_read_is_nothing_new() {
        let lines: Vec<String> =
            (0..60u64).map(|n| format!("let value{n} = compute_{}(input);", n * n % 97)).collect();
        let mut agent = Agent::new();
        let whole = lines.join("\n");
        assert_eq!(agent.step("read", r#"{"file":"a.rs"}"#, &whole), None);
        let stopped = (0..40).position(|n| {
            let from = n * 7 % 40;
            let args = format!(r#"{{"file":"a.rs","offset":{from}}}"#);
            agent.step("read", &args, &lines[from..from + 12].join("\n")).is_some()
        });
        assert!(stopped.is_some(), "other ranges of a file that was read whole");
    }

    #[test]
    fn ld_8_thousands_of_equal_steps_in_shadow_end_with_the_first_news() {
        for wild in [0, u32::MAX] {
            let mut agent = Agent::new();
            agent.progress.score = wild;
            let last = (0..3_000).map(|_| agent.step("get", "{}", "the same")).last();
            assert!(last.is_some_and(|rule| rule.is_some()));
            assert_eq!(agent.step("get", r#"{"of":1}"#, "entirely different words came back"), None);
        }
    }

    #[test]
    fn ld_8_calls_made_at_once_are_one_step_on_the_way() {
        let mut agent = Agent::new();
        let searches: Vec<String> = (0..12).map(|n| format!(r#"{{"pattern":"symbol{n}"}}"#)).collect();
        let step = |args| StepText { tool: "grep", args, result: "[]", ended: ended_by_text("[]") };
        let text =
            RequestText { steps: searches.iter().map(|args| step(args)).collect(), ..RequestText::default() };
        let print = RequestFingerprint::of(&text);
        assert_eq!(agent.observe(&print), None);
    }

    #[test]
    fn ld_8_a_conversation_takes_at_most_four_kilobytes() {
        assert!(size_of::<Progress>() <= 4_096, "{}", size_of::<Progress>());
    }
}
