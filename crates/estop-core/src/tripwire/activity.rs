//! ActivityEngine (TW-1..3): from what an agent does to the mode it is in.
//!
//! `Outputs` and `Tempo` belong to a conversation and give the evidence; `Activity` belongs to the agent
//! and holds the mode, with its reason and its hysteresis.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::as_list::as_list;
use crate::fingerprint::signature::mix;
use crate::fingerprint::{ResponseFingerprint, StepFingerprint};
use crate::ids::Hash64;
use crate::policy::SafetyGatePolicy;
use crate::time::Millis;

/// How much an agent consumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Intensity {
    /// Below 5,000 tokens a minute.
    Low,
    /// Between, or too few events to tell.
    Normal,
    /// Above 30,000 tokens a minute.
    High,
}

/// What an agent is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ActivityMode {
    /// Nothing for 30 s.
    #[default]
    Idle,
    /// Normal, productive flow.
    Working,
    /// The last outputs are all alike.
    Looping,
    /// Steps come ever faster.
    Runaway,
}

impl ActivityMode {
    fn is_critical(self) -> bool {
        matches!(self, ActivityMode::Looping | ActivityMode::Runaway)
    }
}

/// The state of the engine (seed 4, `ActivityState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActivityState {
    /// How much it consumes.
    pub intensity: Intensity,
    /// What it is doing.
    pub mode: ActivityMode,
    /// Since when.
    pub since: Millis,
}

impl ActivityState {
    /// Why. Never empty.
    pub fn reason(&self) -> &'static str {
        match self.mode {
            ActivityMode::Idle => "no activity for 30 s",
            ActivityMode::Working => "regular flow of steps",
            ActivityMode::Looping => "the last outputs are all alike",
            ActivityMode::Runaway => "steps come ever faster",
        }
    }
}

const IDLE_AFTER_MS: u64 = 30_000;
const HOLD_MS: u64 = 10_000;
const HOLD_CRITICAL_MS: u64 = 30_000;
/// Back into LOOPING or RUNAWAY so soon after leaving it is an unexpected flip.
const FLIP_WITHIN_MS: u64 = 60_000;
const INTENSITY_EVENTS: usize = 10;
const INTENSITY_EVENTS_MIN: usize = 3;
const LOW_BELOW: u64 = 5_000;
const HIGH_ABOVE: u64 = 30_000;

/// A change of mode that matters to health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EnteredCritical {
    /// It had only just left it.
    pub(crate) flipped: bool,
}

/// The engine's memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Activity {
    mode: ActivityMode,
    since: Millis,
    last_event: Millis,
    /// When LOOPING or RUNAWAY was last left; 0 = never.
    left_critical: Millis,
    /// Time (low bits) and tokens of the last events, newest last.
    events: [(u32, u32); INTENSITY_EVENTS],
    #[serde(deserialize_with = "at_most::<_, INTENSITY_EVENTS>")]
    count: u8,
    /// One bit for each of the last executions, newest lowest; 1 = failed.
    failures: u16,
}

impl Activity {
    /// The state, for decisions.
    pub(crate) fn state(&self) -> ActivityState {
        ActivityState { intensity: self.intensity(), mode: self.mode, since: self.since }
    }

    /// A step was made, or asks to be; evidence speaks. Entering LOOPING or RUNAWAY is immediate.
    pub(crate) fn observe(&mut self, now: Millis, looping: bool, runaway: bool) -> Option<EnteredCritical> {
        self.idle_by_clock(now);
        self.last_event = now;
        let candidate = match (runaway, looping) {
            (true, _) => ActivityMode::Runaway,
            (false, true) => ActivityMode::Looping,
            (false, false) => ActivityMode::Working,
        };
        if candidate.is_critical() && !self.mode.is_critical() {
            let flipped = self.left_critical != Millis(0) && now.since(self.left_critical) <= FLIP_WITHIN_MS;
            self.enter(candidate, now);
            return Some(EnteredCritical { flipped });
        }
        if candidate != self.mode && (self.mode == ActivityMode::Idle || now.since(self.since) >= self.hold())
        {
            self.enter(candidate, now);
        }
        None
    }

    /// Time passed: IDLE needs no event. Says whether it became so.
    pub(crate) fn idle_by_clock(&mut self, now: Millis) -> bool {
        let idles = self.mode != ActivityMode::Idle && now >= self.idle_at();
        if idles {
            self.enter(ActivityMode::Idle, self.idle_at());
        }
        idles
    }

