//! One step: an event is judged, the decision is checked, written down and carried out.

use estop_core::budget::Amount;
use estop_core::decision::{Decision, Outcome};
use estop_core::event::{CallKind, Estimate, Event, EventKind};
use estop_core::guard::Guard;
use estop_core::ids::Name;
use estop_core::policy::Mode;

use super::{Due, World};
use crate::broken::{Breach, Broken, Holds};
use crate::judge::Judge;
use crate::model::{Booking, asked};

/// A timer that fired too early is set anew, not earlier than this: a clock that stands still must not hold us up.
const TICK_AGAIN_MS: u64 = 1_000;

impl<J: Judge> World<J> {
    /// Judges what happened to an agent and checks everything there is to check.
    pub(super) fn judge(
        &mut self,
        at: usize,
        run: Option<Name>,
        what: EventKind,
    ) -> Result<Decision, Box<Broken>> {
        let now = self.clocks.now(self.at);
        let gate = self.button.view(&mut self.rng);
        let mut event = Event { run, gate, what };
        self.fleet.turn(now);
        if self.agents[at].shares_account() {
            self.show_fleet(&mut event);
        }
        let mut bookings = Vec::new();
        let is_retry = self.agents[at].model.is_retry(&event.what);
        let (decision, holds) = self.agents[at].judge(now, &event, &mut bookings);
        self.summary.count(self.agents[at].mind.kind, &event.what, &decision);
        self.summary.retries += u64::from(is_retry && decision.outcome == Outcome::Allow);
        let holds = holds
            .and_then(|()| self.fleet_admits(at, &event, &decision))
            .and_then(|()| self.book(at, &bookings))
            .and_then(|()| self.history.agent(&self.agents[at].name, now, &event, &decision));
        holds.map_err(|breach| self.broken(at, breach, &event, &decision))?;
        self.set_timer(at);
        self.carry_out(at, &decision)?;
        Ok(decision)
    }

    /// An event that spends says how the fleet's account stands.
    fn show_fleet(&self, event: &mut Event) {
        if let EventKind::RequestReceived(r) = &mut event.what {
            r.fleet = self.fleet.view(&r.estimate);
        }
        if let EventKind::StreamProgressed(p) = &mut event.what {
            p.fleet = self.fleet.view(&Estimate::default());
        }
    }

    fn book(&mut self, at: usize, bookings: &[Booking]) -> Holds {
        if self.agents[at].shares_account() { self.fleet.book(bookings) } else { Ok(()) }
    }

    /// What an agent under an enforced budget is allowed must fit into the fleet's account as well.
    fn fleet_admits(&self, at: usize, event: &Event, decision: &Decision) -> Holds {
        let agent = &self.agents[at];
        let EventKind::RequestReceived(r) = &event.what else { return Ok(()) };
        let in_force = agent.model.snoozes.over(&agent.policy);
        let counts = decision.outcome == Outcome::Allow && in_force.modes[Guard::Budget] == Mode::Enforce;
        // What costs nothing passes, also when all is spent.
        let is_free = r.call == CallKind::Other && asked(&r.estimate) == Amount::default();
        if counts && !is_free && agent.shares_account() {
            self.fleet.check_admission(&r.estimate)
        } else {
            Ok(())
        }
    }

    fn broken(&self, at: usize, breach: Breach, event: &Event, decision: &Decision) -> Box<Broken> {
        let agent = &self.agents[at];
        Box::new(Broken {
            breach,
            config: self.config,
            event_number: self.summary.events,
            agent: format!("{} ({:?})", agent.name, agent.mind.kind),
            event: format!("at {:?}: {event:?}", self.clocks.now(self.at)),
            decision: format!("{decision:?}"),
        })
    }

    /// Sets an agent's timer; it fires late at times, and very late at others.
    fn set_timer(&mut self, at: usize) {
        let agent = &self.agents[at];
        let Some(wake) = agent.judge.poll_timeout(&agent.policy) else { return };
        let due = self.clocks.shows(wake.at).max(self.at + 1);
        if agent.tick_at.is_some_and(|armed| armed <= due) {
            return;
        }
        let late = match self.rng.below(100) {
            0..80 => 0,
            80..98 => self.rng.spread(1, 60_000),
            _ => self.rng.spread(60_000, 7_200_000),
        };
        self.agents[at].tick_at = Some(due);
        self.agenda.add(due + late, Due::Tick(at));
    }

    /// A timer fired. If its time has not come, it is set anew.
    pub(super) fn tick(&mut self, at: usize) -> Result<(), Box<Broken>> {
        let agent = &mut self.agents[at];
        agent.tick_at = None;
        let Some(wake) = agent.judge.poll_timeout(&agent.policy) else { return Ok(()) };
        if self.clocks.now(self.at).mono >= wake.at || self.rng.per_mille(10) {
            return self.judge(at, None, EventKind::Tick).map(|_| ());
        }
        let again = self.clocks.shows(wake.at).max(self.at + TICK_AGAIN_MS);
        agent.tick_at = Some(again);
        self.agenda.add(again, Due::Tick(at));
        Ok(())
    }
}
