//! What is remembered of one conversation (FP-6, LD-4): its last requests and answers, and the steps taken.
//!
//! A window belongs to a conversation, so that parallel sessions of one agent neither hide a loop nor make
//! one. An agent has at most [`CONVERSATIONS_MAX`] of them; the one unused for longest is forgotten first.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::as_list::as_list;
use crate::fingerprint::simhash::SimHash;
use crate::ids::Hash64;
use crate::loop_detector::Observed;
use crate::loop_detector::progress::Progress;
use crate::loop_detector::repetition::Track;
use crate::loop_detector::step::StepMark;
use crate::policy::LoopPolicy;
use crate::ring::push_bounded;
use crate::time::Millis;
use crate::tripwire::activity::{Outputs, Tempo};

/// Conversations remembered for each agent. A client with more parallel sessions than this loses the memory
/// of the least recent one; at half, wide fan-outs of sub-agents would; at double, an agent could hold 100 kB.
pub(crate) const CONVERSATIONS_MAX: usize = 64;

/// One remembered request: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Entry {
    /// 0 = there was no text.
    prompt: u64,
    /// 0 = no answer yet, or one without text.
    response: u64,
    /// Low bits of the monotonic milliseconds; only ever compared within days.
    at: u32,
    /// Low bits of the request's number, to find it again when its answer comes.
    serial: u16,
    /// A person's ask, not the continuation of one.
    asks: bool,
    /// How many steps it brought.
    #[serde(default)]
    pub(crate) steps: u8,
}

as_list!(Entry: prompt, response, at, serial, asks; steps = 0);

impl Entry {
    pub(crate) fn prompt(&self) -> Option<SimHash> {
        (self.asks && self.prompt != 0).then_some(SimHash(self.prompt))
    }

    pub(crate) fn response(&self) -> Option<SimHash> {
        (self.response != 0).then_some(SimHash(self.response))
    }

    pub(crate) fn age_ms(&self, now: Millis) -> u64 {
        u64::from((now.0 as u32).wrapping_sub(self.at))
    }
}

/// A request about to be remembered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewEntry {
    pub(crate) prompt: Option<SimHash>,
    pub(crate) asks: bool,
    pub(crate) steps: u8,
    /// What tells it from other requests of its conversation.
    pub(crate) identity: Hash64,
}

/// The memory of one conversation.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Conversation {
    pub(crate) key: Hash64,
    /// Tells conversations of one key apart, for answers that outlive theirs.
    pub(crate) serial: u32,
    /// When its last request came: the start of the interval its next one ends.
    pub(crate) last_request: Millis,
    /// Input tokens of its previous request, to know what is new in the next.
    pub(crate) input_tokens: u32,
    /// Requests under way.
    pub(crate) in_flight: u16,
    next_serial: u16,
    /// The newest request, as `RequestFingerprint::identity` tells it.
    newest: Hash64,
    /// The newest request had no answer: its provider failed.
    newest_failed: bool,
    pub(crate) entries: VecDeque<Entry>,
    /// The steps taken.
    #[serde(default)]
    pub(crate) track: Track,
    #[serde(default)]
    pub(crate) outputs: Outputs,
    #[serde(default)]
    pub(crate) tempo: Tempo,
    /// One bit for each guard in shadow that would stop and was told.
    #[serde(default)]
    pub(crate) shadow_told: u16,
    /// What it has seen; `None` before the first step.
    #[serde(default)]
    pub(crate) progress: Option<Box<Progress>>,
}

as_list!(
    Conversation: key, serial, last_request, input_tokens, in_flight, next_serial, newest, newest_failed, entries;
    track = Track::default(), outputs = Outputs::default(), tempo = Tempo::default(), shadow_told = 0, progress = None
);

