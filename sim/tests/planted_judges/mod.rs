//! Judges with one bug each, around the real core.

use std::cell::Cell;

use estop_core::agent::standing::Standing;
use estop_core::decision::{Decision, Effect, Outcome, Retry, Ruling};
use estop_core::engine::{AgentState, Wake};
use estop_core::event::{AbortedBy, Ended, Event, EventKind, Usage};
use estop_core::fingerprint::RequestFingerprint;
use estop_core::fingerprint::simhash::SimHash;
use estop_core::policy::{Limit, Policy};
use estop_core::time::Now;
use estop_sim::Judge;

/// A judge around the core; `$handle` is where its bug is.
macro_rules! planted {
    ($(#[$doc:meta])* $judge:ident, $handle:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        pub(crate) struct $judge(AgentState);

        impl Judge for $judge {
            fn handle(&mut self, now: Now, event: &Event, policy: &Policy) -> Decision {
                let handle: fn(&mut AgentState, Now, &Event, &Policy) -> Decision = $handle;
                handle(&mut self.0, now, event, policy)
            }

            fn poll_timeout(&self, policy: &Policy) -> Option<Wake> {
                self.0.poll_timeout(policy)
            }

            fn inner(&self) -> &AgentState {
                &self.0
            }
        }
    };
}

planted! {
    /// Does not look at the red button.
    IgnoresTheGate, |state, now, event, policy| {
        state.handle(now, &Event { gate: estop_core::system::GateView::OPEN, ..event.clone() }, policy)
    }
}

planted! {
    /// Refuses an inactive agent, and says "allow".
    LetsInactiveThrough, |state, now, event, policy| {
        let mut decision = state.handle(now, event, policy);
        if decision.refused_by().is_some_and(|by| by.name() == "agent") {
            decision.outcome = Outcome::Allow;
        }
        decision
    }
}

planted! {
    /// A client that goes away takes its reservation with it.
    ForgetsAborts, |state, now, event, policy| {
        let tick = Event::open(EventKind::Tick);
        let forgets = matches!(&event.what, EventKind::StreamAborted(a) if a.by == AbortedBy::Client);
        state.handle(now, if forgets { &tick } else { event }, policy)
    }
}

planted! {
    /// Settles reservations, but takes every request for free.
    BooksNothing, |state, now, event, policy| {
        let mut event = event.clone();
        if let EventKind::ResponseCompleted(r) = &mut event.what {
            r.usage = Usage::default();
        }
        if let EventKind::StreamAborted(a) = &mut event.what {
            a.usage = Usage::default();
        }
        state.handle(now, &event, policy)
    }
}

planted! {
    /// Knows only its own budget.
    IgnoresTheFleet, |state, now, event, policy| {
        let mut event = event.clone();
        if let EventKind::RequestReceived(r) = &mut event.what {
            r.fleet = None;
        }
        state.handle(now, &event, policy)
    }
}

planted! {
    /// Lets one call more through.
    WatchdogOffByOne, |state, now, event, policy| {
        let mut policy = policy.clone();
        policy.watchdog.max_calls_per_minute += 1;
        state.handle(now, event, &policy)
    }
}

planted! {
    /// Compares, then counts.
    BreakerOffByOne, |state, now, event, policy| {
        let mut policy = policy.clone();
        let one_more = |limit: Limit| limit.get().map_or(Limit::Off, |max| Limit::max(max + 1));
        policy.limits.max_tool_calls = one_more(policy.limits.max_tool_calls);
        policy.limits.max_turns = one_more(policy.limits.max_turns);
        state.handle(now, event, &policy)
    }
}

planted! {
    /// Does not see what an agent did, unless it failed.
    BlindToSuccess, |state, now, event, policy| {
        let mut event = event.clone();
        if let EventKind::RequestReceived(r) = &mut event.what {
            r.print.steps.retain(|step| step.ended == Ended::Failed);
        }
        state.handle(now, &event, policy)
    }
}

planted! {
    /// Does not see what failed.
    BlindToFailure, |state, now, event, policy| {
        let mut event = event.clone();
        if let EventKind::RequestReceived(r) = &mut event.what {
            r.print.steps.retain(|step| step.ended != Ended::Failed);
        }
        state.handle(now, &event, policy)
    }
}

planted! {
    /// Does not hear that the provider failed: asking again is one more ask, and its steps are taken again.
    CountsRetries, |state, now, event, policy| {
        let mut event = event.clone();
        if let EventKind::ResponseCompleted(r) = &mut event.what {
            r.ended = Ended::Ok;
        }
        if let EventKind::StreamAborted(a) = &mut event.what && a.by == AbortedBy::Upstream {
            a.by = AbortedBy::Client;
        }
        state.handle(now, &event, policy)
    }
}

planted! {
    /// Takes all prompts for the same.
    CriesLoop, |state, now, event, policy| {
        let mut event = event.clone();
        if let EventKind::RequestReceived(r) = &mut event.what {
            r.print.prompt = r.print.prompt.map(|_| SimHash(7));
        }
        state.handle(now, &event, policy)
    }
}

planted! {
    /// Does nothing when it is woken.
    SleepsThroughTicks, |state, now, event, policy| {
        if event.what != EventKind::Tick {
            return state.handle(now, event, policy);
        }
        Decision { outcome: Outcome::Noted, verdicts: Default::default(), effects: Vec::new() }
    }
}

planted! {
    /// Refuses where it only would have.
    StopsInShadow, |state, now, event, policy| {
        let mut decision = state.handle(now, event, policy);
        let would_stop = decision.verdicts.iter().find(|(_, v)| v.ruling == Ruling::WouldStop);
        if let (Outcome::Allow, Some((by, _))) = (decision.outcome, would_stop) {
            decision.outcome = Outcome::Refuse { by, retry: Retry::Never };
        }
        decision
    }
}

planted! {
    /// Every thousandth time, what would have stopped is not told.
    Forgetful, |state, now, event, policy| {
        thread_local! { static TIMES: Cell<u64> = const { Cell::new(0) } }
        TIMES.set(TIMES.get() + 1);
        let mut decision = state.handle(now, event, policy);
        if TIMES.get() % 1000 > 900 {
            decision.effects.retain(|effect| !matches!(effect, Effect::WouldHaveStopped { .. }));
        }
        decision
    }
}

/// Goes on, when it is switched on, where it was when it was stopped.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeepsWindows {
    state: AgentState,
    when_stopped: Option<Box<AgentState>>,
}

