//! The engine: where an event becomes a decision. It gives the event its time and gate word, asks the core under the agent's
//! lock, writes both to the journal, and carries out what the decision says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use estop_core::agent::standing::Standing;
use estop_core::decision::{Decision, Finding, Guard};
use estop_core::engine::Snapshot;
use estop_core::event::{Event, EventKind};
use estop_core::ids::Name;
use estop_core::policy::EvidenceMode;
use estop_core::system::{Channels, GateView, System, SystemState};
use estop_core::time::Millis;

use crate::clock::Clock;
use crate::emergency_stop::gate_word::GateWord;
use crate::emergency_stop::heartbeat::Heartbeats;
use crate::emergency_stop::in_flight::Cut;
use crate::engine::agents::{Agent, AgentInner, Agents};
use crate::engine::background::Jobs;
use crate::engine::drill::{self, DrillGate};
use crate::engine::eviction::Evicted;
use crate::engine::incident;
use crate::engine::last_output::LastOutput;
use crate::engine::policies::{Rulebook, runners};
use crate::engine::recorder::Recorder;
use crate::engine::step_log::StepLog;
use crate::engine::switch::{Button, LatchStore};
use crate::engine::tools::Tools;
use crate::journal::JournalQueue;
use crate::names::DEFAULT_AGENT;
use crate::upstream::Shared;

/// Every event of every agent goes through it: live traffic, hooks, people and time.
pub struct Engine {
    /// All agents.
    pub agents: Agents,
    /// The gate word.
    pub latch: GateWord,
    /// The clock.
    pub clock: Arc<Clock>,
    /// Where records go.
    pub journal: Arc<JournalQueue>,
    pub(crate) button: Button,
    pub(crate) drill_gate: DrillGate,
    /// What all upstream connections share.
    pub(crate) upstream: Arc<Shared>,
    /// Tools that run.
    pub tools: Arc<Tools>,
    /// The rules of all agents.
    pub rulebook: Rulebook,
    /// What runs said last.
    pub last_output: LastOutput,
    /// Whether the parts of estop run.
    pub heartbeats: Heartbeats,
    /// Work that goes on at providers.
    pub jobs: Jobs,
    /// What people record.
    pub recorder: Recorder,
    /// The latest steps of each conversation.
    pub step_log: StepLog,
    is_ending: AtomicBool,
}

impl Engine {
    /// An engine that is still starting: nothing passes until [`Engine::open`].
    /// Channels in `always_shut` stay so, whatever is cleared.
    pub fn new(
        rulebook: Rulebook,
        agents: Agents,
        keeping: Stores,
        always_shut: Channels,
        from: Millis,
        system: System,
    ) -> Engine {
        let clock = Arc::new(Clock::starting_at(from));
        Engine {
            agents,
            latch: GateWord::new(System::default().gate(), always_shut),
            upstream: Arc::new(Shared::new(Arc::clone(&clock))),
            clock,
            journal: keeping.journal,
            button: Button::new(system, keeping.latch),
            drill_gate: DrillGate::default(),
            tools: Arc::default(),
            rulebook,
            last_output: LastOutput::default(),
            heartbeats: Heartbeats::default(),
            jobs: Jobs::default(),
            recorder: Recorder::default(),
            step_log: StepLog::default(),
            is_ending: AtomicBool::new(false),
        }
    }

    /// estop was told to end: only what is in progress goes on.
    pub(crate) fn begin_end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Whether it was.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Requests whose answers are in progress.
    pub fn requests_in_progress(&self) -> usize {
        let mut count = 0;
        self.agents.for_each(|agent| agent.in_flight_requests.for_each(|_| count += 1));
        count
    }

    /// The agent of this name, with its rules; `None` if there is no room for one more. An evicted one is read from the
    /// disk, before anything is locked: whoever stops agents must not wait for it.
    pub fn agent(&self, name: &str) -> Option<Arc<Agent>> {
        loop {
            if let Some(agent) = self.agents.get(name) {
                return Some(agent);
            }
            let spelled = self.agents.evicted.spelling(name);
            let name = spelled.as_deref().unwrap_or(name);
            let read = match self.agents.evicted.get(name) {
                Some(rest) => Some((rest, self.agents.evicted.fetch(name, rest.told)?)),
                None => None,
            };
            let seen = read.as_ref().map(|(rest, _)| *rest);
            let mut changed = false;
            let agent = self.agents.get_or_add(name, |rest| {
                // It was evicted, or came back and was evicted again, while the disk was read.
                changed = rest != seen;
                match read {
                    _ if changed => None,
                    Some((rest, state)) => Some(self.reload(name, rest, state)),
                    None => Some(self.begin(name)),
                }
            });
            if !changed {
                return agent;
            }
        }
    }

