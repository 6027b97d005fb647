//! What people do to a running estop, carried out: the core's `Operator` over the data plane's engine.

use std::sync::Arc;
use std::time::Instant;

use estop_config::printable::escaped;
use estop_config::{SecretVariables, find_zone};
use estop_core::agent::standing::Standing;
use estop_core::agent::status::AgentStatus;
use estop_core::budget::PeriodSpend;
use estop_core::decision::Decision;
use estop_core::engine::{AgentState, Snapshot, StatusQuery};
use estop_core::event::EventKind;
use estop_core::guard::Guard;
use estop_core::ids::Name;
use estop_core::loop_detector::LoopFinding;
use estop_core::operator::{
    AgentCommand, AgentKeyHash, AgentView, BackgroundWork, EndedWork, FleetView, HookCall, HookReply,
    JournalFailure, NewRecording, NewSnooze, OnEnd, OnLine, Operator, OperatorError, Overrides, Recording,
    RecordingView, RunStep, Stopped, StuckPart, TriggerView, Watch, Watched, WithheldVariables,
};
use estop_core::policy::{Policy, Preset};
use estop_core::printed_command::Commands;
use estop_core::system::button::{Latched, Press, Unlock};
use estop_core::system::proof_test::{ProofTest, ProofTestError, ProofTests};
use estop_core::system::{CaseChange, Channel, GateView, SystemDecision, SystemOutcome};
use estop_gateway::{Agent, AgentCopy, Engine, Gateway, KeyRing, NotPersisted, Over, is_agent_name};
use rustix::process::{Pid, Signal, kill_process};

use crate::button_log;
use crate::config_in_force::ConfigInForce;
use crate::latch_writer::{KEPT_TIMEOUT, LatchStatus};
use crate::metrics::Metrics;
use crate::prooftest::ProofTester;
use crate::triggers::status::TriggerStatus;

/// Steers the data plane.
pub struct Controller {
    engine: Arc<Engine>,
    keys: KeyRing,
    latch: LatchStatus,
    trigger_status: Arc<TriggerStatus>,
    proof: ProofTester,
    commands: Commands,
    metrics: Arc<Metrics>,
    config: ConfigInForce,
}

impl Controller {
    /// Of this data plane, whose button is kept by `latch`, pressed by the triggers on `trigger_status` too, and tried out by
    /// `proof`. `commands` are those people type to find it.
    pub fn new(
        gateway: &Gateway,
        latch: LatchStatus,
        trigger_status: Arc<TriggerStatus>,
        proof: ProofTester,
        commands: Commands,
        metrics: Arc<Metrics>,
        config: ConfigInForce,
    ) -> Controller {
        Controller {
            engine: Arc::clone(gateway.engine()),
            keys: gateway.keys(),
            latch,
            trigger_status,
            proof,
            commands,
            metrics,
            config,
        }
    }

    fn find(&self, name: &str) -> Result<Arc<Agent>, OperatorError> {
        self.engine.known_agent(name).ok_or_else(|| OperatorError::UnknownAgent(name.into()))
    }

    /// Waits until the disk has what was told.
    fn keep(&self) -> Result<(), OperatorError> {
        if !self.engine.journal.sync() {
            return Err(OperatorError::NotPersisted("the journal cannot be written".to_owned()));
        }
        Ok(())
    }

    /// A failed write never undoes a kill; it is said loudly (KS-2).
    fn keep_or_say(&self) {
        if self.keep().is_err() {
            tracing::error!(target: "storage", "what was just done is NOT on disk: a restart would not know of it.");
        }
    }

    /// What an agent's next request would get.
    fn status(&self, agent: &str, state: &AgentState, policy: &Policy) -> AgentStatus {
        if let Some(trouble) = self.engine.journal.trouble() {
            return AgentStatus::shut(trouble.text());
        }
        let (now, gate) = (self.engine.clock.now(), self.engine.latch.view());
        // Who pressed it is looked up only where it matters: an open gate was pressed by nobody.
        let button = (!gate.lets_pass(Channel::Llm)).then(|| self.engine.button());
        state.status(&StatusQuery {
            agent,
            now,
            gate,
            button: button.as_ref(),
            fleet: self.engine.rulebook.fleet.outlook(now, state.last_asked()),
            policy,
            commands: &self.commands,
        })
    }

    fn view(&self, agent: &Agent) -> AgentView {
        let AgentCopy { state, policy, score } = agent.copy();
        self.view_of(&agent.name, &state, &policy, score)
    }

