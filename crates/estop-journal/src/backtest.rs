//! Backtest (TW-8): what another policy would have done to recorded traffic.
//!
//! Who would have been stopped, when, by which guard, and what that would have saved. It judges recorded
//! events by the new rules; an agent that would have been stopped is not imagined to behave better afterwards.

mod loops;
mod run_end;
mod tuning;

use std::collections::{BTreeMap, BTreeSet};

use estop_core::budget::Amount;
use estop_core::decision::{Decision, Effect, Guard};
use estop_core::engine::AgentState;
use estop_core::event::{Event, EventKind, Usage};
use estop_core::ids::{Name, RequestId};
use estop_core::policy::Policy;
use estop_core::time::Now;
use serde::Serialize;

use crate::check::{Checker, Found, JournalError};
use crate::record::Record;
pub use loops::{LoopBacktest, LoopOutcome, LoopStop, Saved};
pub use run_end::RunEnd;
pub use tuning::{Ends, SettingOutcome, Traffic, TunedStop, Tuning};

/// What would have happened to one agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AgentOutcome {
    /// Requests in the journal.
    pub requests: u64,
    /// Of these, refused under the new policy.
    pub refused: u64,
    /// Refused by the old policy already.
    pub refused_before: u64,
    /// What recorded requests cost.
    pub spent: Amount,
    /// What those refused under the new policy had cost.
    pub saved: Amount,
    /// The moments it would have been stopped.
    pub stops: Vec<Stop>,
}

/// A moment an agent would have been stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stop {
    /// The record.
    pub seq: u64,
    /// Wall-clock time.
    pub wall: i64,
    /// By which guard.
    pub guard: Guard,
    /// Why.
    pub reason: String,
}

/// Requests refused by the new policy whose cost is awaited. More than can be in flight at once, a few times over.
const REFUSED_MAX: usize = 8192;

/// Stops kept for each agent; the first ones tell the story.
const STOPS_MAX: usize = 20;

#[derive(Default)]
struct Tested {
    state: AgentState,
    policy: Box<Policy>,
    refused: BTreeSet<RequestId>,
    stopped_by: Option<Guard>,
    outcome: AgentOutcome,
}

/// Judges a journal by other rules, line by line.
pub struct Backtest<F> {
    policy_of: F,
    checker: Checker,
    agents: BTreeMap<Name, Tested>,
}

impl<F: Fn(&str) -> Policy> Backtest<F> {
    /// `policy_of` gives the new policy of an agent.
    pub fn new(policy_of: F) -> Self {
        Backtest { policy_of, checker: Checker::default(), agents: BTreeMap::new() }
    }