    /// When it becomes IDLE if nothing happens; `None` if it is.
    pub(crate) fn next_change(&self) -> Option<Millis> {
        (self.mode != ActivityMode::Idle).then(|| self.idle_at())
    }

    fn idle_at(&self) -> Millis {
        self.last_event.plus(IDLE_AFTER_MS).max(self.since.plus(self.hold()))
    }

    fn hold(&self) -> u64 {
        if self.mode.is_critical() { HOLD_CRITICAL_MS } else { HOLD_MS }
    }

    fn enter(&mut self, mode: ActivityMode, now: Millis) {
        if self.mode.is_critical() {
            self.left_critical = now;
        }
        self.mode = mode;
        self.since = now;
    }

    /// An execution ended and consumed tokens (seed 4, `AgentEvent`).
    pub(crate) fn consumed(&mut self, now: Millis, new_tokens: u32, failed: bool) {
        self.last_event = now;
        self.failures = self.failures << 1 | u16::from(failed);
        if usize::from(self.count) == INTENSITY_EVENTS {
            self.events.copy_within(1.., 0);
            self.count -= 1;
        }
        self.events[usize::from(self.count)] = (now.0 as u32, new_tokens);
        self.count += 1;
    }

    /// Rolling average over the last ten events (TW-6 allows no other adaptation of intensity).
    fn intensity(&self) -> Intensity {
        let events = &self.events[..usize::from(self.count)];
        let ([first, ..], [.., last]) = (events, events) else { return Intensity::Normal };
        if events.len() < INTENSITY_EVENTS_MIN {
            return Intensity::Normal;
        }
        let tokens: u64 = events.iter().map(|(_, tokens)| u64::from(*tokens)).sum();
        let span_ms = u64::from(last.0.wrapping_sub(first.0)).max(1);
        match tokens.saturating_mul(60_000) / span_ms {
            per_minute if per_minute < LOW_BELOW => Intensity::Low,
            per_minute if per_minute > HIGH_ABOVE => Intensity::High,
            _ => Intensity::Normal,
        }
    }

    /// Whether at least half of the last ten executions failed: then outputs need be a little less alike (TW-6).
    fn is_failing(&self) -> bool {
        (self.failures & 0x3ff).count_ones() >= 5
    }

    /// The largest distance at which two outputs are alike.
    pub(crate) fn alike_up_to(&self, policy: &SafetyGatePolicy) -> u32 {
        let strict = u32::from(1000 - policy.loop_similarity_threshold.min(1000)) * 64;
        // similarity = 1 − d/64 > threshold  ⇔  d × 1000 < (1000 − threshold) × 64
        let at_most = strict.saturating_sub(1) / 1000;
        if self.is_failing() { at_most + FAILING_SLACK } else { at_most }
    }
}

/// How much less alike the outputs of a failing agent may be: 3 of 64 bits, similarity 0.86 at the default.
const FAILING_SLACK: u32 = 3;

/// The last outputs of a conversation (TW-2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outputs(VecDeque<Output>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
struct Output {
    /// SimHash of the text as it is; 0 = none.
    text: u64,
    /// Calls and, once known, their results; 0 = none.
    #[serde(default)]
    calls: u64,
}

as_list!(Output: text; calls = 0);

impl Outputs {
    pub(crate) fn push(&mut self, print: &ResponseFingerprint, window: usize) {
        let actions: Vec<Hash64> = print.calls.iter().map(|c| c.action).collect();
        let calls = if actions.is_empty() { 0 } else { mix(&actions).0 };
        let text = print.exact.map_or(0, |t| t.0);
        crate::ring::push_bounded(&mut self.0, Output { text, calls }, window);
    }

    /// The results of the latest output's calls arrived.
    pub(crate) fn add_results(&mut self, steps: &[StepFingerprint]) {
        if let Some(last) = self.0.back_mut() {
            *last = last.with_results(steps);
        }
    }