    fn view_of(
        &self,
        name: &str,
        state: &AgentState,
        policy: &Arc<Policy>,
        score: Option<LoopFinding>,
    ) -> AgentView {
        let clocks = self.engine.clock.now();
        let now = clocks.mono;
        AgentView {
            name: name.into(),
            standing: state.standing(),
            status: self.status(name, state, policy),
            has_acted: state.has_acted(),
            health: state.health_at(now, policy),
            activity: state.activity(),
            role: self.engine.rulebook.role(name),
            policy: Arc::clone(policy),
            score,
            in_flight: state.in_flight(),
            spent_today: state.budget().spent_today(),
            spent_this_month: state.budget().spent_this_month(),
            reserved: state.budget().reserved(),
            budget_latest_day: state.budget().latest_day_ahead(clocks, &policy.budget),
            runs: state.run_views_at(now),
            snoozes: state.snoozes().cloned().collect(),
        }
    }

    fn over(&self, agent: Option<&str>, overrides: &Overrides) -> Result<Over, OperatorError> {
        let rules = self
            .engine
            .rulebook
            .file()
            .check_overrides(agent, overrides.policy.clone(), &find_zone)
            .map_err(OperatorError::BadPolicy)?;
        Ok(Over { role: overrides.role.clone(), rules })
    }
}

impl Operator for Controller {
    fn withheld_variables(&self) -> WithheldVariables {
        let SecretVariables { provider_keys, others } = self.config.get().secret_variables.clone();
        WithheldVariables {
            provider_keys: provider_keys.into_iter().collect(),
            others: others.into_iter().collect(),
        }
    }

    fn agents(&self) -> Vec<AgentView> {
        let mut views = Vec::new();
        self.engine.agents.for_each(|agent| views.push(self.view(agent)));
        views.sort_by(|a, b| a.name.cmp(&b.name));
        views
    }

    fn agent(&self, name: &str) -> Option<AgentView> {
        self.engine.agents.get(name).map(|agent| self.view(&agent))
    }

    fn standing(&self, name: &str) -> Option<Standing> {
        self.engine.agents.get(name).map(|agent| agent.lock_state().state.standing())
    }

    fn agent_at_rest(&self, name: &str) -> Option<AgentView> {
        let Snapshot { state, .. } = self.engine.at_rest(name)?;
        Some(self.view_of(name, &state, &Arc::new(self.engine.rulebook.resolve(name)), None))
    }

    fn canonical(&self, name: &str) -> Name {
        self.engine.agents.canonical(name)
    }

    fn name_agent(&self, name: &str) {
        self.engine.rulebook.set_added(name, true);
    }

    fn add_agent(&self, name: &str) -> Result<AgentView, OperatorError> {
        if !is_agent_name(name) {
            return Err(OperatorError::BadName);
        }
        let agent = self.engine.agent(name).ok_or(OperatorError::TooManyAgents)?;
        agent.set_leaving(false);
        Ok(self.view(&agent))
    }

    fn release_agent(&self, name: &str) {
        self.engine.rulebook.set_added(name, false);
        if let Some(agent) = self.engine.agents.get(name) {
            self.engine.agents.release(&agent);
        }
        // One at rest has steps, too.
        self.engine.step_log.forget(&self.canonical(name), "its agent was deleted while they waited");
    }

    fn steer(&self, agent: &str, steer: AgentCommand, by: &str) -> Result<AgentView, OperatorError> {
        let agent = self.find(agent)?;
        if steer == AgentCommand::Deactivate {
            // First, and without the agent's lock: its requests end also while a worker that judges it is blocked.
            self.engine.end_requests(&agent);
        }
        let by = by.into();
        let what = match steer {
            AgentCommand::Activate => EventKind::AgentActivated { by },
            AgentCommand::Deactivate => EventKind::AgentDeactivated { by },
            AgentCommand::Pause => EventKind::AgentPaused { by },
            AgentCommand::Resume => EventKind::AgentResumed { by },
        };
        self.engine.apply(&agent, None, what);
        if steer == AgentCommand::Activate {
            // Its window begins anew, and so does what is shown of it.
            agent.lock_state().score = None;
        }
        self.keep()?;
        Ok(self.view(&agent))
    }

