//! The world: agents act, requests end, clocks go wrong, people press buttons, the process restarts. One queue, one
//! thread, one seed.

mod agent;
mod client;
mod judging;
mod shell;

use estop_core::event::EventKind;
use estop_core::ids::Name;
use estop_core::system::{SystemEvent, SystemOutcome};

use crate::agenda::Agenda;
use crate::broken::{Breach, Broken};
use crate::button::Button;
use crate::clock::Clocks;
use crate::config::Config;
use crate::fleet::Fleet;
use crate::history::History;
use crate::judge::Judge;
use crate::model::May;
use crate::prng::Rng;
use crate::summary::Summary;
use crate::temperament::{Deed, Kind};
use agent::Agent;

/// Simulates until enough events were judged or an invariant is broken.
pub fn run<J: Judge>(config: &Config) -> Result<Summary, Box<Broken>> {
    World::<J>::new(config).run()
}

/// What is due.
#[derive(Debug)]
enum Due {
    /// An agent does something.
    Act(usize),
    /// An agent hears of something.
    Told(usize, Option<Name>, Box<EventKind>),
    /// An agent's state wants to be woken.
    Tick(usize),
    /// A person looks after an agent that was stopped.
    Person(usize),
}

struct World<J> {
    config: Config,
    rng: Rng,
    /// Simulated milliseconds.
    at: u64,
    clocks: Clocks,
    agenda: Agenda<Due>,
    agents: Vec<Agent<J>>,
    button: Button,
    fleet: Fleet,
    history: History,
    summary: Summary,
}

impl<J: Judge> World<J> {
    fn new(config: &Config) -> World<J> {
        let mut rng = Rng::new(config.seed);
        let clocks = Clocks::new(&mut rng);
        let agent = |number: usize| {
            let is_gated = config.gated && number.is_multiple_of(3);
            let kind = if is_gated { Kind::Gated } else { Kind::ALL[number % Kind::ALL.len()] };
            Agent::new(number, kind, rng.fork())
        };
        let agents = (0..config.agents).map(agent).collect();
        World {
            config: *config,
            at: 0,
            clocks,
            agenda: Agenda::default(),
            agents,
            button: Button::default(),
            fleet: Fleet::new(config.agents),
            history: History::new(config.replaying),
            summary: Summary { seed: config.seed, ..Summary::default() },
            rng,
        }
    }

    fn run(mut self) -> Result<Summary, Box<Broken>> {
        let begun = self.clocks.now(0);
        self.system(&SystemEvent::Started { found: None })?;
        for at in 0..self.agents.len() {
            let first = self.rng.below(self.agents[at].mind.pace_ms);
            let policy = self.agents[at].any_policy();
            self.agenda.add(0, Due::Told(at, None, Box::new(policy)));
            self.agenda.add(first, Due::Act(at));
        }
        while self.summary.events < self.config.events {
            let Some((at, due)) = self.agenda.pop() else { break };
            self.at = self.at.max(at);
            self.handle(due)?;
            self.disturb()?;
        }
        self.history.end().map_err(|breach| self.broken_between(breach))?;
        self.summary.simulated_ms = self.clocks.now(self.at).mono.since(begun.mono);
        self.summary.digest = self.history.digest();
        Ok(self.summary)
    }

    fn handle(&mut self, due: Due) -> Result<(), Box<Broken>> {
        match due {
            Due::Act(at) => self.act(at),
            Due::Told(at, run, what) => self.judge(at, run, *what).map(|_| ()),
            Due::Tick(at) => self.tick(at),
            Due::Person(at) => self.look_after(at),
        }
    }

    fn act(&mut self, at: usize) -> Result<(), Box<Broken>> {
        let agent = &mut self.agents[at];
        let act = agent.act();
        self.agenda.add(self.at + act.rest_ms, Due::Act(at));
        for (run, deed) in act.deeds {
            if self.summary.events >= self.config.events {
                break;
            }
            match deed {
                Deed::Ask(request, plan) => self.ask(at, run, request, plan)?,
                Deed::Tool(requested, plan) => self.call_tool(at, run, requested, plan)?,
                Deed::Plain(what) => {
                    self.judge(at, run, what)?;
                }
            }
        }
        Ok(())
    }

    /// The world is no better than its clocks, people and machines.
    fn disturb(&mut self) -> Result<(), Box<Broken>> {
        if self.rng.below(500) == 0 {
            self.clocks.disturb(self.at, &mut self.rng);
        }
        if self.rng.below(200) == 0 && !self.agents.is_empty() {
            let at = self.rng.below(self.agents.len() as u64) as usize;
            let policy = self.agents[at].any_policy();
            self.agenda.add(self.at, Due::Told(at, None, Box::new(policy)));
        }
        if self.rng.below(if self.button.is_disturbed() { 100 } else { 5_000 }) == 0 {
            let event = self.button.any_event(&mut self.rng);
            self.system(&event)?;
        }
        if self.rng.below(20_000) == 0 {
            self.restart()?;
        }
        Ok(())
    }

    /// Somebody presses the button or unlocks it; what becomes shut is aborted.
    fn system(&mut self, event: &SystemEvent) -> Result<(), Box<Broken>> {
        let now = self.clocks.now(self.at);
        let decision = self.button.handle(now, event).map_err(|breach| self.broken_between(breach))?;
        self.history.system(now, event, &decision).map_err(|breach| self.broken_between(breach))?;
        self.summary.system_events += 1;
        let kills = matches!(event, SystemEvent::KillRequested { .. });
        if kills && decision.outcome == SystemOutcome::Applied {
            for at in 0..self.agents.len() {
                self.abort_in_flight(at, estop_core::event::AbortedBy::Kill);
            }
        }
        Ok(())
    }

    /// The process dies and comes up again: states are rebuilt, half of the open requests are never heard of.
    fn restart(&mut self) -> Result<(), Box<Broken>> {
        self.summary.restarts += 1;
        for at in 0..self.agents.len() {
            let rebuilt = self.agents[at].rebuild().map_err(|breach| self.broken_between(breach))?;
            self.summary.rebuilt += u64::from(rebuilt);
            if self.rng.per_mille(500) {
                self.abort_in_flight(at, estop_core::event::AbortedBy::Client);
            }
        }
        let started = self.button.found_at_start(&mut self.rng);
        self.system(&started)
    }

    /// A person looks after an agent that was stopped, and mostly lets it go on.
    fn look_after(&mut self, at: usize) -> Result<(), Box<Broken>> {
        let by: Name = "ann".into();
        let what = match self.agents[at].model.may {
            May::Work => return Ok(()),
            May::NotWhilePaused if self.rng.per_mille(800) => EventKind::AgentResumed { by },
            May::NotWhilePaused | May::NotWhileOff => EventKind::AgentActivated { by },
        };
        self.judge(at, None, what).map(|_| ())
    }

    /// Something broke that belongs to no single event.
    fn broken_between(&self, breach: Breach) -> Box<Broken> {
        Box::new(Broken {
            breach,
            config: self.config,
            event_number: self.summary.events,
            agent: "none".to_owned(),
            event: "between two events".to_owned(),
            decision: "none".to_owned(),
        })
    }
}
