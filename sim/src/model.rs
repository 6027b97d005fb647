//! A second, simpler memory of each agent, kept from its events alone. The core's own numbers are never copied
//! into it: what both know must agree, and that is what the invariants compare.

pub mod calendar;
pub mod ledger;
pub mod loops;
pub mod minute;
pub mod runs;
pub mod snoozes;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use estop_core::budget::Amount;
use estop_core::decision::{Decision, Effect, Guard, Outcome};
use estop_core::event::{
    AbortedBy, CallKind, Ended, Estimate, Event, EventKind, RequestReceived, ResponseCompleted, ToolFinished,
    ToolGate, ToolRequested, Usage,
};
use estop_core::fingerprint::StepFingerprint;
use estop_core::fingerprint::signature::hook_conversation;
use estop_core::ids::{CallId, Hash64, Name, RequestId};
use estop_core::policy::Policy;
use estop_core::time::Now;

use calendar::Local;
use ledger::{Ledger, Total};
use loops::{Circles, Loops};
use minute::{Counted, Minute};
use runs::{RunIs, Runs};
use snoozes::Snoozes;

/// A reservation without a sign of life is given up after this.
const LIFETIME_MS: u64 = 15 * 60_000;
/// Open calls that are remembered; beyond that the oldest is forgotten.
const OPEN_CALLS_MAX: usize = 64;

/// Whether an agent may work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum May {
    /// It may.
    #[default]
    Work,
    /// It is paused.
    NotWhilePaused,
    /// It is switched off.
    NotWhileOff,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// What is reserved for it.
    pub held: Amount,
    /// Serial of its run.
    pub run: u64,
    /// The how manieth request it is.
    number: u64,
    expires: u64,
}

/// What an event did to the money, for the fleet's books.
#[derive(Clone, Copy, Debug)]
pub enum Booking {
    /// More is held.
    Held(Amount),
    /// A reservation ended.
    Settled {
        /// What was held.
        held: Amount,
        /// What was used.
        used: Amount,
    },
}

/// One agent, remembered a second time.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The latest moment seen.
    pub now: u64,
    /// The calendar of the budget's zone.
    pub local: Local,
    /// Whether it may work.
    pub may: May,
    /// Requests under way.
    pub open: BTreeMap<RequestId, Open>,
    /// Its money.
    pub ledger: Ledger,
    /// Its last minute.
    pub minute: Minute,
    /// Its runs.
    pub runs: Runs,
    /// Guards that only warn for a while.
    pub snoozes: Snoozes,
    /// Steps of its requests.
    pub loops: Loops,
    /// Requests let through so far.
    admitted: u64,
    /// What the steps of the last tool call by hook amount to.
    pub hook_circles: Circles,
    /// Tool calls that hooks announced and that have not ended, oldest first.
    open_calls: VecDeque<(Option<Name>, ToolRequested)>,
    /// Those that the gate of an MCP server saw too.
    paired: BTreeSet<CallId>,
    /// Reservations that time ended with the last event.
    pub expired: Vec<RequestId>,
}

impl Model {
    /// Time passed, before the event is judged.
    pub fn pass_time(&mut self, now: Now, policy: &Policy, bookings: &mut Vec<Booking>) {
        self.now = self.now.max(now.mono.0);
        self.snoozes.pass_time(self.now);
        self.local = calendar::local(&policy.budget.zone, now.wall, self.local);
        self.ledger.turn(self.local, self.now, now.wall);
        self.minute.expire(self.now);
        self.expired.clear();
        if self.open.values().any(|open| open.expires <= self.now) {
            let due = self.open.iter().filter(|(_, open)| open.expires <= self.now);
            self.expired = due.map(|(request, _)| *request).collect();
            for request in self.expired.clone() {
                self.settle(request, None, bookings);
            }
        }
        self.runs.pass_time(self.now);
    }

    /// What a request would add to its conversation's steps.
    pub fn circles_with(&self, r: &RequestReceived, policy: &Policy) -> Circles {
        self.loops.with(r.print.conversation, r.print.ask, &self.new_steps(r, policy))
    }

