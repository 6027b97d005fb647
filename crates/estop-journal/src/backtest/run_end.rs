//! How recorded runs ended, as far as the journal knows: what would have been stopped is read by it.
//!
//! Nobody recorded whether a run was healthy. One that brought something new after it would have been stopped, that ended by
//! itself and that nobody stopped by hand is taken for healthy.

use std::collections::BTreeMap;

use estop_core::event::{CallKind, Ended, Event, EventKind};
use estop_core::ids::RequestId;

use super::REFUSED_MAX;
use super::loops::{Refusal, RunKey, refusal, run_of};
use crate::record::Record;

/// Runs that are followed. Of more, nobody knows how they ended.
const RUNS_MAX: usize = 10_000;
/// Who switches an agent off means what it did until then, not what it did yesterday.
const BY_HAND_MS: i64 = 600_000;

/// No rule holds before the fifth step: that shorter runs were not stopped says nothing.
const STEPS_OF_A_LOOP: u64 = 5;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunEnd {
    /// By itself: it was completed, or its last answer asks for nothing more.
    ByItself,
    /// The same, but after it would have been stopped it brought nothing new.
    WithoutNews,
    /// A person switched the agent off, or paused it, in the middle of it.
    ByHand,
    /// The loop guard stopped it.
    ByLoopGuard {
        /// And a person switched the agent on again afterwards.
        activated: bool,
    },
    /// In the middle, or nobody knows.
    Unknown,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    requests: u64,
    /// Requests, and calls that hooks saw.
    steps: u64,
    /// Something is under way, or the last answer asks for more.
    is_open: bool,
    is_escalated: bool,
    by_hand: bool,
    by_guard: bool,
    activated: bool,
    last: i64,
}

/// The runs of one agent.
#[derive(Clone, Debug, Default)]
pub(super) struct RunEnds {
    runs: BTreeMap<RunKey, Seen>,
    awaited: BTreeMap<RequestId, RunKey>,
}

impl RunEnds {
    /// Takes the agent's next record in.
    pub(super) fn feed(&mut self, record: &Record<'_>, event: &Event) {
        let wall = record.now.wall;
        let refusal = refusal(record.decision);
        match &event.what {
            EventKind::RequestReceived(r) if r.call == CallKind::Generation => {
                // What others refused never ran, and left a run in the middle that had begun.
                if refusal == Refusal::ByOthers {
                    if let Some(run) = self.runs.get_mut(&run_of(event)) {
                        run.is_open = true;
                    }
                    return;
                }
                let Some(run) = self.touch(event, wall) else { return };
                run.requests += 1;
                run.steps += 1;
                run.is_open = true;
                if refusal == Refusal::ByLoop {
                    run.stopped();
                    return;
                }
                self.awaited.insert(r.request, run_of(event));
                if self.awaited.len() > REFUSED_MAX {
                    self.awaited.pop_first();
                }
            }
            EventKind::ResponseCompleted(r) => {
                let asked = self.awaited.remove(&r.request).and_then(|run| self.runs.get_mut(&run));
                if let Some(run) = asked {
                    run.is_open = !r.print.calls.is_empty() || r.ended == Ended::Failed;
                    run.last = wall;
                }
            }
            EventKind::StreamAborted(a) => drop(self.awaited.remove(&a.request)),
            EventKind::ToolRequested(_) | EventKind::ToolFinished(_) => {
                let Some(run) = self.touch(event, wall) else { return };
                run.steps += u64::from(matches!(event.what, EventKind::ToolRequested(_)));
                run.is_open = true;
                if is_stopped_by_loop(record.decision) {
                    run.stopped();
                }
            }
            EventKind::RunSlept | EventKind::RunCompleted => {
                let Some(run) = self.touch(event, wall) else { return };
                run.is_open = false;
                run.is_escalated |= record.decision.contains(r#"{"run_escalated":"#);
            }
            EventKind::AgentDeactivated { .. } | EventKind::AgentPaused { .. } => {
                let cut = |run: &&mut Seen| run.is_open && wall - run.last <= BY_HAND_MS;
                self.runs.values_mut().filter(cut).for_each(|run| run.by_hand = true);
            }
            EventKind::AgentActivated { .. } => {
                self.runs.values_mut().filter(|run| run.by_guard).for_each(|run| run.activated = true);
            }
            EventKind::RequestReceived(_)
            | EventKind::StreamProgressed(_)
            | EventKind::ChantDetected(_)
            | EventKind::PromptSubmitted
            | EventKind::RunStarted { .. }
            | EventKind::RunWoke
            | EventKind::RunExtended { .. }
            | EventKind::MessageIn { .. }
            | EventKind::MessageOut { .. }
            | EventKind::PolicyChanged { .. }
            | EventKind::AgentResumed { .. }
            | EventKind::GuardSnoozed { .. }
            | EventKind::GuardWoken { .. }
            | EventKind::BudgetRenewed { .. }
            | EventKind::Restarted { .. }
            | EventKind::Tick => {}
        }
    }

    fn touch(&mut self, event: &Event, wall: i64) -> Option<&mut Seen> {
        let key = run_of(event);
        if self.runs.len() >= RUNS_MAX && !self.runs.contains_key(&key) {
            return None;
        }
        let run = self.runs.entry(key).or_default();
        run.last = wall;
        Some(run)
    }

    /// How a run ended.
    pub(super) fn of(&self, run: &RunKey) -> RunEnd {
        self.runs.get(run).map_or(RunEnd::Unknown, Seen::end)
    }

    /// Requests of a run so far.
    pub(super) fn requests(&self, run: &RunKey) -> u64 {
        self.runs.get(run).map_or(0, |run| run.requests)
    }

    /// How those ended that did something since then, and whether a loop was possible in them.
    pub(super) fn since(&self, since: i64) -> impl Iterator<Item = (RunEnd, bool)> {
        let runs = self.runs.values().filter(move |run| run.last >= since);
        runs.map(|run| (run.end(), run.steps >= STEPS_OF_A_LOOP))
    }
}

impl Seen {
    fn stopped(&mut self) {
        (self.by_guard, self.activated) = (true, false);
    }

    fn end(&self) -> RunEnd {
        match self {
            Seen { by_hand: true, .. } => RunEnd::ByHand,
            Seen { by_guard: true, activated, .. } => RunEnd::ByLoopGuard { activated: *activated },
            Seen { is_open: false, is_escalated: false, .. } => RunEnd::ByItself,
            Seen { .. } => RunEnd::Unknown,
        }
    }
}

/// Whether the end of a tool completed a loop that was stopped. Texts of others have their quotes escaped in a decision.
fn is_stopped_by_loop(decision: &str) -> bool {
    decision.contains(r#"{"deactivated":{"cause":"loop"}}"#)
}