    /// Takes the next line in.
    pub fn feed(&mut self, line: &[u8]) -> Result<(), JournalError> {
        // Of a journal whose beginning is gone, agents begin anew: their states are those of the old rules.
        let Found::Record(_) = self.checker.take(line)? else { return Ok(()) };
        let after = self.checker.state().seq - 1;
        let record = Record::parse(line)
            .map_err(|error| JournalError::Unreadable { after, problem: error.to_string() })?;
        let Some(event) = &record.event else { return Ok(()) };
        let tested = self.agents.entry(record.agent.as_ref().into()).or_insert_with_key(|agent| Tested {
            policy: Box::new((self.policy_of)(agent)),
            ..Tested::default()
        });
        let refused_before = record.decision.starts_with(r#"{"outcome":{"refuse""#);
        tested.judge(record.seq, record.now, event, refused_before);
        Ok(())
    }

    /// What would have happened, agent by agent.
    pub fn outcomes(&self) -> impl Iterator<Item = (&str, &AgentOutcome)> {
        self.agents.iter().map(|(agent, tested)| (agent.as_ref(), &tested.outcome))
    }

    /// The journal as far as it was read.
    pub fn checker(&self) -> &Checker {
        &self.checker
    }
}

impl Tested {
    fn judge(&mut self, seq: u64, now: Now, event: &Event, refused_before: bool) {
        if refused_before && !matches!(event.what, EventKind::StreamProgressed(_)) {
            // It never ran: nobody knows what it would have cost or led to.
            let is_request = matches!(event.what, EventKind::RequestReceived(_));
            self.outcome.requests += u64::from(is_request);
            self.outcome.refused_before += u64::from(is_request);
            return;
        }
        let decision = self.state.handle(now, event, &self.policy);
        match &event.what {
            EventKind::RequestReceived(r) => {
                self.outcome.requests += 1;
                if !decision.is_allowed() {
                    self.outcome.refused += 1;
                    self.refused.insert(r.request);
                    if self.refused.len() > REFUSED_MAX {
                        self.refused.pop_first();
                    }
                }
            }
            EventKind::ResponseCompleted(r) => self.book(r.request, r.usage),
            EventKind::StreamAborted(a) => self.book(a.request, a.usage),
            EventKind::StreamProgressed(_)
            | EventKind::ChantDetected(_)
            | EventKind::ToolRequested(_)
            | EventKind::ToolFinished(_)
            | EventKind::PromptSubmitted
            | EventKind::RunStarted { .. }
            | EventKind::RunSlept
            | EventKind::RunWoke
            | EventKind::RunCompleted
            | EventKind::RunExtended { .. }
            | EventKind::MessageIn { .. }
            | EventKind::MessageOut { .. }
            | EventKind::PolicyChanged { .. }
            | EventKind::AgentActivated { .. }
            | EventKind::AgentDeactivated { .. }
            | EventKind::AgentPaused { .. }
            | EventKind::AgentResumed { .. }
            | EventKind::GuardSnoozed { .. }
            | EventKind::GuardWoken { .. }
            | EventKind::BudgetRenewed { .. }
            | EventKind::Restarted { .. }
            | EventKind::Tick => {}
        }
        self.note_stop(seq, now, &decision);
    }

    fn book(&mut self, request: RequestId, usage: Usage) {
        self.outcome.spent = self.outcome.spent.plus(usage.into());
        if self.refused.remove(&request) {
            self.outcome.saved = self.outcome.saved.plus(usage.into());
        }
    }

    /// A stop is told once, until something passes again.
    fn note_stop(&mut self, seq: u64, now: Now, decision: &Decision) {
        let by = decision.refused_by().or_else(|| timer_stop(decision));
        if let Some(guard) = by.filter(|_| self.stopped_by.is_none()) {
            self.stopped_by = Some(guard);
            if self.outcome.stops.len() < STOPS_MAX {
                self.outcome.stops.push(Stop {
                    seq,
                    wall: now.wall,
                    guard,
                    reason: stop_reason(decision, guard),
                });
            }
        } else if decision.outcome == estop_core::decision::Outcome::Allow {
            self.stopped_by = None;
        }
    }
}

/// Why, as the decision says it or as the timer that ran out.
fn stop_reason(decision: &Decision, guard: Guard) -> String {
    if decision.refused_by().is_some() || decision.deactivated().is_some() {
        return decision.reason();
    }
    match decision.effects.iter().find_map(Effect::tripped) {
        Some(used) => format!("Circuit breaker: {} ({}/{}).", used.limit.text(), used.current, used.max),
        None => format!("Stopped by {}.", guard.name()),
    }
}

/// Stops that come with no refusal: a timer, or the end of a tool.
fn timer_stop(decision: &Decision) -> Option<Guard> {
    decision.effects.iter().find_map(|effect| match effect {
        Effect::RunTripped { .. } | Effect::RunEscalated { .. } => Some(Guard::Breaker),
        Effect::Deactivated { cause } | Effect::Paused { cause } => Some(cause.guard()),
        Effect::AbortInFlight
        | Effect::LoopEvidence(_)
        | Effect::Nudged { .. }
        | Effect::NudgeEnded { .. }
        | Effect::WouldHaveStopped { .. }
        | Effect::CutStream { .. }
        | Effect::BudgetWarned(_)
        | Effect::BudgetRefused(_)
        | Effect::ReservationExpired { .. }
        | Effect::PressButton
        | Effect::HealthFell(_)
        | Effect::SnoozeEnded { .. } => None,
    })
}