    fn snooze(&self, agent: &str, snooze: NewSnooze, by: &str) -> Result<AgentView, OperatorError> {
        let agent = self.find(agent)?;
        let NewSnooze { guard, for_ms, until, note } = snooze;
        self.engine.apply(
            &agent,
            None,
            EventKind::GuardSnoozed { by: by.into(), guard, for_ms, until, note },
        );
        self.keep()?;
        Ok(self.view(&agent))
    }

    fn wake_guard(&self, agent: &str, guard: Guard, by: &str) -> Result<AgentView, OperatorError> {
        let agent = self.find(agent)?;
        self.engine.apply(&agent, None, EventKind::GuardWoken { by: by.into(), guard });
        self.keep()?;
        Ok(self.view(&agent))
    }

    fn renew_budget(&self, agent: &str, spent: PeriodSpend, by: &str) -> Result<AgentView, OperatorError> {
        let agent = self.find(agent)?;
        self.engine.apply(&agent, None, EventKind::BudgetRenewed { by: by.into(), spent });
        self.keep()?;
        Ok(self.view(&agent))
    }

    fn renew_fleet_budget(&self, spent: PeriodSpend, by: &str) -> Result<FleetView, OperatorError> {
        self.engine.renew_fleet_budget(by, spent);
        self.keep()?;
        Ok(self.fleet())
    }

    fn fleet(&self) -> FleetView {
        self.engine.rulebook.fleet.view(self.engine.clock.now())
    }

    fn set_overrides(&self, agent: &str, overrides: Overrides, by: &str) -> Result<AgentView, OperatorError> {
        let agent = self.find(agent)?;
        let over = self.over(Some(&agent.name), &overrides)?;
        self.engine.rulebook.set(&agent.name, (over != Over::default()).then_some(over));
        self.engine.apply_rules_to(&agent, by);
        self.keep()?;
        Ok(self.view(&agent))
    }

    fn set_preset(&self, preset: Option<Preset>, by: &str) -> Result<(), OperatorError> {
        self.engine.preset_changed(by, preset);
        self.engine.rulebook.set_preset(preset);
        self.engine.apply_rules(by);
        self.keep()
    }

    fn check_overrides(&self, agent: Option<&str>, overrides: &Overrides) -> Result<(), OperatorError> {
        self.over(agent, overrides).map(drop)
    }

    fn run(&self, agent: &str, run: &str, step: RunStep, by: &str) -> Result<Decision, OperatorError> {
        let agent = self.find(agent)?;
        // The run without a name is the implicit one.
        let run = Some(run).filter(|run| !run.is_empty()).map(Name::from);
        let decision = self.engine.apply(&agent, run, step.into_event(by));
        self.keep()?;
        Ok((*decision).clone())
    }

    fn hook(&self, call: HookCall<'_>) -> HookReply {
        self.engine.hook(call)
    }

    fn key_owner(&self, sha256: [u8; 32]) -> Option<Name> {
        self.keys.owner_of(&sha256)
    }

    fn set_keys(&self, keys: Vec<AgentKeyHash>) {
        self.keys.set(keys);
    }

    fn record(&self, new: NewRecording, by: &str, on_line: OnLine) -> Result<Recording, OperatorError> {
        let mut key = [0; 32];
        getrandom::fill(&mut key)
            .map_err(|_| OperatorError::MustNotRun("the system gave no random numbers".to_owned()))?;
        let recording = self.engine.record(new, by, key, on_line)?;
        self.keep()?;
        Ok(recording)
    }

    fn end_recording(&self, agent: &str) -> bool {
        self.engine.recorder.end(agent)
    }

    fn recordings(&self) -> Vec<RecordingView> {
        self.engine.recorder.views()
    }

    fn access_changed(&self, what: &str, by: &str) {
        self.engine.access_changed(by, what);
        self.keep_or_say();
    }

    fn change_case(&self, change: CaseChange, by: &str) -> Result<(), OperatorError> {
        let mut key = [0; 32];
        getrandom::fill(&mut key)
            .map_err(|_| OperatorError::MustNotRun("the system gave no random numbers".to_owned()))?;
        self.engine.case_changed(by, change, key);
        self.keep()
    }

    fn is_kept(&self) -> bool {
        self.latch.is_kept()
    }

    fn is_stored(&self) -> bool {
        self.engine.journal.is_stored()
    }

    fn journal_failure(&self) -> Option<JournalFailure> {
        self.engine.journal.trouble()
    }

    fn is_ending(&self) -> bool {
        self.engine.is_ending()
    }

