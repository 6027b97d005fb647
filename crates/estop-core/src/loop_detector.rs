//! The loop score (LD-1): similar prompts × 1.0 + similar answers × 2.0 + repeated calls × 1.5, in tenths.

pub mod chant;
pub(crate) mod explain;
mod novelty;
pub mod progress;
pub mod repetition;
pub(crate) mod step;
pub(crate) mod window;

use serde::Serialize;

use crate::fingerprint::StepFingerprint;
use crate::fingerprint::features::Features;
use crate::fingerprint::simhash::SimHash;
use crate::ids::{Hash64, Name};
use crate::judgement::Judgement;
use crate::policy::{LoopPolicy, LoopScore, Profile};
use crate::time::Millis;
use progress::Stretch;
use repetition::{Repetition, Track};
use step::{Step, StepMark};
use window::{Conversation, Entry};

const PROMPT_TENTHS: u32 = 10;
const RESPONSE_TENTHS: u32 = 20;
const CALL_TENTHS: u32 = 15;

/// The score of a request against its conversation's window, and what LD-6 a–c say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LoopFinding {
    /// In tenths: 105 is 10.5.
    pub score: u32,
    /// May not be exceeded, in tenths.
    pub max: u16,
    /// Earlier prompts like this one.
    pub prompts: u16,
    /// Earlier answers like the latest.
    pub responses: u16,
    /// Earlier calls equal to the newest, result included.
    pub calls: u16,
    /// Requests that were compared.
    pub window: u16,
    /// An LD-6 rule that holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repetition: Option<Repetition>,
    /// How long nothing new has happened; `None` where the literal score does not ask.
    #[serde(skip_serializing_if = "is_fresh")]
    pub stretch: Option<Stretch>,
    /// What the other score says at this moment; only where this one finds a loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<OtherScore>,
}

/// What the score that does not decide says (LD-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OtherScore {
    /// Which one it is.
    pub counts: LoopScore,
    /// In tenths.
    pub score: u32,
    /// Whether it finds a loop, too.
    pub is_loop: bool,
}

/// The newest step brought news: nothing worth writing down.
fn is_fresh(stretch: &Option<Stretch>) -> bool {
    stretch.is_none_or(|stretch| stretch.steps == 0)
}

impl LoopFinding {
    /// Whether it is a loop.
    pub fn is_loop(&self) -> bool {
        self.score > u32::from(self.max) || self.repetition.is_some()
    }
}

impl std::fmt::Display for LoopFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(repetition) = self.repetition {
            return write!(f, "Loop: {repetition}");
        }
        write!(
            f,
            "Loop score {}.{}, limit {}.{} ({}, {} and {} in the last {} requests).",
            self.score / 10,
            self.score % 10,
            self.max / 10,
            self.max % 10,
            counted(self.prompts, "similar prompt"),
            counted(self.responses, "similar answer"),
            counted(self.calls, "repeated call"),
            self.window,
        )
    }
}

/// `1 similar prompt`, `2 similar prompts`.
fn counted(count: impl Into<u64>, one: &str) -> String {
    let count = count.into();
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// What is judged before it is remembered: a request, or a step that a hook saw end.
pub(crate) struct Observed<'a> {
    pub(crate) now: Millis,
    /// The person's ask, if it is a new one.
    pub(crate) asked: Option<SimHash>,
    /// What a person said after the results.
    pub(crate) asked_words: Option<&'a Features>,
    /// What the steps serve.
    pub(crate) ask: Hash64,
    /// The steps it brings, and where they come from, one for each.
    pub(crate) steps: &'a [Step],
    pub(crate) prints: Vec<&'a StepFingerprint>,
    /// Steps of tools that repeat on purpose.
    pub(crate) exempt: Vec<&'a StepFingerprint>,
    /// It is a request; a hook sees steps alone.
    pub(crate) is_request: bool,
    /// The agent can be told that it repeats itself (LD-9).
    pub(crate) can_nudge: bool,
}

/// Judges what was observed before it enters the window.
pub(crate) fn judge(
    conversation: Option<&Conversation>,
    observed: &Observed<'_>,
    policy: &LoopPolicy,
) -> Judgement<LoopFinding> {
    let mut finding = find(conversation, observed, policy, policy.score);
    if finding.is_loop() {
        let counts = policy.score.other();
        let other = find(conversation, observed, policy, counts);
        finding.other = Some(OtherScore { counts, score: other.score, is_loop: other.is_loop() });
    }
    Judgement::stop_if(finding.is_loop(), finding)
}

/// What one of the scores says, whichever decides.
fn find(
    conversation: Option<&Conversation>,
    observed: &Observed<'_>,
    policy: &LoopPolicy,
    score: LoopScore,
) -> LoopFinding {
    let mut finding = LoopFinding { max: policy.threshold_tenths, ..LoopFinding::default() };
    let LoopAssessment { stale, rule, stretch } = look(conversation, observed, policy, score);
    finding.repetition = rule.map(|(_, rule)| rule);
    finding.stretch = stretch;
    if let Some(c) = conversation {
        finding.window = c.entries.len() as u16;
        if policy.profile != Profile::Batch {
            finding.prompts = observed.asked.map_or(0, |prompt| similar_prompts(c, prompt, stale.requests));
            finding.responses = similar_responses(c, stale.requests);
        }
        finding.calls = repeated_calls(c, observed.steps, usize::from(policy.window_size), stale.steps);
        if finding.window == 0 && finding.repetition.is_some() {
            // Hooks bring steps and no requests.
            finding.window = c.track.len() as u16;
        }
    }
    finding.score = PROMPT_TENTHS * u32::from(finding.prompts)
        + RESPONSE_TENTHS * u32::from(finding.responses)
        + CALL_TENTHS * u32::from(finding.calls);
    finding
}

