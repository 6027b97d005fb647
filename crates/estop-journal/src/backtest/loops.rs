//! What another window or threshold of the kill switch would have done to one agent's recorded traffic (LD-1, TW-8).
//!
//! Every run is judged for itself: a stop is noted and the traffic goes on as it was recorded, as if a person had let the
//! agent work again at once. A run that was stopped in the record is judged up to its stop: nobody knows what it would
//! have done next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use estop_core::budget::Amount;
use estop_core::decision::{Decision, Finding, Guard, Ruling};
use estop_core::engine::AgentState;
use estop_core::event::{Event, EventKind, Usage};
use estop_core::ids::{Hash64, Name, RequestId};
use estop_core::loop_detector::LoopFinding;
use estop_core::loop_detector::repetition::Repetition;
use estop_core::policy::{Mode, Modes, Policy};
use estop_core::time::Now;

use super::REFUSED_MAX;
use crate::record::Record;

/// Runs that are told apart; beyond that, stops are counted and runs are not.
const RUNS_MAX: usize = 10_000;

/// A moment at which a loop would have been stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopStop {
    /// The record.
    pub seq: u64,
    /// Wall-clock time.
    pub wall: i64,
    /// The run; `None` = a conversation without a name.
    pub run: Option<Name>,
    /// The score and its parts.
    pub finding: LoopFinding,
}

/// What would have been stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoopOutcome {
    /// Stops.
    pub stops: u64,
    /// Of these, by a rule of repetition and not by the score: no threshold changes them.
    pub by_rule: u64,
    /// Different runs and conversations that were stopped.
    pub runs: u64,
    /// How often the agent would have been told that it repeats itself (LD-9).
    pub nudges: u64,
    /// What came after the stops in the same runs.
    pub saved: Saved,
    /// The newest stops, oldest first.
    pub newest: VecDeque<LoopStop>,
}

/// What stops would have saved: the stopped request and what the same run did afterwards, until a person switched the agent on. A
/// stop switches the whole agent off, so this is the least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Requests to models.
    pub requests: u64,
    /// Calls of tools that hooks saw.
    pub tool_calls: u64,
    /// What the requests had cost.
    pub amount: Amount,
}

/// Which run something belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RunKey {
    Named(Name),
    Conversation(Hash64),
    Implicit,
}

/// Judges one agent's records by another kill switch, from the oldest on.
pub struct LoopBacktest {
    state: AgentState,
    policy: Policy,
    /// Only stops from this moment on count; what is before only fills the windows.
    since: i64,
    newest_max: usize,
    /// Runs that were stopped since the agent was last activated, each with its conversation in which that was.
    stopped: BTreeMap<RunKey, Hash64>,
    /// Runs that were stopped, and whether they brought anything new afterwards.
    runs: BTreeMap<RunKey, bool>,
    /// Requests of stopped runs whose cost is awaited.
    awaited: BTreeSet<RequestId>,
    outcome: LoopOutcome,
}

impl LoopBacktest {
    /// By the loop rules of `policy`, from `since` on (wall-clock milliseconds), with at most `newest_max` stops listed.
    pub fn new(mut policy: Policy, since: i64, newest_max: usize) -> LoopBacktest {
        policy.modes = only_loops();
        LoopBacktest {
            state: AgentState::default(),
            policy,
            since,
            newest_max,
            stopped: BTreeMap::new(),
            runs: BTreeMap::new(),
            awaited: BTreeSet::new(),
            outcome: LoopOutcome::default(),
        }
    }

    /// Takes the agent's next record in. Says whether a loop would have been stopped there.
    pub fn feed(&mut self, record: &Record<'_>) -> Option<LoopStop> {
        let event = record.event.as_ref()?;
        match refusal(record.decision) {
            // It was judged on its way in and never ran: it is judged here, and leaves no trace.
            Refusal::ByLoop => {
                let decision = self.state.clone().handle(record.now, event, &self.policy);
                self.note(record, event, &decision)
            }
            // What is refused by others never ran, and says nothing about loops. A stream that is cut did run.
            Refusal::ByOthers if !matches!(event.what, EventKind::StreamProgressed(_)) => None,
            Refusal::ByOthers | Refusal::None => {
                let decision = self.state.handle(record.now, event, &self.policy);
                let stop = self.note(record, event, &decision);
                self.note_saved(record.now, event);
                stop
            }
        }
    }

    /// What would have been stopped so far.
    pub fn outcome(&self) -> &LoopOutcome {
        &self.outcome
    }

    /// The runs that would have been stopped, and whether they brought anything new afterwards.
    pub(super) fn runs(&self) -> impl Iterator<Item = (&RunKey, bool)> {
        self.runs.iter().map(|(run, recovered)| (run, *recovered))
    }

