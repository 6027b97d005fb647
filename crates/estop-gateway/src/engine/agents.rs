//! The agents this process knows: their state, their rules, their requests under way.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use estop_core::agent::standing::Standing;
use estop_core::decision::{Decision, Finding, Guard};
use estop_core::engine::AgentState;
use estop_core::fingerprint::signature;
use estop_core::ids::{Name, RequestId};
use estop_core::loop_detector::LoopFinding;
use estop_core::policy::Policy;
use estop_core::run::test_command::TestRunners;
use estop_core::time::Millis;

use crate::emergency_stop::in_flight::InFlightRequests;
use crate::engine::eviction::{Evicted, EvictedAgents};
use crate::engine::hook_memory::HookMemory;
use crate::engine::incident::{self, IncidentId};
use crate::engine::policies::Rules;
use crate::engine::previous_responses::PreviousResponses;
use crate::engine::shards::Shards;
use crate::names::folded;

/// One agent.
pub struct Agent {
    /// Its name.
    pub name: Arc<str>,
    /// Its requests under way.
    pub in_flight_requests: InFlightRequests,
    judged: Mutex<AgentInner>,
    last_request: AtomicU64,
    /// When its state must be woken, in monotonic milliseconds; `u64::MAX` = never.
    wake: AtomicU64,
    /// It was deleted: its place is given back once everything of it is stored.
    leaving: AtomicBool,
    /// The record by which a guard stopped or paused it; 0 = none did.
    stopped_at: AtomicU64,
}

/// What is behind the agent's lock: everything its judgement reads and changes.
pub struct AgentInner {
    /// What is known of it.
    pub state: AgentState,
    /// Its rules.
    pub policy: Arc<Policy>,
    /// What its policy takes for test runs.
    pub runners: Arc<TestRunners>,
    /// What it was answered lately.
    pub previous_responses: PreviousResponses,
    /// What its hooks need from one to the next.
    pub(crate) hooks: HookMemory,
    /// Records of its chain so far.
    pub told: u64,
    /// What its latest request scored.
    pub score: Option<LoopFinding>,
    /// When something last happened to it.
    pub last: Millis,
}

/// What an agent is judged by, at one moment.
pub struct AgentCopy {
    /// What is known of it.
    pub state: AgentState,
    /// Its rules.
    pub policy: Arc<Policy>,
    /// What its latest request scored.
    pub score: Option<LoopFinding>,
}

impl AgentInner {
    pub(crate) fn next_wake(&self) -> Option<u64> {
        self.state.poll_timeout(&self.policy).map(|wake| wake.at.0)
    }
}

impl Agent {
    /// An agent nothing has happened to yet.
    pub fn new(name: &str, rules: Rules) -> Agent {
        Agent::remembered(name, rules, AgentState::default(), 0)
    }

    /// An agent after `told` records.
    pub(crate) fn remembered(name: &str, rules: Rules, state: AgentState, told: u64) -> Agent {
        Agent {
            name: Arc::from(name),
            in_flight_requests: InFlightRequests::default(),
            judged: Mutex::new(AgentInner {
                state,
                policy: rules.policy,
                runners: rules.runners,
                previous_responses: PreviousResponses::default(),
                hooks: HookMemory::default(),
                told,
                score: None,
                last: Millis::default(),
            }),
            // No request of the time before has a higher number: each has a record.
            last_request: AtomicU64::new(told),
            wake: AtomicU64::new(u64::MAX),
            leaving: AtomicBool::new(false),
            stopped_at: AtomicU64::new(0),
        }
    }

    /// It was deleted (`true`), or added again.
    pub fn set_leaving(&self, leaving: bool) {
        self.leaving.store(leaving, Ordering::Relaxed);
    }

    fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    /// Whether nothing would be missed if only the store knew it: nothing is under way or due, and nobody waits to be
    /// let go on.
    fn is_evictable(&self, idle_since: Millis) -> bool {
        let judged = self.lock_state();
        let is_done = judged.state.in_flight() == 0 && self.in_flight_requests.count() == 0;
        if self.is_leaving() {
            return is_done;
        }
        let is_well = judged.state.standing() == Standing::Active && !judged.state.is_under_way();
        is_done && is_well && self.wake() == u64::MAX && judged.last <= idle_since
    }