/// How much of a conversation lies behind its last news: only that counts as similar (LD-1).
#[derive(Clone, Copy)]
struct Stale {
    requests: usize,
    steps: usize,
}

/// What a look at a conversation shows.
struct LoopAssessment {
    stale: Stale,
    /// The rule that holds, with the step that completes it.
    rule: Option<(usize, Repetition)>,
    stretch: Option<Stretch>,
}

fn look(
    conversation: Option<&Conversation>,
    observed: &Observed<'_>,
    policy: &LoopPolicy,
    score: LoopScore,
) -> LoopAssessment {
    if score == LoopScore::Literal {
        let track = conversation.map(|c| &c.track);
        let rule = track.unwrap_or(&Track::default()).find_at(observed.steps, policy);
        return LoopAssessment {
            stale: Stale { requests: usize::MAX, steps: usize::MAX },
            rule,
            stretch: None,
        };
    }
    let mut progress = conversation.map(Conversation::progress).unwrap_or_default();
    let standing = progress.observe(observed, policy);
    // This request is one of them.
    let requests = usize::from(progress.stale_requests).saturating_sub(usize::from(observed.is_request));
    let steps = progress.stale_steps().saturating_sub(observed.prints.len());
    LoopAssessment { stale: Stale { requests, steps }, rule: standing.found, stretch: Some(standing.stretch) }
}

/// A request that continues a prompt with tool results is not one more prompt (FP-3).
fn similar_prompts(c: &Conversation, prompt: SimHash, stale: usize) -> u16 {
    let since = c.entries.iter().rev().take(stale);
    since.filter_map(Entry::prompt).filter(|p| p.is_similar(prompt)).count() as u16
}

/// The latest answer against the ones before it. A latest answer without text is like nothing.
fn similar_responses(c: &Conversation, stale: usize) -> u16 {
    let mut newest_first = c.entries.iter().rev().take(stale);
    let Some(latest) = newest_first.next().and_then(Entry::response) else { return 0 };
    newest_first.filter_map(Entry::response).filter(|r| r.is_similar(latest)).count() as u16
}

/// Of the steps this request brings, the one most often done before with the same result.
fn repeated_calls(c: &Conversation, steps: &[Step], window: usize, stale: usize) -> u16 {
    let earlier =
        |step: &Step| c.steps_in_window(window).take(stale).filter(|s| s.repeats(step)).count() as u16;
    // What an agent says counts as its answer, not as a call too.
    steps.iter().filter(|s| s.is_call).map(earlier).max().unwrap_or(0)
}

/// One remembered request, or one step that a hook saw, that is part of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MatchedEntry {
    /// How many requests (or steps) back.
    pub back: u16,
    /// How long ago; steps that hooks saw have no time of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ago_ms: Option<u64>,
    /// Its prompt was similar.
    pub prompt: bool,
    /// Its answer was similar to the latest.
    pub response: bool,
    /// A step it brought was repeated.
    pub step: bool,
}

/// What speaks for a loop (LD-3).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LoopEvidence {
    /// The tool whose call completed the repetition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<Name>,
    /// Entries that matched, newest first.
    pub matched: Vec<MatchedEntry>,
}

/// The remembered requests that speak for a loop; where hooks alone saw the steps, those steps.
pub(crate) fn evidence(c: &Conversation, observed: &Observed<'_>, policy: &LoopPolicy) -> LoopEvidence {
    let Observed { now, asked, steps, .. } = *observed;
    let LoopAssessment { rule, .. } = look(Some(c), observed, policy, policy.score);
    let hit = rule.map_or(steps.len().saturating_sub(1), |(at, _)| at);
    let tool = observed.prints.get(hit).map(|step| step.tool.clone()).filter(|tool| !tool.is_empty());
    let takes_part = |back: usize, mark: &StepMark| match rule {
        // Steps of the same request before the one that completed it stand in between.
        Some((at, rule)) => rule.takes_part(back + at, mark, &steps[at]),
        None => steps.iter().any(|step| mark.repeats(step)),
    };
    let mut marks = c.track.newest_first().enumerate().map(|(at, mark)| takes_part(at + 1, mark));
    if c.entries.is_empty() {
        let by_hook = |(at, takes_part): (usize, bool)| {
            let entry = MatchedEntry {
                back: at as u16 + 1,
                ago_ms: None,
                prompt: false,
                response: false,
                step: true,
            };
            takes_part.then_some(entry)
        };
        return LoopEvidence { tool, matched: marks.enumerate().filter_map(by_hook).collect() };
    }
    let latest = c.entries.back().and_then(Entry::response);
    let mut matched = Vec::new();
    for (at, entry) in c.entries.iter().rev().enumerate() {
        // Every mark of the entry is passed over, also after one that takes part.
        let repeated =
            marks.by_ref().take(usize::from(entry.steps)).filter(|takes_part| *takes_part).count() > 0;
        // The latest answer is what the earlier ones are compared with.
        let earlier = latest.filter(|_| at > 0);
        let found = MatchedEntry {
            back: at as u16 + 1,
            ago_ms: Some(entry.age_ms(now)),
            prompt: asked.zip(entry.prompt()).is_some_and(|(a, b)| a.is_similar(b)),
            response: earlier.zip(entry.response()).is_some_and(|(a, b)| a.is_similar(b)),
            step: repeated,
        };
        if found.prompt || found.response || found.step {
            matched.push(found);
        }
    }
    LoopEvidence { tool, matched }
}
