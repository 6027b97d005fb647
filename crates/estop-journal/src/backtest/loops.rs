//! What another window or threshold of the kill switch would have done to one agent's recorded traffic (LD-1, TW-8).
//!
//! Every run is judged for itself: a stop is noted and the traffic goes on as it was recorded, as if a person had let the
//! agent work again at once. A run that was stopped in the record is judged up to its stop: nobody knows what it would
//! have done next.

use std::collections::{BTreeSet, VecDeque};

use estop_core::decision::{Decision, Finding, Guard, Ruling};
use estop_core::engine::AgentState;
use estop_core::event::{Event, EventKind};
use estop_core::ids::{Hash64, Name};
use estop_core::loop_detector::LoopFinding;
use estop_core::loop_detector::repetition::Repetition;
use estop_core::policy::{Mode, Modes, Policy};
use estop_core::time::Now;

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
    /// The newest stops, oldest first.
    pub newest: VecDeque<LoopStop>,
}

/// Which run something belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RunKey {
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
    /// Runs that were stopped since the agent was last activated.
    stopped: BTreeSet<RunKey>,
    /// Runs that were stopped.
    runs: BTreeSet<RunKey>,
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
            stopped: BTreeSet::new(),
            runs: BTreeSet::new(),
            outcome: LoopOutcome::default(),
        }
    }

    /// Takes the agent's next record in.
    pub fn feed(&mut self, record: &Record<'_>) {
        let Some(event) = &record.event else { return };
        let (seq, now) = (record.seq, record.now);
        match refusal(record.decision) {
            // It was judged on its way in and never ran: it is judged here, and leaves no trace.
            Refusal::ByLoop => {
                let decision = self.state.clone().handle(now, event, &self.policy);
                self.note(seq, now, event, &decision);
            }
            // What is refused by others never ran, and says nothing about loops. A stream that is cut did run.
            Refusal::ByOthers if !matches!(event.what, EventKind::StreamProgressed(_)) => {}
            Refusal::ByOthers | Refusal::None => {
                let decision = self.state.handle(now, event, &self.policy);
                self.note(seq, now, event, &decision);
            }
        }
    }

    /// What would have been stopped so far.
    pub fn outcome(&self) -> &LoopOutcome {
        &self.outcome
    }

    fn note(&mut self, seq: u64, now: Now, event: &Event, decision: &Decision) {
        if matches!(event.what, EventKind::AgentActivated { .. }) {
            self.stopped.clear();
        }
        let Some(verdict) = decision.verdicts.get(Guard::Loop) else { return };
        let (Ruling::WouldStop, Finding::Loop(finding)) = (verdict.ruling, &verdict.finding) else { return };
        let key = run_of(event);
        if self.stopped.len() >= RUNS_MAX || !self.stopped.insert(key.clone()) || now.wall < self.since {
            return;
        }
        self.outcome.stops += 1;
        // A stretch without news is as long as the threshold allows.
        let is_stretch = matches!(finding.repetition, Some(Repetition::NothingNew { .. }));
        let by_score = finding.score > u32::from(finding.max) || is_stretch;
        self.outcome.by_rule += u64::from(!by_score);
        if self.runs.len() < RUNS_MAX {
            self.runs.insert(key);
            self.outcome.runs = self.runs.len() as u64;
        }
        let stop = LoopStop { seq, wall: now.wall, run: event.run.clone(), finding: *finding };
        self.outcome.newest.push_back(stop);
        if self.outcome.newest.len() > self.newest_max {
            self.outcome.newest.pop_front();
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
enum Refusal {
    None,
    ByLoop,
    ByOthers,
}

fn refusal(decision: &str) -> Refusal {
    match decision.strip_prefix(r#"{"outcome":{"refuse":{"by":""#) {
        Some(by) if by.starts_with(r#"loop""#) => Refusal::ByLoop,
        Some(_) => Refusal::ByOthers,
        None => Refusal::None,
    }
}

fn run_of(event: &Event) -> RunKey {
    match (&event.run, &event.what) {
        (Some(run), _) => RunKey::Named(run.clone()),
        (None, EventKind::RequestReceived(request)) => RunKey::Conversation(request.print.conversation),
        (None, _) => RunKey::Implicit,
    }
}