    /// What was done since the request before it: nothing, if it is that one again.
    fn new_steps<'r>(&self, r: &'r RequestReceived, policy: &Policy) -> Vec<&'r StepFingerprint> {
        if self.loops.is_retry(r) { Vec::new() } else { counted_steps(&r.print.steps, policy) }
    }

    /// Whether it is a request that the provider failed, once more.
    pub fn is_retry(&self, what: &EventKind) -> bool {
        matches!(what, EventKind::RequestReceived(r) if self.loops.is_retry(r))
    }

    /// What the run of this name spent and holds.
    pub fn run_money(&self, name: &Option<Name>) -> (Total, Total) {
        let Some(run) = self.runs.get(name) else { return Default::default() };
        let mut held = Total::default();
        for open in self.open.values().filter(|open| open.run == run.serial) {
            held += open.held.into();
        }
        (run.spent, held)
    }

    /// Takes in what happened and what was decided.
    pub fn apply(
        &mut self,
        event: &Event,
        decision: &Decision,
        policy: &Policy,
        bookings: &mut Vec<Booking>,
    ) {
        let allowed = decision.outcome == Outcome::Allow;
        let done = decision.outcome == Outcome::Noted;
        let by_run = decision.refused_by() == Some(Guard::Run);
        let now = self.now;
        self.hook_circles = Circles::default();
        match &event.what {
            EventKind::RequestReceived(r) if allowed => self.admit(event, r, policy, bookings),
            // Asking again is no idleness; asking twice at once is no asking.
            EventKind::RequestReceived(r) if by_run && !self.open.contains_key(&r.request) => {
                self.runs.asked_in_vain(&event.run, now);
            }
            EventKind::ResponseCompleted(r) => self.complete(r, bookings),
            EventKind::StreamAborted(a) => {
                if a.by == AbortedBy::Upstream {
                    self.fail(a.request);
                }
                self.end(a.request, a.usage, bookings);
            }
            EventKind::StreamProgressed(p) => self.progress(p.request, p.usage, bookings),
            EventKind::ToolRequested(t) if allowed => self.admit_tool(event, t),
            EventKind::ToolFinished(t) => self.finish_tool(t, policy),
            EventKind::PromptSubmitted if allowed => {
                let run = self.runs.count(&event.run, now);
                // To sum up is no turn.
                run.prompts += u64::from(!run.is_tripped());
                self.begin_turn(&event.run);
            }
            EventKind::RunStarted { attended, .. } if done => self.runs.start(&event.run, *attended, now),
            EventKind::RunCompleted if done => self.complete_run(&event.run, &decision.effects),
            EventKind::RunExtended { .. } if done => self.runs.extend(&event.run, now),
            EventKind::AgentActivated { .. } => self.activate(),
            EventKind::AgentDeactivated { .. } => self.may = May::NotWhileOff,
            EventKind::AgentPaused { .. } if self.may == May::Work => self.may = May::NotWhilePaused,
            EventKind::AgentResumed { .. } if self.may == May::NotWhilePaused => self.may = May::Work,
            EventKind::RequestReceived(_)
            | EventKind::ToolRequested(_)
            | EventKind::PromptSubmitted
            | EventKind::RunStarted { .. }
            | EventKind::RunCompleted
            | EventKind::RunExtended { .. }
            | EventKind::AgentPaused { .. }
            | EventKind::AgentResumed { .. }
            | EventKind::GuardSnoozed { .. }
            | EventKind::GuardWoken { .. }
            | EventKind::BudgetRenewed { .. }
            | EventKind::ChantDetected(_)
            | EventKind::RunSlept
            | EventKind::RunWoke
            | EventKind::MessageIn { .. }
            | EventKind::MessageOut { .. }
            | EventKind::PolicyChanged { .. }
            | EventKind::Restarted { .. }
            | EventKind::Tick => {}
        }
        self.snoozes.apply(&event.what, now);
        self.apply_standing_effects(&decision.effects);
    }

    fn admit(&mut self, event: &Event, r: &RequestReceived, policy: &Policy, bookings: &mut Vec<Booking>) {
        let now = self.now;
        let generates = r.call == CallKind::Generation;
        let run = self.runs.count(&event.run, now);
        if generates {
            run.speaks();
        }
        let run = run.serial;
        let held = asked(&r.estimate);
        self.admitted += 1;
        let number = self.admitted;
        self.open.insert(r.request, Open { held, run, number, expires: now.saturating_add(LIFETIME_MS) });
        self.ledger.held += held.into();
        bookings.push(Booking::Held(held));
        let tokens = r.estimate.input_tokens.into();
        let counted = Counted { requests: 1, generations: generates.into(), tokens, tool_calls: 0 };
        self.minute.add(now, counted);
        if generates {
            self.begin_turn(&event.run);
            let steps = self.new_steps(r, policy);
            self.loops.add(r.print.conversation, r.print.ask, &steps);
            self.loops.ask(number, r);
        }
    }

    fn complete(&mut self, r: &ResponseCompleted, bookings: &mut Vec<Booking>) {
        if let Some(open) = self.open.get(&r.request).filter(|_| !r.print.calls.is_empty()) {
            self.runs.answered(open.run, self.now);
        }
        if r.ended == Ended::Failed {
            self.fail(r.request);
        }
        self.end(r.request, r.usage, bookings);
    }

    /// The provider failed a request; what was given up is not asked about any more.
    fn fail(&mut self, request: RequestId) {
        if let Some(open) = self.open.get(&request) {
            self.loops.fail(open.number);
        }
    }

    fn end(&mut self, request: RequestId, usage: Usage, bookings: &mut Vec<Booking>) {
        if self.settle(request, Some(usage.into()), bookings) {
            let tokens = usage.output_tokens.into();
            self.minute.add(self.now, Counted { tokens, ..Counted::default() });
        }
    }

    /// Ends a reservation; without a word about its use, what was held counts as used.
    fn settle(&mut self, request: RequestId, used: Option<Amount>, bookings: &mut Vec<Booking>) -> bool {
        let Some(open) = self.open.remove(&request) else { return false };
        let (held, used) = (open.held, used.unwrap_or(open.held));
        self.ledger.held -= held.into();
        self.ledger.book(used.into());
        self.runs.book(open.run, used.into());
        bookings.push(Booking::Settled { held, used });
        true
    }

    fn progress(&mut self, request: RequestId, usage: Usage, bookings: &mut Vec<Booking>) {
        let expires = self.now.saturating_add(LIFETIME_MS);
        let Some(open) = self.open.get_mut(&request) else { return };
        let used = Amount::from(usage);
        let more = Amount {
            usd: estop_core::money::NanoUsd(used.usd.0.saturating_sub(open.held.usd.0)),
            tokens: used.tokens.saturating_sub(open.held.tokens),
        };
        open.held = open.held.plus(more);
        open.expires = expires;
        self.runs.streamed(open.run, self.now);
        self.ledger.held += more.into();
        bookings.push(Booking::Held(more));
    }

    /// Whether a hook asks once more about a call that has not ended.
    pub fn is_asked_again(&self, event: &Event) -> bool {
        let EventKind::ToolRequested(t) = &event.what else { return false };
        let same = |(run, call): &(Option<Name>, ToolRequested)| {
            (run, call.call, call.action) == (&event.run, t.call, t.action)
        };
        self.open_calls.iter().any(same) || self.pair_of(&event.run, t).is_some()
    }

    /// The call of a hook that the gate of an MCP server sees again; each stands for one.
    fn pair_of(&self, run: &Option<Name>, t: &ToolRequested) -> Option<CallId> {
        let is_pair = |(of, call): &&(Option<Name>, ToolRequested)| {
            let is_free = call.gate == ToolGate::Hook && !self.paired.contains(&call.call);
            is_free && (of, call.action) == (run, t.action)
        };
        let at_gate = t.gate == ToolGate::Mcp;
        self.open_calls.iter().filter(|_| at_gate).find(is_pair).map(|(_, call)| call.call)
    }

    /// A call that is asked about twice counts once.
    fn admit_tool(&mut self, event: &Event, t: &ToolRequested) {
        let again = self.is_asked_again(event);
        self.paired.extend(self.pair_of(&event.run, t));
        let run = self.runs.count(&event.run, self.now);
        run.tool_calls += u64::from(!again);
        run.hooked |= !again && t.gate == ToolGate::Hook;
        if again {
            return;
        }
        self.minute.add(self.now, Counted { tool_calls: 1, ..Counted::default() });
        if self.open_calls.len() == OPEN_CALLS_MAX {
            self.open_calls.pop_front();
        }
        self.open_calls.push_back((event.run.clone(), t.clone()));
    }

    fn finish_tool(&mut self, t: &ToolFinished, policy: &Policy) {
        let ended = self.open_calls.iter().position(|(_, call)| call.call == t.call);
        let Some((run, call)) = ended.and_then(|at| self.open_calls.remove(at)) else { return };
        let (tool, action) = (call.tool, call.action);
        let step = StepFingerprint {
            tool,
            action,
            result: t.result,
            ended: t.ended,
            test_run: false,
            words: Default::default(),
        };
        let steps = counted_steps(std::slice::from_ref(&step), policy);
        if !steps.is_empty() {
            self.hook_circles = self.loops.add(hook_conversation(run.as_deref()), Hash64(0), &steps);
        }
    }

    /// Hook steps serve the turn they are taken in: in another turn nothing is a repeat.
    fn begin_turn(&mut self, run: &Option<Name>) {
        self.loops.begin_anew(hook_conversation(run.as_deref()));
    }

    /// An implicit run that is done makes room for the next one; one that tripped is escalated instead (ID-7).
    fn complete_run(&mut self, name: &Option<Name>, effects: &[Effect]) {
        let escalated = effects.iter().any(|e| matches!(e, Effect::RunEscalated { run, .. } if run == name));
        match (name, escalated) {
            (_, true) => self.runs.end(name, RunIs::Escalated, self.now),
            (Some(_), false) => self.runs.end(name, RunIs::Completed, self.now),
            (None, false) => self.runs.forget_implicit(),
        }
    }

    fn activate(&mut self) {
        if self.may != May::Work {
            self.may = May::Work;
            self.minute.clear();
            self.loops.clear();
            self.open_calls.clear();
            self.runs.forget_implicit();
        } else {
            self.runs.release_implicit();
        }
    }

    /// What clocks did to runs, before the event is weighed. What an event itself does to its run comes with a
    /// refusal or a report, so that it makes no difference to anything allowed.
    pub fn apply_run_effects(&mut self, effects: &[Effect]) {
        for effect in effects {
            if let Effect::RunTripped { run, .. } = effect {
                self.runs.trip(run, self.now);
            }
            // An implicit run is refused, never escalated for good (ID-7).
            if let Effect::RunEscalated { run: run @ Some(_), .. } = effect {
                self.runs.end(run, RunIs::Escalated, self.now);
            }
        }
    }

    fn apply_standing_effects(&mut self, effects: &[Effect]) {
        for effect in effects {
            if let Effect::Deactivated { .. } = effect {
                self.may = May::NotWhileOff;
            }
            if let Effect::Paused { .. } = effect {
                self.may = May::NotWhilePaused;
            }
        }
    }
}

/// What a request asks for.
pub fn asked(estimate: &Estimate) -> Amount {
    let tokens = [estimate.input_tokens, estimate.more_input_tokens, estimate.output_tokens];
    Amount { usd: estimate.usd, tokens: tokens.into_iter().map(u64::from).sum() }
}

fn counted_steps<'a>(steps: &'a [StepFingerprint], policy: &Policy) -> Vec<&'a StepFingerprint> {
    steps.iter().filter(|s| !policy.loops.exempt_tools.contains(&s.tool)).collect()
}