impl Conversation {
    fn new(key: Hash64, serial: u32, now: Millis) -> Conversation {
        Conversation {
            key,
            serial,
            last_request: now,
            input_tokens: 0,
            in_flight: 0,
            next_serial: 0,
            newest: Hash64(0),
            newest_failed: false,
            entries: VecDeque::new(),
            track: Track::default(),
            outputs: Outputs::default(),
            tempo: Tempo::default(),
            shadow_told: 0,
            progress: None,
        }
    }

    /// Remembers a request; what is beyond the window is forgotten, first in, first out. Returns its serial.
    pub(crate) fn push_entry(&mut self, now: Millis, new: NewEntry, window: usize) -> u16 {
        let serial = self.take_serial();
        (self.newest, self.newest_failed) = (new.identity, false);
        // A SimHash of exactly 0 reads as "no text": once in 2^64 texts, and then only a repeat is missed.
        let prompt = new.prompt.map_or(0, |p| p.0);
        push_bounded(
            &mut self.entries,
            Entry { prompt, response: 0, at: now.0 as u32, serial, asks: new.asks, steps: new.steps },
            window,
        );
        serial
    }

    /// The steps that the remembered requests brought, newest first. What hooks see has no requests: there each
    /// step stands for one.
    pub(crate) fn steps_in_window(&self, window: usize) -> impl Iterator<Item = &StepMark> {
        let brought = self.entries.iter().map(|e| usize::from(e.steps)).sum();
        let count = if self.entries.is_empty() { window } else { brought };
        self.track.newest_first().take(count)
    }

    /// Whether a request is the newest one again because its provider failed: not one more ask, and nothing more was
    /// done (a provider's bad hour must not make a loop). An agent that acted on a failed answer and came to the same
    /// step says more than before: its request has grown, and is no retry.
    pub(crate) fn is_retried_by(&self, identity: Hash64, input_tokens: u32) -> bool {
        self.newest_failed && self.newest == identity && self.input_tokens == input_tokens
    }

    /// Remembers a retry in the place of what it retries: retries must not push out what was answered. Returns its
    /// serial.
    pub(crate) fn renew_entry(&mut self, now: Millis) -> u16 {
        let serial = self.take_serial();
        self.newest_failed = false;
        if let Some(newest) = self.entries.back_mut() {
            *newest = Entry { response: 0, at: now.0 as u32, serial, ..*newest };
        }
        serial
    }

    /// The provider failed this request.
    pub(crate) fn set_failed(&mut self, serial: u16) {
        if serial == self.next_serial.wrapping_sub(1) {
            self.newest_failed = true;
        }
    }

    fn take_serial(&mut self) -> u16 {
        let serial = self.next_serial;
        self.next_serial = serial.wrapping_add(1);
        serial
    }

    /// What it has seen so far.
    pub(crate) fn progress(&self) -> Box<Progress> {
        self.progress.clone().unwrap_or_else(|| Progress::after(self.entries.len()))
    }

    /// Whether the last so many answers brought no news.
    pub(crate) fn is_stale_for(&self, answers: usize) -> bool {
        let stale =
            self.progress.as_ref().map_or(self.entries.len(), |seen| usize::from(seen.stale_requests));
        stale >= answers
    }

    /// Remembers what was observed, whichever score decides: evidence shows both. A conversation's first request has nothing to
    /// be compared with.
    pub(crate) fn observe(&mut self, observed: &Observed<'_>, policy: &LoopPolicy) {
        if self.progress.is_some()
            || !observed.prints.is_empty()
            || !observed.exempt.is_empty()
            || !self.entries.is_empty()
        {
            let requests = self.entries.len();
            let progress = self.progress.get_or_insert_with(|| Progress::after(requests));
            progress.observe(observed, policy);
        }
    }

    /// An answer that asks for nothing more and is unlike all before it is news.
    pub(crate) fn note_answer(&mut self, serial: u16, response: Option<SimHash>) {
        let Some(answer) = response else { return };
        let is_other = |e: &&Entry| e.serial != serial;
        let mut before = self.entries.iter().filter(is_other).filter_map(Entry::response);
        if let Some(progress) = self.progress.as_mut().filter(|_| !before.any(|b| b.is_similar(answer))) {
            progress.answered_anew();
        }
    }