    /// The same for a runtime's thread: the disk is read on another.
    pub(crate) async fn agent_async(self: &Arc<Self>, name: &str) -> Option<Arc<Agent>> {
        if let Some(agent) = self.agents.get(name) {
            return Some(agent);
        }
        if self.agents.evicted.get(name).is_none() {
            return self.agent(name);
        }
        let (engine, name) = (Arc::clone(self), name.to_owned());
        tokio::task::spawn_blocking(move || engine.agent(&name)).await.ok().flatten()
    }

    fn begin(&self, name: &str) -> Agent {
        let agent = Agent::new(name, self.rulebook.rules(name));
        // A journal begins with the rules: they are told before anybody else can find the agent.
        let policy = Box::new((*agent.lock_state().policy).clone());
        self.apply(&agent, None, EventKind::PolicyChanged { by: "configuration".into(), policy });
        agent
    }

    /// The agent of this name, if it was ever known.
    pub fn known_agent(&self, name: &str) -> Option<Arc<Agent>> {
        self.agents.get(name).or_else(|| self.agents.evicted.get(name).and_then(|_| self.agent(name)))
    }

    /// An evicted agent's state, read without giving it a place.
    pub fn at_rest(&self, name: &str) -> Option<Snapshot> {
        let rest = self.agents.evicted.get(name)?;
        self.agents.evicted.fetch(name, rest.told)
    }

    /// Makes an evicted agent again, as it was.
    fn reload(&self, name: &str, rest: Evicted, snapshot: Snapshot) -> Agent {
        let Snapshot { told, policy, state } = snapshot;
        let mut rules = self.rulebook.rules(name);
        rules.policy = Arc::new(policy);
        let agent = Agent::remembered(name, rules, state, told);
        agent.set_leaving(rest.deleted);
        agent.lock_state().last = self.clock.mono();
        self.apply_rules_to(&agent, "configuration");
        agent.set_wake(agent.lock_state().next_wake());
        agent
    }

    /// Takes up the agents of the time before. What was under way then is over; rules that changed meanwhile are told.
    pub(crate) fn restore(&self, agents: Vec<(Name, Snapshot)>, away_ms: u64) {
        for (name, Snapshot { told, policy, state }) in agents {
            let mut rules = self.rulebook.rules(&name);
            rules.policy = Arc::new(policy);
            let is_under_way = state.is_under_way();
            self.rulebook.fleet.restore(&state);
            let agent = self.agents.put(Agent::remembered(&name, rules, state, told));
            agent.lock_state().last = self.clock.mono();
            if is_under_way {
                self.apply(&agent, None, EventKind::Restarted { away_ms });
            }
            self.apply_rules_to(&agent, "configuration");
            agent.set_wake(agent.lock_state().next_wake());
        }
    }

    /// Which records stopped agents before this process began.
    pub(crate) fn restore_incidents(&self, stopped: Vec<(Name, u64)>) {
        for (name, seq) in stopped {
            if let Some(agent) = self.agents.get(&name) {
                agent.set_stopped_at(seq);
            }
        }
    }

    /// Puts the rulebook's rules into force, where they differ from those that are.
    pub fn apply_rules(&self, by: &str) {
        self.agents.for_each(|agent| self.apply_rules_to(agent, by));
    }

    /// The same for one agent. What the rulebook says is read under the agent's lock: of two who change it, the later one
    /// has the last word.
    pub fn apply_rules_to(&self, agent: &Agent, by: &str) {
        let mut judged = agent.lock_state();
        let policy = Arc::new(self.rulebook.resolve(&agent.name));
        if judged.policy == policy {
            return;
        }
        let told = Box::new((*policy).clone());
        judged.runners = runners(&policy);
        judged.policy = policy;
        if judged.policy.evidence == EvidenceMode::Off {
            self.step_log.forget(&agent.name, "its policy was set to `evidence: off` while they waited");
        }
        self.apply_locked(agent, &mut judged, None, EventKind::PolicyChanged { by: by.into(), policy: told });
    }