    /// Whether the latest output, with the results in `steps`, is alike with the `window` − 1 before it.
    pub(crate) fn all_alike(&self, steps: &[StepFingerprint], window: usize, up_to: u32) -> bool {
        // One output is not a row.
        let enough = window >= 2 && self.0.len() >= window;
        let Some(latest) = self.0.back().filter(|_| enough) else { return false };
        let latest = latest.with_results(steps);
        let earlier = || self.0.iter().rev().skip(1).take(window - 1);
        // The cheap test first: most outputs differ from the one before.
        earlier().all(|b| latest.is_alike(*b, up_to))
            && earlier().enumerate().all(|(at, a)| earlier().skip(at + 1).all(|b| a.is_alike(*b, up_to)))
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Output {
    fn with_results(self, steps: &[StepFingerprint]) -> Output {
        let results = steps.iter().filter(|s| !s.tool.is_empty());
        Output { calls: results.fold(self.calls, |calls, step| mix(&[Hash64(calls), step.result]).0), ..self }
    }

    fn is_alike(self, other: Output, up_to: u32) -> bool {
        let empty = self.text == 0 && self.calls == 0;
        let same_shape = (self.text == 0) == (other.text == 0);
        !empty && self.calls == other.calls && same_shape && (self.text ^ other.text).count_ones() <= up_to
    }
}

const INTERVALS: usize = 16;
/// Intervals whose mean is compared with that of the earlier ones.
const LATEST: usize = 3;
/// At least 6 events, so 5 intervals.
const INTERVALS_MIN: usize = 5;
/// Fewer than 10 events in 20 s are never a runaway.
const FAST_EVENTS: usize = 10;
const FAST_WITHIN_MS: u64 = 20_000;

/// How many places of a list of `MAX` are taken. A state may come from anybody's export.
fn at_most<'de, D: serde::Deserializer<'de>, const MAX: usize>(d: D) -> Result<u8, D::Error> {
    let count = u8::deserialize(d)?;
    if usize::from(count) > MAX {
        return Err(serde::de::Error::custom(format!("{count} of {MAX} places are taken")));
    }
    Ok(count)
}

/// The tempo of one conversation's sequential steps (TW-2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Tempo {
    /// Milliseconds between steps, oldest first; all below 30 s.
    #[serde(default)]
    intervals: [u16; INTERVALS],
    #[serde(default, deserialize_with = "at_most::<_, INTERVALS>")]
    len: u8,
    /// Intervals since the last gap.
    #[serde(default)]
    unbroken: u8,
}

as_list!(Tempo: ; intervals = [0; INTERVALS], len = 0, unbroken = 0);

impl Tempo {
    /// A sequential step came `interval_ms` after the one before it.
    pub(crate) fn step(&mut self, interval_ms: u64) {
        let Some(interval) = u16::try_from(interval_ms).ok().filter(|_| interval_ms < IDLE_AFTER_MS) else {
            self.unbroken = 0;
            return;
        };
        if usize::from(self.len) == INTERVALS {
            self.intervals.copy_within(1.., 0);
            self.len -= 1;
        }
        self.intervals[usize::from(self.len)] = interval;
        self.len += 1;
        self.unbroken = self.unbroken.saturating_add(1).min(INTERVALS as u8);
    }

    /// Whether the latest intervals shrank below `ratio` thousandths of the earlier ones.
    pub(crate) fn is_runaway(&self, ratio: u16) -> bool {
        let all = &self.intervals[..usize::from(self.len)];
        if all.len() < INTERVALS_MIN || usize::from(self.unbroken) < FAST_EVENTS - 1 {
            return false;
        }
        let sum = |part: &[u16]| part.iter().map(|i| u64::from(*i)).sum::<u64>();
        if sum(&all[all.len().saturating_sub(FAST_EVENTS - 1)..]) > FAST_WITHIN_MS {
            return false;
        }
        let (earlier, latest) = all.split_at(all.len() - LATEST);
        // mean(latest) < ratio × mean(earlier), without dividing.
        sum(latest) * earlier.len() as u64 * 1000 < u64::from(ratio) * sum(earlier) * LATEST as u64
    }

    pub(crate) fn clear(&mut self) {
        *self = Tempo::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tw_2_fewer_intervals_than_came_without_a_gap_are_no_panic() {
        let tempo = Tempo { intervals: [1; INTERVALS], len: INTERVALS_MIN as u8, unbroken: INTERVALS as u8 };
        assert!(INTERVALS_MIN < FAST_EVENTS - 1 && !tempo.is_runaway(1000));
    }
}