    /// Stores an answer with its request, whatever the order of completion.
    pub(crate) fn set_response(&mut self, serial: u16, response: Option<SimHash>) {
        if let Some(entry) = self.entries.iter_mut().rev().find(|e| e.serial == serial) {
            entry.response = response.map_or(0, |r| r.0);
        }
    }
}

/// All conversations of one agent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Conversations {
    list: Vec<Conversation>,
    next_serial: u32,
    #[serde(skip)]
    index: Index,
}

/// What conversations are found by, apart from them: looking for one among 64 reads some lines of memory instead of all.
/// Empty after a snapshot was read, and made anew with the next conversation that is opened.
#[derive(Clone, Debug, Default)]
struct Index {
    keys: Vec<Hash64>,
    serials: Vec<u32>,
    /// When each had its last request.
    last: Vec<Millis>,
    /// Which one was looked for last, and where it is, if it is there: a judgement asks for the same one many times.
    sought: Option<(Hash64, Option<usize>)>,
}

impl Index {
    fn put(&mut self, at: usize, of: &Conversation) {
        // Another one may have its place now.
        self.sought = None;
        if at < self.keys.len() {
            (self.keys[at], self.serials[at], self.last[at]) = (of.key, of.serial, of.last_request);
            return;
        }
        self.keys.reserve_exact(1);
        self.serials.reserve_exact(1);
        self.last.reserve_exact(1);
        self.keys.push(of.key);
        self.serials.push(of.serial);
        self.last.push(of.last_request);
    }

    fn clear(&mut self) {
        *self = Index::default();
    }
}

/// The place of a value. Eight are compared at once, as the compiler can make one instruction of it.
fn position<T: Copy + PartialEq>(list: &[T], wanted: T) -> Option<usize> {
    let (chunks, rest) = list.as_chunks::<8>();
    let in_chunk = |chunk: &[T; 8]| chunk.iter().fold(false, |any, one| any | (*one == wanted));
    let (start, few) = match chunks.iter().position(in_chunk) {
        Some(at) => (at * 8, chunks[at].as_slice()),
        None => (chunks.len() * 8, rest),
    };
    few.iter().position(|one| *one == wanted).map(|at| start + at)
}

impl Conversations {
    fn find(&self, key: Hash64) -> Option<usize> {
        if self.index.keys.len() != self.list.len() {
            return self.list.iter().position(|c| c.key == key);
        }
        match self.index.sought {
            Some((sought, at)) if sought == key => at,
            Some(_) | None => position(&self.index.keys, key),
        }
    }

    /// Looks for the conversation that will be asked for.
    pub(crate) fn seek(&mut self, key: Hash64) {
        self.index.sought = Some((key, self.find(key)));
    }

    /// The conversation, if it is remembered.
    pub(crate) fn get(&self, key: Hash64) -> Option<&Conversation> {
        self.find(key).map(|at| &self.list[at])
    }

    /// The one whose last request is the latest.
    pub(crate) fn latest(&self) -> Option<&Conversation> {
        self.list.iter().max_by_key(|c| (c.last_request, c.serial))
    }

    /// The same, to change it.
    pub(crate) fn get_mut(&mut self, key: Hash64) -> Option<&mut Conversation> {
        self.find(key).map(|at| &mut self.list[at])
    }

    /// The conversation with this serial, if it is still remembered.
    pub(crate) fn by_serial(&mut self, serial: u32) -> Option<&mut Conversation> {
        if self.index.serials.len() == self.list.len() {
            return position(&self.index.serials, serial).map(|at| &mut self.list[at]);
        }
        self.list.iter_mut().find(|c| c.serial == serial)
    }