    fn stuck_parts(&self) -> Vec<StuckPart> {
        self.engine.heartbeats.stuck()
    }

    fn checkpoint(&self) -> Option<u64> {
        let journal = &self.engine.journal;
        // What comes while it is synced is not part of it.
        let seq = journal.seq();
        journal.sync().then_some(seq)
    }

    fn gate(&self) -> GateView {
        self.engine.latch.view()
    }

    fn is_pressed(&self) -> bool {
        self.engine.is_pressed()
    }

    fn button(&self) -> Latched {
        self.engine.button()
    }

    fn kill(&self, press: Press) -> Stopped {
        let begun = Instant::now();
        let (reason, by, source) = (press.reason, press.by.clone(), press.source.clone());
        let stopped = self.engine.kill(press);
        self.metrics.killed(&stopped);
        button_log::log(&button_log::killed(reason, &by, &source, &stopped));
        let kept_us = self.latch.wait(KEPT_TIMEOUT).then(|| begun.elapsed().as_micros());
        Stopped { kept_us: kept_us.and_then(|us| u64::try_from(us).ok()), ..stopped }
    }

    fn restart(&self, unlock: Unlock) -> Result<SystemDecision, OperatorError> {
        let by = unlock.by.clone();
        let decision = self.engine.restart(unlock).map_err(not_kept)?;
        self.latch.wait(KEPT_TIMEOUT);
        button_log::released(&by, &decision).iter().for_each(|line| button_log::log(line));
        Ok(decision)
    }

    fn clear(&self, unlock: Unlock) -> Result<SystemDecision, OperatorError> {
        let by = unlock.by.clone();
        let decision = self.engine.clear(unlock).map_err(not_kept)?;
        self.latch.wait(KEPT_TIMEOUT);
        button_log::released(&by, &decision).iter().for_each(|line| button_log::log(line));
        if decision.outcome == SystemOutcome::Applied {
            // Whoever clears is there: a dead man's switch waits anew. A clear that is refused says nothing of the kind.
            self.trigger_status.beat();
            if let Some(why) = self.trigger_status.lies_in_wait() {
                tracing::warn!(target: "emergency", "cleared, but {}.", escaped(&why));
            }
        }
        Ok(decision)
    }

    fn proof_test(&self, by: &str) -> Result<ProofTest, ProofTestError> {
        self.proof.test(by, self.engine.clock.now().wall)
    }

    fn proof_tests(&self) -> ProofTests {
        self.proof.tests()
    }

    fn heartbeat(&self) -> bool {
        self.trigger_status.beat()
    }

    fn under_way(&self) -> EndedWork {
        self.engine.under_way()
    }

    fn background(&self) -> BackgroundWork {
        self.engine.jobs.view()
    }

    fn steps_unsaved(&self, incident: &str) -> Option<String> {
        self.engine.step_log.unsaved.why(incident)
    }

    fn forget_unsaved(&self, incident: &str, by: &str) -> Option<Name> {
        let forgotten =
            self.engine.step_log.unsaved.forget(incident, &format!("{by} deleted them while they waited"));
        forgotten.map(|steps| steps.agent.clone())
    }

    fn pulse(&self) -> u64 {
        self.engine.journal.seq()
    }

    fn triggers(&self) -> Vec<TriggerView> {
        self.trigger_status.views()
    }

    fn watch(&self, who: Watched, on_end: OnEnd) -> Result<Watch, OperatorError> {
        let supervisor = who.supervisor;
        let wake_and_tell = move |why: &str| {
            on_end(why);
            if let Some(supervisor) = supervisor {
                wake(supervisor);
            }
        };
        self.engine.watch(who, Box::new(wake_and_tell))
    }

    fn ticket(&self, sha256: [u8; 32]) -> Option<(Name, Name)> {
        self.engine.ticket(&sha256)
    }
}

fn not_kept(error: NotPersisted) -> OperatorError {
    OperatorError::NotPersisted(error.to_string())
}

/// A supervisor that was stopped, by Ctrl-Z or by what it supervises, could not end anything.
fn wake(supervisor: u32) {
    let pid = i32::try_from(supervisor).ok().filter(|pid| *pid > 1).and_then(Pid::from_raw);
    // Gone, or another's by now: the signal does nothing to one that runs.
    if let Some(pid) = pid {
        let _ = kill_process(pid, Signal::CONT);
    }
}