impl Judge for KeepsWindows {
    fn handle(&mut self, now: Now, event: &Event, policy: &Policy) -> Decision {
        let before = self.state.clone();
        let decision = self.state.handle(now, event, policy);
        let is_active = self.state.standing() == Standing::Active;
        if before.standing() == Standing::Active && !is_active {
            self.when_stopped = Some(Box::new(before));
        }
        let when_stopped = self.when_stopped.take_if(|_| is_active);
        if let (Some(state), EventKind::AgentActivated { .. }) = (when_stopped, &event.what) {
            self.state = *state;
        }
        decision
    }

    fn poll_timeout(&self, policy: &Policy) -> Option<Wake> {
        self.state.poll_timeout(policy)
    }

    fn inner(&self) -> &AgentState {
        &self.state
    }
}

/// Takes the same step after a failed answer for a retry, whatever else was said meanwhile.
#[derive(Clone, Debug, Default)]
pub(crate) struct ForgivesTooMuch {
    state: AgentState,
    newest: RequestFingerprint,
    failed: bool,
}

impl Judge for ForgivesTooMuch {
    fn handle(&mut self, now: Now, event: &Event, policy: &Policy) -> Decision {
        let mut seen = event.clone();
        if let EventKind::RequestReceived(r) = &mut seen.what
            && self.failed
            && r.print == self.newest
        {
            r.print.steps.clear();
        }
        let decision = self.state.handle(now, &seen, policy);
        self.failed |= matches!(&event.what, EventKind::ResponseCompleted(r) if r.ended == Ended::Failed)
            || matches!(&event.what, EventKind::StreamAborted(a) if a.by == AbortedBy::Upstream);
        if let (EventKind::RequestReceived(r), Outcome::Allow) = (&event.what, decision.outcome) {
            (self.newest, self.failed) = (r.print.clone(), false);
        }
        decision
    }

    fn poll_timeout(&self, policy: &Policy) -> Option<Wake> {
        self.state.poll_timeout(policy)
    }

    fn inner(&self) -> &AgentState {
        &self.state
    }
}

/// Knows the hour of its birth, which no journal tells.
#[derive(Clone, Debug)]
pub(crate) struct NoFold {
    state: AgentState,
    #[expect(dead_code, reason = "it is seen when the state is printed")]
    born: u64,
}

impl Default for NoFold {
    fn default() -> Self {
        thread_local! { static BIRTHS: Cell<u64> = const { Cell::new(0) } }
        BIRTHS.set(BIRTHS.get() + 1);
        NoFold { state: AgentState::default(), born: BIRTHS.get() }
    }
}

impl Judge for NoFold {
    fn handle(&mut self, now: Now, event: &Event, policy: &Policy) -> Decision {
        self.state.handle(now, event, policy)
    }

    fn poll_timeout(&self, policy: &Policy) -> Option<Wake> {
        self.state.poll_timeout(policy)
    }

    fn inner(&self) -> &AgentState {
        &self.state
    }
}
