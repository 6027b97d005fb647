//! One agent of the world: the judge under test, the rules in force, and the model beside it.

use estop_core::decision::{Decision, Outcome};
use estop_core::event::{Event, EventKind};
use estop_core::ids::Name;
use estop_core::policy::Policy;
use estop_core::time::Now;

use super::client::Client;
use crate::broken::{Breach, Holds, ensure};
use crate::invariants::{self, Step};
use crate::judge::{Judge, Seen};
use crate::model::{Booking, Model};
use crate::policies;
use crate::prng::Rng;
use crate::temperament::mind::Mind;
use crate::temperament::{self, Act, Kind};

/// One in so many agents keeps all its events and is rebuilt at a restart. All of them would take a gigabyte.
const LOGGED_EVERY: usize = 8;

/// One agent.
#[derive(Debug)]
pub(super) struct Agent<J> {
    pub(super) name: Name,
    pub(super) mind: Mind,
    client: Client,
    pub(super) rng: Rng,
    pub(super) judge: J,
    pub(super) policy: Box<Policy>,
    pub(super) model: Model,
    /// Its last ask was refused.
    pub(super) refused: bool,
    /// When its next tick is due, if one is.
    pub(super) tick_at: Option<u64>,
    /// All its events, if it is one of those that are rebuilt at a restart.
    log: Option<Vec<(Now, Event)>>,
}

impl<J: Judge> Agent<J> {
    pub(super) fn new(number: usize, kind: Kind, mut rng: Rng) -> Agent<J> {
        Agent {
            name: format!("a{number}").into(),
            mind: Mind::new(kind, &mut rng),
            client: Client::default(),
            rng,
            judge: J::default(),
            policy: Box::default(),
            model: Model::default(),
            refused: false,
            tick_at: None,
            log: number.is_multiple_of(LOGGED_EVERY).then(Vec::new),
        }
    }

    /// What it does next.
    pub(super) fn act(&mut self) -> Act {
        let again = self.client.act(&mut self.mind, &mut self.rng);
        again.unwrap_or_else(|| temperament::act(&mut self.mind, self.refused, &mut self.rng))
    }

    /// Other rules, as an event.
    pub(super) fn any_policy(&mut self) -> EventKind {
        let policy = Box::new(policies::any(self.mind.kind, &mut self.rng));
        EventKind::PolicyChanged { by: "ann".into(), policy }
    }

    /// Chaos deals in numbers that would break any account; it has none with the fleet.
    pub(super) fn shares_account(&self) -> bool {
        self.mind.kind != Kind::Chaos
    }

    /// Judges an event and checks everything that concerns this agent alone.
    pub(super) fn judge(
        &mut self,
        now: Now,
        event: &Event,
        bookings: &mut Vec<Booking>,
    ) -> (Decision, Holds) {
        // New rules hold from the event that brings them on, as on replay.
        if let EventKind::PolicyChanged { policy, .. } = &event.what {
            self.policy.clone_from(policy);
        }
        if let Some(log) = &mut self.log {
            log.push((now, event.clone()));
        }
        self.model.pass_time(now, &self.policy, bookings);
        let in_force = self.model.snoozes.over(&self.policy);
        let before = Seen::of(&self.judge);
        let decision = self.judge.handle(now, event, &self.policy);
        if matches!(&event.what, EventKind::RequestReceived(_) | EventKind::ToolRequested(_))
            && !self.client.asks(&event.what)
        {
            self.refused = decision.outcome != Outcome::Allow;
        }
        self.client.hear(event, &decision, &self.model);
        let step = Step {
            now,
            event,
            decision: &decision,
            policy: &in_force,
            kind: self.mind.kind,
            before,
            after: Seen::of(&self.judge),
            wake: self.judge.poll_timeout(&self.policy),
        };
        let holds = check(&step, &mut self.model, bookings);
        (decision, holds)
    }

    /// The process restarted: the state is rebuilt from its events, must be the same, and goes on in its place.
    /// `false` if this agent keeps no log.
    pub(super) fn rebuild(&mut self) -> Result<bool, Breach> {
        let Some(log) = &self.log else { return Ok(false) };
        let mut policy = &Policy::default();
        let mut rebuilt = J::default();
        for (now, event) in log {
            if let EventKind::PolicyChanged { policy: new, .. } = &event.what {
                policy = new;
            }
            rebuilt.handle(*now, event, policy);
        }
        let (live, again) = (format!("{:?}", self.judge), format!("{rebuilt:?}"));
        ensure(live == again, "restart_rebuilds_the_state", || first_difference(&live, &again))?;
        self.judge = rebuilt;
        Ok(true)
    }
}

/// Every check at its time: the model takes in a step bit by bit.
fn check(step: &Step<'_>, model: &mut Model, bookings: &mut Vec<Booking>) -> Holds {
    invariants::check_time(step, model)?;
    model.apply_run_effects(&step.decision.effects);
    invariants::check_decision(step, model)?;
    model.apply(step.event, step.decision, step.policy, bookings);
    invariants::check_state(step, model)
}

/// The neighbourhood of the first byte in which two states differ.
fn first_difference(live: &str, again: &str) -> String {
    let at = live.bytes().zip(again.bytes()).take_while(|(a, b)| a == b).count();
    let part = |text: &str| text.chars().skip(at.saturating_sub(80)).take(160).collect::<String>();
    format!("live …{}…, rebuilt …{}…", part(live), part(again))
}