    /// The conversation, begun if it is new: a request of it came, now.
    pub(crate) fn open(&mut self, key: Hash64, now: Millis) -> &mut Conversation {
        if self.index.keys.len() != self.list.len() {
            self.index.clear();
            self.list.iter().enumerate().for_each(|(at, c)| self.index.put(at, c));
        }
        let at = match self.find(key) {
            Some(at) => at,
            None => self.begin(key, now),
        };
        self.index.last[at] = now;
        self.index.sought = Some((key, Some(at)));
        let opened = &mut self.list[at];
        opened.last_request = now;
        opened
    }

    fn begin(&mut self, key: Hash64, now: Millis) -> usize {
        let fresh = Conversation::new(key, self.next_serial, now);
        self.next_serial = self.next_serial.wrapping_add(1);
        let at = if self.list.len() < CONVERSATIONS_MAX {
            self.list.len()
        } else {
            (0..self.list.len()).min_by_key(|at| self.index.last[*at]).unwrap_or(0)
        };
        self.index.put(at, &fresh);
        if at < self.list.len() {
            self.list[at] = fresh;
        } else {
            self.list.reserve_exact(1);
            self.list.push(fresh);
        }
        at
    }

    /// Forgets everything (LD-4: the agent was switched on again).
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.index.clear();
    }

    /// Forgets what is beyond a smaller window.
    pub(crate) fn shrink(&mut self, window: usize) {
        for c in &mut self.list {
            c.entries.drain(..c.entries.len().saturating_sub(window));
            c.track.shrink(window);
        }
    }

    /// How many are remembered.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// The longest window of all, for checks.
    pub(crate) fn longest(&self) -> usize {
        self.list.iter().map(|c| c.entries.len().max(c.track.len())).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ld_4_of_equals_the_first_is_forgotten_and_a_snapshot_finds_the_same() {
        let mut kept = Conversations::default();
        let (full, now) = (CONVERSATIONS_MAX as u64, Millis(5));
        (0..full).for_each(|key| kept.open(Hash64(key), now).input_tokens = key as u32);
        kept.open(Hash64(0), Millis(6));
        let bytes = serde_json::to_vec(&kept).expect("a snapshot");
        let mut read: Conversations = serde_json::from_slice(&bytes).expect("the same");
        for state in [&mut kept, &mut read] {
            assert_eq!(state.get(Hash64(3)).map(|c| c.input_tokens), Some(3));
            assert_eq!(state.by_serial(63).map(|c| c.key), Some(Hash64(63)));
            // All but the first are equally old: the second goes.
            state.open(Hash64(full), Millis(7));
            assert!(state.get(Hash64(1)).is_none() && state.get(Hash64(0)).is_some());
            assert_eq!(state.by_serial(64).map(|c| c.key), Some(Hash64(full)));
            assert_eq!(state.len(), CONVERSATIONS_MAX);
        }
    }

    #[test]
    fn ld_4_what_was_sought_is_found_where_it_is_now() {
        let mut state = Conversations::default();
        let full = CONVERSATIONS_MAX as u64;
        state.seek(Hash64(0));
        assert!(state.get(Hash64(0)).is_none());
        (0..full).for_each(|key| state.open(Hash64(key), Millis(key)).input_tokens = key as u32);
        let at = |state: &Conversations, key| state.get(Hash64(key)).map(|c| c.input_tokens);
        state.seek(Hash64(0));
        assert_eq!(at(&state, 0), Some(0));
        // The oldest goes, and its place is another's.
        state.open(Hash64(full), Millis(full)).input_tokens = 1_000;
        assert_eq!((at(&state, 0), at(&state, full), at(&state, 1)), (None, Some(1_000), Some(1)));
        state.seek(Hash64(0));
        state.open(Hash64(0), Millis(full + 1)).input_tokens = 2_000;
        assert_eq!((at(&state, 0), at(&state, 1)), (Some(2_000), None));
        state.seek(Hash64(2));
        state.clear();
        assert_eq!(at(&state, 2), None);
    }
}