    /// Whether a run brought anything new after it would have been stopped.
    pub(super) fn recovered(&self, run: &RunKey) -> bool {
        self.runs.get(run).copied().unwrap_or(false)
    }

    fn note(&mut self, record: &Record<'_>, event: &Event, decision: &Decision) -> Option<LoopStop> {
        if matches!(event.what, EventKind::AgentActivated { .. }) {
            self.stopped.clear();
        }
        let (seq, now) = (record.seq, record.now);
        let verdict = decision.verdicts.get(Guard::Loop)?;
        let Finding::Loop(finding) = &verdict.finding else { return None };
        if now.wall >= self.since && finding.stretch.is_some_and(|stretch| stretch.nudge) {
            self.outcome.nudges += 1;
        }
        if verdict.ruling != Ruling::WouldStop {
            self.note_news(event, finding);
            return None;
        }
        let key = run_of(event);
        if self.stopped.len() >= RUNS_MAX || self.stopped.contains_key(&key) {
            return None;
        }
        self.stopped.insert(key.clone(), conversation_of(event));
        if now.wall < self.since {
            return None;
        }
        self.outcome.stops += 1;
        // A stretch without news is as long as the threshold allows.
        let is_stretch = matches!(finding.repetition, Some(Repetition::NothingNew { .. }));
        let by_score = finding.score > u32::from(finding.max) || is_stretch;
        self.outcome.by_rule += u64::from(!by_score);
        if self.runs.len() < RUNS_MAX {
            self.runs.insert(key, false);
            self.outcome.runs = self.runs.len() as u64;
        }
        let stop = LoopStop { seq, wall: now.wall, run: event.run.clone(), finding: *finding };
        self.outcome.newest.push_back(stop.clone());
        if self.outcome.newest.len() > self.newest_max {
            self.outcome.newest.pop_front();
        }
        Some(stop)
    }

    /// Notes that a stopped run went on and brought something new.
    fn note_news(&mut self, event: &Event, finding: &LoopFinding) {
        if self.stopped.is_empty() || finding.stretch.is_none_or(|stretch| stretch.steps > 0) {
            return;
        }
        let key = run_of(event);
        if self.stopped.get(&key) == Some(&conversation_of(event))
            && let Some(recovered) = self.runs.get_mut(&key)
        {
            *recovered = true;
        }
    }

    /// Counts what a run did after its stop.
    fn note_saved(&mut self, now: Now, event: &Event) {
        if let EventKind::ResponseCompleted(r) = &event.what {
            self.book(r.request, r.usage);
        }
        if let EventKind::StreamAborted(a) = &event.what {
            self.book(a.request, a.usage);
        }
        if self.stopped.is_empty() || now.wall < self.since || !self.stopped.contains_key(&run_of(event)) {
            return;
        }
        if let EventKind::RequestReceived(r) = &event.what {
            self.outcome.saved.requests += 1;
            self.awaited.insert(r.request);
            if self.awaited.len() > REFUSED_MAX {
                self.awaited.pop_first();
            }
        }
        self.outcome.saved.tool_calls += u64::from(matches!(event.what, EventKind::ToolRequested(_)));
    }

    fn book(&mut self, request: RequestId, usage: Usage) {
        if self.awaited.remove(&request) {
            self.outcome.saved.amount = self.outcome.saved.amount.plus(usage.into());
        }
    }
}

/// The other guards did their work when this was recorded.
fn only_loops() -> Modes {
    let mut modes = Modes::all(Mode::Off);
    modes[Guard::Loop] = Mode::Shadow;
    modes
}

/// Whether something was refused when it was recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    None,
    ByLoop,
    ByOthers,
}

pub(super) fn refusal(decision: &str) -> Refusal {
    match decision.strip_prefix(r#"{"outcome":{"refuse":{"by":""#) {
        Some(by) if by.starts_with(r#"loop""#) => Refusal::ByLoop,
        Some(_) => Refusal::ByOthers,
        None => Refusal::None,
    }
}

pub(super) fn run_of(event: &Event) -> RunKey {
    match (&event.run, &event.what) {
        (Some(run), _) => RunKey::Named(run.clone()),
        (None, EventKind::RequestReceived(request)) => RunKey::Conversation(request.print.conversation),
        (None, _) => RunKey::Implicit,
    }
}

/// The conversation that was judged; hooks see one of their own.
fn conversation_of(event: &Event) -> Hash64 {
    if let EventKind::RequestReceived(request) = &event.what { request.print.conversation } else { Hash64(0) }
}