    /// The number of its next request.
    pub fn next_request(&self) -> RequestId {
        RequestId(self.last_request.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// A guard stopped or paused it by this record; 0 = it may work.
    pub(crate) fn set_stopped_at(&self, seq: u64) {
        self.stopped_at.store(seq, Ordering::Relaxed);
    }

    /// The incident that this record opened, if a guard stopped or paused it.
    pub(crate) fn incident(&self) -> Option<IncidentId> {
        let seq = self.stopped_at.load(Ordering::Relaxed);
        (seq > 0).then(|| IncidentId::of_agent(&self.name, seq))
    }

    /// The incident behind a refusal.
    pub(crate) fn incident_of(&self, decision: &Decision) -> Option<IncidentId> {
        if incident::opens(decision) {
            return self.incident();
        }
        let by = decision.refused_by()?;
        if by == Guard::Agent {
            return self.incident();
        }
        let Finding::System(gate) = decision.verdicts.get(by)?.finding else { return None };
        IncidentId::of_gate(gate)
    }

    /// Locks what its judgement reads. Held for microseconds, never over an await.
    pub fn lock_state(&self) -> MutexGuard<'_, AgentInner> {
        self.judged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it is judged by, copied: whoever asks what its next request would get asks up to 65 times, and neither a request nor
    /// a kill may wait for that.
    pub fn copy(&self) -> AgentCopy {
        let judged = self.lock_state();
        AgentCopy { state: judged.state.clone(), policy: Arc::clone(&judged.policy), score: judged.score }
    }

    /// Its state and rules as bytes, and how many records of its chain they cover.
    pub fn snapshot(&self) -> (u64, Vec<u8>) {
        let judged = self.lock_state();
        (judged.told, judged.state.snapshot(judged.told, &judged.policy))
    }

    /// When its state must be woken.
    pub fn wake(&self) -> u64 {
        self.wake.load(Ordering::Relaxed)
    }

    /// Notes when its state must be woken.
    pub fn set_wake(&self, at: Option<u64>) {
        self.wake.store(at.unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

type Shard = RwLock<BTreeMap<Box<str>, Arc<Agent>>>;

/// All agents, found by name, whatever its case. The first spelling is the agent's name for good.
pub struct Agents {
    shards: Shards<Shard>,
    count: AtomicU64,
    /// Deleted ones among them: a hint.
    leaving: AtomicBool,
    max: AtomicU64,
    names_max: AtomicU64,
    /// Those that gave their places to others.
    pub evicted: EvictedAgents,
}

impl Agents {
    /// No agents yet, and room for `max` at once, of at most `names_max` names.
    pub fn new(max: usize, names_max: usize, evicted: EvictedAgents) -> Agents {
        Agents {
            shards: Shards::default(),
            count: AtomicU64::new(0),
            leaving: AtomicBool::new(false),
            max: AtomicU64::new(max as u64),
            names_max: AtomicU64::new(names_max as u64),
            evicted,
        }
    }

    /// Other room. With more agents than that, none is added until some have gone to rest.
    pub fn set_max(&self, max: usize, names_max: usize) {
        self.max.store(max as u64, Ordering::Relaxed);
        self.names_max.store(names_max as u64, Ordering::Relaxed);
    }

    /// The agent of this name, if it is known.
    pub fn get(&self, name: &str) -> Option<Arc<Agent>> {
        let name = folded(name);
        let shard = self.shard(&name).read().unwrap_or_else(PoisonError::into_inner);
        shard.get(&*name).map(Arc::clone)
    }

    /// The agent of this name; if it has no place, `make` reloads it, or makes a new one. `None` if there
    /// is no room, or it cannot be made.
    pub fn get_or_add(
        &self,
        name: &str,
        make: impl FnOnce(Option<Evicted>) -> Option<Agent>,
    ) -> Option<Arc<Agent>> {
        if let Some(agent) = self.get(name) {
            return Some(agent);
        }
        let name = folded(name);
        let mut shard = self.shard(&name).write().unwrap_or_else(PoisonError::into_inner);
        if let Some(agent) = shard.get(&*name) {
            return Some(Arc::clone(agent));
        }
        let rest = self.evicted.get(&name);
        let names = || self.count.load(Ordering::Relaxed) + self.evicted.len() as u64;
        if rest.is_none() && names() >= self.names_max.load(Ordering::Relaxed) {
            return None;
        }
        let max = self.max.load(Ordering::Relaxed);
        let room = |count: u64| (count < max).then_some(count + 1);
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).ok()?;
        let Some(agent) = make(rest) else {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        self.evicted.remove(&name);
        let agent = Arc::new(agent);
        shard.insert(name.into(), Arc::clone(&agent));
        Some(agent)
    }

    /// An agent's name as it is kept; a name nobody has is as it is given.
    pub fn canonical(&self, name: &str) -> Name {
        let known = self.get(name).map(|agent| Name::from(&*agent.name));
        known.or_else(|| self.evicted.spelling(name)).unwrap_or_else(|| name.into())
    }

    /// An agent was deleted: whoever stores states looks for it.
    pub fn release(&self, agent: &Agent) {
        agent.set_leaving(true);
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// Agents that may give their places to others, and how many records each has: deleted ones, and when places grow few
    /// those that have been idle since then.
    pub fn evictable(&self, idle_since: Millis, keep: impl Fn(&str) -> bool) -> Vec<(Name, u64)> {
        let is_crowded = self.count.load(Ordering::Relaxed) > self.max.load(Ordering::Relaxed) / 4 * 3;
        let has_leaving = self.leaving.swap(false, Ordering::Relaxed);
        if !self.evicted.is_possible() || !(is_crowded || has_leaving) {
            return Vec::new();
        }
        let mut found = Vec::new();
        self.for_each(|agent| {
            let is_leaving = agent.is_leaving();
            if (is_leaving || (is_crowded && !keep(&agent.name))) && agent.is_evictable(idle_since) {
                found.push((Name::from(&*agent.name), agent.lock_state().told));
            }
            if is_leaving {
                // Until it is gone.
                self.leaving.store(true, Ordering::Relaxed);
            }
        });
        found
    }

    /// Takes an agent's place away, if nobody holds it and nothing happened to it after `told` records, all of which
    /// must be stored; whether it did.
    pub fn evict(&self, name: &str, told: u64, idle_since: Millis) -> bool {
        let key = folded(name);
        let mut shard = self.shard(&key).write().unwrap_or_else(PoisonError::into_inner);
        let Some(agent) = shard.get(&*key) else { return false };
        // Nobody can find it while the shard is locked: whoever has it now is all there is.
        let is_alone = Arc::strong_count(agent) == 1;
        if !is_alone || agent.lock_state().told != told || !agent.is_evictable(idle_since) {
            return false;
        }
        self.evicted.put(&agent.name, Evicted { told, deleted: agent.is_leaving() });
        shard.remove(&*key);
        self.count.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// Puts an agent in its place, whatever room there is.
    pub(crate) fn put(&self, agent: Agent) -> Arc<Agent> {
        let agent = Arc::new(agent);
        let name = folded(&agent.name);
        let mut shard = self.shard(&name).write().unwrap_or_else(PoisonError::into_inner);
        if shard.insert((&*name).into(), Arc::clone(&agent)).is_none() {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        agent
    }

    /// Does something with each agent.
    pub fn for_each(&self, mut act: impl FnMut(&Arc<Agent>)) {
        for shard in self.shards.iter() {
            // Copied out, so that whatever is done to an agent holds up nobody who looks one up.
            let agents: Vec<Arc<Agent>> =
                shard.read().unwrap_or_else(PoisonError::into_inner).values().map(Arc::clone).collect();
            agents.iter().for_each(&mut act);
        }
    }

    fn shard(&self, name: &str) -> &Shard {
        self.shards.of(signature::text(name))
    }
}