    /// Gives the agents of the configuration, and the default one, their places: made-up names cannot take them.
    pub fn preload_configured(&self) {
        let file = self.rulebook.file();
        for name in file.agents().chain([DEFAULT_AGENT]) {
            // The configuration was checked to have room for them.
            let _ = self.agent(name);
        }
    }

    /// Judges an event of an agent, writes it down and does what the decision says.
    pub fn apply(&self, agent: &Agent, run: Option<Name>, what: EventKind) -> Arc<Decision> {
        let mut judged = agent.lock_state();
        self.apply_locked(agent, &mut judged, run, what)
    }

    /// The same for a caller that holds the agent's lock.
    pub fn apply_locked(
        &self,
        agent: &Agent,
        judged: &mut AgentInner,
        run: Option<Name>,
        what: EventKind,
    ) -> Arc<Decision> {
        self.apply_under(agent, judged, Event { run, gate: self.gate(&agent.name), what })
    }

    /// The same under a gate word that was read before.
    pub(crate) fn apply_under(
        &self,
        agent: &Agent,
        judged: &mut AgentInner,
        mut event: Event,
    ) -> Arc<Decision> {
        let now = self.clock.now();
        let ahead = self.rulebook.fleet.show(now, &judged.state, &mut event);
        let decision = Arc::new(judged.state.handle(now, &event, &judged.policy));
        self.rulebook.fleet.follow(now, ahead, &judged.state);
        agent.set_wake(judged.state.poll_timeout(&judged.policy).map(|wake| wake.at.0));
        judged.told += 1;
        judged.last = now.mono;
        if let Some(Finding::Loop(score)) = decision.verdicts.get(Guard::Loop).map(|verdict| &verdict.finding)
        {
            judged.score = Some(*score);
        }
        self.follow_runs(&agent.name, &event, &decision);
        let seq = self.journal.write(&agent.name, now, event, &decision);
        if incident::opens(&decision) {
            agent.set_stopped_at(seq);
        } else if judged.state.standing() == Standing::Active {
            agent.set_stopped_at(0);
        }
        self.act(agent, &decision);
        decision
    }

    /// Nobody is told what a dead process would not remember; nor of a stop that a machine without power would not.
    pub(crate) async fn persist(self: &Arc<Self>, stops: bool) {
        if !stops {
            return self.journal.flush();
        }
        let engine = Arc::clone(self);
        // A disk takes its time; others on this thread do not wait for it. If the task is lost, so is the process.
        let _ = tokio::task::spawn_blocking(move || engine.journal.sync()).await;
    }

    /// What the gate word says to an agent, as it is written down. The epoch of an open gate is nobody's business but the system's, and left out of records.
    pub(crate) fn gate(&self, agent: &str) -> GateView {
        let view = self.latch.view_as(|| agent == drill::AGENT);
        let is_open = view.state == SystemState::Running && view.shut.is_empty();
        if is_open { GateView::OPEN } else { view }
    }

    /// Ends every request under way; how many there were.
    pub(crate) fn cut_all(&self, cut: &Cut) -> usize {
        let mut count = 0;
        self.agents.for_each(|agent| {
            agent.in_flight_requests.for_each(|flight| {
                flight.cut(cut.clone());
                count += 1;
            });
        });
        count
    }

    /// Wakes agents whose time has come.
    pub fn tick(&self) {
        let now = self.clock.mono().0;
        self.agents.for_each(|agent| {
            if agent.wake() <= now {
                self.apply(agent, None, EventKind::Tick);
            }
        });
    }
}

/// What makes things outlive the process.
pub struct Stores {
    /// Where records go.
    pub journal: Arc<JournalQueue>,
    /// What keeps the button; without it, only the journal knows.
    pub latch: Option<Arc<dyn LatchStore>>,
}

impl From<Arc<JournalQueue>> for Stores {
    fn from(journal: Arc<JournalQueue>) -> Stores {
        Stores { journal, latch: None }
    }
}
