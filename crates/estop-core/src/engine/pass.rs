//! One pass over the guards, in their order (PO-1): collects the verdicts and draws the outcome.

use crate::budget::Fit;
use crate::decision::{Decision, Effect, Finding, Guard, Outcome, Retry, Ruling, Verdict, Verdicts};
use crate::event::Event;
use crate::guards::budget::WAIT_MS;
use crate::judgement::Judgement;
use crate::policy::Mode;
use crate::system::Channel;

/// The verdicts so far.
pub(super) struct Pass {
    verdicts: Verdicts,
    stopped_by: Option<Guard>,
}

impl Pass {
    pub(super) fn new() -> Pass {
        Pass { verdicts: Verdicts::with_room(), stopped_by: None }
    }

    /// The first guard of every pass: it has no mode.
    pub(super) fn of_channel(event: &Event, channel: Channel) -> Pass {
        let mut pass = Pass::new();
        let judgement = if event.gate.is_open() {
            Judgement::CLEAR
        } else {
            Judgement::stop_if(!event.gate.lets_pass(channel), Some(event.gate))
        };
        pass.ask(Guard::System, judgement, Mode::Enforce);
        pass
    }

    pub(super) fn ask<T>(&mut self, guard: Guard, judgement: Judgement<T>, mode: Mode)
    where
        Finding: From<T>,
    {
        let verdict = Verdict::under(judgement, mode);
        if verdict.ruling == Ruling::Stop && self.stopped_by.is_none() {
            self.stopped_by = Some(guard);
        }
        self.verdicts.push(guard, verdict);
    }

    /// A guard that has no say in this kind of event.
    pub(super) fn skip(&mut self, guard: Guard) {
        self.verdicts.push(guard, Verdict { ruling: Ruling::Skip, finding: Finding::Nothing });
    }

    /// The first guard that stops, so far.
    pub(super) fn stopped_by(&self) -> Option<Guard> {
        self.stopped_by
    }

    /// Whether a guard in shadow would stop.
    pub(super) fn would_stop(&self, guard: Guard) -> bool {
        self.verdicts.get(guard).is_some_and(|verdict| verdict.ruling == Ruling::WouldStop)
    }

    pub(super) fn verdicts(&self) -> &Verdicts {
        &self.verdicts
    }

    pub(super) fn into_decision(self, effects: Vec<Effect>) -> Decision {
        let outcome = match self.stopped_by {
            None => Outcome::Allow,
            Some(by) => Outcome::Refuse { by, retry: retry(self.verdicts.get(by)) },
        };
        Decision { outcome, verdicts: self.verdicts, effects }
    }
}

/// Only what ends by itself, and soon, is worth trying again (AN-2).
fn retry(verdict: Option<&Verdict>) -> Retry {
    match verdict.map(|v| &v.finding) {
        Some(Finding::Rate(rate)) => Retry::AfterMs(rate.free_in_ms),
        // A veto for health alone has no cooldown: it ends when a person looks.
        Some(Finding::Gate(gate)) if gate.cooldown_ms > 0 => Retry::AfterMs(gate.cooldown_ms),
        // Requests under way end by themselves.
        Some(Finding::Budget(budget)) if budget.fit == Fit::Waits => Retry::AfterMs(WAIT_MS),
        _ => Retry::Never,
    }
}
