//! What people do to a running estop, carried out: the core's `Operator` over the data plane's host.

use std::sync::Arc;

use estop_core::decision::Decision;
use estop_core::event::What;
use estop_core::operator::{AgentKeyHash, AgentView, Operator, OperatorError, Overrides, RunStep, Steer};
use estop_core::system::{Channels, GateView, KillReason, SystemDecision};
use estop_gateway::{Agent, Gateway, Host, KeyRing, Over, is_agent_name};

use crate::config::find_zone;

/// Steers the data plane.
pub struct Steering {
    host: Arc<Host>,
    keys: KeyRing,
}

impl Steering {
    /// Of this data plane.
    pub fn new(gateway: &Gateway) -> Steering {
        Steering { host: Arc::clone(gateway.host()), keys: gateway.keys() }
    }

    fn find(&self, name: &str) -> Result<Arc<Agent>, OperatorError> {
        self.host.agents.get(name).ok_or_else(|| OperatorError::UnknownAgent(name.into()))
    }

    /// Waits until the disk has what was told.
    fn keep(&self) -> Result<(), OperatorError> {
        if !self.host.journal.sync() {
            return Err(OperatorError::NotKept("the journal cannot be written".to_owned()));
        }
        Ok(())
    }

    /// A failed write never undoes a kill; it is said loudly (KS-2).
    fn keep_or_say(&self) {
        if self.keep().is_err() {
            eprintln!("estop: what was just done is NOT on disk: a restart would not know of it.");
        }
    }

    fn view(&self, agent: &Agent) -> AgentView {
        let judged = agent.judged();
        let state = &judged.state;
        AgentView {
            name: (&*agent.name).into(),
            standing: state.standing(),
            health: state.health(),
            activity: state.activity(),
            role: self.host.rulebook.role(&agent.name),
            policy: Arc::clone(&judged.policy),
            score: judged.score,
            in_flight: state.in_flight(),
            spent_today: state.budget().spent_today(),
            spent_this_month: state.budget().spent_this_month(),
            reserved: state.budget().reserved(),
            runs: state.run_views(),
        }
    }

    fn over(&self, agent: Option<&str>, overrides: &Overrides) -> Result<Over, OperatorError> {
        let rules = self
            .host
            .rulebook
            .file()
            .check_overrides(agent, overrides.policy.clone(), &find_zone)
            .map_err(OperatorError::BadPolicy)?;
        Ok(Over { role: overrides.role.clone(), rules })
    }
}

impl Operator for Steering {
    fn agents(&self) -> Vec<AgentView> {
        let mut views = Vec::new();
        self.host.agents.for_each(|agent| views.push(self.view(agent)));
        views.sort_by(|a, b| a.name.cmp(&b.name));
        views
    }

    fn agent(&self, name: &str) -> Option<AgentView> {
        self.host.agents.get(name).map(|agent| self.view(&agent))
    }

    fn add_agent(&self, name: &str) -> Result<AgentView, OperatorError> {
        if !is_agent_name(name) {
            return Err(OperatorError::BadName);
        }
        let agent = self.host.agent(name).ok_or(OperatorError::TooManyAgents)?;
        Ok(self.view(&agent))
    }

    fn steer(&self, agent: &str, steer: Steer, by: &str) -> Result<AgentView, OperatorError> {
        let agent = self.find(agent)?;
        let by = by.into();
        let what = match steer {
            Steer::Activate => What::AgentActivated { by },
            Steer::Deactivate => What::AgentDeactivated { by },
            Steer::Pause => What::AgentPaused { by },
            Steer::Resume => What::AgentResumed { by },
        };
        self.host.tell(&agent, None, what);
        if steer == Steer::Activate {
            // Its window begins anew, and so does what is shown of it.
            agent.judged().score = None;
        }
        self.keep()?;
        Ok(self.view(&agent))
    }

    fn set_overrides(&self, agent: &str, overrides: Overrides, by: &str) -> Result<AgentView, OperatorError> {
        let agent = self.find(agent)?;
        let over = self.over(Some(&agent.name), &overrides)?;
        self.host.rulebook.set(&agent.name, (over != Over::default()).then_some(over));
        self.host.apply_rules_to(&agent, by);
        self.keep()?;
        Ok(self.view(&agent))
    }

    fn check_overrides(&self, agent: Option<&str>, overrides: &Overrides) -> Result<(), OperatorError> {
        self.over(agent, overrides).map(drop)
    }

    fn run(&self, agent: &str, run: &str, step: RunStep, by: &str) -> Result<Decision, OperatorError> {
        let agent = self.find(agent)?;
        let what = match step {
            RunStep::Start { attended } => What::RunStarted { attended },
            RunStep::Sleep => What::RunSlept,
            RunStep::Wake => What::RunWoke,
            RunStep::Complete => What::RunCompleted,
            RunStep::Extend => What::RunExtended { by: by.into() },
        };
        let decision = self.host.tell(&agent, Some(run.into()), what);
        self.keep()?;
        Ok((*decision).clone())
    }

    fn set_keys(&self, keys: Vec<AgentKeyHash>) {
        self.keys.set(keys);
    }

    fn access_changed(&self, what: &str, by: &str) {
        self.host.access_changed(by, what);
        self.keep_or_say();
    }

    fn is_kept(&self) -> bool {
        self.host.journal.sync()
    }

    fn gate(&self) -> GateView {
        self.host.latch.view()
    }

    fn kill(&self, channels: Channels, reason: KillReason, by: &str) -> SystemDecision {
        let decision = self.host.kill(channels, reason, by);
        self.keep_or_say();
        decision
    }

    fn restart(&self, by: &str, epoch: u64) -> SystemDecision {
        let decision = self.host.restart(by, epoch);
        self.keep_or_say();
        decision
    }

    fn clear(&self, by: &str, epoch: u64) -> SystemDecision {
        let decision = self.host.clear(by, epoch);
        self.keep_or_say();
        decision
    }
}
